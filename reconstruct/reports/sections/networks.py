"""The two networks, side by side, with their sizes.

Every value of the target, with the activation behind it, is a bar on the left whose length grows
with the logarithm of its size. On the right stand the frozen layers that take its place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reconstruct.reports.markup import Child, Markup, element, elided, figure, named, table
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.wording import weight_count

Node = Mapping[str, Any]
MOST_ROWS = 60
JOINING = ("Relu", "LeakyRelu", "Elu", "Selu", "Clip", "Norm")  # drawn with what they follow
LEGEND = (
    "Bars grow with the logarithm of the size; of images it is channels × height × width. Blue: "
    "values that both networks have. Orange: the hidden layers that the frozen network needs to "
    "make them."
)
PLAIN_LEGEND = "Bars grow with the logarithm of the size."


def section(run: RunFiles) -> Markup:
    report = run.report
    frozen = report.get("frozen")
    how = f": {frozen['summary']}" if frozen and "summary" in frozen else ""
    lead = (
        f"Construction “{frozen['construction']}”{how}. The weights of f are frozen; only the "
        f"γ and β of its norm layers were computed."
        if frozen
        else "Two networks were compared; neither was made by this run."
    )
    drawing = diagram(rows_of(report), "frozen f with its norms" if frozen else "candidate f")
    return element(
        "section",
        element("h2", "The two networks"),
        element("p", lead),
        figure(drawing, LEGEND if frozen else PLAIN_LEGEND),
        sizes(report),
        _merged(report),
        id="networks",
    )


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


def rows_of(report: Node) -> list[DiagramRow]:
    """The rows to draw, from the graphs in the report; empty when they are too large."""
    measured = report.get("measurements") or {}
    graphs, sites = measured.get("graphs") or {}, measured.get("sites") or {}
    target, frozen = graphs.get("target"), graphs.get("frozen")
    if not target or not frozen:
        return []
    size_in = len(report["domain"]["lo"])
    left = _bars(target, size_in)
    if not sites:
        pairs = itertools.zip_longest(left, _bars(frozen, size_in))
        return [DiagramRow(a, () if b is None else (b,)) for a, b in pairs]
    nodes = {node["name"]: node for node in frozen}
    return [DiagramRow(bar, _made(bar, sites.get(bar.name), nodes)) for bar in left]


def _bars(nodes: Sequence[Node], size_in: int) -> list[Bar]:
    """The network's values in order; an activation joins the bar that it follows."""
    first = next((n["image"] for n in nodes if n.get("image")), ())
    known = tuple(first) if math.prod(first) == size_in else ()
    bars, last = [Bar("input", size_in, shape=known)], "input"
    shapes: dict[str, tuple[int, ...]] = {"input": known}
    for node in nodes:
        kind = str(node["kind"])
        if kind in JOINING and node["inputs"] == [last]:
            bars[-1] = replace(bars[-1], note=f"{bars[-1].note}, {kind}".lstrip(", "))
        else:
            shape = node.get("shape") or shapes.get(next(iter(node["inputs"]), ""), ())
            shape = tuple(shape) if math.prod(shape) == node["size"] else ()
            note = "" if kind in ("Affine", "Dense", "Sparse") or _kernel(node) else kind
            if kind == "Add":
                note = "sum" if shape else elided(" + ".join(node["inputs"]))
            bars.append(Bar(node["name"], node["size"], note, shape=shape, kernel=_kernel(node)))
        shapes[node["name"]] = bars[-1].shape
        last = node["name"]
    return bars


def _made(bar: Bar, norms: Sequence[str] | None, nodes: Mapping[str, Node]) -> tuple[Bar, ...]:
    """The frozen layers of a site, the last one with what follows the target's map."""
    if not norms:
        return (bar,)
    made = []
    for norm in norms:
        size, last = nodes[norm]["size"], norm == norms[-1]
        positions = bar.shape[1] * bar.shape[2] if len(bar.shape) == 3 else size + 1
        hidden = (size // positions, *bar.shape[1:]) if size % positions == 0 else ()
        kernel = _kernel(nodes.get(nodes[norm]["inputs"][0], {}))  # of the map before the norm
        shape, note = (bar.shape, bar.note) if last else (hidden, "")
        made.append(Bar(norm, size, note, not last, shape, kernel))
    return tuple(made)


def _kernel(node: Node) -> str:
    """The size of a convolution's kernel; nothing for other maps."""
    if node.get("kind") != "Convolution" or not node.get("kernel"):
        return ""
    return f"{'×'.join(map(str, node['kernel']))} kernel"


def diagram(rows: Sequence[DiagramRow], right: str) -> Markup | None:
    """The drawing, or None when there is nothing to draw or too much."""
    if not rows or sum(max(1, len(row.frozen)) for row in rows) > MOST_ROWS:
        return None
    longest = max(bar.size for row in rows for bar in (row.target, *row.frozen) if bar)
    parts = [element("div", element("b", "target g"), element("b", right), class_="row head")]
    for row in rows:
        left = (row.target,) if row.target else ()
        sides = [element("div", *(_bar(bar, longest) for bar in s)) for s in (left, row.frozen)]
        parts.append(element("div", *sides, class_="row"))
    return element("div", *parts, class_="diagram")


def _bar(bar: Bar, longest: int) -> Markup:
    share = math.log2(1 + bar.size) / math.log2(1 + max(longest, 1))
    size = ", ".join(part for part in (bar.words, bar.kernel, bar.note) if part)
    kind = "hidden" if bar.hidden else "value"
    return element(
        "p",
        named(bar.name),
        element("span", element("i", class_=kind, style=f"width:{12 * share:.2f}em"), size),
    )


def sizes(report: Node) -> Markup:
    """Weights and parameters of both networks, as a table."""
    target, frozen = report["target"], report.get("frozen") or report.get("candidate") or {}
    weights, target_weights = weight_count(frozen), weight_count(target)
    known = frozen.get("parameters") is not None and frozen.get("tunable") is not None
    biases = frozen["parameters"] - frozen["tunable"] - weights if known else None
    rows = [
        ("affine maps", f"{len(target['maps']):,}", f"{len(frozen.get('maps') or ()):,}"),
        ("weights", f"{target_weights:,}", f"{weights:,}"),
        ("non-zero weights", "–", _count(frozen.get("nonzeros"))),
        (
            "biases (of g: with its norms)",
            _count(target["parameters"] - target_weights),
            _count(biases),
        ),
        ("norm parameters γ, β", "–", _count(frozen.get("tunable"))),
        ("parameters in all", _count(target["parameters"]), _count(frozen.get("parameters"))),
    ]
    return table("Sizes", ("", "target g", "f"), rows)


def _merged(report: Node) -> Markup | None:
    merged = report.get("merged") or {}
    if not merged:
        return None
    items = [_chain(names) for names in merged.values()]
    return element(
        "details",
        element("summary", f"Maps made from several nodes of the file: {len(merged)}"),
        element("ul", *items),
    )


def _chain(names: Sequence[str]) -> Markup:
    words: list[Child] = []
    for name in names:
        words += [" then " if words else None, named(name)]
    return element("li", *words, " became one map")


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
