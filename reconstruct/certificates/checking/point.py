"""One point, evaluated again in exact arithmetic: the checker's view of a witness."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from reconstruct.certificates.checking.claims import CheckFailed, Claims
from reconstruct.certificates.checking.forms import Form, Forms, constant_form, to_integers, up
from reconstruct.networks import Activation, Clip, LeakyRelu, Network, Relu


def check_witness(claims: Claims) -> None:
    """The point is inside the box, and the networks differ there by what is claimed."""
    witness = claims.document.get("witness")
    if not isinstance(witness, dict):
        raise CheckFailed("witness", "a refuted verdict needs a witness, but there is none")
    try:
        point = np.array([float.fromhex(x) for x in witness["point"]])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise CheckFailed("witness.point", "hex floats are needed") from None
    box = claims.domain
    flat = box.lo == box.hi
    if point.shape != box.lo.shape:
        raise CheckFailed("witness.point", f"{box.size} numbers are needed, but {point.size} came")
    inside = flat & (point == box.lo) | (point > box.lo) & (point < box.hi)
    if not inside.all():
        raise CheckFailed("witness.point", "the point is not inside of the domain")
    first, second = (evaluate(network, point) for network in (claims.target, claims.candidate))
    gaps = [max(a - d, c - b) for (a, b), (c, d) in zip(first, second, strict=True)]
    claimed = claims.fraction(witness.get("difference"), "witness.difference")
    if not max(gaps) >= claimed:
        raise CheckFailed("witness.difference", f"only {float(max(gaps))} follows")
    tolerance = claims.number("tolerance")
    if tolerance is None or not claimed > Fraction(tolerance):
        raise CheckFailed("witness.difference", "it is not above the tolerance")


class _Constants(Forms):
    """Forms without sources: every node's value is a constant vector."""

    def __init__(self, network: Network, point: Any) -> None:
        super().__init__(network, {})
        self.values = {network.source: constant_form(*to_integers(point))}

    def rows(self, name: str, start: int, stop: int) -> Form:
        if name not in self.values:
            node = self.nodes[name]
            if isinstance(node.op, Activation):
                self.values[name] = _bent(node.op, self.whole(node.inputs[0]))
            else:
                self.values[name] = super().rows(name, 0, self.network.sizes[name])
        return self.values[name].rows(start, stop)


def evaluate(network: Network, point: Any) -> list[tuple[Fraction, Fraction]]:
    """Rational bounds of each output."""
    constants = _Constants(network, point)
    for node in network.nodes:
        constants.whole(node.name)
    last = constants.whole(network.output)
    pairs = zip(last.integers[:, 0].tolist(), last.radius[:, 0].tolist(), strict=True)
    unit = last.denominator
    return [(Fraction(n, unit) - Fraction(r), Fraction(n, unit) + Fraction(r)) for n, r in pairs]


def _bent(op: Any, form: Form) -> Form:
    """An activation of constants: exact in the middle, its Lipschitz constant on the radius."""
    numbers, unit, radius = form.integers, form.denominator, form.radius
    if radius.any():
        radius = up(radius * op.lipschitz)
    if isinstance(op, Relu):
        return Form((), np.maximum(numbers, 0), unit, radius)
    if isinstance(op, LeakyRelu):
        slope, more = to_integers(op.slope)
        bent = np.where(numbers >= 0, numbers * more, numbers * int(slope))
        return Form((), bent, unit * more, radius)
    if isinstance(op, Clip):
        for end, pick in ((op.lo, np.maximum), (op.hi, np.minimum)):
            if np.isfinite(end):  # an end at infinity clips nothing
                whole, more = to_integers(np.array([end]))
                numbers, unit = pick(numbers * more, int(whole[0]) * unit), unit * more
        return Form((), numbers, unit, radius)
    smooth = op((numbers / unit).astype(np.float64))  # exp is not rational: floats, ± 2^-40
    doubt = up(2.0**-40 * (np.abs(smooth) + op.lipschitz) + radius)
    return Form((), *to_integers(smooth), doubt)
