"""The page in docs names every statement, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofs_check import Verdict, page
from proofs_check.chain import STATEMENTS
from proofs_check.page import PAGE


def test_links_lead_somewhere() -> None:
    text = PAGE.read_text("utf-8")
    anchors = set(re.findall(r"^### (\S+)$", text, flags=re.M))
    assert anchors == {s.name for s in STATEMENTS}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors
        else:
            assert (PAGE.parent / target).resolve().is_file(), target


def test_page_has_no_timings() -> None:
    assert not re.search(r"\d s\b", PAGE.read_text("utf-8"))


def test_page_is_written_and_compared(
    tmp_path: Path,
    verdicts: dict[str, Verdict],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(page, "available", lambda: True)
    monkeypatch.setattr(page, "judge", lambda statement: verdicts[statement.name])
    output = str(tmp_path / "docs" / "proofs.md")
    assert page.main(["-o", output, "--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert page.main(["-o", output]) == 0
    assert page.main(["-o", output, "--check"]) == 0
