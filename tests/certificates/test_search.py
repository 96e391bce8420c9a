"""The search finds planted differences, its gradients are right, and it stays in the box."""

from __future__ import annotations

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from reconstruct.certificates.certify import measured
from reconstruct.equivalence.search import search
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Clip,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
    Select,
    Selu,
)
from reconstruct.networks.graph import gradient


def small(seed: int = 0, sizes: tuple[int, ...] = (3, 8, 8, 2)) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, k)) for k, m in pairwise(sizes)]
    return Network.mlp(weights, [rng.normal(size=m) for m in sizes[1:]])


def every_operation() -> Network:
    rng = np.random.default_rng(1)
    norm = Norm(rng.normal(size=4), rng.normal(size=4), rng.normal(size=4), rng.random(4) + 0.5)
    nodes = (
        Node("a", Affine(rng.normal(size=(4, 3)), rng.normal(size=4)), ("input",)),
        Node("b", norm, ("a",)),
        Node("c", LeakyRelu(0.1), ("b",)),
        Node("d", Elu(), ("a",)),
        Node("e", Selu(), ("d",)),
        Node("f", Clip(-0.7, 0.9), ("c",)),
        Node("g", Add(), ("e", "f", "c")),
        Node("h", Select(1, 3), ("g",)),
        Node("i", Relu(), ("h",)),
    )
    return Network(3, nodes, "i")


def test_gradient_agrees_with_differences_along_random_directions():
    network = every_operation()
    rng = np.random.default_rng(2)
    points, seeds = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    step = 1e-6 * rng.normal(size=(20, 3))
    slopes = gradient(network, network.values(points), "i", seeds)
    change = np.sum(seeds * (network(points + step) - network(points - step)), axis=1) / 2
    smooth = np.abs(np.sum(slopes * step, axis=1) - change) < 1e-10
    assert smooth.mean() >= 0.9  # a step may cross a kink


def test_equal_networks_differ_by_nothing():
    found = search(small(), small(), Box(-1, 1), samples=500)
    assert found.float64_max == 0.0
    assert found.target_float32_max == found.float32_max > 0


def test_a_difference_in_a_corner_is_found():
    """f − g = max(0, 10·(x₁ + x₂ + x₃) − 29.99): not zero on a 1e-10 part of the box only."""
    target = Network.mlp([np.zeros((1, 3)), [[1.0]]], None)
    candidate = Network.mlp([np.full((1, 3), 10.0), [[1.0]]], [[-29.99], [0.0]])
    found = search(target, candidate, Box(-1, 1), samples=50, seed=3)
    assert found.float64_max == pytest.approx(0.01)
    assert found.worst == (1.0, 1.0, 1.0)


def test_a_unit_that_leaves_its_piece_in_high_dimension_is_found():
    """A shift that is too small by 1 %: the unit is inactive in one of 2^40 corners only."""
    rng = np.random.default_rng(4)
    weight = rng.normal(size=(1, 40))
    reach = np.abs(weight).sum()
    target = Network.mlp([weight], None)
    candidate = Network.mlp([weight, [[1.0]]], [[0.99 * reach], [-0.99 * reach]])
    found = search(target, candidate, Box(-1, 1), samples=2000)
    assert found.float64_max == pytest.approx(0.01 * reach, rel=1e-6)


def test_all_points_lie_in_the_box_and_the_worst_is_replayable():
    box = Box([-1.0, 0.25, 3.0], [-0.5, 0.25, 4.0])
    first, second = small(0), small(1)
    found = search(first, second, box, samples=200)
    for gap, point in found.points:
        assert box.contains(np.array(point))
        assert np.max(np.abs(first(point) - second(point))) == pytest.approx(gap, rel=1e-12)
    assert found.points[0] == (found.float64_max, found.worst)


def test_the_search_beats_its_samples_and_repeats_itself():
    first, second = small(0, (30, 8, 2)), small(1, (30, 8, 2))
    found = search(first, second, Box(-1, 1), samples=300, seed=5)
    sampled = search(first, second, Box(-1, 1), samples=300, seed=5, restarts=0)
    assert found.float64_max > sampled.float64_max
    again = search(first, second, Box(-1, 1), samples=300, seed=5)
    assert (found.float64_max, found.worst) == (again.float64_max, again.worst)


def test_samples_are_counted_and_a_time_limit_is_kept():
    found = search(small(0), small(1), Box(-1, 1), samples=3000)
    assert found.samples == 3000
    short = search(small(0), small(1), Box(-1, 1), samples=10**6, time_limit=0.0)
    assert 0 < short.samples < 10**6
    assert short.seconds < 5


def test_the_json_is_plain_and_finite():
    found = search(small(0), small(1), Box(-1, 1), samples=100)
    text = json.dumps(found.as_json(), allow_nan=False)
    assert json.loads(text)["worst"][0]["difference"] == found.float64_max


def test_overflow_is_reported_as_infinite_and_not_as_a_witness():
    huge = Network.mlp([np.full((4, 3), 1e200), np.full((1, 4), 1e200)], None)
    found = search(huge, small(0, (3, 4, 1)), Box(0.5, 1), samples=100)
    assert found.float64_max == np.inf


def test_large_networks_are_measured_at_fewer_inputs() -> None:
    def of(weights: int) -> int:
        return measured(cast(Network, SimpleNamespace(weights=weights)))

    assert [of(n) for n in (0, 2**20, 2**28, 2**40)] == [1000, 1000, 256, 100]
