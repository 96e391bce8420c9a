"""The site builds, its links lead somewhere, and its figures are those of the benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofs_check.chain import GROUPS

pytest.importorskip("markdown_it", reason="markdown-it-py builds the documentation")

from benchmarks import tables
from docs.build import build
from docs.links import broken_links
from docs.pages import DOCS, ROOT, Page, rendered, slug
from docs.reference import command_line, library, schemas


def test_site_builds_without_broken_links(tmp_path: Path) -> None:
    assert build(tmp_path / "site") == []
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="tutorial.html"' in text and ".md" not in re.sub(r"<code>.*?</code>", "", text)


def test_a_broken_link_is_found() -> None:
    text = "# A\n\n[x](nowhere.md) [y](#a) [z](#b) [w](../Makefile) [v](../Nofile)\n"
    assert broken_links([rendered(Page("a", text, "docs/a.md"))]) == [
        "docs/a.md: 'nowhere.md'",
        "docs/a.md: '#b'",
        "docs/a.md: '../Nofile'",
    ]


def test_headings_get_the_anchors_that_code_hosts_make() -> None:
    assert slug("What it does, and `why`") == "what-it-does-and-why"


@pytest.mark.parametrize("command", ["run", "verify", "check", "inspect", "demo", "report"])
def test_command_line_page_has_every_command(command: str) -> None:
    assert f"## reconstruct {command}" in command_line()


def test_library_page_has_every_public_name() -> None:
    import reconstruct

    text = library()
    assert all(f"## rc.{name}\n" in text for name in reconstruct.__all__ if name[0] != "_")


def test_schema_page_describes_the_fields() -> None:
    text = schemas()
    assert "`layers[].residual_bound`" in text and "`error.certified_bound`" in text


def test_theory_names_statements_that_exist() -> None:
    names = {s.name for group in GROUPS.values() for s in group}
    named = re.findall(r"proofs\.md#([\w-]+)", (DOCS / "theory.md").read_text(encoding="utf-8"))
    assert named and set(named) <= names


def test_figures_are_those_of_the_benchmarks() -> None:
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page()
    text = tables.README.read_text(encoding="utf-8")
    assert text == tables.readme(text)


def test_every_picture_names_its_script() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for picture in (DOCS / "images").glob("*"):
        assert f"docs/images/{picture.name}" in readme
    assert "benchmarks/picture.py" in readme
