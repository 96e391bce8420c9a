"""Branch and bound: the tree, the leaves, what is believed and what is not."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Crown, Reach, reach
from reconstruct.bounds.adaptive import Cuts, bound_leaves, find_cuts
from reconstruct.bounds.adaptive.tree import Growing
from reconstruct.bounds.adaptive.worst import Symbols, Worst
from reconstruct.bounds.adaptive.zonotope import MOST_SYMBOLS, Zonotope, activate, of_boxes, tube
from reconstruct.errors import InputError
from reconstruct.networks import Box, Clip, LeakyRelu, Network, Points, Relu

from .cases import random_box, random_network
from .rational import holds, rational_forms, rational_values


def wiggly(seed: int = 0, sizes=(2, 12, 12, 12, 3)) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, k)) for k, m in pairwise(sizes)]
    return Network.mlp(weights, [0.5 * rng.normal(size=m) for m in sizes[1:]])


def certain(network: Network, box: Box):
    whole = reach(network, box, Crown()).whole
    return {name: (lo[0], hi[0]) for name, (lo, hi) in whole.values.items()}


# --- the tree -------------------------------------------------------------------------------------


def test_leaves_cover_the_box_and_their_faces_meet():
    cuts = Cuts(2, bytes([1, 2, 0, 0, 0]))
    lo, hi = cuts.boxes(Box([0, 0], [1, 3]))
    assert lo.tolist() == [[0, 0], [0, 1.5], [0.5, 0]]
    assert hi.tolist() == [[0.5, 1.5], [0.5, 3], [1, 3]]
    assert np.prod(hi - lo, axis=1).sum() == 3.0


@pytest.mark.parametrize("seed", range(20))
def test_a_grown_tree_is_the_tree_that_is_read(seed):
    rng = np.random.default_rng(seed)
    tree, leaves = Growing(3), np.array([0])
    for _ in range(6):
        count = int(rng.integers(1, len(leaves) + 1))
        chosen = rng.choice(len(leaves), count, replace=False)
        new = tree.cut(leaves[chosen], rng.integers(0, 3, size=count))
        leaves = np.concatenate([np.delete(leaves, chosen), new])
    cuts = tree.cuts()
    lo, hi = cuts.boxes(Box(-1, 1).of_size(3))
    assert len(lo) == len(leaves) == cuts.leaves
    assert np.prod(hi - lo, axis=1).sum() == pytest.approx(8.0, rel=1e-12)
    point = rng.uniform(-1, 1, size=3)
    assert ((lo <= point) & (point <= hi)).all(axis=1).any()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (b"", "lacks 1 of its leaves"),
        (bytes([1, 0]), "lacks 1 of its leaves"),
        (bytes([0, 0]), "byte 1 of the tree"),
        (bytes([3, 0, 0]), "at most 2 and part of it, but is 3"),
    ],
)
def test_what_is_no_tree_is_refused(code, message):
    with pytest.raises(InputError, match=message):
        Cuts(2, code)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"seconds": -1.0}, "≥ 0, but got -1"), ({"boxes": 0}, "at least 1 box, but got 0")],
)
def test_a_search_needs_a_budget(settings, message):
    with pytest.raises(InputError, match=message):
        Adaptive(**settings)


# --- soundness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_any_tree_gives_bounds_that_hold(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in).of_size(network.size_in)
    axes = rng.integers(0, network.size_in, size=1)
    cuts = Cuts(network.size_in, bytes([int(axes[0]) + 1, 0, 0]))
    leaves = bound_leaves(network, box, cuts, certain(network, box))
    forms = {n: rng.normal(size=(3, size)) for n, size in network.sizes.items()}
    linear = {n: leaves.functionals(n, a, np.zeros(3)) for n, a in forms.items()}
    for point in [box.lo, box.hi, *box.sample(3, rng)]:
        exact = rational_values(network, point)
        for name, value in exact.items():
            assert holds(leaves.ranges[name], value), name
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


def test_more_symbols_than_are_kept_go_into_the_radius():
    """A layer of 500 bent units: those without a symbol are counted all the same."""
    rng = np.random.default_rng(2)
    network = Network.mlp([rng.normal(size=(500, 2)), rng.normal(size=(2, 500))], None)
    assert network.sizes["act1"] > MOST_SYMBOLS
    box = Box(-1, 1).of_size(2)
    found = reach(network, box, Adaptive(boxes=4))
    for point in [box.lo, box.hi, *box.sample(3, rng)]:
        value = rational_values(network, point)[network.output]
        assert holds(found.bounds(network.output), value)


def test_differences_of_equal_functions_take_no_symbols():
    """Rounding decides whether they bend: merged maps round otherwise, and the same units count."""
    start = of_boxes(-np.ones((1, 2)), np.ones((1, 2)))
    forms = np.concatenate([start.forms, 1e-14 * start.forms, 0.0 * start.forms], axis=2)
    value = Zonotope(np.zeros((1, 6)), forms, np.array([[0.0, 0.0, 1e-15, 0.0, 1e-15, 0.0]]))
    bent = activate(Relu(), value, *value.bounds(), value.symbols)
    assert bent.units.tolist() == [0, 1] and bent.value.symbols == 4
    lo, hi = bent.value.bounds()
    reached = np.array([1.0, 1.0, 1.1e-14, 1e-14, 1e-15, 0.0])
    assert (lo <= 0).all() and (hi >= reached).all() and (hi[0, 2:] < 1e-13).all()


@pytest.mark.parametrize("op", [Relu(), LeakyRelu(0.25), LeakyRelu(3.0), Clip(-0.5, 0.25)])
def test_a_tube_holds_the_function(op):
    ends = np.array([-2.0, -0.5, -1e-300, 0.0, 1e-17, 0.25, 3.0])
    lo, hi = (grid.ravel()[None] for grid in np.meshgrid(ends, ends))
    keep = lo[0] <= hi[0]
    lo, hi = lo[:, keep], hi[:, keep]
    slope, below, above = tube(op, lo, hi)
    for part in np.linspace(0, 1, 11):
        z = np.clip(lo + part * (hi - lo), lo, hi)
        small, large = op.enclose(z)
        room = 1e-15 * (1 + np.abs(slope * z))
        assert (slope * z + below <= large + room).all()
        assert (slope * z + above >= small - room).all()


def test_a_straight_unit_costs_nothing():
    """Bounds on one side of the kink: slope exactly 1 or 0, no symbol, no radius."""
    value = of_boxes(np.array([[1.0, -3.0]]), np.array([[2.0, -1.0]]))
    bent = activate(Relu(), value, *value.bounds(), value.symbols)
    assert bent.value.symbols == value.symbols and not bent.value.radius.any()
    assert bent.value.centre.tolist() == [[1.5, 0.0]]
    assert np.array_equal(bent.value.forms[0], value.forms[0] * [1.0, 0.0])


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


def test_the_same_search_finds_the_same_tree():
    network, box = wiggly(4), Box(-1, 1).of_size(2)
    known = certain(network, box)
    first, second = (find_cuts(network, box, known, 500) for _ in range(2))
    assert first == second and first.leaves > 100


def test_a_tree_is_used_again_without_a_search():
    network, box = wiggly(5), Box(-1, 1).of_size(2)
    first = reach(network, box, Adaptive(boxes=400))
    again = reach(network, box, Adaptive(cuts=first.cuts))
    assert again.cuts == first.cuts
    assert np.array_equal(again.bounds(network.output), first.bounds(network.output))


def test_many_inputs_are_left_to_crown():
    rng = np.random.default_rng(0)
    network = Network.mlp([rng.normal(size=(5, 40)), rng.normal(size=(2, 5))], None)
    box = Box(-1, 1).of_size(40)
    adaptive, crown = reach(network, box, Adaptive()), reach(network, box, Crown())
    assert adaptive.leaves is None
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


def test_bounds_serve_the_same_question_alone():
    network, box = wiggly(), Box([-1.0, -1.0], [1.0, 1.0])
    known = reach(network, box, Adaptive(boxes=64))
    assert known.serves(wiggly(), Box([-1.0, -1.0], [1.0, 1.0]), Adaptive(boxes=64))
    assert known.serves(network, box, Adaptive(boxes=64, cuts=known.cuts))
    assert not known.serves(network, box, Adaptive(boxes=64, cuts=Cuts(2)))
    assert not known.serves(network, box, Adaptive(boxes=65))
    assert not known.serves(network, box, Crown())
    assert not known.serves(network, Box([-1.0, -1.0], [1.0, 2.0]), Adaptive(boxes=64))
    assert not known.serves(network, Points([[0.0, 0.0]]), Adaptive(boxes=64))
    assert not known.serves(wiggly(1), box, Adaptive(boxes=64))


@pytest.mark.parametrize("seed", range(20))
def test_what_activations_take_is_known_on_every_leaf(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in).of_size(network.size_in)
    cuts = Cuts(network.size_in, bytes([network.size_in, 1, 0, 0, 0]))
    leaves = bound_leaves(network, box, cuts, certain(network, box))
    assert leaves.lines and set(leaves.taken) == set(leaves.known)
    for leaf, (lo, hi) in enumerate(zip(leaves.lo, leaves.hi, strict=True)):
        for point in [lo, hi, *Box(lo, hi).sample(2, rng)]:
            exact = rational_values(network, point)
            for name, (low, high) in leaves.taken.items():
                assert holds((low[leaf], high[leaf]), exact[name]), name


def test_lines_on_leaves_tighten_deep_layers(monkeypatch):
    """A random network of six layers: the last activation takes less than three quarters."""
    rng = np.random.default_rng(0)
    sizes = (3, 12, 12, 12, 12, 12, 12, 1)
    shapes = list(zip(sizes[1:], sizes, strict=False))
    network = Network.mlp([rng.normal(size=s) * np.sqrt(2 / s[1]) for s in shapes], None)
    box = Box(-1, 1).of_size(3)
    tree = Cuts(3, bytes([1, 2, 0, 0, 3, 0, 0]))
    with_lines = bound_leaves(network, box, tree, certain(network, box))
    monkeypatch.setattr("reconstruct.bounds.adaptive.leaves.MOST_LINES", 0.0)
    without = bound_leaves(network, box, tree, certain(network, box))
    assert with_lines.lines and not without.lines
    widths = [np.subtract(*found.known["layer6"][::-1]).mean() for found in (with_lines, without)]
    assert widths[0] < 0.75 * widths[1]


@pytest.mark.parametrize("symbols", [9, 5])  # more than units, or not
@pytest.mark.parametrize("seed", range(20))
def test_functionals_of_leaves_hold_whatever_the_sizes(seed, symbols):
    """Rows from 1e-200 to 1e150 and symbols of all sizes: what is reached lies inside."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 5)) * 10.0 ** rng.integers(-200, 150, size=(30, 1))
    rows[0] = 0.0
    forms = rng.normal(size=(4, symbols, 5)) * 10.0 ** rng.integers(-40, 30, size=(4, symbols, 1))
    forms[:, 3] = 0.0
    radius = np.abs(rng.normal(size=(4, 5))) * (seed % 2)
    value = Zonotope(rng.normal(size=(4, 5)) * 10.0 ** (seed % 7), forms, radius)
    nothing = np.array([np.full(30, np.inf), np.full(30, -np.inf)])
    worst = Worst(rows, np.zeros(30), nothing)
    ready, every = Symbols.of(value), np.arange(4)
    everywhere = worst.over(ready)
    beyond = Worst(rows, np.zeros(30), np.zeros((2, 30))).over(ready)
    with np.errstate(all="ignore"):
        sums = worst._sums(value)
        coarse = worst._by_length(ready, sums, every)
        fine = [end.reshape(4, 30) for end in worst._fine(ready, sums, np.ones((4, 30), bool))]
    for box in range(4):
        each = [(found[0][box], found[1][box]) for found in (coarse, fine)]
        at, spread = reached(rows, value.centre[box], forms[box], radius[box])
        for low, high in (*each, everywhere, beyond):
            assert all(x <= c - s for x, c, s in zip(low, at, spread, strict=True))
            assert all(c + s <= x for x, c, s in zip(high, at, spread, strict=True))


def test_many_functionals_are_bounded_as_few_are(monkeypatch):
    """A batch of leaves that is alone shares its rows out; every bound is that of its own row."""
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=shape) for shape in ((12, 2), (12, 12), (2, 12))]
    target, box = Network.mlp(weights, [np.zeros(len(w)) for w in weights]), Box([-1, -1], [1, 1])
    found = reach(target, box, Adaptive(boxes=100))
    rows, offsets = rng.normal(size=(50, 12)), rng.normal(size=50)
    whole = found.leaves.functionals("act2", rows, offsets)
    monkeypatch.setattr("reconstruct.bounds.adaptive.leaves.ROWS", 7)
    parts = found.leaves.functionals("act2", rows, offsets)
    assert all(np.allclose(a, b, rtol=1e-5, atol=0) for a, b in zip(whole, parts, strict=True))
    none = found.leaves.functionals("act2", rows[:0], offsets[:0])
    assert [len(end) for end in none] == [0, 0]


def reached(rows, centre, symbols, radius) -> tuple[list[Fraction], list[Fraction]]:
    """Middle and half width of functionals of a zonotope, exactly."""

    def exactly(values):
        return [Fraction(x) for x in values.tolist()]

    at = rational_forms(rows, exactly(centre), np.zeros(len(rows)))
    spread = rational_forms(np.abs(rows), exactly(radius), np.zeros(len(rows)))
    for symbol in symbols:
        part = rational_forms(rows, exactly(symbol), np.zeros(len(rows)))
        spread = [s + abs(x) for s, x in zip(spread, part, strict=True)]
    return at, spread
