"""Every link inside the documentation leads somewhere, or the build fails."""

from __future__ import annotations

import re

from docs.pages import DOCS, ROOT, Page, Rendered, rendered


def broken_links(pages: list[Rendered]) -> list[str]:
    """One line for each link that leads nowhere; links to the network are not followed."""
    anchors = {page.page.name: page.anchors for page in pages}
    return [
        f"{page.page.origin}: {link!r}"
        for page in pages
        for link in page.links
        if not _leads_somewhere(link, page.page.name, anchors)
    ]


def broken_readme_links() -> list[str]:
    """The same for README.md, whose links start at the top of the repository."""
    page = rendered(Page("README", (ROOT / "README.md").read_text(encoding="utf-8"), "README.md"))
    broken = []
    for link in page.links:
        path, _, anchor = link.partition("#")
        outside = re.match(r"[a-z]+:", link)
        there = (ROOT / path).exists() if path else anchor in page.anchors
        if not outside and not there:
            broken.append(f"README.md: {link!r}")
    return broken


def _leads_somewhere(link: str, here: str, anchors: dict[str, frozenset[str]]) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    path, _, anchor = link.partition("#")
    if not path:
        return anchor in anchors[here]
    if path.endswith(".md") and not path.startswith("../"):
        name = path.removesuffix(".md")
        return name in anchors and (not anchor or anchor in anchors[name])
    return (DOCS / path).resolve().is_file()
