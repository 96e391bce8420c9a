"""One point, evaluated again in exact arithmetic: the checker's view of a witness.

Values are rationals; where a norm's scale or an exponential is irrational they are intervals, at
first of 2^-256 and then narrower, until every claim of the witness is decided.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from proofs_check.certificates.affine import Form, Forms
from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.attention import multiplied, softmax
from proofs_check.certificates.balls import Balls
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.claims import Claims, Witness
from proofs_check.certificates.columns import Column, Interval
from proofs_check.certificates.live import normed
from proofs_check.certificates.report import CheckFailed, NotCheckable
from proofs_check.certificates.windows import Windows
from reconstruct.networks import LiveNorm, MatrixProduct, Network, Softmax
from reconstruct.networks.activations import Line, MaxPool, Unitwise

BITS = (320, 1280)
FINE = 640

Values = list[Interval]


def check_witness(claims: Claims, target: Network, candidate: Network) -> None:
    """The point is in the box, the values there are as claimed, and so is their difference."""
    witness = claims.witness
    if witness is None:
        raise CheckFailed("witness", "a refuted verdict needs a witness, but there is none")
    point = _in_domain(claims, witness)
    if claims.tolerance is None or not witness.difference > Fraction(claims.tolerance):
        raise CheckFailed("witness.difference", "it is not above the tolerance")
    failure = CheckFailed("witness", "")
    for bits in BITS:
        try:
            first, second = (evaluate(net, point, bits) for net in (target, candidate))
            _holds("witness.target", witness.target, first)
            _holds("witness.candidate", witness.candidate, second)
            _differ(witness, first, second)
            return
        except _Undecided as doubt:
            failure = CheckFailed(doubt.field, str(doubt))
    raise failure


class _Undecided(Exception):
    """More digits might decide it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


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


# --- evaluation -----------------------------------------------------------------------------------


def evaluate(network: Network, point: Floats, bits: int = BITS[0]) -> Values:
    """Rational bounds of each output; equal where all numbers are rational."""
    constants = _Constants(network, point, bits)
    for node in network.nodes:
        constants.whole(node.name)
    return _intervals(constants.whole(network.output))


class _Constants(Forms):
    """Forms without sources: every node's value is a constant vector."""

    def __init__(self, network: Network, point: Floats, bits: int) -> None:
        super().__init__(network, {}, bits=bits)
        self.values = {network.source: Form.constant(point)}

    def rows(self, name: str, start: int, stop: int, positions: int = 1) -> Form:
        if name not in self.values:
            node = self.nodes[name]
            if isinstance(node.op, Unitwise):
                form = self.rows(node.inputs[0], 0, self.network.sizes[name])
                self.values[name] = _bent(self.bend(node), form, self.bits)
            elif isinstance(node.op, MaxPool):
                form = self.whole(node.inputs[0])
                self.values[name] = _greatest(Windows(node.op, form.rows), form, self.bits)
            elif isinstance(node.op, LiveNorm | Softmax | MatrixProduct):
                made = _by_balls(node.op, [_intervals(self.whole(i)) for i in node.inputs])
                column = Column.between(made, self.bits)
                self.values[name] = Form((), column.whole, column.unit, column.slip[:, None])
            else:
                self.values[name] = super().rows(name, 0, self.network.sizes[name])
        return self.values[name].part(start, stop)


def _intervals(form: Form) -> Values:
    """Integers over a denominator, with their radius, as intervals of rationals."""
    if not np.isfinite(form.radius).all():
        raise NotCheckable("a value at the witness is beyond what the checker can enclose")
    numbers = zip(form.whole.integers(), form.radius[:, -1].tolist(), strict=True)
    found = [(Fraction(n, form.unit), Fraction(radius)) for n, radius in numbers]
    return [(middle - radius, middle + radius) for middle, radius in found]


def _by_balls(op: LiveNorm | Softmax | MatrixProduct, values: list[Values]) -> Values:
    """What mixes units other than by a map, by balls (a float holds a radius of 2^-640)."""
    first, *rest = [Balls.between(value, FINE) for value in values]
    if isinstance(op, MatrixProduct):
        return multiplied(first, rest[0], op).intervals()
    return (normed(first, op) if isinstance(op, LiveNorm) else softmax(first, op)).intervals()


def _greatest(windows: Windows, form: Form, bits: int) -> Form:
    """The maximum over each window, of lower and of upper ends."""
    values, found = _intervals(form), []
    for column, marks in zip(windows.places.T.tolist(), windows.there.T.tolist(), strict=True):
        held = [values[place] for place, there in zip(column, marks, strict=True) if there]
        found.append((max(low for low, _ in held), max(high for _, high in held)))
    column_of = Column.between(found, bits)
    return Form((), column_of.whole, column_of.unit, column_of.slip[:, None])


def _bent(bend: Bend, form: Form, bits: int) -> Form:
    """An activation of constants: by the sign alone where it has two lines that meet at 0."""
    lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
    if len(lines) == len(bend.pieces) == 2 and bend.breaks == (0.0,) and not form.radius.any():
        left, right = lines
        if left.intercept == right.intercept == 0:
            negative = form.whole.digits[-1, :, 0] < 0
            return form.scaled(Column.of_floats(np.where(negative, left.slope, right.slope)))
    ends = [bend.at(low, high, bits) for low, high in _intervals(form)]
    column = Column.between(ends, bits)
    return Form((), column.whole, column.unit, column.slip[:, None])
