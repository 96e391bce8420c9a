"""Figures of an evaluation in floats hold for every program that the model allows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from reconstruct.certificates import certify
from reconstruct.networks import Affine, Box, Diagonal, Network, Node, Norm, Scaling
from tests.proofs_check.certificates.making import certified, edit

TERMS = 600
UNIT = 2.0**-24
DROP = np.float32(0.75 * UNIT)  # less than half of the distance from 1 to the float before it


def behind_a_long_sum(op: Diagonal) -> tuple[Network, Box]:
    """The map adds up 600 numbers, each too small to move the 1 that comes behind it."""
    nodes = (Node("sum", Affine(np.ones((1, TERMS))), ("x",)), Node("shift", op, ("sum",)))
    return Network(TERMS, nodes, "shift", "x"), Box(0.0, float(DROP)).of_size(TERMS)


def norm(gamma: float, mean: float, var: float, beta: float = 1.0) -> Norm:
    return Norm([gamma], [beta], [mean], [var], eps=2.0**-17)


SHIFTS = {
    "a drawn norm": norm(1.0, 0.0, 1 - 2.0**-17),
    "a norm with statistics": norm(0.5, 2.0**-30, 0.25 - 2.0**-17),
    "a scaling": Scaling([1.0], [1.0], [1.0]),
}


def folded(op: Diagonal, x: np.ndarray) -> float:
    """The map and what is behind it as one sum that begins with the shift, in float32."""
    scale, shift = (part.astype(np.float32) for part in op.effective())
    total = shift[0]
    for value in x.astype(np.float32):
        total = np.float32(total + np.float32(scale[0] * value))
    return float(total)


def exact(op: Diagonal, x: np.ndarray) -> Fraction:
    scale, shift = (part[0][0] for part in op.rationals(200))
    return Fraction(scale * sum(map(Fraction, x.tolist())) + shift)


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_may_be_what_a_sum_begins_with(name, tmp_path) -> None:
    op = SHIFTS[name]
    network, box = behind_a_long_sum(op)
    made = certified(tmp_path, network, network, box)
    error = float(abs(Fraction(folded(op, box.hi)) - exact(op, box.hi)))
    assert 100 * UNIT < error <= made.float32_bound
    report = check(tmp_path)
    assert report.accepted and "float32_bound" in report.verified, report
    edit(tmp_path, "float32_bound", value=error.hex())
    assert check(tmp_path).status is CheckStatus.REJECTED


def test_a_norm_whose_scale_is_gamma_counts_no_root_and_no_quotient() -> None:
    """The same function with var + eps = 1 exactly and with another root of the same scale."""
    plain, other = (norm(g, 0.0, g**2 - 2.0**-17, beta=0.0) for g in (1.0, 2.0))
    box = Box(-1.0, 1.0).of_size(1)
    found = []
    for op in (plain, other):
        network = Network(1, (Node("norm", op, ("x",)),), "norm", "x")
        found.append(certify(network, network, domain=box).float32_bound)
    assert found[0] < 0.5 * found[1]


def test_a_unit_variance_counts_only_where_the_format_holds_it() -> None:
    """1 − 1e-5 is no float32: its cast and eps add up to another number than 1."""
    box = Box(-1.0, 1.0).of_size(1)
    eps = float(np.float32(1e-5))
    op = Norm([1.0], [0.0], [0.0], [1 - eps], eps=eps)
    network = Network(1, (Node("norm", op, ("x",)),), "norm", "x")
    bound = certify(network, network, domain=box).float32_bound
    x = np.float32(1.0)
    found = x / np.sqrt(np.float32(1 - eps) + np.float32(eps))
    assert abs(float(found) - 1.0) <= bound
    assert bound > 8 * UNIT  # the casts of var and eps are counted
