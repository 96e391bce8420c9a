"""The checker's own rule for the rounding of live norms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from proofs_check.certificates.affine import Forms
from proofs_check.certificates.between import Between
from proofs_check.certificates.points import normed
from proofs_check.certificates.rationals import Rationals
from reconstruct.networks import LayerNorm, LiveNorm, Network, Node, RMSNorm


class Behind(NamedTuple):
    moved: np.ndarray
    gross: np.ndarray


def behind(op: LiveNorm, size: np.ndarray, moved: float, kind: type = np.float32) -> Behind:
    network = Network(op.channels, (Node("n", op, ("input",)),), "n")
    rule, nothing = Between(Forms(network, {"input": "input"}), {"n"}, [kind], {}), 0 * size[None]
    value = rule._within(-size, size, nothing, -size[None], size[None], nothing + moved)
    return Behind(*rule._live(op, value).rounded[:2, 0])


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("scale", [2.0**-60, 1e-3])
def test_what_floats_make_of_a_norm_is_near_its_line(kind: type[LiveNorm], scale: float) -> None:
    """Rounding where inputs are far below √eps, the defect where they are not, and what is moved
    before: each is most of the bound in its turn, and none is several times too large."""
    rng, n = np.random.default_rng(3), 30
    gamma = (rng.choice([-1.0, 1.0], size=n) / scale).astype(np.float32)
    op = kind(gamma, np.zeros(n), float(np.float32(1e-5)))
    size = scale * np.ones((1, n))
    z = (size * rng.choice([-1.0, 1.0], size=(2000, n))).astype(np.float32)
    mean = z.astype(np.float64).mean(axis=1, keepdims=True) if op.centred else 0.0
    gap = np.abs(op(z) - gamma.astype(np.float64) * (z - mean) / np.sqrt(op.eps))
    found = behind(op, size, 0.0)
    assert (gap <= found.moved).all()
    assert found.moved.max() < (500 if scale < 1e-9 else 9) * gap.max()
    assert (np.abs(op(z)) <= found.gross + found.moved).all()
    error = 1e-3 * scale
    moved = behind(op, size, error).moved - found.moved
    step = z + np.float32(error) * np.sign(z)
    apart = np.abs(op(step).astype(np.float64) - op(z)).max()
    assert apart < (moved + found.moved).max() and moved.max() < 5 * apart


def test_there_is_no_bound_where_the_format_loses_eps_or_gamma() -> None:
    size = np.full((1, 4), 2.0**-70)
    for op in (LayerNorm(np.ones(4), np.zeros(4), 1e-38), RMSNorm([1e38] * 4, [0.0] * 4, 1e-5)):
        assert np.isinf(behind(op, size, 0.0).moved).all()
        assert np.isfinite(behind(op, size, 0.0, np.float64).moved).all()


def test_there_is_no_bound_where_a_variance_in_one_pass_may_be_negative() -> None:
    op = LayerNorm(np.ones(4), np.zeros(4), 2.0**-10)
    assert np.isfinite(behind(op, np.full((1, 4), 2.0), 0.0).moved).all()
    assert np.isinf(behind(op, np.full((1, 4), 2.0**10), 0.0).moved).all()


def test_a_factor_below_the_format_loses_by_what_it_meets() -> None:
    """gamma/√eps = 2^-133 and a large input: a float32 without gradual underflow makes nothing of
    it, what is lost is gamma/√eps times the input."""
    op = RMSNorm([2.0**-93] * 4, [0.0] * 4, 2.0**80)
    assert (behind(op, np.full((1, 4), 2.0**30), 0.0).moved > 2.0**-133 * 2.0**30).all()


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.3])
def test_a_live_norm_of_values_known_to_a_radius_holds_all_of_them(kind, eps) -> None:
    """One unit is off by its radius, as the worst direction has it, or each is by its own sign."""
    rng = np.random.default_rng(5)
    for n in (2, 3, 9):
        z, gamma = rng.normal(size=(2, n))
        op = kind(gamma, rng.normal(size=n), eps)
        for size in (1e-12, 1e-3, 0.2):
            radius = size * rng.choice([0.0, 1.0], n)
            radius[0] = size
            low, high = normed(Rationals.of(z, radius), op, 192).ends()
            for _ in range(40):
                moved = z + radius * rng.choice([-1.0, 0.0, 1.0], n)
                exact = normed(Rationals.of(moved), op, 400).intervals()
                pairs = zip(low.tolist(), high.tolist(), exact, strict=True)
                assert all(a <= b and c <= d for a, d, (b, c) in pairs)
            assert np.isfinite(high).all() or size > 1e-2
