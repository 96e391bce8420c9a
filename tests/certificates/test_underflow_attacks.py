"""Attacks by underflow on errors that are propagated: each was a false certificate, or a crash.

Numbers are extreme, but they are floats, and a target may have them.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from reconstruct.bounds import Crown
from reconstruct.certificates import certify
from reconstruct.equivalence.witness import Evaluator
from reconstruct.networks import Affine, Box, Network
from tests.proofs_check.certificates.making import certified, edit

BOX = Box(-1.0, 1.0).of_size(1)


def underflowing(
    large: int = 490, small: int = -860, bias: int = 370
) -> tuple[Network, Network, float]:
    """Two chains of one unit each. In the second an error of 2^bias meets a weight of 2^small and
    wakes a dead unit."""
    first = np.ones((2, 1))
    second = np.diag([1.0, 2.0**small])
    biases = [np.array([0.0, 2.0**bias]), np.array([10.0, -1.5 * 2.0 ** (small + bias)])]
    target = Network.mlp([first, second, np.full((1, 2), 2.0**large)], [*biases, np.zeros(1)])
    name = target.mixing_nodes()[0].name
    other = target.with_ops({name: Affine(first, np.array([0.0, 1.75 * 2.0**bias]))})
    return target, other, 0.25 * 2.0 ** (large + small + bias)


def true_gap(target: Network, other: Network, x: np.ndarray) -> Fraction:
    pairs = zip(Evaluator(target)(x), Evaluator(other)(x), strict=True)
    return max(max(a - d, c - b) for (a, b), (c, d) in pairs)


@pytest.mark.parametrize("sizes", [(480, -850, 350), (490, -860, 370), (490, -870, 380)])
def test_maps_that_underflow_are_not_forgotten(sizes) -> None:
    target, other, gap = underflowing(*sizes)
    assert true_gap(target, other, np.ones(1)) >= gap
    found = certify(target, other, domain=BOX, bounds=Crown(), tolerance=1e300)
    assert found.bound is None or found.bound >= gap  # 9e-14 was certified where 0.25 is true


def test_the_checker_does_not_forget_them_either(tmp_path) -> None:
    target, other, gap = underflowing()
    certified(tmp_path, target, other, BOX, bounds=Crown(), tolerance=1.0)
    edit(tmp_path, "bound", value=(1e-6 * gap).hex())
    for field in ("float64_bound", "float32_bound"):
        edit(tmp_path, field, value=None)
    assert check(tmp_path).status is CheckStatus.REJECTED


def chain(weights: list[float], biases: list[float]) -> Network:
    """One unit after the other."""
    maps = [np.full((1, 1), w) for w in weights]
    return Network.mlp(maps, [np.full(1, b) for b in biases])


def with_first_bias(target: Network, bias: float) -> Network:
    node = target.mixing_nodes()[0]
    return target.with_ops({node.name: Affine(node.op.matrix, np.full(1, bias))})


def vanishing() -> tuple[Network, Network, Box]:
    """Two maps whose product is no float, behind an error that is large enough to matter."""
    target = chain([1.0, 2.0**-600, 2.0**-600, 2.0**800], [2.0**400, 0.0, 0.0, 0.0])
    return target, with_first_bias(target, 1.75 * 2.0**400), Box(-0.5, 0.5).of_size(1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_products_of_maps_that_underflow_are_not_forgotten() -> None:
    target, other, box = vanishing()
    gap = true_gap(target, other, np.zeros(1))
    assert gap == Fraction(3, 4)
    found = certify(target, other, domain=box, bounds=Crown(), tolerance=1.0)
    assert found.bound is None or found.bound >= gap  # 4e-15 was certified


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_checker_does_not_forget_products_either(tmp_path) -> None:
    certified(tmp_path, *vanishing(), bounds=Crown(), tolerance=1.0)
    edit(tmp_path, "bound", value=(1e-6).hex())
    for field in ("float64_bound", "float32_bound"):
        edit(tmp_path, field, value=None)
    assert check(tmp_path).status is CheckStatus.REJECTED


def test_what_cancels_is_accepted_by_the_checker(tmp_path) -> None:
    """Rounding of the maps is then all there is, and the checker counts more of it."""
    maps = [np.ones((1, 1)), np.ones((2, 1)), np.array([[1.0, -1.0]]), np.ones((1, 1))]
    target = Network.mlp(
        maps, [np.full(1, 5.0), np.array([1.0, 2.0]), np.full(1, 5.0), np.zeros(1)]
    )
    certified(tmp_path, target, with_first_bias(target, 5.001), BOX, bounds=Crown(), tolerance=1.0)
    report = check(tmp_path)
    assert report.accepted, report
