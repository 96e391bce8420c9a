"""Convolutions and pooling: networks on images as torch modules of Conv2d layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from reconstruct.bridge.from_torch import from_torch
from reconstruct.bridge.to_torch import to_torch
from reconstruct.errors import UnsupportedError
from reconstruct.formats import load, save
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
from reconstruct.training import Schedule, resnet, train, vgg
from reconstruct.training.data import split
from tests.bridge.modules import drawn

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


class Pools(nn.Module):
    """Every kind of pooling, grouped and dilated convolutions, joined channels, pads, a mean."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1, groups=2, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.wide = nn.Conv2d(4, 4, 3, padding=2, dilation=2)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.norm(self.conv(x)))
        a = functional.max_pool2d(h, 3, 2, 1)
        b = functional.avg_pool2d(self.wide(h), 2, ceil_mode=False)
        h = torch.cat([a, functional.adaptive_avg_pool2d(b, (4, 4))], 1)
        h = functional.pad(h, (1, 0, 0, 1))
        return self.out(h.mean((2, 3)))


def data(size=8, channels=1):
    rng = np.random.default_rng(0)
    return split("noise", rng.standard_normal((12, channels, size, size)), np.arange(12) % 3, 3)


MODULES = {
    "resnet": (lambda: resnet(8, 3, data()), (1, 8, 8)),
    "vgg": (lambda: vgg(11, 2, data()), (1, 8, 8)),
    "pools": (Pools, (2, 8, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_on_images_are_read_and_made_again(name):
    build, shape = MODULES[name]
    module = drawn(build())
    network = from_torch(module, np.zeros((1, *shape)))
    norms = [n for n, m in module.named_modules() if isinstance(m, nn.BatchNorm2d)]
    assert sorted(n.name for n in network.norm_nodes()) == sorted(norms)
    for node in network.norm_nodes():
        assert np.array_equal(node.op.gamma, module.get_submodule(node.name).weight.detach())
    x = np.random.default_rng(1).standard_normal((5, *shape))
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
        again = to_torch(network)(torch.from_numpy(x)).numpy()
    for found in (network(x.reshape(5, -1)), again):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * (1 + abs(expected).max()))


def test_a_trained_resnet_survives_a_file(tmp_path):
    module = resnet(8, 3, data())
    train(module, data(), "norms", Schedule(epochs=2, batch=6))
    network = from_torch(module.double(), np.zeros((1, 1, 8, 8)))
    save(network, tmp_path / "resnet.onnx")
    x = np.random.default_rng(1).standard_normal((5, 1, 8, 8))
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    found = load(tmp_path / "resnet.onnx")(x.reshape(5, -1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * (1 + abs(expected).max()))


def test_windows_of_different_sizes_are_refused():
    module = nn.Sequential(nn.Conv2d(1, 1, 1), nn.AdaptiveAvgPool2d(3))
    with pytest.raises(UnsupportedError, match=r"averages \(8, 8\) to \(3, 3\) pixels"):
        from_torch(module, torch.zeros(1, 1, 8, 8))
