"""Measured, predicted and certified errors on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconstruct.reports.figures.canvas import drawn, powers_of_ten
from reconstruct.reports.figures.palette import FAINT, FIRST, FOURTH, SECOND
from reconstruct.reports.markup import Markup


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

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for kind, marker, colour in (
            ("measured", "o", FIRST),
            ("predicted", "x", SECOND),
            ("bound", "<", FOURTH),
        ):
            points = [(getattr(row, kind), -i) for i, row in enumerate(rows)]
            shown = [(x, y) for x, y in points if x is not None and x > 0]
            label = {"bound": "certified: at most this"}.get(kind, kind)
            xs, ys = [p[0] for p in shown], [p[1] for p in shown]
            axes.plot(xs, ys, marker, color=colour, markersize=8, label=label)
        if tolerance is not None and tolerance > 0:
            axes.axvline(tolerance, color=FAINT, linestyle=(0, (4, 3)), label="tolerance")
        axes.set_xscale("log")
        powers_of_ten(axes.xaxis)
        axes.set_yticks([-i for i in range(len(rows))], [row.label for row in rows])
        axes.set_ylim(-len(rows) + 0.5, 0.5)
        axes.set_xlabel("|f − g|")
        figure.legend(loc="outside upper center", ncols=4, handletextpad=0.2, columnspacing=1.0)

    title = f"Errors between {min(known):.2g} and {max(known):.2g}; the table below has them all"
    return drawn("errors", title, draw, height=2.7)
