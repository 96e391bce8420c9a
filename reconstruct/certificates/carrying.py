"""Propagate errors from cut to cut with their signs, box by box of the partition.

A network that makes the error ε_i, |ε_i| ≤ e_i, in front of each cut is the target with ε_i added
there. With h the target's values, ĥ the disturbed ones and A the target's maps between the cuts,

    ẑ − z = Σ_j A_j (ĥ_j − h_j) + ε,      ĥ − h = D (ẑ − z) + (own rounding),

D the slopes of chords of the activation. Where a unit stays on one piece, D is known; elsewhere it
is a middle D̄ ± ρ, and ρ|ẑ − z| is a new error. So ĥ − h is a sum of errors through products of
*signed* maps A D̄ A D̄ …, of which absolute values are taken once, at the end. Ranges, and with them
the slopes, are those of a box of the partition.

Rests on proofs_check: carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reconstruct.certificates.secants import Secants, secants
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import TINY, UNIT, Enclosure, upward
from reconstruct.numbers.parallel import parallel_map

BATCH = 64
MOST_WORK = 2.0**39  # products for one bound: about a minute
MOST_KEPT = 2**26  # numbers that are held for all leaves

Parts = tuple[tuple[str, Array], ...]


@dataclass(frozen=True, eq=False)
class Noise:
    """What is new at a cut, (1 or leaves, m, modes) each: in front of the activation and behind it,
    and what |ẑ − z| is known not to exceed."""

    before: Array
    behind: Array
    most: Array


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut that is done: its maps by source, its slopes and the noise (leaves, m, modes) behind
    it."""

    name: str
    parts: Parts
    slopes: Secants
    noise: Array


@dataclass(frozen=True, eq=False)
class _Spread:
    """Errors of a value: `forms` (leaves, symbols, m), and `total` (leaves, m, modes) the same
    through absolute values, against which rounding is measured; and what no entry of the forms has
    lost more of by underflow."""

    forms: Array
    total: Array
    lost: float


class Carrier:
    """Errors through the target on so many `leaves`, cut after cut; `modes` of them side by side.

    Products of maps are rounded by at most γ_n times the products of their absolute values, n the
    terms of all sums on the way.
    """

    def __init__(self, leaves: int, modes: int) -> None:
        self.leaves, self.modes = leaves, modes
        self.reached: dict[str, Array] = {}  # |ĥ − h| of the cuts so far, over all leaves
        self._cuts: list[_Cut] = []
        self._terms = 16

    def add(
        self, name: str, form: Form[Enclosure], op: Activation | None, taken: Range, noise: Noise
    ) -> Array:
        """Bounds of |ĥ − h| at a cut, (leaves, m, modes).

        `form` gives z over the sources; its range on the leaves, `taken`, tells the slopes of `op`
        (None: a sum).
        """
        parts, doubt = self._parts(form)
        slopes = secants(op, *taken)
        shape = (self.leaves, form.matrix.shape[0], self.modes)
        kept, found = np.empty(shape), np.empty(shape)
        given = upward(noise.before + doubt), noise.behind, noise.most
        fresh, behind, most = (np.broadcast_to(part, shape) for part in given)

        def one(rows: slice) -> None:
            own = slopes.part(rows)
            middle = np.abs(own.middle)[..., None]
            before = np.fmin(self._arriving(rows, parts, fresh[rows]), most[rows])
            new = own.noise(before)
            kept[rows] = _number(middle * fresh[rows] + behind[rows] + new)
            found[rows] = _number(middle * before + new + behind[rows])

        self._on_all(one)
        self.reached[name] = found.max(axis=0)
        self._cuts.append(_Cut(name, parts, slopes, kept))
        return found

    def end(self, form: Form[Enclosure], noise: Array) -> Array:
        """Bounds of the error at the output, (leaves, m, modes)."""
        parts, doubt = self._parts(form)
        found = np.empty((self.leaves, form.matrix.shape[0], self.modes))
        fresh = np.broadcast_to(upward(noise + doubt), found.shape)

        def one(rows: slice) -> None:
            found[rows] = self._arriving(rows, parts, fresh[rows])

        self._on_all(one)
        return found

    def _parts(self, form: Form[Enclosure]) -> tuple[Parts, Array]:
        """The maps by source as floats; what they are not known to is noise, (m, modes)."""
        parts, noise = [], np.zeros((form.matrix.shape[0], self.modes))
        for view, matrix in form.parts():
            if view.source in self.reached:  # the input has no error
                parts.append((view.source, matrix.high))
                unknown = np.abs(matrix.low) + matrix.radius
                if unknown.any():
                    noise = noise + unknown @ self.reached[view.source]
                self._terms += view.columns + 8
        return tuple(parts), upward(noise)

    def _on_all(self, one: Callable[[slice], None]) -> None:
        """On all leaves, batch by batch."""

        def quietly(rows: slice) -> None:
            with np.errstate(all="ignore"):
                one(rows)

        batches = [slice(i, min(self.leaves, i + BATCH)) for i in range(0, self.leaves, BATCH)]
        list(parallel_map(quietly, batches))

    def _arriving(self, rows: slice, parts: Parts, noise: Array) -> Array:
        """|ẑ − z| at the input of a cut on some leaves, (leaves, m, modes), `noise` new there."""
        values: dict[str, _Spread] = {}
        sizes = np.zeros((rows.stop - rows.start, 0, self.modes))
        for cut in self._cuts:
            own, middle = cut.noise[rows], cut.slopes.middle[rows]
            spread = self._image(cut.parts, values, sizes, own.shape[1])
            first, units = sizes.shape[1], own.shape[1]
            forms = np.zeros((len(own), first + units, units))
            np.multiply(spread.forms, middle[:, None], out=forms[:, :first])
            forms[:, first + np.arange(units), np.arange(units)] = 1.0
            total = np.abs(middle)[..., None] * spread.total + own
            lost = float(np.max(np.abs(middle), initial=0.0)) * spread.lost + TINY
            values[cut.name] = _Spread(forms, total, lost)
            sizes = np.concatenate([sizes, own], axis=1)
        spread = self._image(parts, values, sizes, noise.shape[1])
        reached = np.matmul(np.abs(spread.forms).transpose(0, 2, 1), sizes)
        rounding = 2 * self._terms * UNIT * spread.total
        underflow = spread.lost * sizes.sum(axis=1)[:, None]
        return _number(reached + noise + rounding + underflow)

    def _image(self, parts: Parts, values: dict[str, _Spread], sizes: Array, units: int) -> _Spread:
        """What maps make of the errors of their sources."""
        count, symbols = sizes.shape[:2]
        forms, total = np.zeros((count, symbols, units)), np.zeros((count, units, self.modes))
        lost = 0.0
        for source, matrix in parts:
            value, size = values[source], np.abs(matrix)
            own, inner = value.forms.shape[1:]
            product = value.forms.reshape(-1, inner) @ matrix.T
            forms[:, :own] += product.reshape(count, own, units)
            total += np.matmul(size, value.total) + TINY
            lost += float(np.max(size.sum(axis=1), initial=0.0)) * value.lost + TINY
        return _Spread(forms, total, float(upward(lost)) if parts else 0.0)


def bearable(leaves: int, modes: int, sizes: list[int]) -> bool:
    """Whether cuts of these sizes can be carried in bearable time and memory."""
    before = np.cumsum([0, *sizes])[:-1]
    products = float(
        np.sum(before[:-1] * sizes[:-1] * np.array(sizes[1:]) * np.arange(len(sizes), 1, -1))
    )
    return leaves * products < MOST_WORK and leaves * sum(sizes) * (modes + 6) < MOST_KEPT


def _number(values: Array) -> Array:
    """The values rounded up; +inf where they are not numbers."""
    return np.where(np.isnan(values), np.inf, upward(values))
