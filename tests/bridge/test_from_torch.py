"""Modules read as networks: the same function to rounding in float64, every norm still there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from reconstruct.bridge.from_torch import from_torch
from reconstruct.errors import InputError, UnsupportedError
from tests.bridge.modules import ACTIVATIONS, Residual, drawn, with_activation

ROUNDING = 1e-13  # a few layers of a few units, values of size 10


def agree(module, network, shape, seed=0):
    x = 2 * np.random.default_rng(seed).standard_normal((50, *shape))
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy().reshape(50, -1)
    found = network(x.reshape(50, -1))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * (1 + abs(expected).max()))


def test_a_residual_module_with_all_its_norms_under_their_names():
    torch.manual_seed(1)
    module = drawn(Residual())
    network = from_torch(module, torch.zeros(1, 5))
    agree(module, network, (5,))
    assert [n.name for n in network.norm_nodes()] == ["norm1", "inner.1"]
    for node in network.norm_nodes():
        layer = module.get_submodule(node.name)
        assert np.array_equal(node.op.gamma, layer.weight.detach())
        assert np.array_equal(node.op.var, layer.running_var)
        assert node.op.eps == layer.eps == 1e-5


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation(name):
    module = with_activation(ACTIVATIONS[name])
    agree(module, from_torch(module, np.zeros((3, 4))), (4,))


def test_a_linear_layer_ahead_of_a_norm_is_not_folded_and_neither_is_one_without_gamma():
    module = drawn(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False, eps=0.1)))
    network = from_torch(module, torch.zeros(1, 3))
    agree(module, network, (3,))
    (norm,) = network.norm_nodes()
    assert np.array_equal(norm.op.gamma, np.ones(4)) and norm.op.eps == 0.1


def test_a_layer_that_is_used_twice_appears_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(self.layer(torch.relu(self.norm(self.layer(x)))))

    module = drawn(Twice())
    network = from_torch(module, torch.zeros(1, 3))
    agree(module, network, (3,))
    assert len(network.norm_nodes()) == 2


def test_the_module_is_left_as_it_was():
    module = Residual().train()
    module.inner.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    from_torch(module, torch.ones(4, 5))
    assert module.training and not module.inner.training
    assert all(torch.equal(before[n], v) for n, v in module.state_dict().items())
    assert all(p.requires_grad for p in module.parameters())


def test_a_float32_module_keeps_its_weights_as_they_are():
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    network = from_torch(module, torch.zeros(1, 3))
    assert np.array_equal(network.nodes[0].op.weight, module[0].weight.detach().numpy())


class LogSoftmax(nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, 1)


class DependsOnValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x


class MixesExamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, x):
        return self.layer(x.reshape(1, -1))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.heads(x, x, x)[0]


REFUSED = {
    "doubles": (nn.Sequential(nn.Linear(3, 3), nn.GELU()).double(), r"bring module\.float"),
    "softmax": (
        nn.Sequential(nn.Linear(3, 3), LogSoftmax()),
        r"softmax.*is not supported; supported",
    ),
    "values": (DependsOnValues(), "torch.export cannot trace DependsOnValues"),
    "mixing": (MixesExamples(), "mixes examples of a batch"),
    "no statistics": (
        nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, track_running_stats=False)),
        "statistics of its batch",
    ),
    "no parameters": (nn.ReLU(), "all parameters in float32 or all in float64"),
    "half": (nn.Linear(3, 3).half(), r"these have torch\.float16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_of_ours_is_refused_by_name(name):
    module, match = REFUSED[name]
    with pytest.raises(UnsupportedError, match=match):
        from_torch(module, torch.ones(2, 3))


@pytest.mark.parametrize("module", [Heads(), nn.TransformerEncoderLayer(4, 2, 8)])
def test_torchs_own_attention_is_refused_with_what_to_write_instead(module):
    with pytest.raises(UnsupportedError, match=r"in place of nn\.MultiheadAttention write q, k"):
        from_torch(module, torch.ones(2, 3, 4))


def test_loops_and_other_devices_are_refused_in_words():
    with pytest.raises(UnsupportedError, match=r"holds a layer LSTM, which loops over a sequence"):
        from_torch(nn.Sequential(nn.LSTM(3, 3)), torch.ones(2, 3))
    with pytest.raises(InputError, match=r"parameters on meta; give module\.cpu\(\)"):
        from_torch(nn.Linear(3, 3, device="meta"), torch.ones(2, 3))


def test_an_example_is_tried_on_the_module_first(capfd):
    """torch's own words, and no log of its attempts to trace it."""
    with pytest.raises(InputError, match=r"of the shape \(5,\) it says: mat1 .*\(2x5 and 3x3\)"):
        from_torch(nn.Linear(3, 3), torch.ones(1, 5))
    assert capfd.readouterr() == ("", "")


def test_an_example_is_one_tensor():
    example = torch.zeros(1, 2)
    with pytest.raises(InputError, match=r"one tensor or array is needed .* type tuple"):
        from_torch(nn.Linear(2, 2), (example, example))


def test_an_example_needs_a_batch():
    with pytest.raises(InputError, match=r"its shape is \(3,\); use example\[None\]"):
        from_torch(nn.Linear(3, 3), torch.ones(3))


def test_a_rule_that_is_wrong_is_noticed_at_the_example(monkeypatch):
    from reconstruct.bridge import aten

    monkeypatch.setitem(aten.RULES, "relu", aten.identity)
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU()).double()
    with torch.no_grad():
        module[0].weight.fill_(-2.0)
    with pytest.raises(UnsupportedError, match=r"differs from it by 2\.0e\+00 at the example"):
        from_torch(module, torch.ones(1, 1))
