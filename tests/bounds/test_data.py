"""Bounds on domains made of data: they hold on every box around a point, and on no more."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.bounds import Crown, Interval, reach
from reconstruct.bounds.at_points import ranges_at
from reconstruct.errors import InputError
from reconstruct.networks import Box, Network, Points
from tests.networks.test_images import small_network


def network() -> Network:
    rng = np.random.default_rng(0)
    return Network.mlp([rng.normal(size=(7, 3)), rng.normal(size=(5, 7)), rng.normal(size=(2, 5))])


@pytest.mark.parametrize("method", [Interval(), Crown()], ids=repr)
@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_bounds_hold_on_every_box_and_are_tighter_than_on_the_hull(method, radius):
    net, rng = network(), np.random.default_rng(1)
    points = Points(rng.uniform(-1, 1, (20, 3)), radius)
    known, hull = reach(net, points, method), reach(net, Box(points.lo, points.hi), method)
    values = net.values(points.sample(400, rng))
    forms = rng.normal(size=(4, 5))
    for name in net.sizes:
        lo, hi = known.bounds(name)
        slack = 1e-13 * (1 + np.abs(values[name]))
        assert np.all(values[name] >= lo - slack) and np.all(values[name] <= hi + slack), name
    lo, hi = known.functionals("act2", forms)
    seen = values["act2"] @ forms.T
    assert np.all(seen >= lo - 1e-12) and np.all(seen <= hi + 1e-12)
    wide = hull.functionals("act2", forms)
    assert np.all(hi - lo <= wide[1] - wide[0])
    assert np.mean(hi - lo) < 0.7 * np.mean(wide[1] - wide[0])


def test_points_without_a_radius_are_bounded_to_rounding():
    net = network()
    points = Points(np.array([[0.1, 0.2, -0.3]]))
    lo, hi = reach(net, points).bounds(net.output)
    assert np.all(hi - lo <= 1e-12) and np.all(lo <= net(points.x[0]) + 1e-15)


def test_samples_and_corners_stay_inside():
    rng = np.random.default_rng(2)
    points = Points(rng.normal(size=(5, 4)), 0.25)
    for x in (*points.sample(50, rng), *points.corners(20, rng)):
        assert points.contains(x)
    assert not points.contains(points.x[0] + 10)
    assert Points(points.x).sample(99, rng).shape == (5, 4)


@pytest.mark.parametrize(
    ("x", "radius", "message"),
    [
        (np.zeros((0, 3)), 0.0, r"at least one, but x holds no inputs: it has shape \(0, 3\)"),
        (np.zeros((3, 0)), 0.0, r"but x holds no numbers: it has shape \(3, 0\)"),
        ([[1, 2], [3]], 0.0, r"different lengths \(2 and 1\); bring inputs of one shape"),
        ([[0, 2**60 + 1]], 0.0, "at most 2\\^53, .*, but has 1152921504606846977; save float64"),
        ([[-(2**53) - 1]], 0.0, "at most 2\\^53, .*, but has -9007199254740993"),
        ([[1j]], 0.0, "must be real numbers, but have the type complex128"),
        (np.zeros(3), 0.0, r"put a single input into a list"),
        ([[0.0, np.nan]], 0.0, "1 of 2 entries are NaN"),
        ([[0.0]], -1.0, "radius must be a finite number of at least 0, but is -1"),
        ([["a"]], 0.0, "points must be real numbers, but have the type <U1"),
    ],
)
def test_bad_data_is_refused_in_a_sentence(x, radius, message):
    with pytest.raises(InputError, match=message):
        Points(x, radius)


def test_data_of_another_size_is_refused_with_both_numbers():
    with pytest.raises(InputError, match="has 3 inputs, but the points have 4"):
        reach(network(), Points(np.zeros((2, 4))))


def test_bounds_at_given_inputs_are_those_of_the_evaluation():
    """Nothing is carried back from a point: its values are its bounds."""
    network = small_network()
    x = np.random.default_rng(0).uniform(-0.3, 0.4, (3, 72))
    known, found = reach(network, Points(x)), ranges_at(network, x)
    for name, (lo, hi) in found.items():
        low, high = known.bounds(name)
        assert np.array_equal(low, lo.min(axis=0)) and np.array_equal(high, hi.max(axis=0)), name
