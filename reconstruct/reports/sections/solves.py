"""How the systems behaved: singular values, residuals, predicted and counted iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconstruct.reports.figures.solve_figures import residual_figure, spectrum_figure
from reconstruct.reports.markup import Child, Markup, element, figure, table
from reconstruct.reports.run_files import RunFiles


def section(run: RunFiles) -> Markup | None:
    layers = run.report.get("layers")
    if not layers:
        return None
    spectrum = spectrum_figure(run.measurements.get("spectra") or ())
    residuals = residual_figure(layers)
    predicted = [row for row in layers if row.get("expected_iterations") is not None]
    if spectrum is None and residuals is None and not predicted:
        return None
    pictures = [
        figure(
            spectrum,
            "Singular values of the small Khatri-Rao matrices, divided by √n and their root mean "
            "square entry. Dotted: what the Marchenko-Pastur law expects of large random "
            "matrices. The smallest one decides how hard the solve is.",
        )
        if spectrum
        else None,
        figure(residuals, "Relative residual after each iteration.") if residuals else None,
    ]
    return element(
        "section",
        element("h2", "How the systems were solved"),
        element("div", *pictures, class_="pair"),
        _iterations(predicted) if predicted else None,
        id="solves",
    )


def _iterations(rows: list[Mapping[str, Any]]) -> Markup:
    body: list[tuple[Child, ...]] = [
        (
            str(row["index"]),
            f"{row['width'] / (row['rows'] * row['cols']):.3g}",
            f"{row['expected_iterations']:.0f}",
            str(row["iterations"]),
        )
        for row in rows
    ]
    caption = "Iterations of conjugate gradients: predicted (numerical) and counted"
    return table(caption, ("map", "n / (m·k)", "predicted", "counted"), body)
