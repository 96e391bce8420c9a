"""Searched slopes: the gradient, what is kept, and that any slopes whatever give true bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Crown, reach
from reconstruct.bounds.leaning import LEVELS, Slopes
from reconstruct.bounds.propagation import propagate
from reconstruct.bounds.relaxed import Relaxed
from reconstruct.bounds.slopes import Rows, SlopeSearch
from reconstruct.errors import InputError
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Clip,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Relu,
)
from reconstruct.runs.defaults import default_bounds

from .cases import points_of, random_box, random_network
from .rational import holds, rational_forms, rational_values

SEARCH = Adaptive(boxes=1)  # a box of few inputs, too, is not cut then


def deep(activation=None, sizes=(20, 12, 10, 8, 3), seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, k)) for k, m in pairwise(sizes)]
    biases = [0.3 * rng.normal(size=m) for m in sizes[1:]]
    return Network.mlp(weights, biases, activation=activation or Relu())


def skipping() -> Network:
    """A skip around two activations, so that coefficients meet."""
    rng = np.random.default_rng(5)
    nodes = (
        Node("a", Affine(rng.normal(size=(7, 20)), rng.normal(size=7)), ("input",)),
        Node("b", Relu(), ("a",)),
        Node("c", Affine(rng.normal(size=(7, 7)), rng.normal(size=7)), ("b",)),
        Node("d", LeakyRelu(0.2), ("c",)),
        Node("e", Add(), ("d", "b")),
        Node("f", Relu(), ("e",)),
        Node("g", Affine(rng.normal(size=(2, 7))), ("f",)),
    )
    return Network(20, nodes, "g")


def any_slopes(network: Network, rng: np.random.Generator) -> Slopes:
    """Bytes at random, for every activation and every set."""
    bent = [node.name for node in network.activation_nodes()]
    rows = {n: rng.integers(0, 256, network.sizes[n], dtype=np.uint8).tobytes() for n in bent}
    return Slopes({name: dict(rows) for name in bent})


# --- the gradient ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "network",
    [
        deep(),
        deep(LeakyRelu(0.1)),
        deep(LeakyRelu(2.5)),
        deep(Clip(0.2, 60.0)),
        deep(Clip(-60.0, 0.2)),
        skipping(),
    ],
    ids=["relu", "leaky", "steep", "foot", "head", "skip"],
)
def test_the_gradient_is_that_of_finite_differences(network):
    box = Box(-0.1, 0.12).of_size(20)
    state = propagate(network, box.lo[None], box.hi[None], backward=True)
    rng = np.random.default_rng(1)
    bent = [n.name for n in network.activation_nodes()]
    shares = {name: rng.uniform(0.2, 0.8, size=(1, network.sizes[name])) for name in bent}
    forms, weights = {bent[-1]: rng.normal(size=(6, network.sizes[bent[-1]]))}, rng.random(6)
    relaxed = Relaxed.of(state)
    climb = relaxed.climb(shares, forms, weights)

    def total(moved) -> float:
        return float(relaxed.climb(moved, forms, weights).low @ weights)

    step, moving = 1e-6, 0
    for name in bent:
        numeric = np.zeros(network.sizes[name])
        for i in range(len(numeric)):
            ends = []
            for sign in (1, -1):
                moved = shares[name].copy()
                moved[0, i] += sign * step
                ends.append(total({**shares, name: moved}))
            numeric[i] = (ends[0] - ends[1]) / (2 * step)
        moving += int(np.count_nonzero(numeric))
        scale = max(1e-3, np.abs(numeric).max())
        np.testing.assert_allclose(climb.slope[name], numeric, rtol=1e-4, atol=1e-5 * scale)
    assert moving >= 10  # else nothing was compared


# --- what it gains --------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [deep(), deep(LeakyRelu(0.1)), skipping()])
def test_ranges_are_never_wider_than_those_of_crown_and_often_narrower(network):
    box = Box(-1, 1).of_size(20)
    plain, found = reach(network, box, Crown()), reach(network, box, Adaptive())
    rng, gains = np.random.default_rng(2), []
    for name, size in network.sizes.items():
        forms = rng.normal(size=(16, size))
        before, after = plain.functionals(name, forms), found.functionals(name, forms)
        room = 1e-12 * np.abs(before).max()
        assert (after[0] >= before[0] - room).all() and (after[1] <= before[1] + room).all()
        gains.append(1 - np.sum(after[1] - after[0]) / np.sum(before[1] - before[0]))
    assert found.whole.leaning and max(gains) > 0.02


def test_what_gains_nothing_is_not_kept():
    """One unit per functional: flat or steep is best, and both were there."""
    network = Network.mlp([np.eye(18), np.ones((1, 18))], None)
    assert not reach(network, Box(-1, 1), Adaptive()).whole.leaning


def test_networks_that_do_not_bend_are_not_searched():
    network = deep()
    far = network.with_ops({"layer1": Affine(np.zeros((12, 20)), np.ones(12))})
    point = reach(far, Box(0, 1), Adaptive())
    assert point.slopes == Slopes({}) and reach(far, Box(0, 1), Crown()).slopes is None
    assert not reach(deep(Elu()), Box(-1, 1), Adaptive()).whole.leaning


def test_a_search_is_the_same_each_time_and_is_taken_up_again():
    network, box = deep(), Box(-1, 1).of_size(20)
    first, second = (reach(network, box, Adaptive()) for _ in range(2))
    assert first.slopes == second.slopes and first.slopes.sets
    again = reach(network, box, first.again)
    assert again.slopes == first.slopes
    assert np.array_equal(again.bounds("layer4"), first.bounds("layer4"))
    assert first.serves(network, box, first.again)
    other = Slopes({name: {} for name in first.slopes.sets})
    assert not first.serves(network, box, Adaptive(slopes=other))


def test_a_time_limit_ends_the_search():
    network, box = deep(), Box(-1, 1).of_size(20)
    short = SlopeSearch(network, 0.0)
    state = propagate(network, box.lo[None], box.hi[None], backward=True, choose=short)
    plain = reach(network, box, Crown())
    assert set(short.shares) == {"act1", "act2", "act3"}
    assert (state.values["layer4"][0] >= plain.whole.values["layer4"][0] - 1e-9).all()


def test_rows_weigh_alike():
    rows = Rows.drawn({"h": 5, "z": 3}, "h", "z", np.random.default_rng(0))
    assert rows.kinds == (32, 3)
    assert rows.forms["h"].shape == (70, 5) and rows.forms["z"].shape == (70, 3)
    low = -np.concatenate([np.full(32, 1.0), np.full(3, 4.0)] * 2)
    assert rows.widths(low) == [2.0, 8.0]
    assert -low @ rows.weights([2.0, 8.0]) == pytest.approx(1.0)


def test_it_is_what_is_meant_where_there_are_many_inputs():
    for inputs, cut in ((8, True), (9, False), (16, False), (17, False)):
        method = default_bounds(Network.mlp([np.ones((2, inputs))], None))
        assert method.cutting(inputs) is cut
    assert Adaptive().cutting(16) and not Adaptive().cutting(17)


# --- soundness ------------------------------------------------------------------------------------


def check(network: Network, box: Box, method: Adaptive, rng) -> None:
    box = box.of_size(network.size_in)
    found = reach(network, box, method)
    forms = {n: rng.normal(size=(3, size)) for n, size in network.sizes.items()}
    linear = {n: found.functionals(n, a, np.zeros(3)) for n, a in forms.items()}
    bounds = {name: found.bounds(name) for name in forms}
    for point in points_of(box, 3, rng):
        exact = rational_values(network, point)
        for name, value in exact.items():
            assert holds(bounds[name], value), name
            assert holds(linear[name], rational_forms(forms[name], value, np.zeros(3))), name


@pytest.mark.parametrize("seed", range(40))
def test_any_slopes_give_bounds_that_hold(seed):
    """Searched ones and bytes at random; dead units, thin boxes and wild weights among them."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in)
    slopes = any_slopes(network, rng) if seed % 2 else None
    check(network, box, replace(SEARCH, slopes=slopes), rng)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_wild_scales(scale):
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(4, 4)) * s for s in (scale, 1 / scale, scale, scale)]
    network = Network.mlp(weights, [rng.normal(size=4) for _ in weights])
    check(network, Box(-1, 1), SEARCH, rng)
    check(network, Box(-1, 1), replace(SEARCH, slopes=any_slopes(network, rng)), rng)


@pytest.mark.parametrize("op", [Relu(), LeakyRelu(0.1), LeakyRelu(2.5), Clip(-0.5, 1.0), Elu()])
def test_lines_of_any_share_lie_on_their_side(op):
    rng = np.random.default_rng(0)
    lo = rng.normal(size=(1, 300)) - 1
    hi = lo + 3 * rng.random((1, 300))
    shares = rng.integers(0, LEVELS + 1, size=(1, 300)) / LEVELS
    band = op.band(lo, hi, shares=shares)
    for t in np.linspace(0, 1, 41):
        z = np.clip(lo + t * (hi - lo), lo, hi)
        below, above = op.enclose(z)
        room = 1e-12
        assert (band.lower_slope * z + band.lower <= above + room).all()
        assert (band.upper_slope * z + band.upper >= below - room).all()


def test_ends_of_the_shares_are_the_slopes_of_the_pieces():
    op, lo, hi = LeakyRelu(0.1), np.array([[-1.0]]), np.array([[2.0]])
    bends = op.bends(lo, hi)
    assert bends.slope(np.array([[0.0]])) == 0.1 and bends.slope(np.array([[1.0]])) == 1.0
    head = Clip(-1.0, 1.0).bends(np.array([[0.0, -2.0]]), np.array([[2.0, 2.0]]))
    assert head.above.tolist() == [[True, False]] and not head.below.any()


@pytest.mark.parametrize(
    ("slopes", "message"),
    [
        (Slopes({"act1": {"act1": b"\0"}}), "1 of them are given for 'act1'"),
        (Slopes({"act1": {"layer1": bytes(12)}}), "12 of them are given for 'layer1'"),
        (Slopes({"nobody": {"act1": bytes(12)}}), "those of this network"),
    ],
)
def test_slopes_of_another_network_are_refused(slopes, message):
    with pytest.raises(InputError, match=message):
        reach(deep(), Box(-1, 1), Adaptive(slopes=slopes))


def test_slopes_are_those_of_a_search():
    with pytest.raises(InputError, match=r"reach\.slopes, but are of the type dict"):
        Adaptive(slopes={})
