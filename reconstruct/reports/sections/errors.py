"""The error: measured, predicted, certified, with what each of the words means."""

from __future__ import annotations

from collections.abc import Sequence

from reconstruct.reports.figures.error_figure import ErrorRow, error_figure, error_rows
from reconstruct.reports.markup import Child, Markup, element, facts, figure, table
from reconstruct.reports.numbers import at_most, duration, number, pretty
from reconstruct.reports.run_files import RunFiles


def section(run: RunFiles) -> Markup:
    report = run.report
    details = report["certificate"]
    rows = error_rows(report)
    drawing = error_figure(rows, details.get("tolerance"))
    return element(
        "section",
        element("h2", "Measured, predicted, certified"),
        figure(drawing, "Every figure that is known, on one scale.") if drawing else None,
        table(
            "|f − g|, the largest over outputs and inputs",
            ("arithmetic", "measured", "predicted", "certified: at most"),
            [_row(row) for row in rows],
        ),
        element(
            "p",
            "Measured is numerical: the largest difference at the inputs that were tried. "
            "Predicted is numerical too: what rounding errors of random sign would add up to. "
            "Certified is rigorous: no input of the domain exceeds it, in whichever order sums "
            "are taken. “Target in float32” is what rounding does to the target by itself.",
        ),
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
    items = [element("li", step) for step in steps]
    return element("details", element("summary", "What was tried"), element("ul", *items))


def _row(row: ErrorRow) -> tuple[Child, ...]:
    return (
        row.label,
        pretty(number(row.measured)),
        pretty(number(row.predicted)),
        pretty(at_most(row.bound)),
    )
