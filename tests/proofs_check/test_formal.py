"""Theorems in Coq: each is named by a statement's file, closed, and without an admitted step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofs_check import formal
from proofs_check.chain import STATEMENTS
from proofs_check.cli import main

FILES = sorted(path.stem for path in formal.FOLDER.glob("*.v"))
FORMAL = [s for s in STATEMENTS if s.formal]


def test_the_five_that_every_certificate_rests_on_have_a_theorem() -> None:
    names = {"vec-identity", "error-recursion", "back-substitution", "accumulated-rounding"}
    assert names | {"partition-covers"} <= {s.name for s in FORMAL}
    assert {s.formal.file for s in FORMAL if s.formal} == set(FILES)


@pytest.mark.parametrize("statement", FORMAL, ids=lambda s: s.name)
def test_the_file_has_the_theorem_and_names_the_statement(statement: object) -> None:
    claimed = next(s for s in FORMAL if s is statement)
    assert claimed.formal
    text = (formal.FOLDER / f"{claimed.formal.file}.v").read_text("utf-8")
    assert claimed.formal.theorem in formal.theorems(claimed.formal.file)
    assert f"The statement {claimed.name}" in text or f"the statement {claimed.name}" in text
    assert claimed.formal.subject == claimed.subject


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_admitted_or_assumed(file: str) -> None:
    text = (formal.FOLDER / f"{file}.v").read_text("utf-8")
    assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", text)


@pytest.mark.skipif(not formal.available(), reason="coqc is not installed")
def test_coq_accepts_every_theorem(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theorems"]) == 0
    assert capsys.readouterr().out.count("holds") >= len(FORMAL)


@pytest.mark.skipif(not formal.available(), reason="coqc is not installed")
def test_an_axiom_or_a_wrong_step_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path
    monkeypatch.setattr(formal, "FOLDER", folder)
    (folder / "assumed.v").write_text(
        "Axiom no : False.\nTheorem all : 1 = 2.\nProof. case no. Qed.\n"
    )
    with pytest.raises(ArithmeticError, match="all assumes no"):
        formal.examine("assumed", "all")
    (folder / "wrong.v").write_text("Theorem two : 1 = 2.\nProof. reflexivity. Qed.\n")
    with pytest.raises(ArithmeticError, match=r"coqc refuses wrong\.v"):
        formal.examine("wrong", "two")


def test_without_coq_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(formal, "available", lambda: False)
    assert main(["theorems"]) == 2
    assert "apt-get install coq" in capsys.readouterr().err
