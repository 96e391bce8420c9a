"""Draws: reproducible by tile, float32 numbers, the distributions that they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from reconstruct.errors import InputError
from reconstruct.networks.draw import TILE, Sampler, Weights


def test_a_tile_alone_is_the_tile_of_the_whole():
    sampler = Sampler(seed=7)
    whole = sampler.matrix(2, 5, 3 * TILE - 10, 4)
    last = sampler.tile(2, 5, 2, TILE - 10, 4, fan_in=4)
    np.testing.assert_array_equal(whole[2 * TILE :], last)
    wide = sampler.matrix(2, 6, 4, 2 * TILE, hidden=1)
    second = sampler.tile(2, 6, 1, TILE, 4, fan_in=2 * TILE)
    np.testing.assert_array_equal(wide[:, TILE:], second.T)


def test_seed_layer_and_label_all_matter():
    draws = [
        Sampler(seed=s).matrix(layer, label, 3, 3)
        for s, layer, label in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    ]
    for i, one in enumerate(draws):
        for two in draws[i + 1 :]:
            assert not np.array_equal(one, two)
    np.testing.assert_array_equal(draws[0], Sampler(seed=0).matrix(0, 0, 3, 3))


def test_the_stream_never_changes():
    """Fixed numbers: a published seed has to give the same network for good."""
    drawn = Sampler(seed=0).matrix(0, 0, 2, 2)
    assert drawn.dtype == np.float32
    np.testing.assert_array_equal(drawn, np.array(KNOWN, dtype=np.float32))


KNOWN = [[-1.6064647436141968, -0.49591371417045593], [-0.8619491457939148, 0.11467260867357254]]


@pytest.mark.parametrize(
    ("weights", "law"),
    [
        (Weights.GAUSSIAN, stats.norm(scale=np.sqrt(1 / 50))),
        (Weights.KAIMING, stats.norm(scale=np.sqrt(2 / 50))),
        (Weights.UNIFORM, stats.uniform(-np.sqrt(3 / 50), 2 * np.sqrt(3 / 50))),
    ],
)
def test_distributions(weights, law):
    drawn = Sampler(weights=weights).matrix(0, 0, 400, 50).ravel().astype(float)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-3


def test_weights_of_eight_bits_are_integers_times_a_power_of_two():
    weights = Sampler(weights=Weights.INT8).matrix(0, 0, 400, 100)
    step = np.abs(weights[weights != 0]).min()
    whole = weights / step
    assert np.log2(step) == round(np.log2(step)) and (whole == np.round(whole)).all()
    assert whole.min() == -128 and whole.max() == 127 and len(np.unique(whole)) == 256
    assert 0.7 < weights.std() * 10 < 1.45  # 1/√fan-in, up to the power of two
    assert np.unique(whole, return_counts=True)[1].max() < 250  # 156 of each on average


def test_rademacher_and_sparsity():
    signs = Sampler(weights=Weights.RADEMACHER).matrix(0, 0, 100, 100)
    assert set(np.unique(signs)) == {-1, 1} and abs(signs.mean()) < 0.05
    thin = Sampler(density=0.1).matrix(0, 0, 300, 100)
    assert sparse.issparse(thin) and abs(thin.nnz / 30_000 - 0.1) < 0.01
    half = Sampler(density=0.5).matrix(0, 0, 300, 100)
    assert isinstance(half, np.ndarray) and abs((half != 0).mean() - 0.5) < 0.02
    full = Sampler().matrix(0, 0, 300, 100)
    np.testing.assert_array_equal(half[half != 0], full[half != 0])


def test_norms_are_neutral_exactly_or_have_statistics():
    neutral = Sampler().norm(0, 0, 4)
    assert np.all(neutral.var + neutral.eps == 1.0)
    assert np.all(neutral.var.astype(np.float32) == neutral.var)
    given = Sampler(statistics=True).norm(0, 0, 200)
    assert np.ptp(given.mean) > 1 and given.var.max() / given.var.min() > 100


@pytest.mark.parametrize("bad", [{"seed": -1}, {"density": 0.0}, {"density": 1.5}])
def test_refusals(bad):
    with pytest.raises(InputError, match="but is"):
        Sampler(**bad)
