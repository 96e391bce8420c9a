"""Property tests draw the same examples in every run; HYPOTHESIS_PROFILE=explore draws new ones.

Workers take whole files: those that take longest come first, so that none is left for the end.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from reconstruct.reports import plotting

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

HERE = Path(__file__).parent
SLOWEST = (
    "certificates/test_honesty.py",
    "certificates/test_attack_classes.py",
    "docs/test_commands.py",
    "khatri_rao/test_mpi.py",
    "docs/test_site.py",
    "proofs_check/test_chain.py",
    "proofs_check/certificates/test_forger.py",
    "proofs_check/certificates/test_leaves.py",
    "bounds/test_soundness.py",
    "cli/test_run.py",
    "studies/test_studies.py",
    "reports/test_browser.py",
    "proofs_check/certificates/test_points.py",
    "cli/test_speech.py",
    "formats/test_resources.py",
    "proofs_check/test_formal.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Files are handed out as they are ordered here, not by how many tests they have."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {HERE / name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


# Hundreds of runs leave a page that nobody looks at: figures would be half of the tests' time.
os.environ["RECONSTRUCT_FIGURES"] = "0"


@pytest.fixture(autouse=True)
def clean_tree() -> Iterator[None]:
    """A test writes into directories of its own: a study's output named " " was once committed."""
    before = set(os.listdir(HERE.parent))
    yield
    gained = set(os.listdir(HERE.parent)) - before
    assert not [name for name in gained if not name.startswith(".")], f"left in the tree: {gained}"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of pages: figures are drawn, each once for the same numbers."""
    monkeypatch.delenv("RECONSTRUCT_FIGURES")
    monkeypatch.setattr(plotting, "plain_svg", _remembered)


PLAIN_SVG = plotting.plain_svg
DRAWN: dict[Any, str] = {}


def _remembered(draw: Any, size: tuple[float, float]) -> str:
    """The figure, drawn again only for other values; what cannot be pickled is drawn each time."""
    try:
        values = pickle.dumps([cell.cell_contents for cell in draw.__closure__ or ()])
    except (pickle.PicklingError, AttributeError, TypeError):
        return PLAIN_SVG(draw, size)
    key = (draw.__code__, values, size)
    if key not in DRAWN:
        DRAWN[key] = PLAIN_SVG(draw, size)
    return DRAWN[key]
