"""Where a network's values are on the boxes of a partition: intervals and back-substitution.

Node by node, every value is bounded by the ranges of what it takes. What an activation takes is
bounded once more, and so is any functional that is asked for: a·f(z) is replaced by a·(slope·z +
intercept), a line below f where a > 0 and above it where a < 0, then z by the map that makes it,
until only the input is left, of which the box is known. There are two kinds of lines (`Support`),
and the better bound counts. Coefficients are floats and taken as they are; what is lost on the way
is bounded by values, |Δ coefficient|·max|h|, and taken off in the end.

Ends of values are arrays (boxes, units), coefficients (boxes, rows, units). A functional that sees
few units of an image is carried back over the units that these see, and over no others.

Rests on proofs_check: back-substitution, accumulated-rounding, partition-covers, window-maximum,
equal-units.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
from scipy import sparse

from proofs_check.certificates.activations import Band, Bend, Windows
from proofs_check.certificates.affine import Form, of_windows, windows
from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    Matrix,
    Tally,
    above,
    below,
    dot,
    gamma,
    plus,
    side_by_side,
    times,
)
from proofs_check.certificates.rationals import Range, columns_of
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import Box, Convolution, Network, Node
from reconstruct.networks.activations import MaxPool, Support, Unitwise
from reconstruct.networks.maps import Dense, Diagonal, Mixing, Placement, Select
from reconstruct.networks.operation import Add

Numbers = npt.NDArray[np.intp]
Waiting = dict[str, Floats]  # coefficients that wait at a value, (boxes, rows, units)
TILE = 2**20  # coefficients that are carried back at once
ROWS = 2**11  # of functionals that are carried back one box after the other
MOST_ENTRIES = 2**28  # of a map, unrolled


# --- affine pieces --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Term:
    """What rows see of a value, by a matrix known to within `error`."""

    source: str
    matrix: Matrix
    error: Matrix | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of Σ A h + c over values of the network, c known to within `doubt`."""

    terms: tuple[Term, ...]
    constant: Floats
    doubt: Floats

    def take(self, some: Numbers) -> Rows:
        terms = tuple(
            Term(t.source, t.matrix[some], None if t.error is None else t.error[some])
            for t in self.terms
        )
        return Rows(terms, self.constant[some], self.doubt[some])


def rows_of(node: Node, sizes: Mapping[str, int]) -> Rows:
    """A node that is affine, over its inputs; images are unrolled."""
    op, size, (first, *_) = node.op, sizes[node.name], node.inputs
    nothing = np.zeros(size)
    if isinstance(op, Add):
        eye = sparse.eye_array(size, format="csr")
        return Rows(tuple(Term(name, eye) for name in node.inputs), nothing, nothing)
    if isinstance(op, Select | Placement):
        index = np.arange(op.start, op.stop) if isinstance(op, Select) else op.index
        there = np.flatnonzero(index >= 0)
        ones = np.ones(len(there)), (there, index[there])
        picked = sparse.csr_array(ones, shape=(size, sizes[first]))
        return Rows((Term(first, picked),), nothing, nothing)
    if isinstance(op, Diagonal):
        (scale, off), (shift, doubt) = (column.floats() for column in columns_of(op))
        middle, error = (sparse.csr_array(sparse.diags_array(x[:, 0])) for x in (scale, off))
        terms = (Term(first, middle, error if off.any() else None),)
        return Rows(terms, shift[:, 0], doubt[:, 0])
    if not isinstance(op, Mixing):
        raise NotCheckable(f"{node.name!r}: {type(op).__name__} is not an operation known here")
    if isinstance(op, Convolution) and op.kernel.size * op.positions <= MOST_ENTRIES:
        form = of_windows(op, first, windows(op), 0, op.channels)
        return unrolled(form, form.floats(), sizes)
    m, k = op.shape
    if isinstance(op, Convolution) or m * k > MOST_ENTRIES:
        raise NotCheckable(f"{node.name!r} is a map of {m} × {k} entries: the checker holds less")
    weight = np.asarray(op.tile(0, m), dtype=np.float64)
    matrix = weight if isinstance(op, Dense) else sparse.csr_array(weight)
    return Rows((Term(first, matrix),), np.asarray(op.bias, dtype=np.float64), nothing)


def unrolled(form: Form, floats: Range, sizes: Mapping[str, int]) -> Rows:
    """A form as rows over the units of the values that it sees, those of all positions of a row one
    after the other. Where columns meet in one unit, what rounding takes of their sum is added."""
    terms, height = [], form.rows * form.positions
    for view, part in form.parts():
        middle, error = floats[0][:, part], floats[1][:, part]
        row, column = np.nonzero((middle != 0) | (error != 0))
        unit = view.index[column]
        there = unit >= 0
        where = (row[:, None] * form.positions + np.arange(form.positions))[there], unit[there]
        shape = height, sizes[view.source]
        found = []
        for numbers in (middle, error, np.abs(middle)):
            entries = np.broadcast_to(numbers[row, column][:, None], there.shape)[there]
            found.append(sparse.csr_array((entries, where), shape=shape))
        matrix, doubt, size = found
        if matrix.nnz < len(where[0]):
            missed = (doubt.data + gamma(view.columns) * size.data) * (1 + view.columns * 2.0**-51)
            doubt.data = above(above(missed))
        if matrix.nnz * 8 > height * shape[1]:  # not mostly zeros, as those of images are
            matrix, doubt = matrix.toarray(), doubt.toarray()
        terms.append(Term(view.source, matrix, doubt if doubt.max() > 0 else None))
    constant, rest = (np.repeat(end[:, -1], form.positions) for end in floats)
    return Rows(tuple(terms), constant, rest)


# --- enclosures -----------------------------------------------------------------------------------


def product(matrix: Matrix, lo: Floats, hi: Floats) -> Range:
    """`(v, r)` with |A h − v| ≤ r for every lo ≤ h ≤ hi, of (…, units, n) numbers.

    With |h − c| ≤ w: |A h − fl(A c)| ≤ |A| (w + γ|c|) but for underflow. The two roundings of w +
    γ|c| are within the 4n·u that `dot` adds, and η/2 for each product of A c within its n·η.
    """
    centre = 0.5 * lo + 0.5 * hi
    centre = np.where(np.isfinite(centre), centre, 0.0)
    width = np.maximum(hi - centre, centre - lo)
    lost = times(np.abs(centre), np.full(1, gamma(matrix.shape[-1])))
    return np.asarray(matrix @ centre), dot(abs(matrix), width + lost)


def enclosed(
    parts: Sequence[tuple[Matrix, Matrix | None, Floats, Floats]], constant: Floats, doubt: Floats
) -> Range:
    """Bounds of Σ A h + c, (rows, n), rounded outward; a part is A, what it may be off by, and the
    ends of h. What only hands a unit on is not rounded: so what is never negative stays so."""
    start = Tally.start(constant[:, None], doubt[:, None])
    total = start
    for matrix, error, lo, hi in parts:
        missed = () if error is None else (dot(error, np.maximum(np.abs(lo), np.abs(hi))),)
        total = total.add(*product(matrix, lo, hi), *missed)
    low, high = total.ends()
    if len(parts) == 1 and parts[0][1] is None:
        ((matrix, _, lo, hi),) = parts
        size = abs(matrix)
        rows = np.flatnonzero(((size != 0).sum(axis=1) == 1) & (size.sum(axis=1) == 1))
        units = np.asarray(size[rows].argmax(axis=1)).ravel()
        rising = (matrix[rows].sum(axis=1) > 0)[:, None]
        first = Tally(start.value[rows], start.slack[rows])
        low[rows] = first.add(np.where(rising, lo[units], -hi[units])).ends()[0]
        high[rows] = first.add(np.where(rising, hi[units], -lo[units])).ends()[1]
    return low, high


def interval(rows: Rows, values: Mapping[str, Range]) -> Range:
    """Bounds of rows by the ranges of what they see, on every box: (boxes, rows) each."""
    parts = [(t.matrix, t.error, *(end.T for end in values[t.source])) for t in rows.terms]
    low, high = enclosed(parts, rows.constant, rows.doubt)
    return low.T, high.T


def over_boxes(form: Form, floats: Range, values: Mapping[str, Range]) -> Range:
    """Bounds of a form by intervals, (boxes, rows · positions): here every position of a box is a
    box of its own."""
    boxes, parts = len(next(iter(values.values()))[0]), []
    for view, part in form.parts():
        seen = np.maximum(view.index.T, 0)
        there = view.index.T >= 0
        lo, hi = (
            np.where(there, end[:, seen], 0.0).reshape(-1, view.columns).T
            for end in values[view.source]
        )
        error = floats[1][:, part]
        parts.append((floats[0][:, part], error if error.any() else None, lo, hi))
    low, high = (
        np.broadcast_to(end, (form.rows, boxes * form.positions))
        .reshape(form.rows, boxes, form.positions)
        .transpose(1, 0, 2)
        .reshape(boxes, -1)
        for end in enclosed(parts, floats[0][:, -1], floats[1][:, -1])
    )
    return low, high


def weigh(values: Floats, size: Matrix) -> Floats:
    """`values @ size.T` of numbers that are not negative, from above."""
    return dot(size, values.T).T


# --- between two cuts, node by node ---------------------------------------------------------------


def mapped(
    op: Mixing, function: Callable[..., tuple[Floats, ...]], *values: Floats
) -> list[Floats]:
    """What a function makes of the matrix of a map and of values, (n, units) each: a convolution
    goes by its kernels, each at all positions, a few groups at a time, and another map by rows."""
    step, found = max(1, 4 * TILE // max(1, op.shape[1])), []
    if not isinstance(op, Convolution):
        for start in range(0, op.shape[0], step):
            rows = op.tile(start, min(op.shape[0], start + step))
            columns = (part.T for part in values)
            found.append(function(np.asarray(rows, dtype=np.float64), *columns))
        return [np.concatenate(parts).T for parts in zip(*found, strict=True)]
    places = windows(op).reshape(op.groups, -1, op.positions)
    kernel = op.kernel.reshape(op.groups, -1, places.shape[1])
    most = max(map(len, values))
    step = max(1, 4 * TILE // (kernel[0].size + len(kernel[0]) * op.positions * most))
    for start in range(0, op.groups, step):
        some = slice(start, start + step)
        met = (np.where(places[some] >= 0, part[:, places[some]], 0.0) for part in values)
        parts = function(np.asarray(kernel[some], dtype=np.float64), *met)
        found.append(tuple(part.reshape(len(part), int(np.prod(part.shape[1:]))) for part in parts))
    return [np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)]


def stretched(
    lo: Floats,
    hi: Floats,
    scale: Floats,
    off: Floats,
    shift: Floats | float = 0.0,
    doubt: Floats | float = 0.0,
) -> Range:
    """Bounds of s x + t with s within `off` of `scale`, t within `doubt` of `shift`."""
    room = plus(times(np.maximum(np.abs(lo), np.abs(hi)), off), np.asarray(doubt))

    def end(x: Floats) -> tuple[Floats, Floats]:  # what a product and a sum make, and may lose
        part = np.where(scale == 0, 0.0, scale * x)
        total = part + shift
        lost = (np.abs(part) + np.abs(total)) * (2 * UNIT) + 2 * TINY
        known = ((scale == 0) | (np.abs(scale) == 1) | (x == 0)) & (np.asarray(shift) == 0)
        return total, plus(np.where(known, 0.0, lost), room)

    low, below_ = end(np.where(scale < 0, hi, lo))
    high, above_ = end(np.where(scale < 0, lo, hi))
    return widened(low, low, below_)[0], widened(high, high, above_)[1]


def added(*ranges: Range) -> Range:
    """Bounds of a sum; not rounded where nothing is lost, so what is never negative stays so."""
    nothing = np.zeros(ranges[0][0].shape)
    low = reduce(Tally.add, (lo for lo, _ in ranges), Tally(nothing, nothing))
    high = reduce(Tally.add, (-hi for _, hi in ranges), Tally(nothing, nothing))
    return low.lowest(), -high.lowest()


def widened(lo: Floats, hi: Floats, by: Floats) -> Range:
    """`[lo − by, hi + by]`, outward; as it was where there is nothing to add."""
    low = np.where(by == 0, lo, below(lo - by))
    high = np.where(by == 0, hi, above(hi + by))
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


# --- ranges of all values -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Map:
    """An affine node: what one unit of |coefficient| loses on the way over it (boxes, units), and
    what underflow loses whatever the coefficients (boxes, 1)."""

    rows: Rows
    loss: Floats
    floor: Floats


@dataclass(frozen=True, eq=False)
class _Curve:
    """An activation: one band for each kind of line, around f(z), or around the maximum of a window
    as a function of its `chosen` entry (boxes, windows)."""

    source: str
    bands: tuple[Band, ...]
    chosen: Numbers | None = None


@dataclass(frozen=True, eq=False)
class Swap:
    """Units written through others (see `joint`): `used` (boxes, m) is 1 where, r ≤ `slope`·δ +
    `beyond` and r ≥ (1 − slope)·δ − beyond, `negative` (m,) where c < 0; and for each partner, an
    activation, what it takes, and |c| as a matrix (m × its units)."""

    used: Floats
    slope: Floats
    beyond: Floats
    negative: npt.NDArray[np.bool_]
    moves: tuple[tuple[str, str, Floats], ...]


class Ranges:
    """Bounds of all values of a network on boxes `lo ≤ x ≤ hi`, (boxes, inputs) each.

    `known` holds on all boxes. If `lean`, only units that may be on two pieces of the activation
    behind are carried back; where `alone`, on each box those of this box only, and by the first
    kind of lines, so that who chooses by ranges sees those that the boxes were found by. `sharp`
    names values that are carried back besides those that activations take.
    """

    alone = False

    def __init__(
        self,
        network: Network,
        lo: Floats,
        hi: Floats,
        *,
        sharp: Collection[str] = (),
        known: Mapping[str, Range] | None = None,
        lean: bool = False,
    ) -> None:
        self.network, self.known, self.lean = network, known, lean
        self.values: dict[str, Range] = {network.source: (lo, hi)}
        self.steps: dict[str, _Map | _Curve] = {}
        self.swaps: dict[str, Swap] = {}
        self.widest = max(network.sizes.values())
        self.point = bool((lo == hi).all())  # then intervals say all that there is to say
        self.bent = {n.inputs[0]: n for n in network.nodes if isinstance(n.op, Unitwise | MaxPool)}
        used = needed(network)
        for node in network.nodes:
            if node.name not in used:
                continue
            if isinstance(node.op, Unitwise | MaxPool):
                self._bend(node)
            else:
                self._map(node, node.name in self.bent or node.name in sharp)

    @property
    def boxes(self) -> int:
        return len(self.values[self.network.source][0])

    def over_all(self, name: str) -> Range:
        """The range of a value over all boxes."""
        lo, hi = self.values[name]
        return lo.min(axis=0), hi.max(axis=0)

    def _map(self, node: Node, sharp: bool) -> None:
        rows = rows_of(node, self.network.sizes)
        lo, hi = interval(rows, self.values)
        if self.known is not None:
            lo, hi = met((lo, hi), self.known[node.name])
        self.values[node.name] = lo, hi
        self.steps[node.name] = self._lossy(rows)
        if sharp and not self.point:
            self.values[node.name] = self._sharpened(node.name, lo, hi)

    def _lossy(self, rows: Rows) -> _Map:
        """Each coefficient of a source is a sum of at most m products."""
        count = len(rows.constant)
        size = times(np.abs(rows.constant), np.full(count, gamma(count + 1)))
        loss = plus(rows.doubt, size)[None]
        far = np.zeros((self.boxes, 1))
        for term in rows.terms:
            most = self._largest(term.source)
            loss = plus(loss, times(weigh(most, abs(term.matrix)), np.full(1, gamma(count))))
            if term.error is not None:
                loss = plus(loss, weigh(most, term.error))
            far = plus(far, total(most)[:, None])
        return _Map(
            rows, np.broadcast_to(loss, (self.boxes, count)), above(far * (4 * count * TINY))
        )

    def _sharpened(self, name: str, lo: Floats, hi: Floats) -> Range:
        """The units of a value carried back to the input."""
        low, high, units = lo.copy(), hi.copy(), np.arange(lo.shape[1])
        doubt = np.ones(lo.shape, dtype=bool)
        if self.lean and name in self.bent:
            doubt = _open(self.bent[name], lo, hi)
            units = np.flatnonzero(doubt.any(axis=0))
        step = max(1, TILE // (2 * self.boxes * self.widest))

        def one(start: int) -> None:
            some = units[start : start + step]
            eye = np.eye(lo.shape[1])[some]
            found = self.lower({name: np.concatenate([eye, -eye])[None]})
            ends = np.stack([found[:, : len(some)], found[:, len(some) :]])
            if self.alone:
                ends = np.where(doubt[:, some], ends, -np.inf)
            low[:, some] = np.maximum(lo[:, some], ends[0])
            high[:, some] = np.minimum(hi[:, some], -ends[1])

        for _ in side_by_side(one, range(0, len(units), step)):
            pass
        return low, high

    def _bend(self, node: Node) -> None:
        op, (source,) = node.op, node.inputs
        lo, hi = self.values[source]
        if isinstance(op, MaxPool):
            pool = Windows(op, self.network.sizes[source])
            chosen = pool.chosen(lo, hi)
            self.steps[node.name] = _Curve(source, (pool.band(lo, hi, chosen),) * 2, chosen)
            self.values[node.name] = pool.range(lo, hi)
            return
        assert isinstance(op, Unitwise)
        bend = Bend(op)
        slopes = [np.broadcast_arrays(lo, *op.slopes(lo, hi, kind))[1:] for kind in Support]
        bands = tuple(bend.band(lo, hi, (pair[0], pair[1])) for pair in slopes)
        self.steps[node.name] = _Curve(source, bands)
        self.values[node.name] = bend.range(lo, hi)
        self.link(node)

    def link(self, node: Node) -> None:
        """Called behind each activation: a subclass may write its units through others."""

    # --- functionals ----------------------------------------------------------------------------

    def worst(self, rows: Rows) -> Range:
        """Bounds of rows over all boxes. The least of the lower bounds counts: so a row is carried
        back only on boxes where it may be below what was found before, the widest boxes first."""
        low, high = interval(rows, self.values)
        quick, count = np.concatenate([low, -high], axis=1), len(rows.constant)
        best = np.full(2 * count, np.inf)
        sources = [term.source for term in rows.terms]
        if self.point or set(sources) <= {self.network.source}:
            best = quick.min(axis=0)
            return best[:count], -best[count:]
        width = sum(np.nan_to_num(np.subtract(*self.values[s][::-1])).sum(axis=1) for s in sources)
        order = np.argsort(-np.asarray(width), kind="stable").tolist()

        def least(some: Numbers) -> Floats:
            best = np.full(len(some), np.inf)
            for number in order:
                low, box = quick[number, some], slice(number, number + 1)
                for kind in range(len(Support)):
                    going = np.flatnonzero(~(low >= best))
                    if len(going):
                        start = self._start(rows, some[going], box)
                        found = self._carried(*start, kind, box, best[going])
                        low[going] = np.maximum(low[going], found[0])
                best = np.minimum(best, low)
            return best

        step = max(1, min(TILE // (2 * self.widest), ROWS))
        parts = [np.arange(at, min(at + step, 2 * count)) for at in range(0, 2 * count, step)]
        best = np.concatenate([best[:0], *side_by_side(least, parts)])
        return best[:count], -best[count:]

    def _start(self, rows: Rows, some: Numbers, box: slice) -> tuple[Waiting, Tally]:
        """Rows, or their negatives where the number is beyond them, as coefficients that wait."""
        count = len(rows.constant)
        sign, part = np.where(some < count, 1.0, -1.0), rows.take(some % count)
        tally, waiting = Tally.start((sign * part.constant)[None], part.doubt[None]), Waiting()
        for term in part.terms:
            if term.error is not None:
                missed = weigh(self._largest(term.source)[box], term.error)
                tally = tally.add(np.zeros(missed.shape), missed)
            matrix = term.matrix.toarray() if sparse.issparse(term.matrix) else term.matrix
            more = np.asarray(sign[:, None] * matrix)[None]
            tally = self._wait(waiting, term.source, more, tally, box)
        return waiting, tally

    def lower(self, waiting: Waiting) -> Floats:
        """Lower bounds of Σ coefficients·values on every box, the best of the kinds of lines."""
        tally = Tally.start(*np.zeros((2, self.boxes, next(iter(waiting.values())).shape[1])))
        kinds, every = range(1 if self.alone else len(Support)), slice(None)
        found = [self._carried(dict(waiting), tally, kind, every) for kind in kinds]
        return np.asarray(np.maximum.reduce(found))

    def _carried(
        self, waiting: Waiting, tally: Tally, kind: int, box: slice, enough: Floats | None = None
    ) -> Floats:
        """The same along one kind of lines. On a single box ranges are put in behind every map,
        and a row that so reaches `enough` is followed no further."""
        rows = np.arange(tally.value.shape[1])
        best = np.full(len(rows), -np.inf)
        for node in reversed(self.network.nodes):
            if node.name not in waiting:
                continue
            step, a = self.steps[node.name], waiting.pop(node.name)
            if isinstance(step, _Curve):
                tally = self._over_curve(node, step, a, tally, waiting, kind, box)
                continue
            tally = self._over_map(step, a, tally, waiting, box)
            if enough is not None:
                best[rows] = np.maximum(best[rows], self._put_in(waiting, tally, box)[0])
                going = ~(best[rows] >= enough[rows])
                rows = rows[going]
                tally = Tally(tally.value[:, going], tally.slack[:, going])
                waiting = {name: a[:, going] for name, a in waiting.items()}
                if not len(rows):
                    break
        return best[None] if enough is not None else self._put_in(waiting, tally, box)

    def _put_in(self, waiting: Waiting, tally: Tally, box: slice) -> Floats:
        for name, a in waiting.items():
            value, room = product(a, *(end[box][:, :, None] for end in self.values[name]))
            tally = tally.add(value[..., 0], room[..., 0])
        return tally.lowest()

    def _over_map(self, step: _Map, a: Floats, tally: Tally, waiting: Waiting, box: slice) -> Tally:
        """a·z = a·c + Σ (a A)·h: coefficients go to the sources, a·c into the tally."""
        plain = a @ step.rows.constant
        floor = above(np.full(1, 4 * a.shape[2] * TINY))
        tally = tally.add(plain, weighted(np.abs(a), step.loss[box]), floor, step.floor[box])
        for term in step.rows.terms:
            tally = self._wait(waiting, term.source, through(a, term.matrix), tally, box)
        return tally

    def _over_curve(
        self,
        node: Node,
        step: _Curve,
        a: Floats,
        tally: Tally,
        waiting: Waiting,
        kind: int,
        box: slice,
    ) -> Tally:
        """a·f(z) ≥ d·z + const with d = a·slope: the line below where a ≥ 0, above where a < 0."""
        if node.name in self.swaps:
            tally, a = self._swapped(node, a, tally, waiting, box)
        band = step.bands[kind]
        below, over, low, high = (end[box] for end in (band.below, band.above, band.low, band.high))
        rising, falling = np.maximum(a, 0.0), np.minimum(a, 0.0)
        d = rising * below[:, None] + falling * over[:, None]
        value, room = product(a, low[:, :, None], high[:, :, None])
        tally = tally.add(value[..., 0], room[..., 0])
        if step.chosen is None:
            tally = self._charged(tally, step.source, d, box)
            return self._wait(waiting, step.source, d, tally, box)
        chosen = step.chosen[box]  # slopes are 0 and 1, but entries may be shared
        moved = np.zeros((len(d), d.shape[1], self.network.sizes[step.source]))
        for one, entries, into in zip(d, chosen, moved, strict=True):
            np.add.at(into.T, entries, one.T)
        most = np.take_along_axis(self._largest(step.source)[box], chosen, axis=1)
        lost = times(weighted(np.abs(d), most), np.full(1, gamma(d.shape[2] + 1)))
        tally = tally.add(np.zeros(lost.shape), lost)
        return self._wait(waiting, step.source, moved, tally, box)

    def _wait(self, waiting: Waiting, name: str, more: Floats, tally: Tally, box: slice) -> Tally:
        """Coefficients that wait at a value, added to those that are there."""
        if name not in waiting:
            waiting[name] = more
            return tally
        waiting[name] = waiting[name] + more
        return self._charged(tally, name, waiting[name], box)

    def _charged(self, tally: Tally, name: str, a: Floats, box: slice) -> Tally:
        """Less what sums or products lose that are coefficients, rounded once: u times each."""
        most = self._largest(name)[box]
        lost = times(weighted(np.abs(a), most), np.full(1, UNIT))
        return tally.add(np.zeros(lost.shape), lost, above(total(most)[:, None] * (4 * TINY)))

    def _swapped(
        self, node: Node, a: Floats, tally: Tally, waiting: Waiting, box: slice
    ) -> tuple[Tally, Floats]:
        """a·h = rest·h + Σ s|c|·h_j + t·z − (t, or s − t where c < 0)|c|·z_j ± |s|·beyond, s of the
        units in pairs and t = s·slope or s·(1 − slope), by the sign of s.

        A t errs by one rounding, a coefficient s|c| by at most m + 2, which cost γ|s||c| of what
        they multiply; 1 − slope is exact.
        """
        swap, (source,) = self.swaps[node.name], node.inputs
        used, slope = swap.used[box][:, None], swap.slope[box][:, None]
        s, rest = a * used, a * (1.0 - used)
        size, nothing = np.abs(s), np.zeros(s.shape[:2])
        share = s * np.where(s < 0, slope, 1.0 - slope)
        other = np.where(swap.negative, s - share, share)
        own = self._largest(source)[box]
        lost = weighted(size, plus(swap.beyond[box], times(own, np.full(1, gamma(2)))))
        tally = tally.add(nothing, lost, above(total(own)[:, None] * (4 * TINY)))
        tally = self._wait(waiting, source, share, tally, box)
        here: Waiting = {node.name: rest}
        for partner, taken, matrix in swap.moves:
            moved, drawn = (through(x, matrix) for x in (s, other))
            reach = plus(self._largest(partner)[box], self._largest(taken)[box])
            slip = times(weigh(reach, matrix), np.full(1, gamma(len(matrix) + 3)))
            floor = above(total(reach)[:, None] * (4 * len(matrix) * TINY))
            tally = tally.add(nothing, weighted(size, slip), floor)
            where = here if partner == node.name else waiting
            tally = self._wait(where, partner, moved, tally, box)
            tally = self._wait(waiting, taken, -drawn, tally, box)
        return tally, here[node.name]

    def _largest(self, name: str) -> Floats:
        return np.maximum(*map(np.abs, self.values[name]))


def needed(network: Network) -> set[str]:
    """The nodes that the output depends on."""
    found = {network.output}
    for node in reversed(network.nodes):
        if node.name in found:
            found.update(node.inputs)
    return found


def met(first: Range, second: Range) -> Range:
    """Two ranges that both hold."""
    return np.maximum(first[0], second[0]), np.minimum(first[1], second[1])


def _open(node: Node, lo: Floats, hi: Floats) -> npt.NDArray[np.bool_]:
    """Where a unit may be on more than one piece of what follows: (boxes, units)."""
    if not isinstance(node.op, Unitwise):
        return np.ones(lo.shape, dtype=bool)
    bend = Bend(node.op)
    inside = [(lo < point) & (point < hi) for point in bend.breaks]
    return np.asarray(np.logical_or.reduce([*inside, ~bend.straight(lo)]))


def through(a: Floats, matrix: Matrix) -> Floats:
    """Coefficients times a matrix, box by box."""
    boxes, rows, units = a.shape
    product = np.asarray(a.reshape(boxes * rows, units) @ matrix)
    return product.reshape(boxes, rows, matrix.shape[1])


def weighted(size: Floats, values: Floats) -> Floats:
    """`size·values` of numbers that are not negative, for every row on every box, from above."""
    return dot(size, values[:, :, None])[..., 0]


def total(values: Floats) -> Floats:
    """The sum over all units on every box, from above."""
    return above(values.sum(axis=1) * (1 + values.shape[1] * 2.0**-51))


# --- partitions -----------------------------------------------------------------------------------


def boxes_of(domain: Box, code: Sequence[int]) -> Range:
    """The boxes of a tree of halves in preorder, 0 for a box and i + 1 for a box that is halved
    along coordinate i. They cover the domain whatever the numbers are."""
    lows, highs, stack = [], [], [(domain.lo.copy(), domain.hi.copy())]
    for number in code:
        if not stack or number > domain.size:
            raise CheckFailed("tree", "the bytes are not a partition of this domain")
        lo, hi = stack.pop()
        if number == 0:
            lows.append(lo)
            highs.append(hi)
            continue
        middle = 0.5 * lo[number - 1] + 0.5 * hi[number - 1]
        upper, lower = lo.copy(), hi.copy()
        upper[number - 1] = lower[number - 1] = middle
        stack += [(upper, hi), (lo, lower)]
    if stack or not lows:
        raise CheckFailed("tree", f"the tree lacks {len(stack)} of its leaves")
    return np.array(lows), np.array(highs)
