"""The two networks, side by side, with their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconstruct.reports.figures.diagram import diagram, rows_of
from reconstruct.reports.markup import Child, Markup, element, figure, table
from reconstruct.reports.names import named
from reconstruct.reports.numbers import weight_count
from reconstruct.reports.run_files import RunFiles

LEGEND = (
    "Bars grow with the logarithm of the size; of images it is channels × height × width. Blue: "
    "values that both networks have. Orange: the hidden layers that the frozen network needs to "
    "make them."
)
PLAIN_LEGEND = "Bars grow with the logarithm of the size."


def section(run: RunFiles) -> Markup:
    report = run.report
    frozen = report.get("frozen")
    drawing = diagram(rows_of(report), "frozen f with its norms" if frozen else "candidate f")
    how = f": {frozen['summary']}" if frozen and "summary" in frozen else ""
    lead = (
        f"Construction “{frozen['construction']}”{how}. The weights of f are frozen; only the "
        f"γ and β of its norm layers were computed."
        if frozen
        else "Two networks were compared; neither was made by this run."
    )
    picture = figure(drawing, LEGEND if frozen else PLAIN_LEGEND) if drawing else None
    return element(
        "section",
        element("h2", "The two networks"),
        element("p", lead),
        picture,
        _sizes(report),
        _merged(report),
        id="networks",
    )


def _sizes(report: Any) -> Markup:
    target, frozen = report["target"], report.get("frozen") or report.get("candidate") or {}
    weights, target_weights = weight_count(frozen), weight_count(target)
    known = frozen.get("parameters") is not None and frozen.get("tunable") is not None
    biases = f"{frozen['parameters'] - frozen['tunable'] - weights:,}" if known else "–"
    rows = [
        ("affine maps", f"{len(target['maps']):,}", f"{len(frozen.get('maps') or ()):,}"),
        ("weights", f"{target_weights:,}", f"{weights:,}"),
        ("non-zero weights", "–", _count(frozen.get("nonzeros"))),
        ("biases (of g: with its norms)", _count(target["parameters"] - target_weights), biases),
        ("norm parameters γ, β", "–", _count(frozen.get("tunable"))),
        ("parameters in all", _count(target["parameters"]), _count(frozen.get("parameters"))),
    ]
    return table("Sizes", ("", "target g", "f"), rows)


def _merged(report: Any) -> Markup | None:
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
