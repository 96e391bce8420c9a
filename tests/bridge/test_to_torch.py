"""Networks made into modules: torch's own layers, frozen, names of norms.npz, both ways."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from torch import nn

import reconstruct as rc
from reconstruct.bridge.from_torch import from_torch
from reconstruct.bridge.to_torch import norm_bytes, to_torch
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load
from reconstruct.networks import Add, Affine, Network, Node, Norm, Relu, Scaling, Select
from reconstruct.training import tunable
from tests.bridge.modules import ACTIVATIONS, Residual, drawn, with_activation


@pytest.fixture(scope="module")
def rebuilt():
    rng = np.random.default_rng(0)
    target = Network.mlp([rng.standard_normal((4, 3)), rng.standard_normal((2, 4))])
    frozen = rc.draw(target, rc.Wide(ratio=1.5), seed=0)
    return frozen, rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))


def close(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * (1 + abs(expected).max()))


def same(network, module, seed=1):
    x = np.random.default_rng(seed).uniform(-1, 1, (40, network.size_in))
    expected = network(x)
    found = module(torch.from_numpy(x)).numpy()
    assert found.shape == expected.shape
    hidden = max(float(np.abs(v).max()) for v in network.values(x).values())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * (1 + hidden))


def test_a_reconstructed_network_is_the_same_module_of_torch_layers(rebuilt):
    _, result = rebuilt
    module = to_torch(result.network)
    same(result.network, module)
    kinds = [type(layer) for layer in module.modules()]
    assert kinds.count(nn.Linear) == 4 and kinds.count(nn.BatchNorm1d) == 4
    assert not module.training and not any(p.requires_grad for p in module.parameters())
    assert len(tunable(module, "norms")) == 8


def test_norms_load_by_the_names_of_the_state_dict_both_ways(rebuilt):
    frozen, result = rebuilt
    arrays = {
        f"{name}.{key}": torch.from_numpy(np.array(value))
        for name, norm in result.norms.items()
        for key, value in norm.arrays().items()
    }
    plain = to_torch(frozen.network)
    found = plain.load_state_dict(arrays, strict=False)
    assert not found.unexpected_keys
    same(result.network, plain)

    with np.load(io.BytesIO(norm_bytes(to_torch(result.network)))) as written:
        for name, norm in result.norms.items():
            assert np.array_equal(written[f"{name}.weight"], norm.gamma)
            assert float(written[f"{name}.eps"]) == norm.eps


@pytest.mark.parametrize(
    "build",
    [lambda: drawn(Residual()), *(lambda a=a: with_activation(a) for a in ACTIVATIONS.values())],
)
def test_there_and_back_again_is_the_same_function(build):
    module = build()
    inputs = 5 if isinstance(module, Residual) else 4
    network = from_torch(module, torch.zeros(1, inputs))
    again = to_torch(network)
    same(network, again)
    twice = from_torch(again, torch.zeros(1, inputs))
    x = np.random.default_rng(0).standard_normal((20, inputs))
    close(twice(x), network(x))
    norms = {n.name: n.op for n in twice.norm_nodes()}
    for node in network.norm_nodes():
        assert np.array_equal(norms[node.name].gamma, node.op.gamma)
        assert norms[node.name].eps == node.op.eps


def test_sums_selections_and_scalings_and_names_that_torch_uses_itself():
    rng = np.random.default_rng(0)
    norm = Norm(*rng.random((4, 3)), 1e-3)
    nodes = (
        Node("type", Affine(rng.standard_normal((4, 4)), rng.standard_normal(4)), ("input",)),
        Node("type.eval", Relu(), ("type",)),
        Node("forward", Select(1, 4), ("type.eval",)),
        Node("a.weight", norm, ("forward",)),
        Node("half", Scaling([1.0, 2.0, 3.0], [3.0, 7.0, 1.0], [0.5, 0.0, 0.1]), ("a.weight",)),
        Node("sum", Add(), ("half", "forward")),
    )
    network = Network(4, nodes, "sum")
    module = to_torch(network)
    same(network, module)
    assert "a.weight.weight" in module.state_dict() and "type.bias" in module.state_dict()


def test_the_one_name_that_torch_needs_is_refused():
    network = Network(2, (Node("a.training", Relu(), ("input",)),), "a.training")
    with pytest.raises(UnsupportedError, match=r"the node 'a\.training' cannot be one"):
        to_torch(network)


def test_float32_and_other_precisions(rebuilt):
    _, result = rebuilt
    module = to_torch(result.network, np.float32)
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    with pytest.raises(InputError, match="float32 or float64, but the dtype is float16"):
        to_torch(result.network, np.float16)
    with pytest.raises(InputError, match=r"3 values, but got \(2, 5\)"):
        module(torch.zeros(2, 5))


def test_a_trained_norm_only_network_goes_to_onnx_and_back(tmp_path):
    module = drawn(Residual())
    network = from_torch(module, torch.zeros(1, 5))
    rc.save(network, tmp_path / "network.onnx")
    read = load(tmp_path / "network.onnx")
    x = np.random.default_rng(0).standard_normal((20, 5))
    close(read(x), network(x))
