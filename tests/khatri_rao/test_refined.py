"""Solutions as accurate as their entries can be: in float64, and in float32 by feedback."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.khatri_rao import solve
from reconstruct.khatri_rao.corrections import cast_with_feedback, exact_residual, polished


def system(m: int, k: int, ratio: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    n = int(ratio * m * k)
    M1, M2 = rng.standard_normal((n, k)), rng.standard_normal((m, n))
    return M1, M2, rng.standard_normal((m, k))


def rationally(M1, M2, W, s) -> np.ndarray:
    """The residual in rationals, rounded once."""
    rows = [
        [
            float(
                Fraction(W[i, j])
                - sum(
                    Fraction(M2[i, a]) * Fraction(s[a]) * Fraction(M1[a, j]) for a in range(len(s))
                )
            )
            for j in range(W.shape[1])
        ]
        for i in range(W.shape[0])
    ]
    return np.array(rows)


def test_the_residual_has_all_its_digits() -> None:
    M1, M2, W = system(3, 4, 1.5)
    s = solve(M1, M2, W).s
    found = exact_residual(M1, M2, W, s)
    assert np.allclose(found.values, rationally(M1, M2, W, s), rtol=1e-12, atol=0)
    assert found.radius <= 1e-10 * found.size


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.6])
def test_polishing_leaves_what_rounding_the_entries_leaves(ratio) -> None:
    M1, M2, W = system(12, 10, ratio, 3)
    s = solve(M1, M2, W).s
    better, left = polished(M1, M2, W, s)
    before, after = (exact_residual(M1, M2, W, each).size for each in (s, better))
    assert left == pytest.approx(after / np.linalg.norm(W), rel=1e-9)
    assert after <= before
    rounding = 2.0**-53 * np.sqrt(np.sum(s**2 * np.sum(M1**2, 1) * np.sum(M2**2, 0)))
    assert after < 1.5 * rounding


def test_what_cannot_be_solved_stays_as_it_is() -> None:
    M1, M2, W = system(4, 5, 0.5)
    s = np.ones(len(M1))
    assert polished(M1, M2, W, s)[0] is s
    huge = np.full(len(M1), np.inf)
    assert polished(M1, M2, W, huge)[0] is huge


@pytest.mark.parametrize(("ratio", "gain"), [(1.5, 2.5), (2.6, 4.0)])
def test_feedback_beats_a_plain_cast(ratio, gain) -> None:
    M1, M2, W = system(12, 12, ratio, 5)
    s = solve(M1, M2, W).s

    def cast(values, units):
        return values.astype(np.float32).astype(np.float64)

    found = cast_with_feedback(M1, M2, W, s, cast)
    assert np.array_equal(found, cast(found, None))
    ours, plain = (exact_residual(M1, M2, W, each).size for each in (found, cast(s, None)))
    assert ours < plain / gain
    assert np.linalg.norm(found - s) < 1e-4 * np.linalg.norm(s)


def test_small_systems_are_rounded_with_feedback_in_float64_too() -> None:
    M1, M2, W = system(12, 12, 1.5, 5)
    s = solve(M1, M2, W).s
    plain = s + solve(M1, M2, exact_residual(M1, M2, W, s).values).s
    ours, rounded = (
        exact_residual(M1, M2, W, each).size for each in (polished(M1, M2, W, s)[0], plain)
    )
    assert ours < rounded / 2
