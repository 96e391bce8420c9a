"""The difference of f and g: measured, predicted and certified; at inputs that a reader knows, with
the guard; and over the domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconstruct.reports.figures import (
    all_zero,
    error_figure,
    error_rows,
    histogram_figure,
    layer_figure,
    slice_figure,
)
from reconstruct.reports.markup import (
    Child,
    Markup,
    details,
    element,
    facts,
    figure,
    named,
    section,
    table,
    table_of,
    together,
    whole,
)
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.words import (
    at_most,
    duration,
    in_words,
    number,
    pretty,
)

GUARD = (
    "The guard is a second output of the network, the least margin of its hidden units. Where it "
    "is 0 or more, every hidden ReLU passes its value on, so that f computes g's own maps there, "
    "whether or not the input belongs to the domain of the claim. Where it is negative, nothing "
    "is known of the answer. The shifts were made for the domain, so that the share there says "
    "nothing of other inputs: x_unseen beside the data measures it."
)


def errors_section(run: RunFiles) -> Markup:
    report = run.report
    known, rows = report["certificate"], error_rows(report)
    tried = [element("li", in_words(step)) for step in known.get("tried") or ()]
    return section(
        "errors",
        "Measured, predicted, certified",
        figure(
            error_figure(rows, known.get("tolerance")), "What is known of |f − g|, on one scale."
        ),
        table(
            "|f − g|, the largest over outputs and inputs",
            ("arithmetic", "measured", "relative", "predicted", "certified: at most"),
            [_row(row, known.get("output_scale")) for row in rows],
        ),
        element(
            "p",
            "Measured is numerical: the largest difference at the inputs that were tried. "
            "Predicted is numerical too: what rounding errors of random sign would add up to. "
            "Certified is rigorous: no input of the domain exceeds it, in whichever order sums "
            "are taken. “Target in float32” is what rounding does to the target by itself; "
            "“relative” is the measured error over the largest output of g seen.",
        ),
        *_by_layer(run.measurements.get("layers") or ()),
        facts(
            [
                ("proved by", str(known["method"])),
                ("tolerance", pretty(number(known.get("tolerance")))),
                ("largest output of g seen", pretty(number(known.get("output_scale")))),
                ("time to certify", duration(known.get("seconds"))),
            ]
        ),
        details("What was tried", element("ul", *tried)) if tried else None,
    )


def _row(row: Mapping[str, Any], scale: float | None) -> list[Child]:
    found = (row["measured"], _relative(row["measured"], scale), row["predicted"])
    return [str(row["label"]), *(pretty(number(v)) for v in found), pretty(at_most(row["bound"]))]


def _relative(value: float | None, scale: float | None) -> float | None:
    """None where it is not known, or beyond the floats."""
    share = value / scale if value is not None and scale else math.inf
    return share if math.isfinite(share) else None


def _by_layer(rows: Sequence[Mapping[str, Any]]) -> tuple[Markup | None, ...]:
    """Where on the way the error grows: certified, met, and the shifts that cause it."""
    if not rows:
        return ()
    drawing = layer_figure(rows)
    caption = (
        "The error behind each layer, and the largest shift in it. Certified is rigorous and in "
        "real arithmetic; the others were met at a few inputs (numerical) and hold the rounding of "
        "the evaluation too, so that they may lie above it."
    )
    columns: tuple[tuple[Child, Callable[[Mapping[str, Any]], Child]], ...] = (
        ("behind", lambda row: together((f"{rows.index(row) + 1}: ", named(row["name"])))),
        (whole("largest |g|"), lambda row: pretty(number(row["scale"]))),
        ("shift", lambda row: pretty(number(row["shift"]))),
        ("certified", lambda row: pretty(at_most(row["certified"]))),
        ("float64", lambda row: pretty(number(row["float64"]))),
        ("float32", lambda row: pretty(number(row["float32"]))),
        ("relative", lambda row: pretty(number(_relative(row["float32"], row["scale"])))),
        ("g in float32", lambda row: pretty(number(row["target_float32"]))),
    )
    return (
        element("h3", "Behind each layer"),
        figure(drawing, caption) if drawing else element("p", caption),
        table_of("The error behind each layer", rows, columns),
    )


def inputs_section(run: RunFiles) -> Markup | None:
    shown, guard = (run.report.get("inputs") or {}).get("shown"), run.report.get("guard")
    if not shown and not guard:
        return None
    return section(
        "inputs",
        "Inputs, answers and the guard" if guard else "Inputs and answers",
        element("div", *map(_item, shown), class_="gallery") if shown else None,
        element("p", GUARD) if guard else None,
        facts(_guard(guard)) if guard else None,
    )


def _item(row: Mapping[str, Any]) -> Markup:
    """One input: the picture where it is one, and what both networks say."""
    lines: list[Child] = []
    if row["label"] is not None:
        lines.append(element("span", f"label {row['label']}"))
    if row["target"] is not None:
        same = row["target"] == row["network"]
        answer = f"g: {row['target']}, f: {row['network']}"
        lines.append(element("span", answer, class_=None if same else "standing refuted"))
    lines.append(element("span", f"|f − g| {pretty(number(row['difference']))}"))
    image = str(row["image"] or "")
    picture = (
        element("img", src=image, alt=f"input, label {row['label']}", class_="pixels")
        if image.startswith("data:image/png;base64,")
        else None
    )
    return element("figure", picture, element("figcaption", *lines))


def _guard(guard: Mapping[str, Any]) -> list[tuple[str, Child]]:
    told: list[tuple[str, Child]] = [("file", element("code", str(guard["file"])))]
    if guard.get("slack") is not None:
        told.append(("slack", f"ranges seen on the data, widened by {1 + guard['slack']:g}"))
    return [*told, ("least margin on the domain", pretty(number(guard["least_margin"])))]


def differences_section(run: RunFiles) -> Markup:
    found = run.report.get("difference") or {}
    samples = run.report["error"]["samples"]
    line = run.measurements.get("slice")
    worst = found.get("worst") or ()
    return section(
        "difference",
        "The difference over the domain",
        element(
            "p",
            "All of this is numerical: it shows where the networks differ most among the inputs "
            "that were looked at.",
        ),
        _same(found.get("histogram"), samples),
        figure(
            histogram_figure(found.get("histogram"), run.measurements.get("histogram")),
            f"How many of {samples:,} inputs drawn from the domain have which |f − g|; in float32 "
            f"beside what rounding does to g by itself.",
        ),
        figure(
            slice_figure(line),
            f"Output {(line or {}).get('output')} along the line from edge to edge through the "
            f"middle of the domain and the worst point found.",
        ),
        _worst(worst) if worst else None,
    )


def _same(histogram: Mapping[str, Any] | None, samples: int) -> Markup | None:
    """In place of a histogram of zeros; what is no number was not counted."""
    if not histogram or not all_zero(histogram):
        return None
    count = sum(histogram["counts"])
    inputs = "the one sampled input" if count == 1 else f"each of the {count:,} sampled inputs"
    if count < samples:
        inputs = f"{count:,} of {samples:,} sampled inputs"
    return element("p", f"At {inputs}, f − g is 0 in float64.")


def _worst(points: Sequence[Mapping[str, Any]]) -> Markup:
    rows: list[tuple[Child, ...]] = [
        (str(i), pretty(number(row["difference"])), element("code", _point(row["point"])))
        for i, row in enumerate(points[:10], start=1)
    ]
    return table("Inputs with the largest difference found", ("", "|f − g|", "input"), rows)


def _point(values: Sequence[float], most: int = 8) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:most])
    more = len(values) - most
    return f"({shown}{f', … {more} more' if more > 0 else ''})"
