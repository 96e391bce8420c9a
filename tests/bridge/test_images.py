"""Convolutions and pooling: networks on images as torch modules of Conv2d layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from reconstruct.bridge.to_torch import to_torch
from reconstruct.networks import (
    Add,
    Convolution,
    Geometry,
    MaxPool,
    Network,
    Node,
    Norm,
    Placement,
    Relu,
    SumPool,
)

GEOMETRIES = {
    "plain": Geometry(4, 7, 6, (3, 3)),
    "strides and pads": Geometry(4, 7, 6, (3, 2), (2, 1), (1, 1, 1, 1)),
    "uneven pads": Geometry(4, 7, 6, (3, 3), (1, 2), (0, 1, 2, 0)),
    "dilations": Geometry(4, 7, 6, (2, 3), (1, 1), (1, 2, 1, 2), (2, 2)),
    "one pixel": Geometry(4, 7, 6, (1, 1)),
}


def same(network, module):
    x = np.random.default_rng(1).standard_normal((9, network.size_in))
    expected = network(x)
    found = module(torch.from_numpy(x)).numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * (1 + abs(expected).max()))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolutions_of_every_geometry_are_conv2d_layers(name, groups):
    geometry = GEOMETRIES[name]
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((6, 4 // groups, *geometry.kernel))
    op = Convolution(kernel, geometry, rng.standard_normal(6), groups)
    network = Network(geometry.size, (Node("c", op, ("input",)),), "c")
    module = to_torch(network)
    same(network, module)
    (layer,) = [m for m in module.modules() if isinstance(m, nn.Conv2d)]
    assert np.array_equal(module.state_dict()["c.weight"], kernel)
    assert layer.groups == groups and not layer.weight.requires_grad


@pytest.mark.parametrize("kind", [SumPool, MaxPool])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_pooling_of_every_geometry(name, kind):
    geometry = GEOMETRIES[name]
    if name == "dilations":
        geometry = Geometry(4, 7, 6, (2, 3), (1, 1), (1, 1, 1, 1), (2, 2))
    network = Network(geometry.size, (Node("p", kind(geometry), ("input",)),), "p")
    same(network, to_torch(network))


def test_a_residual_block_with_norms_per_channel_and_a_placement():
    rng = np.random.default_rng(0)
    geometry = Geometry(2, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1))
    conv = Convolution(rng.standard_normal((2, 2, 3, 3)), geometry)
    norm = Norm(*rng.random((4, 2)), 1e-5, positions=25)
    nodes = (
        Node("block.conv", conv, ("input",)),
        Node("block.norm", norm, ("block.conv",)),
        Node("sum", Add(), ("block.norm", "input")),
        Node("relu", Relu(), ("sum",)),
        Node("half", Placement([-1, *range(0, 50, 2)], 50), ("relu",)),
    )
    network = Network(50, nodes, "half")
    module = to_torch(network)
    same(network, module)
    (layer,) = [m for m in module.modules() if isinstance(m, nn.BatchNorm1d)]
    assert layer.weight.shape == (2,)
    assert np.array_equal(module.state_dict()["block.norm.running_var"], norm.var)
