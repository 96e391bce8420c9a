"""Measured, predicted and certified errors on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots import (
    FAINT,
    FIRST,
    FOURTH,
    SECOND,
    Axis,
    Dots,
    Figure,
    Legend,
    Logarithmic,
    Mark,
    Panel,
    Rule,
    Tick,
)

HEIGHT = 194.0
KINDS = (
    ("measured", "measured", "o", FIRST),
    ("predicted", "predicted", "x", SECOND),
    ("bound", "certified: at most this", "<", FOURTH),
)


@dataclass(frozen=True)
class ErrorRow:
    """What is known of the difference in one arithmetic; None is not known."""

    label: str
    measured: float | None
    predicted: float | None
    bound: float | None


def error_rows(report: Mapping[str, Any]) -> list[ErrorRow]:
    """Real arithmetic, float64, float32 and, for comparison, the target itself in float32."""
    error = report["error"]
    predicted = (report.get("measurements") or {}).get("predicted") or {}
    return [
        ErrorRow("real arithmetic", None, None, error["certified_bound"]),
        ErrorRow("float64", error["float64_max"], predicted.get("float64"), error["float64_bound"]),
        ErrorRow("float32", error["float32_max"], predicted.get("float32"), error["float32_bound"]),
        ErrorRow("target in float32", error["target_float32_max"], None, None),
    ]


def error_figure(rows: Sequence[ErrorRow], tolerance: float | None) -> Markup | None:
    """A dot for what was measured, a cross for the prediction, a bar's end for the bound."""
    known = [v for r in rows for v in (r.measured, r.predicted, r.bound) if v is not None and v > 0]
    if not known:
        return None
    marks: list[Mark] = [_dots(rows, *kind) for kind in KINDS]
    if tolerance is not None and tolerance > 0:
        marks.append(Rule(tolerance, FAINT, "tolerance"))
    names = tuple(Tick(-i, row.label) for i, row in reversed(list(enumerate(rows))))
    y = Axis(ticks=names, low=0.5 - len(rows), high=0.5)
    panel = Panel(tuple(marks), Axis("|f − g|", Logarithmic()), y)
    title = f"Errors between {min(known):.2g} and {max(known):.2g}; the table below has them all"
    return Figure("errors", title, ((panel,),), height=HEIGHT, legend=Legend.ABOVE).svg()


def _dots(rows: Sequence[ErrorRow], kind: str, label: str, marker: str, colour: str) -> Dots:
    """What is known of one kind; a value of 0 has no place on the scale."""
    points = [(getattr(row, kind), -i) for i, row in enumerate(rows)]
    shown = [(x, y) for x, y in points if x is not None and x > 0]
    return Dots([x for x, _ in shown], [y for _, y in shown], colour, label, marker)
