"""The words of the command line: options that say what they are, verdicts for each arithmetic."""

from __future__ import annotations

import json

import pytest


def test_the_density_has_its_name_and_the_old_one_is_told(cli, target, tmp_path):
    words = ("run", target, "--domain", "-1,1", "--samples", 50, "--ratio", 2, "--force")
    out = tmp_path / "out"
    code, _, stderr = cli(*words, "-o", out, "--density", 0.6)
    new = json.loads((out / "report.json").read_text())
    assert code == 0 and "--density" not in stderr
    code, _, stderr = cli(*words, "-o", out, "--sparsity", 0.6)
    old = json.loads((out / "report.json").read_text())
    assert code == 0 and "--sparsity 0.6 is a density" in stderr
    assert new["frozen"]["sparsity"] == old["frozen"]["sparsity"] == 0.6
    assert new["frozen"]["sha256"] == old["frozen"]["sha256"]
    assert old["options"]["density"] == 0.6 and "sparsity" not in old["options"]


def test_two_densities_are_one_too_many(cli, target):
    code, _, stderr = cli("inspect", target, "--density", 0.5, "--sparsity", 0.25)
    assert code == 2 and "0.25 and 0.5" in stderr
    code, _, stderr = cli("inspect", target, "--density", 1.5)
    assert code == 2 and "(0, 1], but is 1.5" in stderr


def test_inspect_counts_what_the_density_keeps(cli, target):
    full, half = (
        json.loads(cli("inspect", target, "--json", *words)[1])["constructions"][0]
        for words in ((), ("--density", 0.5))
    )
    assert half["nonzeros"] == pytest.approx(full["nonzeros"] / 2, abs=1)


def test_quiet_is_the_verdict_line(cli, target, tmp_path):
    words = ("--domain", "-1,1", "--samples", 50, "--quiet")
    for command in (("run", target, "-o", tmp_path / "out"), ("verify", target, target)):
        code, stdout, stderr = cli(*command, *words)
        assert code == 0 and stderr == ""
        assert stdout.startswith("CERTIFIED (rigorous): ") and stdout.count("\n") == 1
