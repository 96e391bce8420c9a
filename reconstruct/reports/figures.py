"""The figures of a run's page; f is the network that was made, g the target.

Each takes a part of report.json and gives a drawing, or None where there is nothing to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.reports.markup import Markup
from reconstruct.reports.plotting import (
    FAINT,
    FAR,
    FIRST,
    FOURTH,
    NEAR,
    SECOND,
    SERIES,
    THIRD,
    WIDE,
    drawing,
    legend_above,
    logarithmic,
    named_rows,
    positive,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

KINDS = (
    ("measured", "measured", "o", FIRST),
    ("predicted", "predicted", "x", SECOND),
    ("bound", "certified: at most this", "<", FOURTH),
)
AT_CUTS = (
    ("certified", "certified", "v", FOURTH),
    ("float32", "f in float32", "s", SECOND),
    ("target_float32", "g in float32", "x", FAINT),
    ("float64", "f in float64", "o", FIRST),
)


def error_rows(report: Row) -> list[dict[str, Any]]:
    """Real arithmetic, float64, float32 and, for comparison, the target itself in float32: what is
    known of the largest |f − g| in each; None is not known."""
    error = report["error"]
    predicted = (report.get("measurements") or {}).get("predicted") or {}
    names = ("label", "measured", "predicted", "bound")
    rows = [
        ("real arithmetic", None, None, error["certified_bound"]),
        *(
            (k, error[f"{k}_max"], predicted.get(k), error[f"{k}_bound"])
            for k in ("float64", "float32")
        ),
        ("target in float32", error["target_float32_max"], None, None),
    ]
    return [dict(zip(names, row, strict=True)) for row in rows]


def error_figure(rows: Sequence[Row], tolerance: float | None) -> Markup | None:
    """A dot for what was measured, a cross for the prediction, an arrow for the bound."""
    known = [v for row in rows for kind, *_ in KINDS if (v := row[kind]) is not None and v > 0]
    if not known:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for kind, label, marker, colour in KINDS:
            values = positive(row[kind] for row in rows)
            axes.plot(values, -np.arange(len(rows)), marker, color=colour, label=label)
        if tolerance is not None and NEAR < tolerance < FAR:
            axes.axvline(tolerance, color=FAINT, linestyle="--", linewidth=1, label="tolerance")
        axes.set_xlabel("largest |f − g|")
        logarithmic(axes, "x")
        named_rows(axes, [row["label"] for row in rows])
        legend_above(figure, axes)

    title = f"Errors between {min(known):.2g} and {max(known):.2g}; the table below has them all"
    return drawing("errors", title, draw, (WIDE[0], 2.6))


def layer_figure(rows: Sequence[Row]) -> Markup | None:
    """Errors above, largest shifts below, both on logarithmic scales, one place per layer."""
    if len(rows) < 2 or not any((row[key] or 0) > 0 for row in rows for key, *_ in AT_CUTS):
        return None
    places = np.arange(1, len(rows) + 1)

    def draw(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2.4, 1.0))
        for key, label, marker, colour in AT_CUTS:
            values = positive(row[key] for row in rows)
            if np.isfinite(values).any():
                top.plot(places, values, color=colour, label=label, marker=marker)
        shifts = positive(row["shift"] for row in rows)
        bottom.bar(places, np.nan_to_num(shifts), color=THIRD, width=0.6)
        if np.isfinite(shifts).any():
            logarithmic(bottom)
            bottom.set_ylim(bottom=np.nanmin(shifts) / 10)
        bottom.set(xlabel="layer", ylabel="largest shift", xlim=(0.4, len(rows) + 0.6))
        top.set_ylabel("largest |f − g|")
        logarithmic(top)
        whole_numbers(bottom)
        legend_above(figure, top)

    title = f"Errors and largest shifts behind {len(rows)} layers; the table below has them all"
    return drawing("layer-errors", title, draw, (WIDE[0], 4.0))


def residual_figure(layers: Sequence[Row]) -> Markup | None:
    """The relative residual after each iteration, one curve per system."""
    histories = {row["index"]: positive(row.get("history") or ()) for row in layers}
    shown = {index: h for index, h in histories.items() if np.isfinite(h).sum() > 1}
    if not shown:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for i, (index, history) in enumerate(list(shown.items())[:12]):
            style = ("-", "--", ":")[i // len(SERIES) % 3]  # colours come again with other dashes
            colour, steps = SERIES[i % len(SERIES)], range(1, len(history) + 1)
            axes.plot(steps, history, style, color=colour, label=f"map {index}")
        axes.set(xlabel="iteration", ylabel="relative residual")
        whole_numbers(axes)
        logarithmic(axes)
        axes.legend(ncols=2, loc="upper right")

    most = max(map(len, shown.values()))
    title = f"Relative residual against iteration for {len(shown)} systems, at most {most} steps"
    return drawing("residuals", title, draw)
