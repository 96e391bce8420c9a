"""Betas of float32: the second one's rounding is taken back by the shifts."""

from __future__ import annotations

import numpy as np

from reconstruct.constructions import Wide, draw
from reconstruct.constructions.matched_betas import matched
from reconstruct.networks import Box, Norm
from reconstruct.pipeline import reconstruct
from tests.certificates.building import random_target


def norms(n: int, m: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    M2, shift = rng.standard_normal((m, n)), 5 + 10 * rng.random(n)
    ones = np.ones(n)
    first = Norm.neutral(n).tuned(ones, shift.astype(np.float32))
    second = Norm.neutral(m).tuned(np.ones(m), rng.standard_normal(m) - M2 @ first.beta)
    return first, second, M2


def test_the_constant_is_kept_to_far_below_a_unit_of_the_second_beta() -> None:
    first, second, M2 = norms(200, 6)
    one, two = matched(first, second, M2, 1.0, np.float32)
    for norm in (one, two):
        assert np.array_equal(norm.beta, norm.beta.astype(np.float32))
    kept = M2 @ first.beta + second.beta
    plain = np.abs(M2 @ first.beta + second.beta.astype(np.float32) - kept).max()
    found = np.abs(M2 @ one.beta + two.beta - kept).max()
    assert found < plain / 5
    assert np.abs(one.beta - first.beta).max() < 2.0**-15 * first.beta.max()


def test_norms_with_statistics_stay_as_they_are() -> None:
    first, second, M2 = norms(20, 3)
    other = Norm(first.gamma, first.beta, np.ones(20), np.ones(20), 0.5)
    assert matched(other, second, M2, 1.0, np.float32) == (other, second)


def test_a_float32_network_is_better_than_its_cast(monkeypatch) -> None:
    target = random_target(np.random.default_rng(4), (3, 10, 10, 2))
    box = Box(-1.0, 1.0).of_size(3)
    x = box.sample(2000, np.random.default_rng(0))

    def error() -> float:
        frozen = draw(target, Wide(), seed=0)
        network = reconstruct(target, frozen, domain=box, dtype=np.float32).network
        assert all(
            np.array_equal(n.op.beta, n.op.beta.astype(np.float32)) for n in network.norm_nodes()
        )
        return float(np.max(np.abs(network(x) - target(x))))

    home = "reconstruct.constructions.two_layers"
    careful = error()
    monkeypatch.setattr(f"{home}.matched", lambda one, two, *rest: (one, two))
    monkeypatch.setattr(f"{home}.cast_with_feedback", lambda M1, M2, W, s, cast: s)
    assert careful < error() / 4
    assert careful < 1e-6
