"""The general method: never below an exact difference, certifies equal networks, meets others."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.bounds.branching import looseness
from reconstruct.bounds.partition import BranchAndBound
from reconstruct.bounds.propagation import propagate
from reconstruct.certificates import certify
from reconstruct.equivalence.branch_and_bound import (
    _Difference,
    bound_difference,
    difference_network,
)
from reconstruct.equivalence.search import search
from reconstruct.errors import InputError
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    LeakyRelu,
    Mixing,
    Network,
    Node,
    Points,
    Relu,
    dense,
)
from reconstruct.progress import OutOfTime


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
        if isinstance(node.op, Mixing):
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
        assert result.bound == np.inf or exact_gap(first, second, point) <= Fraction(result.bound)


def test_no_box_is_lost_when_the_time_is_over():
    """Whatever moment the clock stops at, the bound covers every box that was cut."""
    first, second = pair(3, noise=0.5)
    box = Box(-1, 1).of_size(2)
    worst = exact_gap(first, second, search(first, second, box, samples=200).worst)
    work = _Difference(difference_network(first, second), box, 0.0, seconds=60.0)
    found = BranchAndBound(box.lo[None], box.hi[None])
    for _ in range(5):
        found.advance(work, found.worst(0.0, 8))
    work.deadline = 0.0
    opened = len(found.lo)
    with pytest.raises(OutOfTime):
        found.advance(work, found.worst(0.0, 8))
    assert opened > 1 and len(found.lo) == opened
    assert worst <= Fraction(float(found.excess.max()))


@pytest.mark.parametrize("seed", range(5))
def test_permuted_and_scaled_units_are_certified_in_one_box(seed):
    first, second = pair(seed, noise=0.0)
    result = bound_difference(first, second, Box(-1, 1), tolerance=1e-10, time_limit=60)
    assert result.certified and result.boxes == 1
    assert result.open_boxes == 0 and result.suspect is None


def split_units(network: Network, rng) -> Network:
    """Each first unit as u = relu(u) − relu(−u) and a ReLU one layer later: the same function."""
    weights = [dense(n.op.weight) for n in network.mixing_nodes()]
    biases = [n.op.bias for n in network.mixing_nodes()]
    scale = 2.0 ** rng.integers(-2, 3, len(biases[0]))
    both = np.concatenate([weights[0] * scale[:, None], -weights[0]])
    offsets = np.concatenate([biases[0] * scale, -biases[0]])
    join = np.concatenate([np.diag(1 / scale), -np.eye(len(scale))], axis=1)
    return Network.mlp([both, join, *weights[1:]], [offsets, np.zeros(len(scale)), *biases[1:]])


@pytest.mark.parametrize("seed", range(5))
def test_units_split_in_two_and_joined_again_are_certified(seed):
    first, _ = pair(seed, noise=0.0)
    second = split_units(first, np.random.default_rng(seed))
    for target, candidate in ((first, second), (second, first)):
        result = bound_difference(target, candidate, Box(-1, 1), tolerance=1e-10, time_limit=60)
        assert result.certified and result.boxes == 1


def test_a_constant_between_units_is_no_factor():
    """Biases off by 1e-6: a factor near 1 fits samples as well, and is far off at the corners."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(1.0, 2.0, (12, 40)), rng.normal(size=(2, 12))
    bias = -first.sum(axis=1) / 4  # on [0, 1]^40 the units are mostly active
    target = Network.mlp([first, second], [bias, np.zeros(2)])
    moved = Network.mlp([first, second], [bias + 1e-6, np.zeros(2)])
    found = bound_difference(target, moved, Box(0.0, 1.0).of_size(40), time_limit=0.0)
    assert found.bound <= 1.001e-6 * np.abs(second).sum(axis=1).max()


@pytest.mark.parametrize("seed", range(40))
def test_nearly_alike_units_never_hide_a_difference(seed):
    """Pairs are guessed from samples: what separates them has to be inside of the bound."""
    rng = np.random.default_rng(200 + seed)
    first, second = pair(seed, noise=float(rng.choice([1e-12, 1e-7, 1e-5])))
    if seed % 2:
        second = split_units(second, rng)
    box = Box(-1, 1).of_size(2)
    result = bound_difference(first, second, box, tolerance=1.0, time_limit=5)
    assert result.boxes == 1
    for point in [*box.corners(4, rng), *box.sample(12, rng)]:
        assert exact_gap(first, second, point) <= Fraction(result.bound)
    seen = search(first, second, box, samples=200, seed=seed)
    assert exact_gap(first, second, seen.worst) <= Fraction(result.bound)
    assert result.bound <= 1e4 * seen.float64_max


def test_a_pair_that_parts_in_a_corner_is_bounded_there():
    """Alike at every probe, but for a unit that wakes up where x₁ + … + x₆ > 5.99."""
    rng = np.random.default_rng(7)
    weight, out = rng.normal(size=(4, 6)), rng.normal(size=(1, 4))
    first = Network.mlp([weight, out], None)
    hidden = np.concatenate([weight, np.ones((1, 6))])
    second = Network.mlp([hidden, np.append(out, [[3.0]], axis=1)], [[0, 0, 0, 0, -5.99], [0]])
    result = bound_difference(first, second, Box(-1, 1), tolerance=1e-6, time_limit=1)
    assert not result.certified
    assert exact_gap(first, second, np.ones(6)) <= Fraction(result.bound)


def test_the_coordinate_to_halve_is_not_told_by_the_middle_alone():
    """At the middle a dead unit hides all that depends on the first input."""
    weights = [np.eye(2), np.array([[4.0, 0.3]]), np.ones((1, 1))]
    biases = [np.array([-0.25, 2.0]), np.array([-0.65]), np.zeros(1)]
    target = Network.mlp(weights, biases)
    candidate = Network.mlp([*weights[:2], 0.5 * weights[2]], biases)
    box = Box(-1.0, 1.0).of_size(2)
    state = propagate(
        difference_network(target, candidate), box.lo[None], box.hi[None], backward=True
    )
    seeds = {"difference": np.ones((1, 1))}
    middle, several = (looseness(state, seeds, points)[0] for points in (1, 4))
    assert middle[1] > middle[0] and several[0] > several[1]


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
    with pytest.raises(InputError, match="the target has 2 and 2, the candidate has 3 and 2"):
        difference_network(Network.mlp([np.eye(2)]), Network.mlp([np.ones((2, 3))]))


def test_the_time_limit_is_kept_and_the_bound_still_holds():
    first, second = pair(2, noise=0.0)
    second = Network.mlp(
        [dense(n.op.weight) for n in second.mixing_nodes()],
        [n.op.bias for n in second.mixing_nodes()],
        activation=LeakyRelu(1e-9),  # not a ReLU: no pairs, and too near to be told apart
    )
    result = bound_difference(first, second, Box(-1, 1), tolerance=1e-6, time_limit=0.2)
    assert result.seconds < 5
    assert 0 < result.bound < np.inf
    assert not result.certified and "time" in result.tried


def test_a_point_is_one_box_and_says_so():
    first, second = pair(3, noise=0.0)
    result = bound_difference(first, second, Box(0.5, 0.5), tolerance=0.0, time_limit=5)
    assert result.boxes == 1 and result.bound < 1e-12
    assert "divided" in result.tried


def test_more_boxes_never_loosen_the_bound():
    first, second = pair(4, noise=0.0)
    bounds = [
        bound_difference(first, second, Box(-1, 1), tolerance=t, time_limit=10).bound
        for t in (10.0, 1.0, 1e-14)
    ]
    assert bounds == sorted(bounds, reverse=True)


def bump() -> tuple[Network, Network]:
    """Nothing, and what is nothing but between −1 and 1."""
    ones, kinks = np.ones((3, 1)), np.array([1.0, 0.0, -1.0])
    nothing = Network.mlp([ones, np.zeros((1, 3))], [kinks, np.zeros(1)])
    return nothing, Network.mlp([ones, np.array([[1.0, -2.0, 1.0]])], [kinks, np.zeros(1)])


@pytest.mark.parametrize("radius", [0.0, 0.5])
def test_of_data_nothing_between_the_inputs_is_bounded(radius):
    """On the hull there is an input where the two differ by 1, and it is none of the data."""
    first, second = bump()
    data = Points([[-2.0], [1.75], [3.0]], radius)
    found = bound_difference(first, second, data, tolerance=1e-9, time_limit=5)
    assert found.certified and found.suspect is None and found.boxes == 3 and not found.open_boxes
    hull = bound_difference(first, second, Box(data.lo, data.hi), tolerance=1e-9, time_limit=5)
    assert not hull.certified and hull.suspect is not None
    certificate = certify(first, second, domain=data, tolerance=1e-9, time_limit=5)
    assert certificate.verdict == "certified"


def test_an_input_among_many_where_they_differ_is_met():
    first, second = bump()
    data = Points(np.concatenate([np.linspace(2, 9, 600), [0.25]])[:, None])
    found = bound_difference(first, second, data, tolerance=1e-9, time_limit=5)
    assert found.bound >= 0.75 and found.suspect == (0.25,) and found.open_boxes == 1
    late = bound_difference(first, second, data, tolerance=1e-9, time_limit=0.0)
    assert late.bound >= 0.75  # what was not bounded is not forgotten


@pytest.mark.parametrize("seed", range(8))
def test_no_exact_difference_at_data_exceeds_the_bound(seed):
    rng = np.random.default_rng(300 + seed)
    first, second = pair(seed, noise=float(rng.choice([0.0, 1e-3])))
    data = Points(rng.normal(size=(5, 2)), float(rng.choice([0.0, 0.1])))
    result = bound_difference(first, second, data, tolerance=1e-4, time_limit=0.2)
    for point in [*data.x, *data.sample(4, rng)]:
        assert exact_gap(first, second, point) <= Fraction(result.bound)


def test_a_bound_that_is_nothing_but_rounding_leaves_as_much_to_the_checker():
    """Pairs of which branch and bound proved 0 and 1.2e-17, and the checker 8e-323 and 1.7e-17:
    found by the attacks."""
    from benchmarks.attack.pairs import pairs
    from benchmarks.attack.registry import generator

    for seed, index in ((5001, 44), (7001, 45)):
        assert pairs(generator("pairs", seed, index)).violation is None
