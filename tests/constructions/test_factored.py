"""The low-rank construction: planted ranks, widths, approximations with their error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.constructions import factor
from reconstruct.errors import InputError
from reconstruct.networks import Mixing
from tests.constructions.targets import difference, tolerance


def planted(sizes, rank, seed=0) -> rc.Network:
    rng = np.random.default_rng(seed)
    weights = [
        rng.normal(size=(b, rank)) @ rng.normal(size=(rank, a)) / np.sqrt(a * rank)
        for a, b in itertools.pairwise(sizes)
    ]
    return rc.Network.mlp(weights, [rng.normal(size=b) for b in sizes[1:]])


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("statistics", [False, True])
def test_planted_rank_is_found_and_sets_the_width(rank, statistics):
    target = planted([8, 8, 6], rank)
    frozen = rc.draw(target, rc.Factored(ratio=1.5), seed=1, statistics=statistics)
    blueprint = rc.Factored(1.5).plan(target.mixing_nodes()[0].op).blueprint
    widths = [layer.width for layer in blueprint.layers]
    assert widths == [int(np.ceil(1.5 * rank * 8)), rank, int(np.ceil(1.5 * rank * 8)), 8]
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert difference(target, result) <= tolerance(result)


@pytest.mark.parametrize("activation", [rc.Selu(), rc.Clip(-1, 1), rc.LeakyRelu(0.3)], ids=repr)
def test_the_middle_activation_is_kept_linear(activation):
    target = planted([6, 7, 3], 2)
    frozen = rc.draw(target, rc.Factored(1.5), activation=activation)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert difference(target, result) <= tolerance(result)


def test_a_smaller_rank_is_an_approximation_within_the_dropped_singular_value():
    rng = np.random.default_rng(2)
    W = rng.normal(size=(6, 5))
    target = rc.Network.mlp([W])
    low = factor(W, 3)
    assert (low.rank, low.numerical_rank) == (3, 5)
    np.testing.assert_allclose(np.linalg.norm(W - low.U @ low.V, 2), low.dropped, rtol=1e-12)
    frozen = rc.draw(target, rc.Factored(1.5, rank=3))
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    found = difference(target, result)
    assert 1e-3 < found <= low.dropped * np.sqrt(5) * (1 + 1e-9)


def test_a_zero_map_has_one_middle_neuron():
    target = rc.Network.mlp([np.zeros((3, 4))], [np.ones(3)])
    result = rc.reconstruct(target, rc.draw(target, rc.Factored()), domain=rc.Box(-1, 1))
    assert difference(target, result) <= 1e-13


def test_refusals():
    with pytest.raises(InputError, match="rank must be at least 1"):
        rc.Factored(rank=0)
    target = planted([4, 4], 2)
    frozen = rc.draw(target, rc.Factored(rank=1))
    wrong = rc.Frozen(frozen.network, rc.Factored())
    with pytest.raises(InputError, match=r"rank 2 and needs a middle layer of 2 .*has 1"):
        rc.reconstruct(target, wrong, domain=rc.Box(-1, 1))
    with pytest.raises(InputError, match="exact solver works with"):
        rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), solver=rc.Exact())


def test_blueprint_counts_what_is_drawn():
    target = planted([5, 6, 4], 2)
    for construction in (rc.Wide(1.5), rc.Factored(1.5), rc.Deep(block=2, ratio=1.5)):
        plans = [construction.plan(n.op).blueprint for n in target.mixing_nodes()]
        network = rc.draw(target, construction).network
        assert sum(p.weights for p in plans) == network.weights
        assert sum(p.tunable for p in plans) == network.tunable
    assert isinstance(target.mixing_nodes()[0].op, Mixing)


def test_the_bound_of_an_approximation_holds_and_every_unit_stays_active():
    rng = np.random.default_rng(4)
    sizes = [4, 8, 8, 8, 3]
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
    target = rc.Network.mlp(weights, [rng.normal(size=b) for b in sizes[1:]])
    frozen = rc.draw(target, rc.Factored(1.5, rank=3))
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    certificate = rc.certify(target, result.network, domain=result.domain, bound_anyway=True)
    assert certificate.verdict.value == "refuted"
    assert len(certificate.alignment) == 3
    assert min(s.margin for s in certificate.segments if s.margin is not None) > 0
    assert difference(target, result) <= certificate.bound <= 1e4
    allowed = rc.certify(target, result.network, domain=result.domain, tolerance=certificate.bound)
    assert allowed.verdict.value == "certified"
