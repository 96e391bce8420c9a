"""Partitions: the tree, bounds on its boxes, and the branch and bound that finds it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Crown, Partition, Reach, reach
from reconstruct.bounds.branching import find_partition
from reconstruct.bounds.partition import BranchAndBound
from reconstruct.errors import InputError
from reconstruct.networks import Box, Network

from .cases import random_box, random_network
from .rational import holds, rational_forms, rational_values


def wiggly(seed: int = 0, sizes=(2, 12, 12, 12, 3)) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, k)) for k, m in pairwise(sizes)]
    return Network.mlp(weights, [0.5 * rng.normal(size=m) for m in sizes[1:]])


# --- the tree -------------------------------------------------------------------------------------


def test_boxes_cover_the_domain_and_their_faces_meet():
    cuts = Partition(2, bytes([1, 2, 0, 0, 0]))
    lo, hi = cuts.boxes(Box([0, 0], [1, 3]))
    assert lo.tolist() == [[0, 0], [0, 1.5], [0.5, 0]]
    assert hi.tolist() == [[0.5, 1.5], [0.5, 3], [1, 3]]
    assert np.prod(hi - lo, axis=1).sum() == 3.0


@pytest.mark.parametrize("seed", range(20))
def test_the_partition_that_was_found_is_the_one_that_is_read(seed):
    rng = np.random.default_rng(seed)
    found = BranchAndBound(-np.ones((1, 3)), np.ones((1, 3)))

    def objective(lo, hi):
        return 1 + rng.random(len(lo)), rng.integers(0, 3, size=len(lo))

    for _ in range(7):
        found.advance(objective, found.worst(0.0, int(rng.integers(1, 9))))
    partition = found.partition()
    lo, hi = partition.boxes(Box(-1, 1).of_size(3))
    assert len(lo) == len(found.lo) == partition.count
    assert {tuple(row) for row in np.hstack([lo, hi])} == {
        tuple(row) for row in np.hstack([found.lo, found.hi])
    }
    assert np.prod(hi - lo, axis=1).sum() == pytest.approx(8.0, rel=1e-12)


def test_the_worst_boxes_are_halved_and_halves_are_never_worse():
    found = BranchAndBound(np.zeros((1, 1)), np.ones((1, 1)))

    def objective(lo, hi):  # worse to the right, and no better for being small
        return 1 + hi[:, 0], np.zeros(len(lo), dtype=int)

    for _ in range(4):
        found.advance(objective, found.worst(1.6, 1))
    assert np.all(found.excess <= 2.0) and found.evaluated == 7
    assert found.hi[found.excess.argmax(), 0] == 1.0
    assert found.lo.max() == 0.875  # the last box was halved three times
    assert not len(found.worst(2.0, 9))


def test_a_box_of_no_width_is_not_halved():
    found = BranchAndBound(np.ones((1, 1)), np.ones((1, 1)))
    found.advance(lambda lo, hi: (np.ones(1), np.zeros(1, dtype=int)), found.worst(0.0, 1))
    assert not len(found.worst(0.0, 1))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (b"", "lacks 1 of its boxes"),
        (bytes([1, 0]), "lacks 1 of its boxes"),
        (bytes([0, 0]), "byte 1 of the partition"),
        (bytes([3, 0, 0]), "at most 2 and part of its tree, but is 3"),
    ],
)
def test_what_is_no_tree_is_refused(code, message):
    with pytest.raises(InputError, match=message):
        Partition(2, code)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"seconds": -1.0}, "≥ 0, but got -1"), ({"boxes": 0}, "at least 1 box, but got 0")],
)
def test_a_search_needs_a_budget(settings, message):
    with pytest.raises(InputError, match=message):
        Adaptive(**settings)


# --- soundness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_any_partition_gives_bounds_that_hold(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in).of_size(network.size_in)
    axes = rng.integers(0, network.size_in, size=1)
    partition = Partition(network.size_in, bytes([int(axes[0]) + 1, 0, 0]))
    found = reach(network, box, Adaptive(), partition=partition)
    forms = {n: rng.normal(size=(3, size)) for n, size in network.sizes.items()}
    linear = {n: found.functionals(n, a, np.zeros(3)) for n, a in forms.items()}
    for point in [box.lo, box.hi, *box.sample(3, rng)]:
        exact = rational_values(network, point)
        for name, value in exact.items():
            assert holds(found.bounds(name), value), name
            assert holds(linear[name], rational_forms(forms[name], value, np.zeros(3))), name


@pytest.mark.parametrize("width", [0.0, 1e-300, 2.0**-40, 1e-9])
def test_thin_boxes(width):
    network = wiggly(3)
    box = Box([-0.25, 0.5], [-0.25 + width, 0.5])
    found = reach(network, box, Adaptive(boxes=64))
    rng = np.random.default_rng(0)
    for point in [box.lo, box.hi, *box.sample(3, rng)]:
        exact = rational_values(network, point)
        for name, value in exact.items():
            assert holds(found.bounds(name), value), name


@pytest.mark.parametrize("size", [1e-200, 1e100, 1e200])
def test_values_beyond_floats_bound_nothing_or_rightly(size):
    rng = np.random.default_rng(1)
    weights = [size * rng.normal(size=(3, 3)), size * rng.normal(size=(3, 3)), np.eye(3)]
    network = Network.mlp(weights, None)
    box = Box(-1, 1).of_size(3)
    found = reach(network, box, Adaptive(boxes=64))
    forms = rng.normal(size=(4, 3))
    for point in box.sample(4, rng):
        exact = rational_values(network, point)
        for name, value in exact.items():
            assert holds(found.bounds(name), value), name
            offsets = np.zeros(4)
            linear = found.functionals(name, forms, offsets)
            assert holds(linear, rational_forms(forms, value, offsets)), name


# --- tightness ------------------------------------------------------------------------------------


def test_ranges_come_close_to_samples_where_crown_does_not():
    network, box = wiggly(), Box(-1, 1).of_size(2)
    rng = np.random.default_rng(9)
    forms = rng.normal(size=(40, 12))
    rows = network.values(box.sample(20_000, rng))["act3"] @ forms.T
    spread = np.ptp(rows, axis=0)

    def excess(method) -> float:
        lo, hi = reach(network, box, method).functionals("act3", forms)
        assert (lo <= rows.min(axis=0)).all() and (hi >= rows.max(axis=0)).all()
        return float(np.mean((hi - lo) / spread)) - 1

    loose, tight = excess(Crown()), excess(Adaptive(boxes=2000))
    assert loose > 2.0 and tight < 0.15
    assert excess(Adaptive(boxes=100)) < loose


def test_the_same_search_finds_the_same_partition():
    network, box = wiggly(4), Box(-1, 1).of_size(2)
    known = reach(network, box).whole.values
    first, second = (find_partition(network, box, known, 500) for _ in range(2))
    assert first == second and first.count > 100


def test_a_partition_is_used_again_without_a_search():
    network, box = wiggly(5), Box(-1, 1).of_size(2)
    first = reach(network, box, Adaptive(boxes=400))
    again = reach(network, box, Adaptive(), partition=first.partition)
    assert again.partition == first.partition
    assert np.array_equal(again.bounds(network.output), first.bounds(network.output))


def test_many_inputs_are_left_to_crown():
    rng = np.random.default_rng(0)
    network = Network.mlp([rng.normal(size=(5, 40)), rng.normal(size=(2, 5))], None)
    box = Box(-1, 1).of_size(40)
    adaptive, crown = reach(network, box, Adaptive()), reach(network, box, Crown())
    assert adaptive.partition is None
    assert np.array_equal(adaptive.bounds("layer2"), crown.bounds("layer2"))


# --- asked for twice ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [Adaptive(boxes=64), Crown()])
def test_functionals_are_bounded_once(monkeypatch, method):
    network, box = wiggly(), Box([-1.0, -1.0], [1.0, 1.0])
    known = reach(network, box, method)
    forms = np.random.default_rng(3).normal(size=(6, 12))
    first = known.functionals("act1", forms)

    def never(*arguments):
        raise AssertionError("bounded again")

    both = np.concatenate([forms, 2 * forms])
    found = known.functionals("act1", both)
    assert np.array_equal(found[0][:6], first[0]) and np.array_equal(found[1][:6], first[1])
    assert np.allclose(found[0][6:], 2 * first[0]) and np.allclose(found[1][6:], 2 * first[1])
    monkeypatch.setattr(Reach, "_bounded", never)
    again = known.functionals("act1", forms[::-1])
    assert np.array_equal(again[0], first[0][::-1])
    assert np.array_equal(again[1], first[1][::-1])
    for name, rows, offsets in (
        ("act2", forms, None),
        ("act1", -forms, None),
        ("act1", forms, np.ones(6)),
    ):
        with pytest.raises(AssertionError, match="bounded again"):
            known.functionals(name, rows, offsets)


@pytest.mark.parametrize("seed", range(20))
def test_values_are_known_on_every_box(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in).of_size(network.size_in)
    partition = Partition(network.size_in, bytes([network.size_in, 1, 0, 0, 0]))
    found = reach(network, box, Adaptive(), partition=partition)
    for number, (lo, hi) in enumerate(zip(*partition.boxes(box), strict=True)):
        for point in [lo, hi, *Box(lo, hi).sample(2, rng)]:
            exact = rational_values(network, point)
            for name, (low, high) in found.parts.values.items():
                assert holds((low[number], high[number]), exact[name]), name


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_are_given_up_early_lose_nothing(seed):
    """The worst over all boxes is no worse than that of the boxes one by one, and it holds."""
    rng = np.random.default_rng(seed)
    found = reach(wiggly(seed), Box(-1, 1), Adaptive(boxes=60))
    forms, offsets = rng.normal(size=(30, 12)), rng.normal(size=30)
    low, high = found.parts.worst_functionals("act3", forms, offsets)
    every = found.parts.functionals("act3", forms, offsets)
    assert np.all(low >= every[0].min(axis=0) - 1e-9)  # ranges on the way may say more
    assert np.all(high <= every[1].max(axis=0) + 1e-9)
    points = found.box.sample(2000, rng)
    reached = found.network.values(points)["act3"] @ forms.T + offsets
    assert np.all(low <= reached.min(axis=0)) and np.all(high >= reached.max(axis=0))
