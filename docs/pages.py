"""Markdown pages become HTML pages with one navigation."""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# The order in which the pages are read; pages that are not listed follow by name.
ORDER = (
    "index",
    "tutorial",
    "theory",
    "certificates",
    "proofs",
    "formats",
    "deep",
    "performance",
    "cli",
    "api",
    "schemas",
    "contributing",
    "adding-a-statement",
    "changelog",
)


@dataclass(frozen=True)
class Page:
    """One page: its name without suffix, its Markdown text, and where that came from."""

    name: str
    text: str
    origin: str

    @property
    def title(self) -> str:
        found = re.search(r"^# (.+)$", self.text, flags=re.MULTILINE)
        return found[1].replace("`", "") if found else self.name


@dataclass(frozen=True)
class Rendered:
    """A page as HTML, with the links that it makes and the anchors that it has."""

    page: Page
    body: str
    links: tuple[str, ...]
    anchors: frozenset[str]


def written_pages() -> list[Page]:
    """The pages that people write, from docs/*.md."""
    return [
        Page(path.stem, path.read_text(encoding="utf-8"), f"docs/{path.name}")
        for path in sorted(DOCS.glob("*.md"))
    ]


def in_order(pages: list[Page]) -> list[Page]:
    known = {name: i for i, name in enumerate(ORDER)}
    return sorted(pages, key=lambda page: (known.get(page.name, len(ORDER)), page.name))


def rendered(page: Page) -> Rendered:
    """The page's HTML; headings get anchors, links between pages lead to .html."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(page.text)
    anchors = _anchored(tokens)
    links: list[str] = []
    for token in _all(tokens):
        if token.type in ("link_open", "image"):
            key = "href" if token.type == "link_open" else "src"
            target = str(token.attrGet(key))
            links.append(target)
            token.attrSet(key, as_html(target))
    body = parser.renderer.render(tokens, parser.options, {})
    return Rendered(page, body, tuple(links), frozenset(anchors))


def as_html(link: str) -> str:
    """Where a link leads on the site: pages end in .html, files of the repository are copied."""
    if re.match(r"[a-z]+:", link) or link.startswith("#"):
        return link
    path, hash_sign, anchor = link.partition("#")
    if path.startswith("../"):
        return f"source/{path.removeprefix('../')}.txt"
    return re.sub(r"\.md$", ".html", path) + hash_sign + anchor


def slug(text: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def document(page: Rendered, pages: list[Page], style: str) -> str:
    """The whole HTML document of a page."""
    items = "".join(_item(other, other.name == page.page.name) for other in pages)
    title = html.escape(page.page.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} · reconstruct</title><style>{style}</style></head>"
        f'<body><nav aria-label="pages"><strong>reconstruct</strong><ul>{items}</ul></nav>'
        f"<main>{page.body}</main></body></html>\n"
    )


def _item(page: Page, here: bool) -> str:
    current = ' aria-current="page"' if here else ""
    return f'<li><a href="{page.name}.html"{current}>{html.escape(page.title)}</a></li>'


def _anchored(tokens: list[Token]) -> list[str]:
    """Give every heading an id; headings of the same name are numbered."""
    made: list[str] = []
    for before, inner in itertools.pairwise(tokens):
        if before.type == "heading_open":
            name = slug(inner.content)
            count = sum(1 for other in made if re.fullmatch(rf"{re.escape(name)}(-\d+)?", other))
            made.append(name if not count else f"{name}-{count}")
            before.attrSet("id", made[-1])
    return made


def _all(tokens: list[Token]) -> list[Token]:
    return [t for token in tokens for t in (token, *_all(token.children or []))]
