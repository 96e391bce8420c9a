"""The one-layer statements as library calls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.errors import InputError
from reconstruct.networks import Norm


def test_one_relu_layer_from_two_frozen_layers():
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(3, 4)), rng.normal(size=3)
    M1, M2 = rng.normal(size=(14, 4)), rng.normal(size=(3, 14))
    for activation in (rc.Relu(), rc.Selu(), rc.Clip(-1, 1)):
        layer = rc.one_layer(M1, M2, W, b, domain=rc.Box(-1, 1), activation=activation)
        x = rng.uniform(-1, 1, size=(200, 4))
        np.testing.assert_allclose(layer.network(x), np.maximum(x @ W.T + b, 0), atol=1e-10)
        assert layer.system.solved


@pytest.mark.parametrize("activation", [rc.Relu(), rc.Elu(), rc.Selu()], ids=repr)
def test_a_linear_network_with_norms_as_a_relu_network(activation):
    rng = np.random.default_rng(1)
    sizes = [3, 5, 4, 6, 2]
    weights = [rng.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]
    norms = [
        Norm(rng.normal(size=n), rng.normal(size=n), rng.normal(size=n), rng.random(n) + 0.1)
        for n in sizes[1:]
    ]
    network = rc.linear_as_relu(weights, norms, domain=rc.Box(-2, 1), activation=activation)
    x = rng.uniform(-2, 1, size=(300, 3))
    value = x
    for weight, norm in zip(weights, norms, strict=True):
        value = norm(value @ weight.T)
    np.testing.assert_allclose(network(x), value, rtol=1e-9, atol=1e-9)
    if isinstance(activation, rc.Relu):
        for i, norm in enumerate(norms, start=1):
            np.testing.assert_allclose(network.node(f"norm{i}").op.gamma, norm.gamma, rtol=1e-14)


def test_outside_of_the_box_the_two_differ():
    """The domain is part of the claim: far outside a ReLU is no longer active."""
    layer = rc.one_layer(
        np.array([[1.0], [-1.0]]),
        np.ones((1, 2)),
        [[1.0]],
        domain=rc.Box(-1, 1),
        final_activation=False,
    )
    assert abs(layer.network([1.0])[0] - 1.0) < 1e-12
    assert abs(layer.network([-100.0])[0] + 100.0) > 1


def test_refusals():
    with pytest.raises(InputError, match="one norm for each weight"):
        rc.linear_as_relu([np.eye(2)], [], domain=rc.Box(-1, 1))
    norm = rc.draw(rc.Network.mlp([np.eye(2)])).network.norm_nodes()[1].op
    with pytest.raises(InputError, match="linear on an interval only"):
        rc.linear_as_relu([np.eye(2)], [norm], domain=rc.Box(-1, 1), activation=rc.Clip(-1, 1))
