"""The command: table, JSON, one statement, and exit codes that can be relied on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofs_check import Outcome, Verdict, chain
from proofs_check.cli import main
from proofs_check.statements.products.vec_identity import VEC_IDENTITY, System, column_major
from proofs_check.table import header, report, rows, summary

ROOT = Path(__file__).parents[2]


def test_list_names_every_statement_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [s.name for s in chain.STATEMENTS]


def test_list_as_json_has_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [s["name"] for s in listed] == [s.name for s in chain.STATEMENTS]
    assert all(s["claim"] and "outcome" not in s for s in listed)


def test_summary_is_one_screen(verdicts: dict[str, Verdict]) -> None:
    assert len(summary(tuple(verdicts.values()), 12.3, 80).splitlines()) <= 24


def test_only_shows_one_statement_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "vec-identity"]) == 0
    out = capsys.readouterr().out
    for text in ("vec-identity: ", "claim", "used by", "caught", "vec by columns"):
        assert text in out


def test_unknown_name_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "vec-idnetity"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "'vec-idnetity'" in captured.err
    assert "vec-identity" in captured.err


def test_bad_option_is_exit_2() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--nonsense"])
    assert stop.value.code == 2


def test_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--only", "vec-identity", "--only", "norm-is-affine"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "proofs_check/2"
    assert document["effort"] == "default"
    assert document["holds"] is True
    assert set(document["environment"]) == {
        *("python", "numpy", "scipy", "sympy", "networkx", "python-flint")
    }
    assert [s["name"] for s in document["statements"]] == ["vec-identity", "norm-is-affine"]
    for entry in document["statements"]:
        _check_entry(entry)


def _check_entry(entry: dict[str, Any]) -> None:
    assert set(entry) == {
        *("name", "claim", "hypotheses", "paper", "relied_on", "depends_on", "theorem"),
        *("outcome", "level", "holds", "seconds", "evidence", "negatives"),
    }
    for evidence in entry["evidence"]:
        assert set(evidence) == {
            *("method", "outcome", "sizes", "detail", "error_probability"),
            *("counterexample", "seconds"),
        }
        assert evidence["outcome"] == "passed"
        assert evidence["error_probability"] == 0
    for negative in entry["negatives"]:
        assert set(negative) == {"change", "caught", "method", "counterexample", "seconds"}
        assert negative["caught"] is True


@pytest.mark.parametrize("as_json", [False, True])
def test_a_refuted_statement_is_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    broken = replace(VEC_IDENTITY, subject=System(vec=column_major))
    monkeypatch.setattr(chain, "STATEMENTS", (broken,))
    assert main(["--json"] if as_json else []) == 1
    assert "refuted" in capsys.readouterr().out


def test_an_uncaught_negative_is_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harmless = replace(VEC_IDENTITY.negatives[0], subject=VEC_IDENTITY.subject)
    monkeypatch.setattr(chain, "STATEMENTS", (replace(VEC_IDENTITY, negatives=(harmless,)),))
    assert main([]) == 1
    assert "NOT CAUGHT" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 100, 140])
def test_table_fits_the_terminal(verdicts: dict[str, Verdict], width: int) -> None:
    lines = [header(width), *summary(tuple(verdicts.values()), 12.3, width).splitlines()]
    for verdict in verdicts.values():
        lines += [line for row in rows(verdict, width) for line in row.splitlines()]
        lines += report(chain.find(verdict.name), verdict, width).splitlines()
    assert max(map(len, lines)) <= width


def test_summary_counts(verdicts: dict[str, Verdict]) -> None:
    some = tuple(verdicts.values())[:2]
    failed = replace(some[1], outcome=Outcome.INCONCLUSIVE)
    assert "1 of 2 statements passed" in summary((some[0], failed), 1.0, 80)


def test_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "proofs_check", "--only", "row-major-index"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("row-major-index: complete")
    assert run.stderr == ""
