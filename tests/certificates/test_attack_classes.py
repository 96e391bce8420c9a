"""Short runs of the attacks on certificates: no violation, and one that is planted is seen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.attack import certificates, float_bounds, forger, pairs
from benchmarks.attack.campaign import attempt, discover, main
from proofs_check.certificates import CheckStatus

CASES = {"pairs": 16, "float-bounds": 16, "honest": 16, "forged": 4, "kill-and-resume": 1}


@pytest.mark.parametrize("name", CASES)
def test_no_violation(tmp_path, name) -> None:
    words = [name, "--cases", str(CASES[name]), "--minutes", "10", "--seed", "3"]
    code = main([*words, "-o", str(tmp_path)])
    (row,) = json.loads((tmp_path / "attack.json").read_text())
    assert (code, row["violations"], row["cases"]) == (0, 0, CASES[name]), row


def test_a_bound_that_is_too_small_is_seen(tmp_path, monkeypatch) -> None:
    real = pairs.certify

    def boasting(*networks, **options):
        return replace(real(*networks, **options), bound=0.0, method="layered")

    monkeypatch.setattr(pairs, "certify", boasting)
    words = ["pairs", "--cases", "12", "--minutes", "10", "--seed", "3", "-o", str(tmp_path)]
    assert main(words) == 1
    kept = [folder for folder in tmp_path.iterdir() if folder.is_dir()]
    assert any((folder / "target.npz").exists() for folder in kept)


def test_a_float_bound_that_is_too_small_is_seen(tmp_path, monkeypatch) -> None:
    real = float_bounds.certify

    def boasting(*networks, **options):
        return replace(real(*networks, **options), float64_bound=0.0, float32_bound=1e-300)

    monkeypatch.setattr(float_bounds, "certify", boasting)
    words = ["float-bounds", "--cases", "6", "--minutes", "10", "--seed", "3"]
    assert main([*words, "-o", str(tmp_path)]) == 1


def test_a_checker_that_accepts_everything_is_seen(tmp_path, monkeypatch) -> None:
    real = certificates.check

    def credulous(folder):
        report, document = real(folder), forger.read(folder)
        told = document.get("bound")
        claimed = float.fromhex(told) if isinstance(told, str) and told else 0.0
        return replace(report, status=CheckStatus.ACCEPTED, bound=claimed)

    monkeypatch.setattr(certificates, "check", credulous)
    words = ["forged", "--cases", "12", "--minutes", "10", "--seed", "3", "-o", str(tmp_path)]
    assert main(words) == 1


def test_an_honest_certificate_that_is_rejected_is_seen(tmp_path, monkeypatch) -> None:
    real = certificates.check

    def stubborn(folder):
        return replace(real(folder), status=CheckStatus.REJECTED)

    monkeypatch.setattr(certificates, "check", stubborn)
    words = ["honest", "--cases", "2", "--minutes", "10", "--seed", "3", "-o", str(tmp_path)]
    assert main(words) == 1
    assert any((folder / "certificate.json").exists() for folder in tmp_path.iterdir())


def test_two_jobs_add_their_counts(tmp_path) -> None:
    words = ["pairs", "--cases", "2", "--minutes", "10", "--seed", "5", "--jobs", "2"]
    assert main([*words, "-o", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "attack.json").read_text())
    assert row["cases"] == 4
    assert {path.name for path in tmp_path.glob("job-*")} == {"job-0", "job-1"}


@pytest.mark.parametrize(
    ("name", "seed", "index"),
    [
        ("pairs", 20261117, 10),  # an activation that nothing uses hangs on a value that is used
        ("pairs", 2000, 650),  # a sum whose branches come from one value, bounded one by one
        ("pairs", 1001, 242),  # ranges between the cuts that the checker does not know
        ("pairs", 1000, 245),  # a figure in floats below the one in real arithmetic
        ("float-bounds", 20261116, 13),  # an activation takes the input itself
    ],
)
def test_what_was_found_once_stays_mended(name, seed, index) -> None:
    discover()
    assert attempt(name, seed, index).violation is None
