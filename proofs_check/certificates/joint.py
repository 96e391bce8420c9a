"""Two networks bounded together on the boxes of a partition: a bound of |f − g| on each.

Every activation of both networks is a cut, g's first and then f's; both begin at one input, so
that what they have in common cancels when f − g is carried back. A unit whose input is nearly a
multiple of an earlier one's, z_i = c·z_j + δ, may be written through it. As relu is 1-Lipschitz,
monotone and positively homogeneous,

    relu(z_i) = |c|·relu(z_j) − [c < 0]·|c|·z_j + r,     min(0, δ) ≤ r ≤ max(0, δ),

and for δ in [a, b] a line of the slope q lies above max(0, δ), one of the slope 1 − q below
min(0, δ), with what the ends of [a, b] ask for added. Any q is sound; q = b/(b − a), cut to [0, 1],
loses least.

The document says how the boxes were divided and which pairs to try. δ is bounded here on each box,
and a pair is used where that leaves less open than the two lines around relu(z_i).

Rests on proofs_check: equal-units, back-substitution, partition-covers, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    Tally,
    above,
    dot,
    gamma,
    plus,
    times,
)
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.claims import Claims, PairClaim
from proofs_check.certificates.form import Form
from proofs_check.certificates.forms import Forms
from proofs_check.certificates.leaves import leaves_of
from proofs_check.certificates.lines import Cut, Lines, onto_box, onto_lines, total, weighted
from proofs_check.certificates.report import CheckFailed, NotCheckable
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import Network, Node, Relu
from reconstruct.networks.activations import Activation, Support, Unitwise

Range = tuple[Floats, Floats]
SIDES = ("target", "candidate")
SOURCE = "input"
TILE = 2**20  # coefficients that are carried back at once
STEPS = 2**10  # slopes of lines around r are multiples of its inverse, so that 1 − q is exact


@dataclass(frozen=True, eq=False)
class _Piece:
    """An activation as a cut: its form over the cuts before it, what it means, its pairs."""

    name: str
    op: Unitwise
    bend: Bend
    form: Form
    floats: Range
    pairs: tuple[PairClaim, ...]


@dataclass(frozen=True, eq=False)
class _Swap:
    """Units written through others: `used` (boxes, m) is 1 where, r ≤ `slope`·δ + `beyond` and
    r ≥ (1 − slope)·δ − beyond, `negative` (m,) where c < 0, and |c| as matrices (m × units of the
    partner's cut)."""

    used: Floats
    slope: Floats
    beyond: Floats
    negative: Floats
    moves: tuple[tuple[str, Floats], ...]


def prove_jointly(claims: Claims, target: Network, candidate: Network) -> None:
    """|f − g| ≤ bound on every box of the partition, or the field that fails."""
    assert claims.tree is not None and claims.bound is not None
    pieces, gap = _pieces(claims, target, candidate)
    lo, hi = _boxes(claims)
    widest = max([target.size_in, *(len(piece.floats[0]) for piece in pieces)])
    step = int(np.clip(TILE // (2 * widest * widest), 1, 64))
    parts = [slice(start, start + step) for start in range(0, len(lo), step)]

    def bounded(part: slice) -> float:
        lines = _Both(lo[part], hi[part])
        for piece in pieces:
            lines.cut(piece)
        return lines.largest(gap)

    for part, worst in zip(parts, side_by_side(bounded, parts), strict=True):
        if not worst <= claims.bound:
            raise CheckFailed(
                "bound",
                f"{claims.bound} is claimed, but on boxes {part.start} to {part.stop - 1} of the "
                f"partition only {worst} follows",
            )


def _boxes(claims: Claims) -> Range:
    """The boxes of the trees, one tree after the other, for each box of the domain."""
    assert claims.tree is not None
    wide = claims.domain[0].size > 254
    if len(claims.tree) % (2 if wide else 1):
        raise CheckFailed("tree", "two bytes for each node are needed")
    code = np.frombuffer(claims.tree, ">u2" if wide else ">u1").tolist()
    lows, highs, start = [], [], 0
    for box in claims.domain:
        missing, stop = 1, start
        while missing and stop < len(code):
            missing, stop = missing + (1 if code[stop] else -1), stop + 1
        low, high = leaves_of(box, code[start:stop])
        lows.append(low)
        highs.append(high)
        start = stop
    if start != len(code):
        raise CheckFailed("tree", "there are more nodes than the boxes of the domain have")
    return np.concatenate(lows), np.concatenate(highs)


def _pieces(claims: Claims, target: Network, candidate: Network) -> tuple[list[_Piece], Form]:
    """The activations of both networks in order, and the form of f − g over them."""
    found: list[_Piece] = []
    ends: list[Form] = []
    wanted: dict[str, list[PairClaim]] = {}
    for pair in claims.pairs:
        wanted.setdefault(pair.node, []).append(pair)
    for side, network in zip(SIDES, (target, candidate), strict=True):
        cuts = [node for node in network.nodes if isinstance(node.op, Activation)]
        names = {node.name: f"{side}.{node.name}" for node in cuts}
        forms = Forms(network, {network.source: SOURCE, **names}, kernels=False)
        for node in cuts:
            if not isinstance(node.op, Unitwise):
                raise NotCheckable(
                    f"two networks of which one has {node.op.kind}, bounded together"
                )
            form = _plain(forms.whole(node.inputs[0]))
            pairs = tuple(wanted.pop(names[node.name], ()))
            _require_pairs(pairs, node, names[node.name], form.rows, found)
            piece = _Piece(names[node.name], node.op, forms.bend(node), form, form.floats(), pairs)
            found.append(piece)
        ends.append(_plain(forms.whole(network.output)))
    if wanted:
        raise CheckFailed("pairs", f"there is no activation {next(iter(wanted))!r}")
    return found, ends[1].minus(ends[0])


def _plain(form: Form) -> Form:
    if any(view.index is not None for view in form.layout):
        raise NotCheckable("two networks of which one has grouped layers, bounded together")
    return form


def _require_pairs(
    pairs: tuple[PairClaim, ...], node: Node, name: str, size: int, before: list[_Piece]
) -> None:
    """Pairs of a ReLU with units of ReLUs before it, or with its own that are in no pair."""
    sizes = {piece.name: len(piece.floats[0]) for piece in before if piece.op == Relu()}
    units = {pair.unit for pair in pairs}
    if pairs and (node.op != Relu() or len(units) != len(pairs)):
        raise CheckFailed("pairs", f"{name!r} is no ReLU, or a unit of it is in two pairs")
    for pair in pairs:
        own = pair.partner == name
        size_of = size if own else sizes.get(pair.partner, 0)
        known = 0 <= pair.unit < size and 0 <= pair.index < size_of
        if not known or (own and pair.index in units):
            raise CheckFailed("pairs", f"unit {pair.unit} of {name!r} has no partner before it")


class _Both(Lines):
    """Lines whose cuts may be written through others, and forms of what cuts take, besides."""

    def __init__(self, lo: Floats, hi: Floats) -> None:
        super().__init__(SOURCE, lo, hi)
        self.taken: dict[str, Range] = {}
        self.swaps: dict[str, _Swap] = {}

    def cut(self, piece: _Piece) -> None:
        """One activation more: the range of what it takes, lines around it, pairs."""
        taken = self._range(piece)
        self.add(piece.name, piece.form.parts(), piece.floats, piece.op, piece.bend, taken)
        self.taken[piece.name] = taken
        if piece.pairs:
            self._pair(piece)

    def _range(self, piece: _Piece) -> Range:
        """By intervals, and, where these leave the piece of a unit open, by lines."""
        low, high = self._between(piece.form, piece.floats)
        inside = [(low < point) & (point < high) for point in piece.bend.breaks]
        bent = np.logical_or.reduce([*inside, ~piece.bend.straight(low)])
        units = np.flatnonzero(bent.any(axis=0))
        step = max(1, TILE // (2 * self.boxes * low.shape[1]))
        for start in range(0, len(units), step):
            some = units[start : start + step]
            below = self._by_lines(piece.form, (piece.floats[0][some], piece.floats[1][some]))
            low[:, some] = np.maximum(low[:, some], below[:, : len(some)])
            high[:, some] = np.minimum(high[:, some], -below[:, len(some) :])
        return low, high

    def largest(self, gap: Form) -> float:
        """The largest |row| of a form of both networks on any of the boxes."""
        floats = gap.floats()
        low, high = self._between(gap, floats)
        below = self._by_lines(gap, floats)
        low = np.maximum(low, below[:, : gap.rows])
        high = np.minimum(high, -below[:, gap.rows :])
        worst = np.max(np.maximum(np.abs(low), np.abs(high)), initial=0.0)
        return float(worst)

    def _between(self, form: Form, floats: Range) -> Range:
        """Bounds of a form's rows by the ranges of its sources."""
        ends = []
        for sign in (1.0, -1.0):
            tally = self._start(form, sign * floats[0], floats[1])
            for view, part in form.parts():
                tally = onto_box(tally, sign * floats[0][None, :, part], self.ranges[view.source])
            ends.append(tally.lowest())
        return ends[0], -ends[1]

    def _start(self, form: Form, rows: Floats, error: Floats) -> Tally:
        """The constants of rows, and what their own error may come to."""
        missed = [dot(self._largest(v.source), error[:, part].T) for v, part in form.parts()]
        shape = self.boxes, len(rows)
        constant, doubt = (np.broadcast_to(x[:, -1], shape) for x in (rows, error))
        return Tally.start(constant, plus(doubt, *missed) if missed else doubt)

    def _by_lines(self, form: Form, floats: Range) -> Floats:
        """Lower bounds of the rows and of their negatives, all sources carried back together."""
        rows, error = np.concatenate([floats[0], -floats[0]]), np.concatenate([floats[1]] * 2)
        forms = {view.source: rows[None, :, part] for view, part in form.parts()}
        start = self._start(form, rows, error)
        return self._best(forms, {}, start)

    def _best(
        self, forms: Mapping[str, Floats], taken: Mapping[str, Floats], start: Tally
    ) -> Floats:
        """The best lower bound of `start + Σ forms·h + Σ taken·z` by any kind of lines."""
        found = [self._back(dict(forms), dict(taken), start, kind) for kind in range(len(Support))]
        return np.asarray(np.maximum.reduce([tally.lowest() for tally in found]))

    # --- pairs ----------------------------------------------------------------------------------

    def _pair(self, piece: _Piece) -> None:
        """Bounds δ of all pairs of a cut, and notes where they are used."""
        count, size = len(piece.pairs), len(piece.floats[0])
        units = [pair.unit for pair in piece.pairs]
        low, high = np.empty((2, self.boxes, count))
        for partner in dict.fromkeys(pair.partner for pair in piece.pairs):
            some = [i for i, pair in enumerate(piece.pairs) if pair.partner == partner]
            taken = {piece.name: np.zeros((len(some), size))}
            taken.setdefault(partner, np.zeros((len(some), self.taken[partner][0].shape[1])))
            for row, i in enumerate(some):
                taken[piece.name][row, piece.pairs[i].unit] += 1.0
                taken[partner][row, piece.pairs[i].index] -= piece.pairs[i].factor
            both = {name: np.concatenate([rows, -rows])[None] for name, rows in taken.items()}
            zero = np.zeros((self.boxes, 2 * len(some)))
            below = self._best({}, both, Tally.start(zero, zero))
            low[:, some], high[:, some] = below[:, : len(some)], -below[:, len(some) :]
        lo, hi = (end[:, units] for end in self.taken[piece.name])
        with np.errstate(all="ignore"):
            open_between = np.where((lo < 0) & (hi > 0), np.minimum(-lo, hi), 0.0)
            better = np.maximum(np.abs(low + high), high - low) / 2 < open_between
            low, high = np.where(better, low, 0.0), np.where(better, high, 0.0)
            least, most = np.minimum(low, 0.0), np.maximum(high, 0.0)
            width = np.where(most > least, most - least, 1.0)
            part = np.round(most / width * STEPS) / STEPS
            ends = [np.where(end > 0, (1.0 - part) * end, -part * end) for end in (low, high)]
        used, slope, beyond = np.zeros((3, self.boxes, size))
        used[:, units], slope[:, units] = better, part
        beyond[:, units] = np.where(better, above(np.maximum(*ends)), 0.0)
        negative = np.zeros(size)
        negative[units] = [pair.factor < 0 for pair in piece.pairs]
        moves: dict[str, Floats] = {}
        for pair in piece.pairs:
            width = self.taken[pair.partner][0].shape[1]
            matrix = moves.setdefault(pair.partner, np.zeros((size, width)))
            matrix[pair.unit, pair.index] = abs(pair.factor)
        self.swaps[piece.name] = _Swap(used, slope, beyond, negative, tuple(moves.items()))

    def _back(
        self, waiting: dict[str, Floats], taken: dict[str, Floats], tally: Tally, kind: int
    ) -> Tally:
        """A lower bound of Σ a·h + Σ d·z, a in `waiting` and d in `taken` by the names of cuts."""
        for cut in reversed(self.cuts):
            d = None
            if cut.name in waiting:
                a = waiting.pop(cut.name)
                if cut.name in self.swaps:
                    tally, a = self._swapped(tally, a, cut, waiting, taken)
                tally, d = onto_lines(tally, a, cut.bands[kind])
            if cut.name in taken:
                given = taken.pop(cut.name)
                if d is not None:
                    tally, given = self._sum(tally, d, given, self.taken[cut.name])
                d = given
            if d is not None:
                tally = self._onto_sources(tally, d, cut, waiting)
        if self.source in waiting:
            tally = onto_box(tally, waiting[self.source], self.ranges[self.source])
        return tally

    def _swapped(
        self,
        tally: Tally,
        a: Floats,
        cut: Cut,
        waiting: dict[str, Floats],
        taken: dict[str, Floats],
    ) -> tuple[Tally, Floats]:
        """a·h = rest·h + Σ s|c|·h_j + t·z − (t, or s − t where c < 0)|c|·z_j ± |s|·beyond, s of the
        units in pairs and t = s·slope or s·(1 − slope), by the sign of s.

        A t errs by one rounding, a coefficient s|c| by at most m + 2, which cost γ|s||c| of what
        they multiply; 1 − slope is exact.
        """
        swap = self.swaps[cut.name]
        s, rest = a * swap.used[:, None], a * (1.0 - swap.used)[:, None]
        size = np.abs(s)
        share = s * np.where(s < 0, swap.slope[:, None], 1.0 - swap.slope[:, None])
        other = np.where(swap.negative, s - share, share)
        tally = tally.add(np.zeros(size.shape[:2]), weighted(size, swap.beyond))
        own = np.maximum(*map(np.abs, self.taken[cut.name]))
        slip = times(own, np.full(own.shape, gamma(2)))
        tally = tally.add(np.zeros(size.shape[:2]), weighted(size, slip))
        tally = self._joined(tally, taken, cut.name, share, self.taken[cut.name])
        for name, matrix in swap.moves:
            with np.errstate(all="ignore"):
                moved, drawn = (
                    (x.reshape(-1, x.shape[2]) @ matrix).reshape(*x.shape[:2], -1)
                    for x in (s, other)
                )
            ends = [np.maximum(*map(np.abs, where[name])) for where in (self.ranges, self.taken)]
            reach = plus(*ends)
            slip = times(dot(reach, matrix.T), np.full(swap.slope.shape, gamma(len(matrix) + 3)))
            floor = above(above(total(reach) * (2 * len(matrix) * TINY)))[:, None]
            tally = tally.add(np.zeros(size.shape[:2]), weighted(size, slip), floor)
            if name == cut.name:
                tally, rest = self._sum(tally, rest, moved, self.ranges[name])
            else:
                tally = self._joined(tally, waiting, name, moved, self.ranges[name])
            tally = self._joined(tally, taken, name, -drawn, self.taken[name])
        return tally, rest

    def _joined(
        self, tally: Tally, where: dict[str, Floats], name: str, more: Floats, values: Range
    ) -> Tally:
        """Coefficients added to those that wait at a cut; scaling them may have underflowed."""
        reach = np.maximum(*map(np.abs, values))
        floor = above(above(total(reach) * (2 * more.shape[2] * TINY)))[:, None]
        tally = tally.add(np.zeros(more.shape[:2]), floor)
        if name in where:
            tally, more = self._sum(tally, where[name], more, values)
        where[name] = more
        return tally

    def _sum(
        self, tally: Tally, first: Floats, second: Floats, values: Range
    ) -> tuple[Tally, Floats]:
        """The sum of coefficients, its rounding charged by what they multiply."""
        with np.errstate(all="ignore"):
            both = first + second
        lost = weighted(np.abs(both), np.maximum(*map(np.abs, values)))
        return tally.add(np.zeros(lost.shape), times(lost, np.full(lost.shape, 2 * UNIT))), both
