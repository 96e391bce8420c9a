"""The benchmarks of solvers: what they compare with solves the same system, fits are right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import growth, operator, solvers
from benchmarks._alternatives import METHODS
from benchmarks._common import tell
from benchmarks.targets import earlier, networks

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
    assert 0 < fractions["core_normal_fraction"] < 1.5


def test_rows_of_other_networks_stay_when_some_are_measured_anew(tmp_path: Path, capsys) -> None:
    file = tmp_path / "rows.json"
    tell("targets", [{"network": "a", "seconds": 1}, {"network": "b", "seconds": 1}], file)
    again = [{"network": "b", "seconds": 2}, {"network": "b", "seconds": 3}]
    tell("targets", again, file, earlier(file))
    found = [(row["network"], row["seconds"]) for row in json.loads(file.read_text())]
    assert found == [("a", 1), ("b", 2), ("b", 3)]
    assert '"seconds": 3' in capsys.readouterr().out


def test_large_networks_run_only_by_name(tmp_path: Path) -> None:
    for family in ("tll", "hcas"):
        (tmp_path / family).mkdir()
        (tmp_path / family / f"{family}.onnx").write_bytes(b"")
    assert [family for family, _ in networks(tmp_path, [])] == ["hcas"]
    assert [family for family, _ in networks(tmp_path, ["tll"])] == ["tll"]
