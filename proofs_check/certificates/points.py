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

from fractions import Fraction
from math import inf, isfinite, isqrt

import numpy as np

from proofs_check.certificates.activations import Bend, Windows
from proofs_check.certificates.affine import Form, Forms, stacked
from proofs_check.certificates.arithmetic import (
    Floats,
    Whole,
    above,
    below,
    float_above,
    plus,
    times,
)
from proofs_check.certificates.curves import exponential
from proofs_check.certificates.ranges import anywhere, needed, over_boxes
from proofs_check.certificates.rationals import Interval, Range, Rationals, columns_of, root
from proofs_check.certificates.reading import Claims, Witness, covers
from proofs_check.certificates.recursion import deviation
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import LiveNorm, MatrixProduct, Network, Node, Softmax
from reconstruct.networks.activations import Line, MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Placement, Select
from reconstruct.networks.operation import Add

BITS = (192, 640)  # binary digits behind the point; more of them if the first do not decide
EXACT = (320, 2**14)  # the same of a witness, whose values may be exact
SPARE = 32  # binary digits that the entries of a map are known to beyond those of values
BATCH = 32  # inputs whose values are held together
BLOCK = 2**8  # rows of hidden units that are looked at together

Values = list[Interval]


# --- bounds at all inputs of the domain -----------------------------------------------------------


def prove_at_points(claims: Claims, target: Network, candidate: Network) -> None:
    """The claimed bound holds at every input of the domain."""
    if any((box.lo != box.hi).any() for box in claims.domain):
        raise CheckFailed("method", "a proof input by input is for inputs without a box around")
    cuts = {theirs for _, theirs in claims.alignment}
    if any(isinstance(node.op, LiveNorm) for node in candidate.nodes):
        cuts = set()  # a live norm is no line: every value is evaluated, and digits make up for it
    points = np.stack([box.lo for box in claims.domain])
    for start in range(0, len(points), BATCH):
        part = points[start : start + BATCH]
        for bits in BITS:
            ours = Evaluation(target, set(), part, bits).outputs()
            theirs = Evaluation(candidate, cuts, part, bits).outputs()
            ends = [apart(a, b) for a, b in zip(ours, theirs, strict=True)]
            least, most = (float(np.max(end)) for end in zip(*ends, strict=True))
            if claims.bound is None or most <= claims.bound or least > claims.bound:
                break
        covers("bound", claims.bound, most)


def apart(first: Rationals, second: Rationals) -> Range:
    """|first − second| unit by unit: from below and from above."""
    middle, room = (part[:, 0] for part in first.minus(second).floats())
    return np.maximum(below(np.abs(middle) - room), 0.0), plus(np.abs(middle), room)


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
    (found,) = Evaluation(network, set(), point[None], bits).outputs()
    return found.intervals()


# --- evaluation -----------------------------------------------------------------------------------


class Evaluation:
    """A network at some inputs; without `cuts` no activation is a hidden one."""

    def __init__(self, network: Network, cuts: set[str], points: Floats, bits: int) -> None:
        self.network, self.bits, self.used = network, bits, needed(network)
        acting = [n for n in network.nodes if isinstance(n.op, Unitwise) and n.name in self.used]
        self.inner = {node.name for node in acting if cuts and node.name not in cuts}
        self.hidden = hidden(network, self.inner, cuts)
        self.values = [{network.source: Rationals.of(x)} for x in points]
        known = {n: n for n in network.sizes if n not in self.hidden}
        self.forms = Forms(network, known, bits=bits, chunk=BLOCK)

    def outputs(self) -> list[Rationals]:
        """The output at each input."""
        last = self._last_looks()
        for place, node in enumerate(self.network.nodes):
            if node.name in self.inner:
                self._show_on_line(node)
            elif node.name in self.used and node.name not in self.hidden:
                found = [made.rounded(self.bits) for made in self._made(node)]
                for values, value in zip(self.values, found, strict=True):
                    values[node.name] = value
            for name in [name for name, look in last.items() if look == place]:
                for values in self.values:
                    del values[name]
        return self._taken(self.network.output)

    def _taken(self, name: str) -> list[Rationals]:
        if name not in self.hidden:
            return [values[name] for values in self.values]
        return self._composed(self.forms.whole(name, self.forms.positions(name)))

    def _composed(self, form: Form) -> list[Rationals]:
        kept = form.rounded(self.bits + SPARE)
        return [kept.at(values).rounded(self.bits) for values in self.values]

    def _made(self, node: Node) -> list[Rationals]:
        """The value of a node that is not hidden, at each input."""
        op, each = node.op, self.forms.own_positions(node.name)
        if isinstance(op, Mixing):
            return self._composed(self.forms.own(node, each))
        first, *others = map(self._taken, node.inputs)
        if isinstance(op, LiveNorm):
            return [normed(value, op, self.bits) for value in first]
        if isinstance(op, Softmax):
            return [softmax(value, op, self.bits) for value in first]
        if isinstance(op, MatrixProduct):
            return [multiplied(a, b, op) for a, b in zip(first, *others, strict=True)]
        if isinstance(op, MaxPool):
            windows = Windows(op, self.network.sizes[node.inputs[0]])
            return [greatest(value, windows) for value in first]
        if isinstance(op, Unitwise):
            return [bent(value, self.forms.bend(node), self.bits) for value in first]
        if isinstance(op, Diagonal):
            scale, shift = columns_of(op, None, self.bits)
            return [value.scaled(scale).plus(shift) for value in first]
        if isinstance(op, Select | Placement):
            index = np.arange(op.start, op.stop) if isinstance(op, Select) else op.index
            return [value.placed(index) for value in first]
        if isinstance(op, Add):
            for other in others:
                first = [a.plus(b) for a, b in zip(first, other, strict=True)]
            return first
        what = f"{node.name!r}: {type(op).__name__}"
        raise NotCheckable(f"{what} is not an operation the checker knows")

    def _show_on_line(self, node: Node) -> None:
        """How far units of a hidden activation may be off their line, at any of the inputs: of
        each alone, and wherever it stands, only where all of them together leave a doubt."""
        (name,), bend, near = node.inputs, self.forms.bend(node), self._near()
        lows, highs = ({n: [ends[n][i] for ends in near] for n in near[0]} for i in (0, 1))
        every = {n: (np.min(lows[n], axis=0), np.max(highs[n], axis=0)) for n in near[0]}

        def doubted(form: Form) -> Floats:
            floats, most = form.floats(), np.zeros(form.rows * form.positions)
            if not deviation(node, bend, anywhere(form, floats, every)).any():
                return most
            for ends in near:
                lo, hi = over_boxes(form, floats, ends)
                most = np.maximum(most, deviation(node, bend, (lo[0], hi[0])))
            return most

        self.forms.doubts[node.name] = np.concatenate(self.forms.each_block(name, doubted))

    def _near(self) -> list[dict[str, Range]]:
        """Floats around what is known at each input: (1, units)."""
        pairs = [{n: v.ends() for n, v in values.items()} for values in self.values]
        return [{n: (lo[None], hi[None]) for n, (lo, hi) in near.items()} for near in pairs]

    def _last_looks(self) -> dict[str, int]:
        """The place of the last node that looks at a value, through hidden ones too."""
        last: dict[str, int] = {}
        looks: dict[str, set[str]] = {}
        for place, node in enumerate(self.network.nodes):
            if node.name not in self.used:
                continue
            seen = {name for i in node.inputs for name in looks.get(i, {i})}
            if node.name in self.hidden:
                looks[node.name] = seen
            last |= dict.fromkeys(seen, place)
        kept = looks.get(self.network.output, {self.network.output})
        return {name: place for name, place in last.items() if name not in kept}


def hidden(network: Network, inner: set[str], cuts: set[str]) -> set[str]:
    """Inner activations, and what stands before them back to the first map."""
    nodes = {node.name: node for node in network.nodes}
    found, todo = set[str](), list(inner)
    while todo:
        name = todo.pop()
        if name in found or name not in nodes or (name in cuts and name not in inner):
            continue
        if name not in inner and isinstance(nodes[name].op, Unitwise | MaxPool):
            continue
        found.add(name)
        if not isinstance(nodes[name].op, Mixing):
            todo.extend(nodes[name].inputs)
    return found


# --- operations that are no maps ------------------------------------------------------------------


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
