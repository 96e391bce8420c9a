"""The error: measured, predicted, certified, with what each of the words means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.figures import ErrorRow, error_figure, error_rows, layer_figure
from reconstruct.reports.markup import (
    Child,
    Markup,
    element,
    facts,
    figure,
    named,
    table,
    together,
    whole,
)
from reconstruct.reports.numbers import at_most, duration, number, pretty
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.wording import in_words

FOUND = ("float64", "float32", "relative", "g in float32")


def section(run: RunFiles) -> Markup:
    report = run.report
    details = report["certificate"]
    rows = error_rows(report)
    return element(
        "section",
        element("h2", "Measured, predicted, certified"),
        element(
            "p",
            "g is the target, f the network that is compared with it. What follows is about the "
            "largest difference |f − g| over all outputs.",
        ),
        figure(
            error_figure(rows, details.get("tolerance")),
            "What is known of |f − g|, on one scale.",
        ),
        table(
            "|f − g|, the largest over outputs and inputs",
            ("arithmetic", "measured", "relative", "predicted", "certified: at most"),
            [_row(row, details.get("output_scale")) for row in rows],
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
                ("proved by", str(details["method"])),
                ("tolerance", pretty(number(details.get("tolerance")))),
                ("largest output of g seen", pretty(number(details.get("output_scale")))),
                ("time to certify", duration(details.get("seconds"))),
            ]
        ),
        _tried(details.get("tried") or ()),
        id="errors",
    )


def _tried(steps: Sequence[str]) -> Markup | None:
    if not steps:
        return None
    items = [element("li", in_words(step)) for step in steps]
    return element("details", element("summary", "What was tried"), element("ul", *items))


def _row(row: ErrorRow, scale: float | None) -> tuple[Child, ...]:
    return (
        row.label,
        pretty(number(row.measured)),
        pretty(number(_relative(row.measured, scale))),
        pretty(number(row.predicted)),
        pretty(at_most(row.bound)),
    )


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
    cells = [
        (
            together((f"{i}: ", named(row["name"]))),
            pretty(number(row["scale"])),
            pretty(number(row["shift"])),
            pretty(at_most(row["certified"])),
            pretty(number(row["float64"])),
            pretty(number(row["float32"])),
            pretty(number(_relative(row["float32"], row["scale"]))),
            pretty(number(row["target_float32"])),
        )
        for i, row in enumerate(rows, start=1)
    ]
    head = ("behind", whole("largest |g|"), "shift", "certified", *FOUND)
    return (
        element("h3", "Behind each layer"),
        figure(drawing, caption) if drawing else element("p", caption),
        table("The error behind each layer", head, cells),
    )
