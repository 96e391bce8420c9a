"""`make docs`: the documentation as a static site in site/; a broken link fails the build."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from docs.links import broken_links, broken_readme_links
from docs.pages import DOCS, ROOT, Rendered, document, in_order, rendered, written_pages
from docs.reference import generated_pages


def build(site: Path) -> list[str]:
    """Write the site; returns the broken links (the site is written all the same)."""
    pages = in_order([*written_pages(), *generated_pages()])
    done = [rendered(page) for page in pages]
    style = (DOCS / "site.css").read_text(encoding="utf-8")
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    for page in done:
        text = document(page, pages, style)
        (site / f"{page.page.name}.html").write_text(text, encoding="utf-8")
    if (DOCS / "images").is_dir():
        shutil.copytree(DOCS / "images", site / "images")
    for page in done:
        _copy_sources(page, site)
    return [*broken_links(done), *broken_readme_links()]


def _copy_sources(page: Rendered, site: Path) -> None:
    """Files of the repository that the page links to are shown as plain text."""
    for link in page.links:
        path = link.partition("#")[0]
        source = DOCS / path
        if path.startswith("../") and source.is_file():
            name = source.resolve().relative_to(ROOT)
            goal = site / "source" / name.with_name(name.name + ".txt")
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, goal)


def main() -> int:
    broken = build(ROOT / "site")
    for line in broken:
        sys.stderr.write(f"broken link in {line}\n")
    if not broken:
        print(ROOT / "site" / "index.html")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
