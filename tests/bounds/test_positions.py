"""Kernels that move over images: the bounds of the worst position hold, by either way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.bounds import Crown, Reach, reach
from reconstruct.bounds.propagation import Ranges
from reconstruct.networks import Box, Convolution, Geometry, Network, Points
from tests.constructions.test_images import GEOMETRIES, one_convolution


def reach_of(ranges: Ranges) -> Reach:
    return Reach(ranges.network, Box(-1.0, 1.0), Crown(), ranges)


@pytest.mark.parametrize("width", [0.0, 2.0**-45, 2.0**-22, 0.3])
@pytest.mark.parametrize("power", [0, -160, 150])
def test_the_worst_position_bounds_what_rationals_give(width: float, power: int) -> None:
    """Squares of 10^-160 are no floats any more, and those of 10^150 nearly none."""
    rng = np.random.default_rng(3)
    middle = rng.normal(size=(2, 7)) * 10.0**power
    lo, hi = middle - width * np.abs(middle), middle + width * np.abs(middle)
    index = rng.integers(-1, 7, size=(3, 5))
    kernel = rng.normal(size=(4, 3))
    ranges = Ranges(Network.mlp([np.ones((7, 7))]), {"input": (lo, hi)}, ())
    low, high = reach_of(ranges).windows("input", kernel, index)
    for row, least, most in zip(kernel, low, high, strict=True):
        for below, above in zip(lo, hi, strict=True):
            for places in index.T:
                seen = [(w, p) for w, p in zip(row, places, strict=True) if p >= 0]
                ends = [
                    sorted((Fraction(w) * Fraction(below[p]), Fraction(w) * Fraction(above[p])))
                    for w, p in seen
                ]
                assert Fraction(least) <= sum(small for small, _ in ends)
                assert Fraction(most) >= sum(large for _, large in ends)
    scale = np.abs(kernel).sum(axis=1) * np.abs(middle).max()
    assert np.all(high - low <= 2.1 * scale)


def test_what_is_not_known_is_not_bounded() -> None:
    ranges = Ranges(
        Network.mlp([np.ones((2, 2))]), {"input": (np.full((1, 2), -np.inf), np.ones((1, 2)))}, ()
    )
    low, high = reach_of(ranges).windows("input", np.array([[1.0]]), np.array([[0, 1]]))
    assert low == -np.inf and high == np.inf


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("domain", [Box(-0.3, 0.4), "data"], ids=repr)
def test_no_position_of_an_image_leaves_the_bounds(name, domain) -> None:
    network = one_convolution(name)
    rng = np.random.default_rng(0)
    if domain == "data":
        domain = Points(rng.uniform(-0.3, 0.4, (2, network.size_in)), 0.02)
    op = network.node("c").op
    assert isinstance(op, Convolution)
    index = Geometry(*op.out_shape, (2, 2), (1, 1), (1, 0, 0, 1)).windows()
    kernel = rng.normal(size=(6, len(index)))
    low, high = reach(network, domain).windows("r", kernel, index)
    x = domain.of_size(network.size_in).sample(200, rng)
    h = np.concatenate([network(x), np.zeros((len(x), 1))], axis=1)
    values = np.einsum("rk,nkp->nrp", kernel, h[:, index])
    assert np.all(low <= values.min(axis=(0, 2)) + 1e-13)
    assert np.all(values.max(axis=(0, 2)) - 1e-13 <= high)


@pytest.mark.parametrize("tiny", [False, True])
def test_what_a_narrow_window_rounds_is_counted(tiny: bool) -> None:
    """Products that cancel, and products of 3/4 of the least float, each of which becomes one."""
    rng = np.random.default_rng(3)
    kernel, middle = rng.normal(size=(20, 64)), rng.normal(size=(64, 1))
    if tiny:
        kernel, middle = np.full((1, 64), 2.0**-560), np.full((64, 1), 1.5 * 2.0**-515)
    known = Ranges(Network.mlp([np.ones((64, 64))]), {"input": (middle.T, middle.T)}, ())
    low, high = reach_of(known).windows("input", kernel, np.arange(64)[:, None])
    for row, below, above in zip(kernel.tolist(), low.tolist(), high.tolist(), strict=True):
        pairs = zip(row, middle[:, 0].tolist(), strict=True)
        true = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
        assert Fraction(below) <= true <= Fraction(above)
