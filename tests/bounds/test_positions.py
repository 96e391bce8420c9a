"""Kernels that move over images: the bounds of the worst position hold, by either way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.bounds.positions import NARROW, worst_position
from reconstruct.bounds.propagation import Ranges
from reconstruct.networks import Network


@pytest.mark.parametrize("width", [0.0, 2.0**-45, NARROW / 4, 0.3])
@pytest.mark.parametrize("power", [0, -160, 150])
def test_the_worst_position_bounds_what_rationals_give(width: float, power: int) -> None:
    """Squares of 10^-160 are no floats any more, and those of 10^150 nearly none."""
    rng = np.random.default_rng(3)
    middle = rng.normal(size=(2, 7)) * 10.0**power
    lo, hi = middle - width * np.abs(middle), middle + width * np.abs(middle)
    index = rng.integers(-1, 7, size=(3, 5))
    kernel = rng.normal(size=(4, 3))
    ranges = Ranges(Network.mlp([np.ones((7, 7))]), {"input": (lo, hi)}, ())
    low, high = worst_position(ranges, "input", kernel, index)
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
    low, high = worst_position(ranges, "input", np.array([[1.0]]), np.array([[0, 1]]))
    assert low == -np.inf and high == np.inf
