"""Lines around activations: below and above at every point, exactly on straight pieces."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.networks import Clip, Elu, LeakyRelu, Relu, Selu

STRAIGHT = [Relu(), LeakyRelu(0.01), LeakyRelu(3.0), LeakyRelu(-0.5), Clip(-1, 1), Clip(0.5, 6)]
ENDS = st.floats(-1e200, 1e200) | st.floats(-10, 10) | st.sampled_from([0.0, -0.0, 1.0, -1.0])


def exact(op, z: Fraction) -> Fraction:
    if isinstance(op, Clip):
        return min(max(z, Fraction(op.lo)), Fraction(op.hi))
    left = Fraction(op.slope) if isinstance(op, LeakyRelu) else Fraction(0)
    return z if z >= 0 else left * z


@pytest.mark.parametrize("op", STRAIGHT, ids=repr)
@given(ENDS, ENDS, st.floats(0, 1))
def test_the_band_holds_everywhere_in_exact_arithmetic(op, first, second, weight):
    lo, hi = np.array([[min(first, second)]]), np.array([[max(first, second)]])
    band = op.band(lo, hi)
    below, above = op.image(lo, hi)
    middle = Fraction(lo[0, 0]) + Fraction(weight) * (Fraction(hi[0, 0]) - Fraction(lo[0, 0]))
    kinks = [Fraction(k) for k in (0.0, -1.0, 1.0, 0.5, 6.0) if lo[0, 0] <= k <= hi[0, 0]]
    for z in [Fraction(lo[0, 0]), Fraction(hi[0, 0]), middle, *kinks]:
        value = exact(op, z)
        slopes = [Fraction(s[0, 0]) for s in (band.lower_slope, band.upper_slope)]
        assert slopes[0] * z + Fraction(band.lower[0, 0]) <= value
        assert slopes[1] * z + Fraction(band.upper[0, 0]) >= value
        assert Fraction(below[0, 0]) <= value <= Fraction(above[0, 0])


@pytest.mark.parametrize("op", [*STRAIGHT, Elu(), Elu(0.3), Selu()], ids=repr)
def test_a_straight_piece_is_its_own_band(op):
    lo, hi = np.array([[0.55]]), np.array([[0.9]])
    band = op.band(lo, hi)
    assert op.straight(lo, hi).all()
    assert band.lower_slope == band.upper_slope == op.piece.slope
    assert abs(band.lower[0, 0]) <= 1e-15 and abs(band.upper[0, 0]) <= 1e-15


@pytest.mark.parametrize("op", [Elu(), Elu(0.3), Elu(-2.0), Selu()], ids=repr)
def test_curved_activations_stay_in_their_band(op):
    rng = np.random.default_rng(0)
    ends = np.sort(rng.normal(size=(2, 1, 500)) * 4, axis=0)
    band = op.band(ends[0], ends[1])
    for weight in np.linspace(0, 1, 21):
        z = ends[0] + weight * (ends[1] - ends[0])
        value = op(z)
        slack = 1e-12  # float evaluation of the activation itself
        assert np.all(band.lower_slope * z + band.lower <= value + slack)
        assert np.all(band.upper_slope * z + band.upper >= value - slack)


def test_relu_has_the_chord_above_and_the_better_support_below():
    lo, hi = np.array([[-1.0, -3.0, 0.0, -2.0]]), np.array([[3.0, 1.0, 2.0, 0.0]])
    band = Relu().band(lo, hi)
    assert np.allclose(band.upper_slope, [[0.75, 0.25, 1, 0]], rtol=1e-15)
    assert np.allclose(band.upper, [[0.75, 0.75, 0, 0]], rtol=1e-15)
    assert np.array_equal(band.lower_slope, [[1, 0, 1, 0]])
    assert np.array_equal(band.lower, [[0, 0, 0, 0]])


def test_infinite_ends_give_no_nan_in_the_range():
    lo, hi = np.array([[-np.inf, -1.0]]), np.array([[1.0, np.inf]])
    for op in [*STRAIGHT, Elu(), Selu()]:
        assert not np.isnan(op.image(lo, hi)).any()
