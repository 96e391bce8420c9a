"""Hidden layers in tiles: the same values, and never an array of hidden units × batch."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Geometry,
    Network,
    Node,
    Norm,
    Relu,
    evaluation,
)


def dense_site(width: int = 700) -> Network:
    rng = np.random.default_rng(0)
    norm = Norm(*rng.normal(size=(3, width)), rng.uniform(1, 2, width))
    nodes = (
        Node("M1", Affine(rng.normal(size=(width, 6)).astype(np.float32)), ("input",)),
        Node("N1", norm, ("M1",)),
        Node("act", Relu(), ("N1",)),
        Node("M2", Affine(rng.normal(size=(4, width)), rng.normal(size=4)), ("act",)),
        Node("N2", Norm.neutral(4), ("M2",)),
    )
    return Network(6, nodes, "N2")


def image_site(width: int = 300) -> Network:
    rng = np.random.default_rng(1)
    first = Geometry(2, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1))
    back = Geometry(width, 5, 5, (1, 1))
    norm = Norm(*rng.normal(size=(3, width)), rng.uniform(1, 2, width), positions=25)
    nodes = (
        Node("M1", Convolution(rng.normal(size=(width, 2, 3, 3)), first), ("input",)),
        Node("N1", norm, ("M1",)),
        Node("act", Relu(), ("N1",)),
        Node("M2", Convolution(rng.normal(size=(2, width, 1, 1)), back, [1.0, 2.0]), ("act",)),
    )
    return Network(50, nodes, "M2")


@pytest.mark.parametrize("network", [dense_site(), image_site()], ids=["dense", "image"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tiles_do_not_change_the_value(network, dtype, monkeypatch):
    monkeypatch.setattr(evaluation, "TILE_ELEMENTS", 1000)
    x = np.random.default_rng(2).normal(size=(9, network.size_in)).astype(dtype)
    plain = network.values(x, dtype)[network.output]
    assert len(evaluation.bottlenecks(network)) == 1
    scale = np.abs(plain).max() * network.sizes["M1"]
    assert np.abs(network(x, dtype) - plain).max() <= scale * np.finfo(dtype).eps
    assert network(x, dtype).dtype == dtype


def test_the_hidden_layer_is_never_held_whole(monkeypatch):
    monkeypatch.setattr(evaluation, "TILE_ELEMENTS", 2**14)
    network = dense_site(4096)
    x = np.zeros((1000, 6))
    network(x[:2])
    tracemalloc.start()
    network(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4096 * 1000 * 8 / 4


def test_a_hidden_value_that_is_used_twice_is_computed_as_it_stands():
    network = dense_site()
    more = Node("M3", Affine(np.ones((4, 700))), ("act",))
    both = Network(6, (*network.nodes, more, Node("sum", Add(), ("N2", "M3"))), "sum")
    assert evaluation.bottlenecks(both) == {}
    x = np.random.default_rng(3).normal(size=(5, 6))
    np.testing.assert_allclose(both(x), both.values(x)["sum"], rtol=1e-12)


@pytest.mark.parametrize("network", [dense_site(), image_site()], ids=["dense", "image"])
def test_extremes_of_hidden_layers_are_seen_tile_by_tile(network, monkeypatch):
    monkeypatch.setattr(evaluation, "TILE_ELEMENTS", 1)
    x = np.random.default_rng(4).uniform(-1, 1, (7, network.size_in))
    names = [node.name for node in network.nodes]
    found = network.extremes(x, names)
    assert set(network._hidden) & set(names)
    for name, value in network.values(x).items():
        if name in found:
            low, high = found[name]
            assert np.allclose(low, value.min(axis=1), rtol=1e-12, atol=1e-12)
            assert np.allclose(high, value.max(axis=1), rtol=1e-12, atol=1e-12)
