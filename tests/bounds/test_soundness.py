"""No exact value ever lies outside of its bounds: rational arithmetic, corners, zero slack."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from reconstruct.bounds import Adaptive, Crown, Interval, reach
from reconstruct.networks import Affine, Box, Network, Node, Relu

from .cases import points_of, random_box, random_network
from .rational import holds, rational_forms, rational_values

METHODS = [Interval(), Crown(), Adaptive(boxes=48)]


def check(network: Network, box: Box, method, rng) -> None:
    box = box.of_size(network.size_in)
    found = reach(network, box, method)
    names = [network.source, *(n.name for n in network.nodes)]
    bounds = {name: found.bounds(name) for name in names}
    forms = {n: rng.normal(size=(3, network.sizes[n])) for n in names}
    offsets = rng.normal(size=3)
    linear = {n: found.functionals(n, forms[n], offsets) for n in names}
    for point in points_of(box, 4, rng):
        exact = rational_values(network, point)
        for name in names:
            assert holds(bounds[name], exact[name]), (name, point)
            values = rational_forms(forms[name], exact[name], offsets)
            assert holds(linear[name], values), ("functionals", name, point)


@pytest.mark.parametrize("seed", range(250))
def test_random_networks(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in)
    check(network, box, METHODS[seed % len(METHODS)], rng)


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_deep_networks_of_wild_scale_overflow_honestly(method, scale):
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(4, 4)) * s for s in (scale, 1 / scale, scale, scale)]
    network = Network.mlp(weights, [rng.normal(size=4) for _ in weights])
    check(network, Box(-1, 1), method, rng)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_huge_coefficients_meet_tiny_values(method):
    """1e300·(1e-320-sized value): an error term that underflows would be lost here."""
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(3, 3)) * 1e-310, rng.normal(size=(3, 3)), np.eye(3) * 1e300]
    check(Network.mlp(weights, None), Box(-1, 1), method, rng)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_cancellation_far_above_the_result(method):
    """A shift of 1e15 added and taken away again, as in the frozen networks."""
    rng = np.random.default_rng(4)
    first = rng.normal(size=(6, 3))
    second = rng.normal(size=(2, 6))
    shift = np.full(6, 1e15)
    network = Network.mlp([first, second], [shift, -second @ shift])
    check(network, Box(-1, 1), method, rng)


@pytest.mark.parametrize("side", [0.0, 2.0**-60])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_long_sums_that_cancel_in_a_tiny_box(method, side):
    """What rounds here is the sum itself: no side of the box, and no last step, makes up for it."""
    rng = np.random.default_rng(7)
    half = rng.normal(size=(4, 40))
    first = np.concatenate([half, -half * (1 + 2.0**-40)], axis=1)
    network = Network.mlp([first, rng.normal(size=(3, 4)) * 2.0**45], None)
    point = np.tile(rng.normal(size=40), 2)
    point[0] = 0.0
    check(network, Box(point, point + side * (point == 0)), method, rng)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_dead_units_and_zero_rows(method):
    rng = np.random.default_rng(6)
    weight = np.array([[0.0, 0.0], [1.0, -1.0], [-0.0, 2.0]])
    network = Network.mlp([weight, weight.T, weight], [[-1, -9, 0], [0, 0], [0, 0, 0]])
    check(network, Box(-1, 1), method, rng)


def test_zero_bounds_stay_exact():
    """Non-negative weights on a non-negative box: the lower bound is 0, not a hair below."""
    network = Network.mlp([np.ones((3, 3)), np.ones((2, 3))], None)
    for method in METHODS:
        found = reach(network, Box(0, 1), method)
        assert np.array_equal(found.bounds("layer2")[0], np.zeros(2))


def test_sparse_forms_bound_as_dense_ones_do():
    rng = np.random.default_rng(8)
    network = Network.mlp([rng.normal(size=(5, 3)), rng.normal(size=(4, 5))], None)
    forms = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.4)
    found = reach(network, Box(-1, 1))
    first = found.functionals("act1", forms)
    second = found.functionals("act1", sparse.csr_array(forms))
    assert np.array_equal(first, second)


def test_unbounded_values_touch_only_the_rows_that_use_them():
    big = np.array([[1e300, 0.0], [0.0, 1.0]])
    nodes = (
        Node("a", Affine(big), ("input",)),
        Node("b", Affine(big), ("a",)),
        Node("c", Relu(), ("b",)),
        Node("d", Affine(np.array([[1.0, 1.0], [0.0, 1.0]])), ("c",)),
    )
    lo, hi = reach(Network(2, nodes, "d"), Box(-1, 1)).bounds("d")
    assert hi[0] == np.inf
    assert hi[1] <= 1.0000001 and lo[1] >= -1e-9
