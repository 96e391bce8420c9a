"""The two networks, side by side, with their sizes.

Every value of the target, with the activation behind it, is a bar on the left whose length grows
with the logarithm of its size. On the right stand the frozen layers that take its place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from reconstruct.reports.markup import Child, Markup, element, figure, named, table
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.words import DASH, weight_count

JOINING = ("Relu", "LeakyRelu", "Elu", "Selu", "Clip", "Norm")  # drawn with what they follow
Node: TypeAlias = Mapping[str, Any]
Bar: TypeAlias = tuple[str, int, str, bool]  # name, size, what is said of it, hidden or not


def section(run: RunFiles) -> Markup:
    report = run.report
    frozen = report.get("frozen")
    lead, right = "Two networks were compared; neither was made by this run.", "candidate f"
    legend = "Bars grow with the logarithm of the size; of images it is channels × height × width."
    if frozen:
        how = f": {frozen['summary']}" if "summary" in frozen else ""
        lead = (
            f"Construction “{frozen['construction']}”{how}. The weights of f are frozen; only the "
            f"γ and β of its norm layers were computed."
        )
        legend += (
            " Blue: values that both networks have. Orange: the hidden layers that the frozen "
            "network needs to make them."
        )
        right = "frozen f with its norms"
    return element(
        "section",
        element("h2", "The two networks"),
        element("p", lead),
        figure(diagram(rows_of(report), right), legend),
        sizes(report),
        _merged(report.get("merged") or {}),
        id="networks",
    )


def rows_of(report: Node) -> list[tuple[list[Bar], list[Bar]]]:
    """Values of g, each beside the layers of f that make it; none when the graphs are too large."""
    measured = report.get("measurements") or {}
    graphs, sites = measured.get("graphs") or {}, measured.get("sites") or {}
    if not graphs.get("target") or not graphs.get("frozen"):
        return []
    size_in = len(report["domain"]["lo"])
    left, right = (_bars(graphs[name], size_in) for name in ("target", "frozen"))
    if not sites:
        pairs = itertools.zip_longest(left, right)
        return [([a] if a else [], [b] if b else []) for a, b in pairs]
    frozen = {node["name"]: node for node in graphs["frozen"]}
    rows = []
    for bar in left:
        norms: list[str] = list(sites.get(bar[0]) or [])
        made: list[Bar] = [(n, frozen[n]["size"], f"{frozen[n]['size']:,}", True) for n in norms]
        if made:  # the last layer of a site has the value of g itself
            made[-1] = (norms[-1], bar[1], bar[2], False)
        rows.append(([bar], made or [bar]))
    return rows


def _bars(nodes: Sequence[Node], size_in: int) -> list[Bar]:
    """The network's values in order; an activation joins the bar that it follows."""
    bars: list[Bar] = [("input", size_in, f"{size_in:,}", False)]
    last = "input"
    for node in nodes:
        kind, (name, size, said, _) = str(node["kind"]), bars[-1]
        if node["inputs"] == [last] and kind in JOINING:
            bars[-1] = (name, size, f"{said}, {kind}", False)
        else:
            words = ["×".join(f"{n:,}" for n in node.get("shape") or (node["size"],))]
            if node.get("kernel"):
                words.append(f"{'×'.join(map(str, node['kernel']))} kernel")
            if kind not in ("Affine", "Dense", "Sparse", "Convolution"):
                words.append("sum" if kind == "Add" else kind)
            bars.append((node["name"], node["size"], ", ".join(words), False))
        last = node["name"]
    return bars


def diagram(rows: Sequence[tuple[list[Bar], list[Bar]]], right: str) -> Markup | None:
    """The drawing, or None when there is nothing to draw or too much."""
    if not rows or sum(max(1, len(f)) for _, f in rows) > 60:
        return None
    longest = math.log2(1 + max(bar[1] for row in rows for side in row for bar in side))
    parts = [element("div", element("b", "target g"), element("b", right), class_="row head")]
    for row in rows:
        sides = [element("div", *(_drawn(bar, longest) for bar in side)) for side in row]
        parts.append(element("div", *sides, class_="row"))
    return element("div", *parts, class_="diagram")


def _drawn(bar: Bar, longest: float) -> Markup:
    name, size, said, hidden = bar
    width = f"width:{12 * math.log2(1 + size) / max(longest, 1.0):.2f}em"
    kind = "hidden" if hidden else "value"
    return element("p", named(name), element("span", element("i", class_=kind, style=width), said))


def sizes(report: Node) -> Markup:
    """Weights and parameters of both networks, as a table."""
    target, frozen = report["target"], report.get("frozen") or report.get("candidate") or {}
    weights, target_weights = weight_count(frozen), weight_count(target)
    known = frozen.get("parameters") is not None and frozen.get("tunable") is not None
    biases = frozen["parameters"] - frozen["tunable"] - weights if known else None
    rows = (
        ("affine maps", len(target["maps"]), len(frozen.get("maps") or ())),
        ("weights", target_weights, weights),
        ("non-zero weights", None, frozen.get("nonzeros")),
        ("biases (of g: with its norms)", target["parameters"] - target_weights, biases),
        ("norm parameters γ, β", None, frozen.get("tunable")),
        ("parameters in all", target["parameters"], frozen.get("parameters")),
    )
    shown = [(name, *(DASH if v is None else f"{v:,}" for v in pair)) for name, *pair in rows]
    return table("Sizes", ("", "target g", "f"), shown)


def _merged(merged: Mapping[str, Sequence[str]]) -> Markup | None:
    if not merged:
        return None
    items = []
    for names in merged.values():
        words: list[Child] = []
        for name in names:
            words += [" then " if words else None, named(name)]
        items.append(element("li", *words, " became one map"))
    summary = element("summary", f"Maps made from several nodes of the file: {len(merged)}")
    return element("details", summary, element("ul", *items))
