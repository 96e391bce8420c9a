"""The benchmarks of solvers: what they compare with solves the same system, fits are right."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import growth, operator, solvers, whitening
from benchmarks._alternatives import METHODS

from .planted import plant, residual

AIM = 1e-6


@pytest.mark.parametrize("name", list(METHODS))
def test_every_alternative_reaches_the_residual(name: str) -> None:
    if name.startswith("torch"):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    planted = plant(3, 4, 1.0 if name == "LAPACK square" else 2.0)
    s, iterations = METHODS[name](planted.M1, planted.M2, planted.W, AIM)
    assert iterations >= 1
    assert residual(planted, np.asarray(s, np.float64)) <= 3 * AIM


def test_fitted_exponents() -> None:
    rows = [{"m": d, "seconds": 3e-9 * d**4, "added_bytes": 12.0 * d**3} for d in (8, 16, 32, 64)]
    found = growth.exponents(rows)
    assert (found["fitted_from"], found["fitted_to"]) == (32, 64)
    assert found["seconds_exponent"] == pytest.approx(4)
    assert found["added_bytes_exponent"] == pytest.approx(3)
    rows[-1]["added_bytes"] = None  # type: ignore[assignment]
    assert growth.exponents(rows)["added_bytes_exponent"] is None


def test_rows_have_their_figures() -> None:
    row = solvers.timed_solve(4, 24, "cg")
    assert row["status"] == "solved"
    assert row["residual"] <= 1e-14
    other = solvers.timed_solve(4, 24, "SciPy LSMR")
    assert other["status"] == "solved"
    assert growth.solve_one(4)["dense_bytes"] == 8 * 16 * 24
    fractions = operator._row(5, 4, np.float32, True)
    assert 0 < fractions["core_apply_fraction"] < 1.5
    white = whitening._row(whitening.KINDS[1], 6, 1.5)
    assert white["whitened_iterations"] < white["plain_iterations"]
