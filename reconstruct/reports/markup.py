"""HTML and SVG as trees of elements, and the frame of every page.

Text is escaped unless it is itself an element.

Names, paths and metadata come from files that anyone may have written, so escaping is what
happens by default and there is one way around it, `Markup`, used for our own figures and style.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeAlias, TypeVar

# Nothing may be loaded or run, whatever a file's metadata holds: the browser enforces it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
VOID = frozenset({"meta", "br", "hr", "img", "link", "col"})
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True)
class Markup:
    """Text that is HTML already."""

    text: str

    def __str__(self) -> str:
        return self.text


Row = TypeVar("Row")
Child: TypeAlias = "Markup | str | int | None"
Value: TypeAlias = "str | int | float | bool | None"


def visible(text: str) -> str:
    """The text with control, format and surrogate characters written out as `\\u202e`.

    A file name may hold a right-to-left override that makes it read as another one, or half of a
    surrogate pair, which no encoder takes.
    """
    if text.isascii() and text.isprintable():  # paths and pictures are long
        return text
    return "".join(
        f"\\u{ord(c):04x}" if c not in "\n\t" and unicodedata.category(c) in INVISIBLE else c
        for c in text
    )


def escaped(text: str) -> str:
    """The text for use between tags or between quotes."""
    return html.escape(visible(text), quote=True)


def element(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """`<name attributes>children</name>`; `class_` is class, `_` in a name is `-`."""
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{together(children)}</{name}>")


def together(children: Iterable[Child]) -> Markup:
    """The children one after the other; strings are escaped, None is nothing."""
    return Markup("".join(_child(child) for child in children))


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child.text if isinstance(child, Markup) else escaped(str(child))


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(str(value))}"'


def table(caption: str, head: Sequence[Child], rows: Iterable[Sequence[Child]]) -> Markup:
    """A table with a caption; its first column heads the rows, the others are right-aligned."""
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", c) for c in row[1:]))
        for row in rows
    ]
    inner = element(
        "table",
        element("caption", caption),
        element("thead", top),
        element("tbody", *body),
    )
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def table_of(
    caption: str, rows: Iterable[Row], columns: Mapping[str, Callable[[Row], Child]]
) -> Markup:
    """A table whose columns are a heading and what to show of a row, each.

    Headings are not broken: a line must not end between |γ| and its bars.
    """
    head = [
        element("span", name, class_="whole") if "γ" in name or "|" in name else name
        for name in columns
    ]
    return table(caption, head, ([show(row) for show in columns.values()] for row in rows))


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """A list of names with what is known of each."""
    parts: list[Markup] = []
    for name, value in pairs:
        parts += [element("dt", name), element("dd", value)]
    return element("dl", *parts)


def section(key: str, title: str, *parts: Child) -> Markup:
    """A part of a page that a link `#key` leads to; words are a paragraph."""
    inner = (element("p", part) if isinstance(part, str) else part for part in parts)
    return element("section", element("h2", title), *inner, id=key)


def details(summary: str, *parts: Child) -> Markup:
    """What is shown when somebody asks for it."""
    return element("details", element("summary", summary), *parts)


def html_page(title: str, version: str, *main: Child) -> str:
    """A whole page that needs nothing from outside."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(files(__package__).joinpath("page.css").read_text("utf-8"))),
    )
    footer = element("footer", f"Made by reconstruct {version}.")
    body = element("body", element("main", *main), footer)
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def elided(name: str, most: int = 40) -> str:
    """The name, or its start and its end around a sign where the middle was left out."""
    name = visible(name)
    if len(name) <= most:
        return name
    end = most // 2
    return name[: most - end - 1] + "…" + name[-end:]


def named(name: str) -> Child:
    """The name for a table; of a long one, the whole is shown by pointing at it."""
    short = elided(name)
    return name if short == visible(name) else element("span", short, title=name)
