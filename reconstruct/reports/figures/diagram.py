"""The two networks side by side, drawn as SVG by hand: it needs no matplotlib.

Every map of the target, with the activation behind it, is a bar on the left whose length grows
with the logarithm of its size. On the right stand the frozen layers that take its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconstruct.reports.markup import Markup, element

WIDTH = 560
LEFT, RIGHT, BAR = 8, 292, 236
STEP, HIGH = 46, 12
MOST_ROWS = 60
LONGEST_NAME = 29


@dataclass(frozen=True)
class Bar:
    """One value: its name, its size, and what follows it."""

    name: str
    size: int
    note: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class Row:
    """A value of the target and the frozen layers that make the same value."""

    target: Bar
    frozen: tuple[Bar, ...]


def rows_of(report: Mapping[str, Any]) -> list[Row]:
    """The rows to draw, from the graphs in the report; empty when they are too large."""
    measured = report.get("measurements") or {}
    graphs, sites = measured.get("graphs") or {}, measured.get("sites") or {}
    target, frozen = graphs.get("target"), graphs.get("frozen")
    if not target or not frozen:
        return []
    sizes = {node["name"]: node["size"] for node in frozen}
    size_in = len(report["domain"]["lo"])
    rows = [Row(Bar("input", size_in), (Bar("input", size_in),))]
    for node in target:
        name, size = node["name"], node["size"]
        if name in sites:
            layers = sites[name]
            bars = tuple(Bar(norm, sizes[norm], "", norm != layers[-1]) for norm in layers)
            rows.append(Row(Bar(name, size), bars))
        elif node["inputs"] == [rows[-1].target.name] and not rows[-1].target.note:
            rows[-1] = _followed(rows[-1], node)
        else:
            rows.append(Row(Bar(name, size, _kind(node)), (Bar(name, size, _kind(node)),)))
    return rows


def _followed(row: Row, node: Mapping[str, Any]) -> Row:
    """The row with the activation that follows; it then makes the value of that name."""
    last = row.frozen[-1]
    own = Bar(row.target.name, row.target.size, _kind(node))
    return Row(own, (*row.frozen[:-1], Bar(last.name, last.size, _kind(node))))


def diagram(rows: Sequence[Row]) -> Markup | None:
    """The drawing, or None when there is nothing to draw or too much."""
    total = sum(len(row.frozen) for row in rows)
    if not rows or total > MOST_ROWS:
        return None
    longest = max(bar.size for row in rows for bar in (row.target, *row.frozen))
    parts: list[Markup] = [
        _text(LEFT, 16, "target g", "head"),
        _text(RIGHT, 16, "frozen f with its norms", "head"),
    ]
    y = 30
    for row in rows:
        height = STEP * len(row.frozen)
        parts.append(_band(y, height))
        parts += _bar(row.target, LEFT, y + (height - STEP) // 2, longest)
        for i, bar in enumerate(row.frozen):
            parts += _bar(bar, RIGHT, y + i * STEP, longest)
        y += height + 4
    title = element("title", _spoken(rows), id="diagram-title")
    return element(
        "svg",
        title,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {y + 4}",
        role="img",
        aria_labelledby="diagram-title",
        class_="diagram",
    )


def _kind(node: Mapping[str, Any]) -> str:
    kind = str(node["kind"])
    return f"sum of {len(node['inputs'])}" if kind == "Add" else kind


def _bar(bar: Bar, x: int, y: int, longest: int) -> list[Markup]:
    share = math.log2(1 + bar.size) / math.log2(1 + max(longest, 1))
    kind = "hidden" if bar.hidden else "value"
    name = bar.name if len(bar.name) <= LONGEST_NAME else bar.name[: LONGEST_NAME - 1] + "…"
    size = f"{bar.size:,}" + (f", {bar.note}" if bar.note else "")
    return [
        _text(x + 4, y + 15, name, "label"),
        element(
            "rect", x=x + 4, y=y + 22, width=f"{share * (BAR - 88):.1f}", height=HIGH, class_=kind
        ),
        _text(f"{x + 10 + share * (BAR - 88):.1f}", y + 32, size, "size"),
    ]


def _band(y: int, height: int) -> Markup:
    return element("rect", x=0, y=y, width=WIDTH, height=height, rx=6, class_="band")


def _text(x: int | str, y: int, words: str, kind: str) -> Markup:
    return element("text", words, x=x, y=y, class_=kind)


def _spoken(rows: Sequence[Row]) -> str:
    left = " to ".join(str(row.target.size) for row in rows)
    right = " to ".join(str(bar.size) for row in rows for bar in row.frozen)
    return f"The target has values of sizes {left}; the frozen network {right}"
