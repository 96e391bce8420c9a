"""What a network takes: points, rows and images; and what it refuses, with both shapes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.errors import InputError
from reconstruct.networks.graph import fitting
from tests.networks.test_images import small_network

IMAGES = np.random.default_rng(0).uniform(0, 0.5, (4, 2, 6, 6))


def test_images_are_taken_as_their_rows():
    network = small_network()
    rows = IMAGES.reshape(4, 72)
    assert np.array_equal(network(IMAGES), network(rows))
    assert np.array_equal(network(IMAGES[:1]), network(rows[:1]))
    assert np.array_equal(network(rows[0]), network(rows)[0])
    assert np.array_equal(network(IMAGES.reshape(4, 2, 36)), network(rows))
    assert network(IMAGES[:0]).shape == (0, 2)
    for name, values in network.values(IMAGES).items():
        assert np.array_equal(values, network.values(rows)[name])


def test_the_margin_takes_images():
    network = small_network()
    result = rc.reconstruct(network, rc.draw(network), domain=rc.Points(IMAGES))
    assert np.array_equal(result.margin(IMAGES), result.margin(IMAGES.reshape(4, 72)))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (IMAGES[0], r"images of 2×6×6.* of 72 numbers, .* shape \(2, 6, 6\); .*, or N×2×6×6"),
        (IMAGES.transpose(0, 2, 3, 1), r"images of 2×6×6, channels first.* shape \(4, 6, 6, 2\)"),
        (IMAGES[:, :1], r"of 72 numbers, but got an array of shape \(4, 1, 6, 6\)"),
        (np.zeros(71), r"72 numbers, but got an array of shape \(71,\); give \(72,\) for one"),
        (IMAGES.astype(complex), "must be real numbers, but are complex; give their real part"),
        ([[1, 2], [3]], r"must be numbers, but are \[\[1, 2\], \[3\]\] of the type list"),
    ],
)
def test_other_inputs_are_refused_with_both_shapes(x, message):
    network = small_network()
    for call in (network, network.values, lambda x: network.extremes(x, {"o"})):
        with warnings.catch_warnings(), pytest.raises(InputError, match=message):
            warnings.simplefilter("error")
            call(x)


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, complex, int])
def test_other_precisions_are_refused(dtype):
    with pytest.raises(InputError, match="evaluated in float32 or float64, but the dtype is"):
        small_network()(IMAGES, dtype)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (IMAGES[:, :1], r"takes images of 2×6×6 .*, but x holds images of 1×6×6, 36 numbers each"),
        (np.zeros((1, 2, 7, 7)), r"images of 2×6×6 .*, but x holds images of 2×7×7, 98 numbers"),
        (IMAGES.transpose(0, 3, 2, 1), "but x holds images of 6×6×2, 72 numbers each; bring"),
        (np.zeros((1, 5)), r"images of 2×6×6 .*, but the points have 5 coordinates each"),
    ],
)
def test_data_of_another_shape_are_refused_with_both(x, message):
    with pytest.raises(InputError, match=message):
        fitting(rc.Points(x), small_network())
    with pytest.raises(InputError, match=message):
        rc.reconstruct(small_network(), rc.draw(small_network()), domain=rc.Points(x))


@pytest.mark.parametrize(
    ("slack", "message"),
    [
        (-1, "slack must be a finite number of at least 0, but is -1"),
        (float("nan"), "slack must be a finite number of at least 0, but is nan"),
        ("1", "slack must be a number, but is '1' of the type str; write 1 without quotes"),
        (
            1e300,
            r"below 1e\+150 .* up to 5\.0e-01, reach 2e\+299 .* slack of 1e\+300; use",
        ),
    ],
)
def test_a_slack_that_is_none_is_refused(slack, message):
    network = small_network()
    with pytest.raises(InputError, match=message):
        rc.reconstruct(network, rc.draw(network), domain=rc.Points(IMAGES), slack=slack)


def test_inputs_that_overflow_are_refused_without_warnings():
    network = rc.Network.mlp([np.ones((2, 3)), np.ones((1, 2))])
    for x in (np.full((2, 3), 1e308), np.diag([1e308, -1e308, 1e308])):
        with warnings.catch_warnings(), pytest.raises(InputError, match="reach inf; use a smaller"):
            warnings.simplefilter("error")
            rc.reconstruct(network, rc.draw(network), domain=rc.Points(x))
