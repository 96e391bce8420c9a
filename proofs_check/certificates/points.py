"""Networks at given inputs, beyond float64: bounds there, and witnesses.

Every value is a column of rationals with a radius (`rationals`), rounded to 2^-bits and evaluated
once more with more digits where the first do not decide. What stands between two cuts of the
candidate is wide, and rebuilt there by cancellation: evaluated node by node its radius would
explode. So a map behind hidden activations is composed with what stands before them, exactly
(`affine`), after it was shown at each input that no hidden unit leaves its line, or by how much.
Where the candidate is cut is a hint of the certificate: any choice is sound. Without cuts no
activation is a hidden one: so a witness is evaluated, which asks for exact values.

LayerNorm and RMSNorm by live statistics, y = gamma ∘ P z/ρ + beta, ρ = √(|P z|²/n + eps), P z =
z − mean(z) (RMSNorm: P = I): with z = N/D, p = n·N − ΣN is P z times n·D, and ρ is a root taken to
2^-bits from below. ρ moves by no more than rms(r) when z moves by r, and the derivative J = (P −
u uᵀ/n)/ρ has rows of Euclidean norm at most 1/ρ, so that y_i moves by at most |gamma_i|·‖r‖/ρ',
ρ' = max(√eps, ρ − rms(r)). Softmax is a quotient of exponentials; where z moves by r, p_i moves by
at most max r/2.

Rests on proofs_check: accumulated-rounding, layerwise-to-network, exact-splitting, live-eps,
product-errors, softmax-errors.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from functools import reduce
from math import inf, isfinite, isqrt

import numpy as np

from proofs_check.certificates.activations import Bend, Windows
from proofs_check.certificates.affine import Form, Forms, stacked
from proofs_check.certificates.arithmetic import Floats, Whole, above, float_above, plus, times
from proofs_check.certificates.between import Between
from proofs_check.certificates.curves import exponential
from proofs_check.certificates.cuts import Cuts
from proofs_check.certificates.ranges import added, met, needed, over_boxes, stretched
from proofs_check.certificates.rationals import Interval, Range, Rationals, root
from proofs_check.certificates.reading import Claims, Witness, covers
from proofs_check.certificates.recursion import chords
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import LiveNorm, MatrixProduct, Network, Node, Operation, Softmax
from reconstruct.networks.activations import Line, MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Map, Mixing, Placement, Select
from reconstruct.networks.operation import Add

BITS = (128, 640)  # binary digits behind the point; more of them if the first do not decide
EXACT = (320, 2**14)  # the same of a witness, whose values may be exact
SPARE = 32  # binary digits that the entries of a map are known to beyond those of values
BATCH = 32  # inputs whose values are held together

Values = list[Interval]


# --- bounds at all inputs of the domain -----------------------------------------------------------


def prove_at_points(claims: Claims, target: Network, candidate: Network) -> None:
    """The claimed bound holds at every input of the domain."""
    if any((box.lo != box.hi).any() for box in claims.domain):
        raise CheckFailed("method", "a proof input by input is for inputs without a box around")
    points = np.stack([box.lo for box in claims.domain])
    for start in range(0, len(points), BATCH):
        part = points[start : start + BATCH]
        for bits in BITS:
            least, most = apart(claims, target, candidate, part, bits)
            if claims.bound is None or most <= claims.bound or least > claims.bound:
                break
        covers("bound", claims.bound, most)


def apart(
    claims: Claims, target: Network, candidate: Network, points: Floats, bits: int
) -> tuple[float, float]:
    """The largest |candidate − target| at these inputs: from below and from above."""
    if not claims.alignment or any(isinstance(node.op, LiveNorm) for node in candidate.nodes):
        # a live norm is no line: every value is evaluated, and digits make up for what cancels
        ours, theirs = (Evaluation(net, points, bits).outputs() for net in (target, candidate))
        pairs = [b.minus(a).ends() for a, b in zip(ours, theirs, strict=True)]
        lo, hi = (np.stack(ends) for ends in zip(*pairs, strict=True))
    else:
        differences = Differences(claims, target, candidate, points, bits)
        differences.run()
        lo, hi = differences.moved["output"]
    least = np.maximum(np.maximum(lo, -hi), 0.0)
    return float(np.max(least)), float(np.max(np.maximum(-lo, hi)))


class Differences(Cuts):
    """How far the two networks are apart at each input, from cut to cut, with signs.

    With h the target's values at the cuts and h' = h + δ the candidate's, the forms A h + c and
    A'h' + c' are apart by A δ + (A' − A) h' + c' − c. h is known to the last digit, δ and h' in
    intervals: those of δ are as narrow as rounding makes them, relative to δ.
    """

    kinds = (*Cuts.kinds, Softmax, MatrixProduct)

    def __init__(
        self, claims: Claims, target: Network, candidate: Network, points: Floats, bits: int
    ) -> None:
        super().__init__(claims, target, candidate)
        self.bits, self.between = bits, Between(self.theirs, self.used, [None], {})
        cuts = [self.ours.nodes[name] for name in self.partner.values()]
        kept = {name for node in cuts if not _by_forms(node) for name in node.inputs}
        looked = {name for node in cuts for name in (node.name, *node.inputs)}
        lines = [node for node in self.ours.inner() if node.name in needed(target)]
        self.values = Evaluation(target, points, bits)
        self.values.outputs(kept, looked.union(*(node.inputs for node in lines)))
        for node in lines:
            lo, hi = self.values.ends[node.inputs[0]]
            reached = lo.min(axis=0), hi.max(axis=0)
            self.ours.doubts[node.name] = self.ours.bend(node).deviation(*reached)
        self.moved: dict[str, Range] = {}  # δ at the cuts, (inputs, units)
        self.near: dict[str, Range] = {}  # h'
        self._know(target.source, candidate.source, np.zeros_like(points), np.zeros_like(points))

    def _know(self, ours: str, theirs: str, lo: Floats, hi: Floats) -> None:
        low, high = self.values.ends[ours]
        self.moved[ours] = lo, hi
        self.near[ours] = low, high = added((low, high), (lo, hi))
        hull = low.min(axis=0)[None], high.max(axis=0)[None]
        self.between.settle(theirs, *hull, np.zeros_like(hull)[:1])

    def cut(self, node: Node, name: str) -> None:
        ours = self.ours.nodes[name]
        if _by_forms(ours):
            super().cut(node, name)
            return
        pairs = zip(ours.inputs, node.inputs, strict=True)
        found = [self._difference(*self.forms(*pair)) for pair in pairs]
        self._know(name, node.name, *self._by_values(node, ours, found))

    def _by_values(self, node: Node, ours: Node, moved: list[Range]) -> Range:
        """Of an operation that is evaluated: op(h + δ) − op(h), each at every input."""
        ends = []
        for number, values in enumerate(self.values.values):
            first = [values[name] for name in ours.inputs]
            second = []
            for value, (lo, hi) in zip(first, moved, strict=True):
                middle = 0.5 * lo[number] + 0.5 * hi[number]
                room = above(np.maximum(hi[number] - middle, middle - lo[number]))
                second.append(value.plus(Rationals.of(middle, room)))
            a, b = evaluated(ours.op, first, self.bits), evaluated(node.op, second, self.bits)
            ends.append(b.minus(a).ends())
        return np.stack([lo for lo, _ in ends]), np.stack([hi for _, hi in ends])

    def inner(self, node: Node) -> None:
        """By intervals that hold at all inputs, node by node, and at each input where these leave
        a doubt."""
        value, bend = self.between.until(node), self.theirs.bend(node)
        doubt = bend.deviation(value.lo[0], value.hi[0])
        if doubt.any():

            def doubted(form: Form) -> Floats:
                low, high = over_boxes(form, form.floats(), self.near)
                return bend.deviation(low.min(axis=0), high.max(axis=0))

            found = np.concatenate(self.theirs.each_block(node.inputs[0], doubted))
            doubt = np.minimum(doubt, found)
        self.theirs.doubts[node.name] = doubt

    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        lo, hi = self._difference(ours, theirs)
        if node is None:
            self.moved[name] = lo, hi
            return
        if isinstance(node.op, Unitwise):
            bend, before = self.theirs.bend(node), self.values.ends[value]
            behind = added(before, (lo, hi))
            low, high = np.minimum(before[0], behind[0]), np.maximum(before[1], behind[1])
            slopes = chords(bend, low, high)
            first, second = (bend.range(*ends) for ends in (before, behind))
            change = added(second, (-first[1], -first[0]))  # what counts where a unit bends
            lo, hi = met(change, stretched(lo, hi, slopes.middle, slopes.radius))
        self._know(name, node.name, lo, hi)

    def _difference(self, ours: Form, theirs: Form) -> Range:
        """A δ + (A' − A) h' + c' − c at each input."""
        gap, (middle, radius) = theirs.minus(ours), ours.floats()
        middle, radius = middle.copy(), radius.copy()
        middle[:, -1] = radius[:, -1] = 0.0
        carried = over_boxes(ours, (middle, radius), self.moved)
        return added(carried, over_boxes(gap, gap.floats(), self.near))


def _by_forms(node: Node) -> bool:
    return isinstance(node.op, Unitwise | Add | Map)


# --- a witness ------------------------------------------------------------------------------------


def check_witness(claims: Claims, target: Network, candidate: Network) -> None:
    """The point is in the box, the values there are as claimed, and so is their difference."""
    witness = claims.witness
    if witness is None:
        raise CheckFailed("witness", "a refuted verdict needs a witness, but there is none")
    point = _in_domain(claims, witness)
    if claims.tolerance is None or not witness.difference > Fraction(claims.tolerance):
        raise CheckFailed("witness.difference", "it is not above the tolerance")
    failure = CheckFailed("witness", "")
    for bits in EXACT:
        try:
            first, second = (evaluate(net, point, bits) for net in (target, candidate))
            _holds("witness.target", witness.target, first)
            _holds("witness.candidate", witness.candidate, second)
            _differ(witness, first, second)
            return
        except _Undecided as doubt:
            failure = doubt
    raise failure


class _Undecided(CheckFailed):
    """More digits might decide it."""


def _in_domain(claims: Claims, witness: Witness) -> Floats:
    """The point, which lies in a box of the domain, and where the witness says that it lies."""
    point, size = np.array(witness.point), claims.domain[0].size
    if point.shape != (size,):
        raise CheckFailed("witness.point", f"{size} numbers are needed, but {point.size} came")
    around = [b for b in claims.domain if ((point >= b.lo) & (point <= b.hi)).all()]
    if not around:
        raise CheckFailed("witness.point", "the point is not in the domain")
    inner = [(b.lo == b.hi) | ((point > b.lo) & (point < b.hi)) for b in around]
    if witness.strictly_inside != any(bool(marks.all()) for marks in inner):
        raise CheckFailed("witness.strictly_inside", "the point lies otherwise")
    return point


def _holds(field: str, claimed: tuple[Interval, ...], found: Values) -> None:
    """The claimed intervals hold the values."""
    if len(claimed) != len(found):
        raise CheckFailed(field, f"{len(found)} values are needed, but {len(claimed)} came")
    for (low, high), (least, most) in zip(claimed, found, strict=True):
        if most < low or least > high:
            raise CheckFailed(field, f"a value near {float(least)} is claimed otherwise")
        if not (low <= least and most <= high):
            raise _Undecided(field, f"that a value near {float(least)} is in its interval")


def _differ(witness: Witness, first: Values, second: Values) -> None:
    pairs = list(zip(first, second, strict=True))
    least = max(max(a - d, c - b) for (a, b), (c, d) in pairs)
    most = max(max(b - c, d - a) for (a, b), (c, d) in pairs)
    if most < witness.difference:
        raise CheckFailed("witness.difference", f"the networks differ by {float(most)} at most")
    if least < witness.difference:
        raise _Undecided("witness.difference", f"only {float(least)} follows")


def evaluate(network: Network, point: Floats, bits: int = EXACT[-1]) -> Values:
    """Rational bounds of each output; equal where all numbers are short enough and rational."""
    (found,) = Evaluation(network, point[None], bits).outputs()
    return found.intervals()


# --- evaluation -----------------------------------------------------------------------------------


class Evaluation:
    """A network at some inputs, every value in rationals."""

    def __init__(self, network: Network, points: Floats, bits: int) -> None:
        self.network, self.bits = network, bits
        self.values = [{network.source: Rationals.of(x)} for x in points]
        self.ends: dict[str, Range] = {}  # of what was asked for: (inputs, units)
        self.known = Forms(network, {name: name for name in network.sizes}, bits=bits)
        self.composed: dict[str, Form] = {}  # of the last map

    def outputs(self, kept: Collection[str] = (), looked: Collection[str] = ()) -> list[Rationals]:
        """The output at each input; values that are kept, and ends of those that are looked at."""
        used = needed(self.network)
        nodes = [node for node in self.network.nodes if node.name in used]
        last = {name: node for node in nodes for name in node.inputs}
        self._look(self.network.source, looked)
        for node in nodes:
            for values in self.values:
                taken = [values[name] for name in node.inputs]
                values[node.name] = self._made(node, taken).rounded(self.bits)
            self._look(node.name, looked)
            given_up = {name for name in node.inputs if last[name] is node}
            for name in given_up - {*kept, self.network.output}:
                for values in self.values:
                    del values[name]
        return [values[self.network.output] for values in self.values]

    def _look(self, name: str, looked: Collection[str]) -> None:
        if name in looked or name == self.network.source:
            pairs = [values[name].ends() for values in self.values]
            self.ends[name] = np.stack([lo for lo, _ in pairs]), np.stack([hi for _, hi in pairs])

    def _made(self, node: Node, taken: list[Rationals]) -> Rationals:
        op, first = node.op, taken[0]
        if isinstance(op, Mixing):
            if node.name not in self.composed:
                each = self.known.own_positions(node.name)
                form = self.known.own(node, each)
                self.composed = {node.name: form.rounded(self.bits + SPARE)}
            return self.composed[node.name].at({node.inputs[0]: first})
        if isinstance(op, Unitwise):
            return bent(first, self.known.bend(node), self.bits)
        if isinstance(op, Diagonal):
            scale, shift = self.known.diagonal(node.name, op)
            return first.scaled(scale).plus(shift)
        return evaluated(op, taken, self.bits)


# --- operations that are no maps ------------------------------------------------------------------


def evaluated(op: Operation, taken: list[Rationals], bits: int) -> Rationals:
    """What an operation makes of values that are neither mapped nor bent one by one."""
    first, *others = taken
    if isinstance(op, LiveNorm):
        return normed(first, op, bits)
    if isinstance(op, Softmax):
        return softmax(first, op, bits)
    if isinstance(op, MatrixProduct):
        return multiplied(first, others[0], op)
    if isinstance(op, MaxPool):
        return greatest(first, Windows(op, first.rows))
    if isinstance(op, Select | Placement):
        index = np.arange(op.start, op.stop) if isinstance(op, Select) else op.index
        return first.placed(index)
    if isinstance(op, Add):
        return reduce(Rationals.plus, others, first)
    raise NotCheckable(f"{type(op).__name__} is not an operation the checker knows")


def bent(value: Rationals, bend: Bend, bits: int) -> Rationals:
    """Behind an activation: a line for the units that are on one for sure, rationals for others."""
    lo, hi = value.ends()
    slopes, shifts, rest = np.zeros(lo.shape), np.zeros(lo.shape), np.ones(lo.shape, dtype=bool)
    for piece in bend.pieces:
        if isinstance(piece, Line):
            here = rest & (lo >= piece.lo) & (hi <= piece.hi)
            slopes[here], shifts[here], rest[here] = piece.slope, piece.intercept, False
    made = value.scaled(Rationals.of(slopes)).plus(Rationals.of(shifts))
    places = np.flatnonzero(rest)
    if not len(places):
        return made
    found = [bend.at(low, high, bits) for low, high in value.placed(places).intervals()]
    index = np.full(len(lo), -1)
    index[places] = np.arange(len(places))
    return made.plus(Rationals.between(found, bits).placed(index))


def greatest(value: Rationals, windows: Windows) -> Rationals:
    """The maximum over each window: that of the middles is off by the largest radius."""
    numbers, held = value.whole.integers(), windows.held()
    best = np.array([max(places, key=numbers.__getitem__) for places in held], dtype=np.int64)
    room = np.array([value.radius[places].max() for places in held])
    chosen = value.placed(best)
    return Rationals(chosen.whole, chosen.unit, room[:, None])


def multiplied(first: Rationals, second: Rationals, op: MatrixProduct) -> Rationals:
    """The product of each pair of matrices, one below the other."""
    found = []
    for place in range(op.stack):
        left = _matrix(first, place, op.rows, op.inner)
        right = _matrix(second, place, op.inner, op.columns)
        found.append(right.mixed(left).reshaped(op.rows * op.columns, 1))
    return joined(found)


def _matrix(value: Rationals, place: int, rows: int, columns: int) -> Rationals:
    return value.part(place * rows * columns, (place + 1) * rows * columns).reshaped(rows, columns)


def softmax(value: Rationals, op: Softmax, bits: int) -> Rationals:
    """Quotients of the exponentials of what each unit lacks to the largest of its row."""
    numbers = value.whole.integers()
    found: Values = []
    for start in range(0, len(numbers), op.width):
        row = numbers[start : start + op.width]
        powers = [exponential(Fraction(n - max(row), value.unit), bits) for n in row]
        least, most = (sum(ends, Fraction(0)) for ends in zip(*powers, strict=True))
        found += [(low / most, high / least) for low, high in powers]
    moved = above(0.5 * value.radius.reshape(op.rows, op.width).max(axis=1))
    return widened(Rationals.between(found, bits), np.repeat(moved, op.width))


def widened(value: Rationals, by: Floats) -> Rationals:
    return Rationals(value.whole, value.unit, plus(value.radius, by[:, None]))


def joined(parts: list[Rationals]) -> Rationals:
    """Columns one below the other."""
    found = stacked([Form(part.whole, part.unit, part.radius) for part in parts])
    return Rationals(found.whole, found.unit, found.radius)


def normed(value: Rationals, op: LiveNorm, bits: int) -> Rationals:
    """Behind a live norm, row by row: the value of the middles, and how far radii may move it."""
    return joined(
        [
            _normed(value.part(start, start + op.channels), op, bits)
            for start in range(0, value.rows, op.channels)
        ]
    )


def _normed(value: Rationals, op: LiveNorm, bits: int) -> Rationals:
    n, numbers = op.channels, value.whole.integers()
    scale, total = (n, sum(numbers)) if op.centred else (1, 0)
    p = [scale * number - total for number in numbers]
    square = Fraction(sum(v * v for v in p), n * (scale * value.unit) ** 2) + Fraction(op.eps)
    if square <= 0:
        raise NotCheckable(f"{op.kind} without eps is given a value of no variance")
    least, most = root(square, bits)
    whole = Whole.of_integers(p, (n, 1))
    centred = Rationals(whole, scale * value.unit, np.zeros((n, 1)))
    inverse = Rationals.between([(1 / most, 1 / least)], bits)
    made = centred.scaled(Rationals.of(op.gamma)).scaled(inverse).plus(Rationals.of(op.beta))
    moved = times(np.abs(op.gamma), np.full(n, _steepness(value.radius[:, 0], least, op)))
    return widened(made, moved)


def _steepness(radius: Floats, least: Fraction, op: LiveNorm) -> float:
    """‖r‖/max(√eps, ρ − rms(r)) from above, rms(r) and ‖r‖/√n being no more than max r."""
    most = float(radius.max())
    if most == 0 or not isfinite(most):
        return most
    rho = max(least - Fraction(most), root(Fraction(op.eps), BITS[0])[0])
    return float_above((isqrt(op.channels) + 1) * Fraction(most) / rho) if rho > 0 else inf
