"""Two frozen matrices become one layer in one call."""

from __future__ import annotations

import numpy as np

import reconstruct as rc


def test_one_relu_layer_from_two_frozen_layers():
    rng = np.random.default_rng(0)
    W, b = rng.normal(size=(3, 4)), rng.normal(size=3)
    M1, M2 = rng.normal(size=(14, 4)), rng.normal(size=(3, 14))
    for activation in (rc.Relu(), rc.Selu(), rc.Clip(-1, 1)):
        layer = rc.one_layer(M1, M2, W, b, domain=rc.Box(-1, 1), activation=activation)
        x = rng.uniform(-1, 1, size=(200, 4))
        np.testing.assert_allclose(layer.network(x), np.maximum(x @ W.T + b, 0), atol=1e-10)
        assert layer.layers[0].solved


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
