"""Where the target's values can be, for the checker: intervals and CROWN on the cut network.

Between the cuts the target is `z_i = Σ_j A_ij h_j + c_i`, `h_i = σ(z_i)`, `h_0 = x` in the box. To
bound a·h_i from below, σ is replaced by a line below it where a ≥ 0 and a line above it where
a < 0, then z_i by its form, until only x is left. All is done in floats; `slack` collects what
rounding and the forms' own error can amount to, γ_n|d||A| per product, times max|h|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.certificates.checking.forms import Form, up
from reconstruct.networks import Clip, LeakyRelu, Relu

UNIT = 2.0**-53
TIE = 2.0**-30  # which line is drawn must not depend on rounding


class Reachable:
    """Bounds of the target's values on one box, cut by cut; `lines` are hints for flat units."""

    def __init__(self, source: str, lo: Any, hi: Any) -> None:
        self.source = source
        self.lo, self.hi = {source: lo}, {source: hi}
        self.cuts: list[tuple[str, dict[str, Any], Any, tuple[Any, ...], Any]] = []
        self.kinds = 2  # lines below a bent unit: the hinted or smaller area, and the flat one

    def largest(self, name: str) -> Any:
        return np.maximum(np.abs(self.lo[name]), np.abs(self.hi[name]))

    def of_form(self, form: Form, floats: tuple[Any, Any]) -> tuple[Any, Any]:
        """Bounds of a form of the target's sources, its own error included."""
        middle, error = floats
        lo, hi, slack = middle[:, -1], middle[:, -1], error[:, -1]
        for name, part in form.parts():
            below, above = self.functional(name, middle[:, part])
            lo, hi = lo + below, hi + above
            slack = slack + error[:, part] @ self.largest(name)
            slack = slack + 4 * UNIT * (np.abs(lo) + np.abs(hi))
        slack = up(slack + 4 * UNIT * (np.abs(lo) + np.abs(hi)))
        return lo - slack, hi + slack

    def functional(self, name: str, a: Any) -> tuple[Any, Any]:
        """Bounds of a·h (a: rows × size) for the source `name`: interval met with CROWN."""
        low, high = self._interval(name, a), -self._interval(name, -a)
        if name != self.source:
            for kind in range(self.kinds):
                low = np.maximum(low, self._back(name, a, kind))
                high = np.minimum(high, -self._back(name, -a, kind))
        return low, high

    def _interval(self, name: str, a: Any) -> Any:
        """a·h ≥ a·mid − |a|·rad, less the rounding of both."""
        mid = 0.5 * self.lo[name] + 0.5 * self.hi[name]
        rad = np.maximum(self.hi[name] - mid, mid - self.lo[name])  # errs by u·rad: see below
        lost = (a.shape[1] + 8) * 2 * UNIT * (np.abs(a) @ (np.abs(mid) + rad))
        return a @ mid - np.abs(a) @ rad - up(lost)

    def _back(self, name: str, a: Any, kind: int) -> Any:
        """A lower bound of a·h_name, carried back to the box along lines of one kind."""
        waiting = {name: a}
        const, slack = np.zeros(len(a)), np.zeros(len(a))
        for cut, parts, constant, choice, loss in reversed(self.cuts):
            if cut not in waiting:
                continue
            a = waiting.pop(cut)
            below, above, rise_below, rise_above = choice[kind]
            plus, minus = np.maximum(a, 0), np.minimum(a, 0)
            d = plus * below + minus * above
            slack = slack + 8 * UNIT * np.abs(const)
            const = const + plus @ rise_below + minus @ rise_above + d @ constant
            terms = (a.shape[1] + 8) * 2 * UNIT
            size = np.abs(rise_below) + np.abs(rise_above)
            slack = slack + np.abs(a) @ (terms * size) + np.abs(d) @ loss
            slack = slack + 8 * UNIT * np.abs(const)
            for source, matrix in parts.items():
                more = d @ matrix
                if source in waiting:
                    old = waiting[source]
                    rounding = 2 * UNIT * (np.abs(old) + np.abs(more))
                    slack = slack + rounding @ self.largest(source)
                    more = old + more
                waiting[source] = more
        rest = np.zeros(len(const))
        if self.source in waiting:
            rest = self._interval(self.source, waiting[self.source])
        total = rest + const
        return total - up(slack + 4 * UNIT * (np.abs(rest) + np.abs(const)))

    def add_cut(self, name: str, form: Form, floats: Any, op: Any, hints: Any = None) -> None:
        """Bounds at a cut: z by its form, h = op(z), or h = z for a sum of branches (op None)."""
        middle, error = floats
        lo, hi = self.of_form(form, floats)
        line, (low, high) = lines(op, lo, hi, hints)
        flat, _ = lines(op, lo, hi, hints, flat=True)
        parts = {source: middle[:, part] for source, part in form.parts()}
        # loss: per unit of |d|, what rounding d·A and d·c, and the form's error, can amount to
        terms = (len(lo) + 8) * 2 * UNIT
        loss = terms * np.abs(middle[:, -1]) + error[:, -1]
        for source, part in form.parts():
            matrix = terms * np.abs(middle[:, part]) + error[:, part]
            loss = loss + matrix @ self.largest(source)
        steep = np.max([np.ones_like(lo), *np.abs(line[:2]), *np.abs(flat[:2])], axis=0)
        loss = up(loss + terms * steep * np.maximum(np.abs(lo), np.abs(hi)))  # the product a·slope
        self.cuts.append((name, parts, middle[:, -1], (line, flat), loss))
        self.lo[name], self.hi[name] = low, high


def lines(
    op: Any, lo: Any, hi: Any, hints: Any, flat: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, Any]]:
    """Lines below and above op on [lo, hi] (slopes, then intercepts), and op's range there.

    Any slopes will do: op is straight between its breakpoints (or rising, where the slopes are
    0), so op(z) − slope·z takes its extremes at the ends and breakpoints, where it is computed.
    """
    one, zero = np.ones_like(lo), np.zeros_like(lo)
    if op is None:
        return (one, one, zero, zero), (lo, hi)
    if min(getattr(op, part, 0.0) for part in ("slope", "alpha", "gamma")) < 0:
        raise ValueError("an activation that is not rising is outside of what the checker covers")
    below, above = _slopes(op, lo, hi, hints, flat)
    breaks = (op.lo, op.hi) if isinstance(op, Clip) else (0.0,)
    points = [lo, *(np.clip(point, lo, hi) for point in breaks), hi]
    doubt = 2.0**-40 if hasattr(op, "alpha") else 4 * UNIT  # exp of the platform; one product
    values = [op(z) for z in points]
    pairs = list(zip(values, points, strict=True))
    least = np.min([v - below * z for v, z in pairs], axis=0)
    most = np.max([v - above * z for v, z in pairs], axis=0)
    steep = 1 + np.maximum(np.abs(below), np.abs(above))
    size = np.max([(doubt + 8 * UNIT) * (np.abs(v) + steep * np.abs(z)) for v, z in pairs], axis=0)
    exact = (below == above) & (least == 0) & (most == 0) & isinstance(op, Relu | Clip)
    size = np.where(exact, 0.0, up(size))
    low, high = (
        end + sign * doubt * np.abs(end) for end, sign in ((values[0], -1), (values[-1], 1))
    )
    return (below, above, least - size, most + size), (low, high)


def _slopes(op: Any, lo: Any, hi: Any, hints: Any, flat: bool) -> tuple[Any, Any]:
    """The chord where op bends away; on the other side the smaller gap, or the flatter line."""
    linear = (lo >= op.piece.lo) & (hi <= op.piece.hi)
    width = np.maximum(hi - lo, 2.0**-1000)
    if isinstance(op, Relu | LeakyRelu):
        left = op.slope if isinstance(op, LeakyRelu) else 0.0
        steep = (hi >= -lo * (1 - TIE)) if hints is None else hints
        chord = np.clip((hi - left * lo) / width, min(left, 1.0), max(left, 1.0))
        below, above = np.where(steep & (not flat), 1.0, left), chord
        almost = -lo <= TIE * hi  # by rounding alone: the line itself is the better one
        below = np.where(almost, 1.0, below)
        straight = np.where(lo >= 0, 1.0, left)
        bent = (lo < 0) & (hi > 0)
        return np.where(bent, below, straight), np.where(bent, above, straight)
    if isinstance(op, Clip):
        foot, head = lo < op.lo, hi > op.hi
        rise = op(hi) - op(lo)
        below = np.where(head, rise / np.maximum(hi - np.maximum(lo, op.lo), 2.0**-1000), 1.0)
        below = np.where(foot & ~head, (not flat) & (hi - op.lo > op.lo - lo), below)
        above = np.where(foot, rise / np.maximum(np.minimum(hi, op.hi) - lo, 2.0**-1000), 1.0)
        above = np.where(head & ~foot, (not flat) & (op.hi - lo > hi - op.hi), above)
        outside = (hi <= op.lo) | (lo >= op.hi)
        return np.where(outside, 0.0, below), np.where(outside, 0.0, above)
    slope = np.where(linear, op.piece.slope, 0.0)
    return slope, slope
