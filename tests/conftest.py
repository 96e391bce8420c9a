"""Property tests draw the same examples in every run; HYPOTHESIS_PROFILE=explore draws new ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs leave an empty page: drawing one takes seven times as long as a small network does."""
    for module in ("comparison", "job"):
        monkeypatch.setattr(f"reconstruct.runs.{module}.write_page", _empty)


def _empty(folder: Path) -> None:
    (folder / "report.html").write_text("a page", encoding="utf-8")
