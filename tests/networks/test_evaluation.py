"""Batches in chunks of rows: the same values, and never an array of hidden units × batch."""

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
    operation,
)
from reconstruct.networks.maps import mixing
from reconstruct.networks.operation import WorkLimits


def dense_site(width: int = 700) -> Network:
    rng = np.random.default_rng(0)
    norm = Norm(*rng.normal(size=(3, width)), rng.uniform(1, 2, width))
    nodes = (
        Node("M1", Affine(rng.normal(size=(width, 6)).astype(np.float32)), ("input",)),
        Node("N1", norm, ("M1",)),
        Node("act", Relu(), ("N1",)),
        Node("M2", Affine(rng.normal(size=(4, width)), rng.normal(size=4)), ("act",)),
        Node("M3", Affine(np.ones((4, width))), ("act",)),
        Node("N2", Add(), ("M2", "M3")),
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


def one_by_one(network: Network, x: np.ndarray) -> dict[str, np.ndarray]:
    """Every node's value, one row and one node after the other."""
    rows = []
    for point in x:
        values = {network.source: point[None]}
        for node in network.nodes:
            values[node.name] = node.op(*(values[i] for i in node.inputs))
        rows.append(values)
    return {name: np.concatenate([row[name] for row in rows]) for name in network.sizes}


@pytest.mark.parametrize("network", [dense_site(), image_site()], ids=["dense", "image"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_chunks_and_tiles_change_no_value(network, dtype, monkeypatch):
    for module in (operation, mixing):
        monkeypatch.setattr(module, "LIMITS", WorkLimits(chunk=16000, tile=1000))
    x = np.random.default_rng(2).normal(size=(9, network.size_in)).astype(dtype)
    plain = one_by_one(network, x)
    scale = max(np.abs(v).max() for v in plain.values()) * network.sizes["M1"] * np.finfo(dtype).eps
    assert np.abs(network(x, dtype) - plain[network.output]).max() <= scale
    assert network(x, dtype).dtype == dtype
    for name, value in network.values(x, dtype).items():
        assert np.abs(value - plain[name]).max() <= scale
    for name, (low, high) in network.extremes(x, list(network.sizes), dtype)[1].items():
        assert np.abs(low - plain[name].min(axis=1)).max() <= scale
        assert np.abs(high - plain[name].max(axis=1)).max() <= scale


def test_the_hidden_layer_is_never_held_whole(monkeypatch):
    monkeypatch.setattr(operation, "LIMITS", WorkLimits(chunk=2**16))
    network = dense_site(4096)
    x = np.zeros((1000, 6))
    network(x[:2])
    tracemalloc.start()
    network(x)
    network.extremes(x, ["act"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4096 * 1000 * 8 / 4


def test_a_batch_of_nothing_has_no_values():
    network = image_site()
    assert network(np.empty((0, 50))).shape == (0, network.size_out)
    assert network.at(np.empty((0, 50)), ["act"])["act"].shape == (0, 7500)
