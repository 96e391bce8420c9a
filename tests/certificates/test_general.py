"""The general method: never below an exact difference, certifies equal networks, meets others."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.certificates.difference import difference_network
from reconstruct.certificates.general import bound_difference
from reconstruct.errors import InputError
from reconstruct.networks import Add, Affine, Box, Network, Node, Relu, dense


def pair(seed: int, noise: float) -> tuple[Network, Network]:
    """A network, and itself with permuted and scaled hidden units and a little noise."""
    rng = np.random.default_rng(seed)
    sizes = (2, 6, 5, 2)
    first = [rng.normal(size=(sizes[i + 1], sizes[i])) for i in range(3)]
    biases = [rng.normal(size=m) for m in sizes[1:]]
    second, others = [w + noise * rng.normal(size=w.shape) for w in first], list(biases)
    for i in range(2):
        order, scale = rng.permutation(sizes[i + 1]), 2.0 ** rng.integers(-3, 4, sizes[i + 1])
        second[i], others[i] = second[i][order] * scale[:, None], others[i][order] * scale
        second[i + 1] = second[i + 1][:, order] / scale
    return Network.mlp(first, biases), Network.mlp(second, others)


def rational_output(network: Network, point) -> list[Fraction]:
    """The output in exact rationals: an evaluator of the test's own."""
    values = {network.source: [Fraction(float(x)) for x in point]}
    for node in network.nodes:
        inputs = [values[name] for name in node.inputs]
        if isinstance(node.op, Affine):
            weight = [[Fraction(float(a)) for a in row] for row in dense(node.op.weight)]
            values[node.name] = [
                sum((a * h for a, h in zip(row, inputs[0], strict=True)), Fraction(float(b)))
                for row, b in zip(weight, node.op.bias, strict=True)
            ]
        elif isinstance(node.op, Add):
            values[node.name] = [sum(parts, Fraction(0)) for parts in zip(*inputs, strict=True)]
        else:
            assert isinstance(node.op, Relu)
            values[node.name] = [max(z, Fraction(0)) for z in inputs[0]]
    return values[network.output]


def exact_gap(first: Network, second: Network, point) -> Fraction:
    left, right = rational_output(first, point), rational_output(second, point)
    return max(abs(a - b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_no_exact_difference_exceeds_the_bound(seed):
    rng = np.random.default_rng(100 + seed)
    first, second = pair(seed, noise=float(rng.choice([0.0, 1e-14, 1e-3, 1.0])))
    box = Box(-rng.random(2), rng.random(2) * rng.choice([0.0, 1.0]))
    result = bound_difference(first, second, box, tolerance=1e-3, time_limit=0.1)
    for point in [*box.corners(4, rng), *box.sample(8, rng)]:
        assert exact_gap(first, second, point) <= Fraction(result.bound)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_function_in_another_shape_is_certified(seed):
    first, second = pair(seed, noise=0.0)
    result = bound_difference(first, second, Box(-1, 1), tolerance=0.05, time_limit=60)
    assert result.certified and result.bound <= 0.05
    assert result.open_boxes == 0 and result.suspect is None


def test_networks_that_differ_give_an_input_to_replay():
    first, second = pair(0, noise=0.5)
    result = bound_difference(first, second, Box(-1, 1), tolerance=1e-6, time_limit=30)
    assert not result.certified
    assert exact_gap(first, second, result.suspect) > Fraction(1e-6)


def test_the_difference_network_is_the_difference():
    first, second = pair(1, noise=1e-3)
    joint = difference_network(first, second)
    for point in Box(-1, 1).of_size(2).sample(5, np.random.default_rng(0)):
        values = rational_output(joint, point)
        right, left = rational_output(first, point), rational_output(second, point)
        assert values == [a - b for a, b in zip(left, right, strict=True)]


def test_sources_of_any_name_are_shared():
    first = Network(2, (Node("y", Affine(np.eye(2)), ("x",)),), "y", source="x")
    second = Network(2, (Node("x", Relu(), ("input",)),), "x")
    result = bound_difference(first, second, Box(0, 1), tolerance=1e-12, time_limit=5)
    assert result.certified and result.boxes == 1


def test_sizes_that_misfit_are_refused_with_numbers():
    with pytest.raises(InputError, match="target has 2 and the other one 3"):
        difference_network(Network.mlp([np.eye(2)]), Network.mlp([np.ones((2, 3))]))


def test_the_time_limit_is_kept_and_the_bound_still_holds():
    first, second = pair(2, noise=0.0)
    result = bound_difference(first, second, Box(-1, 1), tolerance=0.0, time_limit=0.2)
    assert result.seconds < 5
    assert 0 < result.bound < np.inf
    assert not result.certified and "time" in result.tried


def test_a_point_is_one_box_and_says_so():
    first, second = pair(3, noise=0.0)
    result = bound_difference(first, second, Box(0.5, 0.5), tolerance=0.0, time_limit=5)
    assert result.boxes == 1 and result.bound < 1e-12
    assert "cut" in result.tried


def test_more_boxes_never_loosen_the_bound():
    first, second = pair(4, noise=0.0)
    bounds = [
        bound_difference(first, second, Box(-1, 1), tolerance=t, time_limit=10).bound
        for t in (10.0, 1.0, 0.3)
    ]
    assert bounds == sorted(bounds, reverse=True)
