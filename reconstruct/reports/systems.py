"""The systems that were solved, how that went, and the gammas and betas that came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from reconstruct.reports.figures import near_zero, norm_figure, residual_figure, spectrum_figure
from reconstruct.reports.markup import (
    Child,
    Markup,
    element,
    elided,
    figure,
    named,
    section,
    table,
    table_of,
    whole,
)
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.words import DASH, at_most, number, percent, pretty


def _shown(key: str) -> Callable[[Mapping[str, Any]], Child]:
    return lambda row: pretty(number(row[key]))


def _solver(row: Mapping[str, Any]) -> str:
    return str(row["solver"] if row["status"] == "solved" else f"{row['solver']}: {row['status']}")


def _positions(row: Mapping[str, Any]) -> str:
    """Where a kernel is used: height × width behind it, its own size and its steps."""
    geometry = row.get("geometry")
    if not geometry:
        return "1"
    kernel, strides = "×".join(map(str, geometry["kernel"])), geometry["strides"]
    steps = "" if set(strides) == {1} else f", stride {'×'.join(map(str, strides))}"
    return f"{row['positions']:,} (kernel {kernel}{steps})"


SYSTEMS = (
    ("map", lambda row: str(row["index"])),
    ("name", lambda row: named(str(row["name"]))),
    ("m×k", lambda row: f"{row['rows']}×{row['cols']}"),
    ("positions", _positions),
    ("width n", lambda row: f"{row['width']:,}"),
    ("solver", _solver),
    ("steps", lambda row: str(row["iterations"])),
    ("residual", _shown("residual")),
    ("entry bound", lambda row: pretty(at_most(row["residual_bound"]))),
    ("condition", _shown("condition")),
    (whole("largest |γ|"), _shown("gamma_max")),
    ("shift", _shown("shift_max")),
    ("s", lambda row: f"{row['seconds']:.2f}"),
)
ITERATIONS = (
    ("map", lambda row: str(row["index"])),
    ("n / (m·k)", lambda row: f"{row['width'] / (row['rows'] * row['cols']):.3g}"),
    ("predicted", lambda row: f"{row['expected_iterations']:.0f}"),
    ("counted", lambda row: str(row["iterations"])),
)


def layers_section(run: RunFiles) -> Markup | None:
    layers = run.report.get("layers")
    if not layers:
        return None
    failed = [row for row in layers if row["status"] != "solved"]
    return section(
        "layers",
        "Layer by layer",
        element(
            "p",
            "Each m×k map W needs a γ that solves M2 diag(γ) M1 = W: m·k equations, n unknowns. "
            "“Residual” is what the solve left over, relative to W (numerical). “Entry bound” "
            "bounds every entry of the difference (rigorous). “Shift” is what keeps the hidden "
            "ReLUs active; a large one costs digits. The kernel of a convolution is used at many "
            "positions of an image; its system is solved once.",
        ),
        *(
            element(
                "p",
                f"Map {row['index']} ({elided(str(row['name']))}) was not solved. {row['message']}",
                class_="failure",
            )
            for row in failed
        ),
        element("div", table_of("Systems solved", layers, SYSTEMS), class_="names"),
        _factors(run),
    )


def _factors(run: RunFiles) -> Markup | None:
    """What the construction found out about each map, one column for each number it names."""
    factors = (run.report.get("frozen") or {}).get("factors")
    if not factors:
        return None
    words = {"name": "map", "rank": "rank used", "dropped": "left out"}
    head: list[str] = []
    for key, value in factors[0].items():
        word = words.get(key, key.replace("_", " "))
        head += [f"{word} from", "to"] if isinstance(value, list) else [word]
    caption = "Found out about each map (numerical)"
    if "singular_values" in factors[0]:
        caption = "Ranks: singular values at or below the cut count as zero (numerical)"
    return table(caption, tuple(head), [tuple(_cells(found)) for found in factors])


def _cells(found: Mapping[str, Any]) -> Iterator[Child]:
    for value in found.values():
        ends = (value or [DASH]) if isinstance(value, list) else None
        for part in (value,) if ends is None else (ends[0], ends[-1]):
            known = part is None or isinstance(part, float)
            yield pretty(number(part)) if known else named(str(part))


def norms_section(run: RunFiles, most: int = 60) -> Markup | None:
    if not run.gammas:
        return None
    total = np.concatenate([np.ravel(g) for g in run.gammas.values()])
    share = sum(near_zero(g) * len(g) for g in run.gammas.values()) / max(1, len(total))
    names = list(run.gammas)
    left = len(names) - most

    def largest(values: Any) -> str:
        return pretty(number(float(np.max(np.abs(values), initial=0.0))))

    columns: tuple[tuple[Child, Callable[[str], Child]], ...] = (
        ("norm layer", named),
        ("channels", lambda name: f"{len(run.gammas[name]):,}"),
        (whole("least |γ|"), lambda name: _least(run.gammas[name])),
        (whole("largest |γ|"), lambda name: largest(run.gammas[name])),
        (whole("near-zero γ"), lambda name: percent(near_zero(run.gammas[name]))),
        (whole("largest |β|"), lambda name: largest(run.betas.get(name, np.empty(0)))),
    )
    return section(
        "norms",
        "The norm parameters",
        element(
            "p",
            f"{len(total):,} γ and as many β were computed. {percent(share)} of the γ are near "
            f"zero: below a thousandth of their layer's root mean square.",
        ),
        figure(
            norm_figure(run.gammas, run.betas),
            "γ and β of each norm layer: the line goes from the least to the largest, the thick "
            "part holds the middle half, the dot is the median.",
        ),
        table_of("Norm layers", names[:most], columns),
        element("p", f"{left} more are in norms.npz.") if left > 0 else None,
    )


def _least(gamma: Any) -> str:
    return pretty(number(float(np.min(np.abs(gamma))))) if len(gamma) else DASH


def solves_section(run: RunFiles) -> Markup | None:
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
        ),
        figure(residuals, "Relative residual after each iteration."),
    ]
    return section(
        "solves",
        "How the systems were solved",
        element("div", *pictures, class_="pair"),
        table_of(
            "Iterations of conjugate gradients: predicted (numerical) and counted",
            predicted,
            ITERATIONS,
        )
        if predicted
        else None,
    )
