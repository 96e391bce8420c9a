"""Shifts that cancel behind the second map: never smaller, and the best of those that are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

import reconstruct as rc
from reconstruct.constructions import levelling
from reconstruct.constructions.levelling import PLACES, levelled
from reconstruct.constructions.nodes import mixing_at, norm_at
from tests.certificates.building import random_target

BOX = rc.Box(-1.0, 1.0)


def cost(M2: np.ndarray, x: np.ndarray) -> float:
    return float((M2**2).sum(axis=0) @ x**2 + PLACES * np.sum((M2 @ x) ** 2))


def drawn(m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)), rng.uniform(1, 10, n)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_least_by_another_method(seed: int) -> None:
    M2, least = drawn(4, 60, seed)
    root = np.sqrt((M2**2).sum(axis=0))
    oracle = lsq_linear(
        np.vstack([np.diag(root), np.sqrt(PLACES) * M2]),
        np.zeros(64),
        bounds=(least, np.inf),
        tol=1e-14,
    ).x
    x = levelled(M2, least)
    assert (x >= least).all()
    assert cost(M2, x) <= cost(M2, oracle) * (1 + 1e-5)
    np.testing.assert_allclose(x, oracle, rtol=1e-2)


def test_sums_fall_far_and_shifts_rise_little() -> None:
    M2, least = drawn(20, 1500)
    x = levelled(M2, least)
    assert np.linalg.norm(M2 @ x) < np.linalg.norm(M2 @ least) / 20
    assert np.linalg.norm(x) < 1.2 * np.linalg.norm(least)


def test_where_nothing_can_cancel_shifts_stay(monkeypatch) -> None:
    M2, least = drawn(5, 80)
    assert np.array_equal(levelled(np.abs(M2), least), least)
    assert np.array_equal(levelled(M2, np.zeros(80)), np.zeros(80))
    monkeypatch.setattr(levelling, "MOST_HELD", 399)
    assert np.array_equal(levelled(M2, least), least)


def test_units_without_weights_stay() -> None:
    M2, least = drawn(5, 80)
    M2[:, 7] = 0.0
    x = levelled(M2, least)
    assert x[7] == least[7] and np.isfinite(x).all()


def test_a_network_has_small_sums_and_the_same_function(monkeypatch) -> None:
    target = random_target(np.random.default_rng(0), (3, 8, 8, 2))

    def sums() -> tuple[float, rc.Network]:
        result = rc.reconstruct(target, rc.draw(target, rc.Wide(2.0), seed=0), domain=BOX)
        sizes = []
        for site in result.sites:
            first, second = site.layers
            M2 = mixing_at(result.network, second.carry).kernels[0]
            sizes.append(np.linalg.norm(M2 @ norm_at(result.network, first.norm).effective()[1]))
        certificate = rc.certify(target, result.network, domain=BOX)
        assert certificate.verdict == "certified" and certificate.bound < 1e-11
        return float(np.max(sizes)), result.network

    level, network = sums()
    x = BOX.of_size(3).sample(300, np.random.default_rng(1))
    np.testing.assert_allclose(network(x), target(x), atol=1e-11)
    monkeypatch.setattr("reconstruct.constructions.two_layers.levelled", lambda M2, least: least)
    assert level < sums()[0] / 3
