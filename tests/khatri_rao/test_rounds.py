"""Rounds of refinement: how far each goes, and what is not computed twice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reconstruct.khatri_rao import ConjugateGradient, KhatriRao, Status, solve
from reconstruct.khatri_rao.solvers.conjugate_gradient import LIMITS, _aim

from .planted import plant, residual


def aim(tolerance: float, left: float = 1.0, dtype: type = np.float32) -> float:
    return _aim(tolerance, left, LIMITS.of(np.dtype(dtype)))


def test_a_round_goes_no_further_than_the_tolerance_needs() -> None:
    assert aim(1e-3) == pytest.approx(0.9e-3)
    assert aim(1e-3, 1e-2) == pytest.approx(0.09)
    assert aim(1e-9, 1e-6) == pytest.approx(0.9e-3, rel=1e-5)


def test_a_round_goes_no_further_than_is_safe() -> None:
    assert aim(1e-6) == aim(4e-12) == 5e-6
    assert aim(4e-12, 5e-6) == 5e-6


def test_at_the_default_tolerance_rounding_has_its_room() -> None:
    assert aim(1e-15) == 5e-6
    assert aim(1e-15, 1e-11) == pytest.approx(0.3e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.nan, 5e-324])
def test_no_tolerance_is_too_small_to_aim_at(tolerance: float, dtype: type) -> None:
    assert 0 < aim(tolerance, dtype=dtype) <= 5e-6


@pytest.mark.parametrize("tolerance", [0.0, -1.0, 5e-324])
def test_tolerances_out_of_reach_end_at_rounding_level(tolerance: float) -> None:
    planted = plant(6, 6, 2.0)
    found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(tolerance=tolerance))
    assert found.status is Status.SOLVED
    assert residual(planted, found.s) <= 1e-14


@pytest.mark.parametrize("asked", [1e-3, 1e-6, 1e-9, 4e-12, 1e-13, 1e-15])
@pytest.mark.parametrize("ratio", [1.2, 2.6])
def test_every_tolerance_is_met(asked: float, ratio: float) -> None:
    planted = plant(12, 10, ratio)
    found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(tolerance=asked))
    assert found.status is Status.SOLVED
    assert residual(planted, found.s) <= max(asked, 1e-14) * (1 + 1e-6)


def test_zero_is_solved_at_once() -> None:
    planted = plant(4, 4)
    found = solve(planted.M1, planted.M2, 0 * planted.W, ConjugateGradient())
    assert found.status is Status.SOLVED
    assert (found.iterations, found.residual) == (0, 0.0)
    assert not found.s.any()


def test_one_product_in_float64_per_round(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant(12, 12, 2.6)
    calls = []
    for name in ("apply", "magnitude"):
        monkeypatch.setattr(KhatriRao, name, _counted(getattr(KhatriRao, name), calls))
    found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(tolerance=4e-11))
    assert found.status is Status.SOLVED
    assert calls == ["apply", "apply"]


def _counted(method, calls: list[str]):
    def counted(*arguments, **named):
        calls.append(method.__name__)
        return method(*arguments, **named)

    return counted
