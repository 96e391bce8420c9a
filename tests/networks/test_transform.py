"""Folding and merging keep the function; what was merged is told."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.networks import (
    Add,
    Affine,
    Dense,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Placement,
    Relu,
    Select,
)
from reconstruct.networks.normal_form import fold_norms, normal_form


def norm(rng, size):
    return Norm(
        rng.normal(size=size), rng.normal(size=size), rng.normal(size=size), rng.random(size), 1e-3
    )


def tangled(rng) -> Network:
    """Norms after maps, sums and activations; a run of maps; a branch that is used twice."""
    nodes = (
        Node("a", Affine(rng.normal(size=(4, 3)), rng.normal(size=4)), ("input",)),
        Node("na", norm(rng, 4), ("a",)),
        Node("b", Affine(rng.normal(size=(5, 4))), ("na",)),
        Node("relu", Relu(), ("b",)),
        Node("nr", norm(rng, 5), ("relu",)),
        Node("c", Affine(rng.normal(size=(2, 5))), ("nr",)),
        Node("cut", Select(1, 3), ("input",)),
        Node("d", Affine(rng.normal(size=(2, 2))), ("cut",)),
        Node("sum", Add(), ("c", "d")),
        Node("ns", norm(rng, 2), ("sum",)),
        Node("leaky", LeakyRelu(0.1), ("ns",)),
        Node("again", Add(), ("leaky", "d")),
        Node("unused", Relu(), ("a",)),
    )
    return Network(3, nodes, "again")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("merge", [True, False])
def test_normal_form_is_the_same_function(seed, merge):
    rng = np.random.default_rng(seed)
    network = tangled(rng)
    form = normal_form(network, merge=merge)
    x = rng.normal(size=(20, 3))
    np.testing.assert_allclose(form.network(x), network(x), rtol=1e-11, atol=1e-12)
    assert not form.network.norm_nodes()
    kinds = {type(n.op) for n in form.network.nodes}
    assert kinds <= {Dense, Relu, LeakyRelu, Add}
    if merge:
        assert form.merged["b"] == ("a", "na", "b")
        assert form.merged["c"] == ("nr", "c")


@pytest.mark.parametrize("op", [Placement([2, 1, 0], 3), Placement([2, -1, 2], 3), Select(0, 2)])
def test_values_that_are_only_moved_are_no_map_to_rebuild(op):
    """Neither ahead of several maps, nor behind an activation; merged where one map takes them."""
    size = op.size(3)
    nodes = (
        Node("moved", op, ("input",)),
        Node("a", Affine(np.ones((3, size))), ("moved",)),
        Node("b", Affine(np.eye(3, size)), ("moved",)),
        Node("sum", Add(), ("a", "b")),
        Node("again", op, ("sum",)),
        Node("c", Affine(np.ones((1, size))), ("again",)),
    )
    network = Network(3, nodes, "c")
    form = normal_form(network)
    assert list(form.chains) == ["a", "b", "c"] and form.merged == {"c": ("again", "c")}
    assert form.network.node("moved") == nodes[0]
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(form.network(x), network(x), rtol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_folding_norms_is_the_same_function(seed):
    rng = np.random.default_rng(seed)
    network = tangled(rng)
    folded = fold_norms(network)
    assert not folded.norm_nodes()
    x = rng.normal(size=(20, 3))
    np.testing.assert_allclose(folded(x), network(x), rtol=1e-11, atol=1e-12)


def test_a_norm_after_a_sum_goes_into_both_branches():
    rng = np.random.default_rng(0)
    nodes = (
        Node("a", Affine(rng.normal(size=(4, 3))), ("input",)),
        Node("b", Affine(rng.normal(size=(4, 3))), ("input",)),
        Node("sum", Add(), ("a", "b")),
        Node("n", norm(rng, 4), ("sum",)),
    )
    network = Network(3, nodes, "n")
    folded = fold_norms(network)
    assert [n.name for n in folded.nodes] == ["a", "b", "sum"]
    x = rng.normal(size=(9, 3))
    np.testing.assert_allclose(folded(x), network(x), rtol=1e-12, atol=1e-12)


def test_runs_are_merged_unless_they_are_used_twice():
    maps = [np.ones((2, 2)), 2 * np.eye(2), 3 * np.eye(2)]
    nodes = tuple(
        Node(f"m{i}", Affine(w), (f"m{i - 1}" if i else "input",)) for i, w in enumerate(maps)
    )
    run = Network(2, nodes, "m2")
    assert normal_form(run).network.maps == ((2, 2),)
    assert normal_form(run).merged == {"m2": ("m0", "m1", "m2")}
    assert len(normal_form(run, merge=False).network.maps) == 3
    shared = Network(2, (*nodes, Node("sum", Add(), ("m0", "m2"))), "sum")
    assert "m0" in normal_form(shared).chains


def test_prune_drops_what_the_output_does_not_need():
    network = tangled(np.random.default_rng(0))
    assert "unused" not in {n.name for n in network.ending_at(network.output).nodes}
