"""The two networks side by side, as a drawing of their own.

Every map of the target, with the activation behind it, is a bar on the left whose length grows
with the logarithm of its size. On the right stand the frozen layers that take its place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reconstruct.reports.markup import Markup, element
from reconstruct.reports.names import elided

WIDTH = 560
LEFT, RIGHT, BAR = 8, 292, 236
STEP, HIGH = 46, 12
MOST_ROWS = 60
LONGEST_NAME = 29
JOINING = ("Relu", "LeakyRelu", "Elu", "Selu", "Clip", "Norm")  # drawn with what they follow


@dataclass(frozen=True)
class Bar:
    """One value: its name, its size, and what follows it."""

    name: str
    size: int
    note: str = ""
    hidden: bool = False
    shape: tuple[int, ...] = ()
    kernel: str = ""

    @property
    def words(self) -> str:
        """The size; of an image channels × height × width."""
        if len(self.shape) == 3 and self.shape[1] * self.shape[2] > 1:
            return "×".join(f"{n:,}" for n in self.shape)
        return f"{self.size:,}"


@dataclass(frozen=True)
class DiagramRow:
    """A value of the target, and the layers of the other network that make the same value."""

    target: Bar | None
    frozen: tuple[Bar, ...]


def rows_of(report: Mapping[str, Any]) -> list[DiagramRow]:
    """The rows to draw, from the graphs in the report; empty when they are too large."""
    measured = report.get("measurements") or {}
    graphs, sites = measured.get("graphs") or {}, measured.get("sites") or {}
    target, frozen = graphs.get("target"), graphs.get("frozen")
    if not target or not frozen:
        return []
    size_in = len(report["domain"]["lo"])
    left = _bars(target, size_in)
    if not sites:
        right = _bars(frozen, size_in)
        pairs = itertools.zip_longest(left, right)
        return [DiagramRow(a, () if b is None else (b,)) for a, b in pairs]
    nodes = {node["name"]: node for node in frozen}
    return [DiagramRow(bar, _made(bar, sites.get(bar.name), nodes)) for bar in left]


def _channels(size: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of so many values at the positions of `shape`."""
    positions = shape[1] * shape[2] if len(shape) == 3 else 0
    return (size // positions, *shape[1:]) if positions and size % positions == 0 else ()


def _bars(nodes: Sequence[Mapping[str, Any]], size_in: int) -> list[Bar]:
    """The network's values in order; an activation joins the bar that it follows."""
    first = next((n["image"] for n in nodes if n.get("image")), ())
    known = tuple(first) if math.prod(first) == size_in else ()
    bars, last = [Bar("input", size_in, shape=known)], "input"
    shapes: dict[tuple[str, ...], tuple[int, ...]] = {("input",): known}
    for node in nodes:
        if node["kind"] in JOINING and node["inputs"] == [last]:
            note = f"{bars[-1].note}, {node['kind']}" if bars[-1].note else str(node["kind"])
            bars[-1] = replace(bars[-1], note=note)
        else:
            shape = node.get("shape") or shapes.get(tuple(node["inputs"][:1]), ())
            shape = tuple(shape) if math.prod(shape) == node["size"] else ()
            kind = _kind({**node, "shape": shape})
            bars.append(Bar(node["name"], node["size"], kind, shape=shape, kernel=_kernel(node)))
        shapes[(node["name"],)] = bars[-1].shape
        last = node["name"]
    return bars


def _made(
    bar: Bar, layers: Sequence[str] | None, nodes: Mapping[str, Mapping[str, Any]]
) -> tuple[Bar, ...]:
    """The frozen layers of a site, the last one with what follows the target's map."""
    if not layers:
        return (bar,)
    made = []
    for norm in layers:
        size, last = nodes[norm]["size"], norm == layers[-1]
        shape = bar.shape if last else _channels(size, bar.shape)
        kernel = _kernel(nodes.get(nodes[norm]["inputs"][0], {}))  # of the map before the norm
        made.append(Bar(norm, size, bar.note if last else "", not last, shape, kernel))
    return tuple(made)


def _kernel(node: Mapping[str, Any]) -> str:
    """The size of a convolution's kernel; nothing for other maps."""
    if node.get("kind") != "Convolution" or not node.get("kernel"):
        return ""
    return f"{'×'.join(map(str, node['kernel']))} kernel"


def diagram(rows: Sequence[DiagramRow], right: str) -> Markup | None:
    """The drawing, or None when there is nothing to draw or too much."""
    total = sum(max(1, len(row.frozen)) for row in rows)
    if not rows or total > MOST_ROWS:
        return None
    longest = max(bar.size for row in rows for bar in (row.target, *row.frozen) if bar)
    parts: list[Markup] = [
        _text(LEFT, 16, "target g", "head"),
        _text(RIGHT, 16, right, "head"),
    ]
    y = 30
    for row in rows:
        height = STEP * max(1, len(row.frozen))
        parts.append(_band(y, height))
        if row.target:
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
    if kind in ("Affine", "Dense", "Sparse") or _kernel(node):
        return ""
    if kind == "Add":
        return "sum" if node.get("shape") else elided(" + ".join(node["inputs"]), LONGEST_NAME)
    return kind


def _bar(bar: Bar, x: int, y: int, longest: int) -> list[Markup]:
    share = math.log2(1 + bar.size) / math.log2(1 + max(longest, 1))
    kind = "hidden" if bar.hidden else "value"
    size = ", ".join(part for part in (bar.words, bar.kernel, bar.note) if part)
    return [
        _text(x + 4, y + 15, elided(bar.name, LONGEST_NAME), "label"),
        element(
            "rect", x=x + 4, y=y + 22, width=f"{share * (BAR - 88):.1f}", height=HIGH, class_=kind
        ),
        _text(f"{x + 10 + share * (BAR - 88):.1f}", y + 32, size, "size"),
    ]


def _band(y: int, height: int) -> Markup:
    return element("rect", x=0, y=y, width=WIDTH, height=height, rx=6, class_="band")


def _text(x: int | str, y: int, words: str, kind: str) -> Markup:
    return element("text", words, x=x, y=y, class_=kind)


def _spoken(rows: Sequence[DiagramRow]) -> str:
    left = " to ".join(str(row.target.size) for row in rows if row.target)
    right = " to ".join(str(bar.size) for row in rows for bar in row.frozen)
    return f"The target has values of sizes {left}; the frozen network {right}"
