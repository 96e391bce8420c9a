"""Construction and training in one frozen network: same function, other coordinates, the line."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reconstruct as rc
from benchmarks.training_existence import between, compare, loss_on
from reconstruct.bridge.to_torch import to_torch
from reconstruct.networks import Network
from reconstruct.training.fine_tuning import (
    norms_of,
    with_data_statistics,
    with_norms_of,
    with_statistics_of,
)
from reconstruct.training.loop import Schedule, outputs

SHORT = {"schedule": Schedule(epochs=8, batch=12), "domain": rc.Box(-1, 2)}


@pytest.fixture(scope="module")
def target(images):
    """Reads off the bright row through a hidden layer of its own."""
    first = np.zeros((6, 6, 6))
    for row in range(6):
        first[row, row] = 1 / 6
    second = np.zeros((3, 6))
    second[[0, 1, 2], [0, 2, 4]] = 8.0
    return Network.mlp([first.reshape(6, 36), second], [np.zeros(6), np.zeros(3)])


@pytest.fixture(scope="module")
def rebuilt(target):
    frozen = rc.draw(target, rc.Wide(1.5), seed=0)
    return frozen.network, rc.reconstruct(target, frozen, domain=rc.Box(-1, 2)).network


def test_other_statistics_are_other_coordinates_of_the_same_function(images, rebuilt):
    frozen, network = rebuilt
    x = images.train_x.reshape(-1, 36).astype(np.float64)
    scaled = with_data_statistics(network, x)
    hidden = max(float(np.abs(v).max()) for v in network.values(x).values())
    np.testing.assert_allclose(scaled(x), network(x), rtol=0, atol=1e-12 * hidden)
    values = scaled.values(x)
    for node in scaled.norm_nodes():
        z = values[node.inputs[0]]
        np.testing.assert_allclose(node.op.mean, z.mean(axis=0), atol=1e-10 * abs(z).max())
        np.testing.assert_allclose(node.op.var, z.var(axis=0), rtol=1e-8, atol=1e-10)
    back = norms_of(with_statistics_of(scaled, frozen))
    for name, norm in norms_of(network).items():
        assert np.array_equal(back[name].mean, norm.mean)
        np.testing.assert_allclose(back[name].gamma, norm.gamma, rtol=1e-12)
        atol = 1e-11 * abs(norm.beta).max()
        np.testing.assert_allclose(back[name].beta, norm.beta, rtol=0, atol=atol)


def test_norms_come_back_from_the_module_as_they_went_in(rebuilt):
    frozen, network = rebuilt
    again = norms_of(with_norms_of(frozen, to_torch(network)))
    for name, norm in norms_of(network).items():
        assert np.array_equal(again[name].gamma, norm.gamma)
        assert np.array_equal(again[name].beta, norm.beta)


def test_the_line_ends_at_both_networks_and_its_middle_is_the_mean(rebuilt):
    frozen, network = rebuilt
    middle = norms_of(between(frozen, network, 0.5))
    for name, norm in norms_of(network).items():
        start = norms_of(frozen)[name]
        assert np.array_equal(norms_of(between(frozen, network, 0.0))[name].gamma, start.gamma)
        assert np.array_equal(norms_of(between(frozen, network, 1.0))[name].beta, norm.beta)
        np.testing.assert_allclose(middle[name].gamma, (start.gamma + norm.gamma) / 2)


def test_the_loss_is_that_of_torch(images, rebuilt):
    network = rebuilt[1]
    scores = torch.from_numpy(outputs(to_torch(network), images.train_x)).double()
    expected = float(torch.nn.functional.cross_entropy(scores, torch.from_numpy(images.train_y)))
    assert loss_on(network, images.train_x, images.train_y) == pytest.approx(expected, rel=1e-9)


def test_construction_training_and_both_are_compared_on_one_network(images, target):
    found = compare(target, images, ratio=1.5, **SHORT)
    assert found.target.test_accuracy == found.start.test_accuracy == 1.0
    assert found.start.loss == pytest.approx(found.target.loss, rel=1e-6)
    assert found.tuned.loss < found.start.loss
    assert found.line_to_trained[0] == found.start.loss == found.line_to_tuned[0]
    assert found.line_to_trained[-1] == pytest.approx(found.trained.loss, rel=1e-9)
    assert max(found.line_to_trained) > found.trained.loss
    statistics = [norms_of(f.network) for f in (found.start, found.trained, found.tuned)]
    for name, norm in statistics[0].items():
        for other in statistics[1:]:
            assert np.array_equal(other[name].mean, norm.mean)
            assert np.array_equal(other[name].var, norm.var)
    weights = [[n.op.weight for n in f.network.mixing_nodes()] for f in (found.start, found.tuned)]
    assert all(a is b for a, b in zip(*weights, strict=True))


def test_below_the_width_that_reaches_everything_least_squares_is_the_start(images, target):
    found = compare(target, images, ratio=0.3, **SHORT)
    assert found.start.name == "least squares"
    assert found.tuned.loss < found.start.loss
