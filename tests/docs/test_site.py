"""The site builds in strict mode, reads without a connection, and shows the benchmarks' figures."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reconstruct
from benchmarks import tables
from docs.reference import command_line, library, schemas
from proofs_check.chain import GROUPS
from tests.docs.commands import ROOT

DOCS = ROOT / "docs"
WRITTEN = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)```.*?^\1```$", flags=re.MULTILINE | re.DOTALL)
NEEDED = ("mkdocs", "material", "mkdocstrings", "latex2mathml")
with_mkdocs = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in NEEDED),
    reason="the site is built by mkdocs (pip install '.[docs]'); `make docs` does it",
)


def build(site: Path, config: Path) -> subprocess.CompletedProcess[str]:
    words = ["-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    places = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=places, capture_output=True, text=True, timeout=300
    )


def settings(*changes: tuple[str, str]) -> str:
    """The site's own settings for a file elsewhere, with some lines changed."""
    text = (ROOT / ".mkdocs.yml").read_text(encoding="utf-8")
    for pattern, line in (("hooks: .*", f"hooks: [{DOCS / 'hooks.py'}]"), *changes):
        text, count = re.subn(rf"^{pattern}\n", f"{line}\n", text, flags=re.MULTILINE)
        assert count == 1, pattern
    return text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site but for the colours of code, which take a third of its time."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    plain = "  - pymdownx.highlight: { use_pygments: false }"
    lines = ("docs_dir: docs", f"docs_dir: {DOCS}"), ("  - pymdownx.highlight", plain)
    folder.with_name("mkdocs.yml").write_text(settings(*lines), encoding="utf-8")
    done = build(folder, folder.with_name("mkdocs.yml"))
    assert done.returncode == 0, done.stderr
    return folder


@with_mkdocs
def test_every_page_is_built(site: Path) -> None:
    names = {path.stem for path in DOCS.glob("*.md")} | {"cli", "api", "schemas"}
    assert names - {"paper"} <= {path.stem for path in site.glob("*.html")}


@with_mkdocs
def test_the_site_asks_for_nothing_from_outside(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [p.name for p in pages if loaded.search(p.read_text(encoding="utf-8"))] == []


@with_mkdocs
def test_what_pages_refer_to_is_there(site: Path) -> None:
    refers = re.compile(r"""\b(?:src|href)=["']?([^"'\s>#?]+)""")
    missing = [
        f"{page.name}: {found}"
        for page in site.rglob("*.html")
        if page.name != "404.html"  # served for any address, so its links start at the root
        for found in refers.findall(linking(page, site))
        if not re.match(r"[a-z]+:", found) and not (page.parent / found).exists()
    ]
    assert missing == []


def linking(page: Path, site: Path) -> str:
    """The text of a page; without the code, where the page shows a file that may write links."""
    text = page.read_text(encoding="utf-8")
    shows = page.is_relative_to(site / "source")
    return re.sub(r"<pre\b.*?</pre>", "", text, flags=re.DOTALL) if shows else text


@with_mkdocs
def test_library_page_has_every_public_name(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    names = [name for name in reconstruct.__all__ if not name.startswith("_")]
    assert [name for name in names if not re.search(rf">\s*rc\.{name}\s*<", text)] == []


@with_mkdocs
def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    broken = ("nowhere.md", "index.md#nowhere", "#absent", "../reconstruct/nowhere.py")
    text = " ".join(f"[x]({link})" for link in broken)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{text}\n", encoding="utf-8")
    hooks = "from docs import hooks\n\nhooks.generated_pages = dict  # none, to save their time\n"
    hooks += "on_files, on_page_markdown = hooks.on_files, hooks.on_page_markdown\n"
    (tmp_path / "hooks.py").write_text(hooks, encoding="utf-8")
    text = settings((r"nav:\n(?:  .*\n)+", ""))
    text = text.replace(str(DOCS / "hooks.py"), str(tmp_path / "hooks.py"))
    (tmp_path / "mkdocs.yml").write_text(text, encoding="utf-8")
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode != 0
    assert [link for link in broken if f"'{link}'" not in done.stderr] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.name)
def test_links_lead_somewhere_in_a_checkout(page: Path) -> None:
    """Pages that only the site has are not linked from the Markdown that people read as it is."""
    links = LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    files = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [name for name in files if not (page.parent / name).exists()] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.name)
def test_files_that_pages_name_are_there(page: Path) -> None:
    """`constructions/wide.py` means the file of the package, `examples/…` that of the checkout."""
    named = re.findall(r"`([\w/.-]+/(?:[\w.-]+\.py)?)`", page.read_text(encoding="utf-8"))
    gone = [n for n in named if not (ROOT / n).exists() and not (ROOT / "reconstruct" / n).exists()]
    assert [name for name in gone if name not in ("site/", "OUT/", "out/")] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.name)
def test_blocks_in_lists_are_indented_by_four(page: Path) -> None:
    """With less, the generator ends the list and numbers the next step 1 again."""
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^ {1,3}```.*$", text, flags=re.MULTILINE) == []


@pytest.mark.parametrize("command", ["run", "verify", "check", "inspect", "demo", "report"])
def test_command_line_page_has_every_command(command: str) -> None:
    assert f"## reconstruct {command}" in command_line()


def test_library_page_lists_every_public_name() -> None:
    text = library()
    assert all(f" rc.{name}\n" in text for name in reconstruct.__all__ if name[0] != "_")
    assert "| `domain` | needed | the inputs that the claim is about |" in text
    assert text.index("rc.load\n") < text.index("rc.draw\n") < text.index("rc.certify\n")
    assert "<!-- names" not in text


def test_schema_page_describes_the_fields() -> None:
    text = schemas()
    assert "`layers[].residual_bound`" in text and "`error.certified_bound`" in text


def test_theory_names_statements_that_exist() -> None:
    names = {s.name for group in GROUPS.values() for s in group}
    named = re.findall(r"proofs\.md#([\w-]+)", (DOCS / "theory.md").read_text(encoding="utf-8"))
    assert named and set(named) <= names


def test_figures_are_those_of_the_benchmarks() -> None:
    for path in tables.PAGES:
        text = path.read_text(encoding="utf-8")
        assert text == tables.filled(text), "run python -m benchmarks.tables"


def test_every_marked_place_is_filled() -> None:
    marked = {page: page.read_text(encoding="utf-8").count("<!-- figures:") for page in WRITTEN}
    assert {page for page, count in marked.items() if count} == set(tables.PAGES)
    for page in tables.PAGES:
        assert len(tables.MARKED.findall(page.read_text(encoding="utf-8"))) == marked[page]
