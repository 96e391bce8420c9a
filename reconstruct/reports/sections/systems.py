"""The systems that were solved, how that went, and the gammas and betas that came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from reconstruct.reports.figures import near_zero, norm_figure, residual_figure, spectrum_figure
from reconstruct.reports.markup import Child, Markup, element, elided, figure, named, table, whole
from reconstruct.reports.numbers import DASH, at_most, number, percent, pretty
from reconstruct.reports.reading import RunFiles

MOST_ROWS = 60  # norm layers in a table
CAPTION = (
    "γ and β of each norm layer: the line goes from the least to the largest, the thick part holds "
    "the middle half, the dot is the median."
)
NORM_HEAD = (
    "norm layer",
    "channels",
    whole("least |γ|"),
    whole("largest |γ|"),
    whole("near-zero γ"),
    whole("largest |β|"),
)
SYSTEM_HEAD = (
    "map",
    "name",
    "m×k",
    "positions",
    "width n",
    "solver",
    "steps",
    "residual",
    "entry bound",
    "condition",
    whole("largest |γ|"),
    "shift",
    "s",
)

HEADINGS = {
    "name": "map",
    "rank": "rank used",
    "dropped": "left out",
}
RANKS = "Ranks: singular values at or below the cut count as zero (numerical)"


def layers_section(run: RunFiles) -> Markup | None:
    layers = run.report.get("layers")
    if not layers:
        return None
    failed = [row for row in layers if row["status"] != "solved"]
    return element(
        "section",
        element("h2", "Layer by layer"),
        element(
            "p",
            "Each m×k map W needs a γ that solves M2 diag(γ) M1 = W: m·k equations, n unknowns. "
            "“Residual” is what the solve left over, relative to W (numerical). “Entry bound” "
            "bounds every entry of the difference (rigorous). “Shift” is what keeps the hidden "
            "ReLUs active; a large one costs digits. The kernel of a convolution is used at many "
            "positions of an image; its system is solved once.",
        ),
        *(element("p", _failure(row), class_="failure") for row in failed),
        element(
            "div",
            table("Systems solved", SYSTEM_HEAD, [_row(row) for row in layers]),
            class_="names",
        ),
        _factors(run),
        id="layers",
    )


def _factors(run: RunFiles) -> Markup | None:
    """What the construction found out about each map, one column for each number it names."""
    factors = (run.report.get("frozen") or {}).get("factors")
    if not factors:
        return None
    head: list[str] = []
    for key, value in factors[0].items():
        word = HEADINGS.get(key, key.replace("_", " "))
        head += [f"{word} from", "to"] if isinstance(value, list) else [word]
    rows = [tuple(_cells(f)) for f in factors]
    caption = RANKS if "singular_values" in factors[0] else "Found out about each map (numerical)"
    return table(caption, tuple(head), rows)


def _cells(found: Mapping[str, Any]) -> Iterator[Child]:
    for value in found.values():
        ends = (value or [DASH]) if isinstance(value, list) else None
        for part in (value,) if ends is None else (ends[0], ends[-1]):
            known = part is None or isinstance(part, float)
            yield pretty(number(part)) if known else named(str(part))


def _row(row: Mapping[str, Any]) -> tuple[Child, ...]:
    solver = row["solver"] if row["status"] == "solved" else f"{row['solver']}: {row['status']}"
    return (
        str(row["index"]),
        named(str(row["name"])),
        f"{row['rows']}×{row['cols']}",
        _positions(row),
        f"{row['width']:,}",
        str(solver),
        str(row["iterations"]),
        pretty(number(row["residual"])),
        pretty(at_most(row["residual_bound"])),
        pretty(number(row["condition"])),
        pretty(number(row["gamma_max"])),
        pretty(number(row["shift_max"])),
        f"{row['seconds']:.2f}",
    )


def _positions(row: Mapping[str, Any]) -> str:
    """Where a kernel is used: height × width behind it, its own size and its steps."""
    geometry = row.get("geometry")
    if not geometry:
        return "1"
    kernel, strides = "×".join(map(str, geometry["kernel"])), set(geometry["strides"])
    steps = "" if strides == {1} else f", stride {'×'.join(map(str, geometry['strides']))}"
    return f"{row['positions']:,} (kernel {kernel}{steps})"


def _failure(row: Mapping[str, Any]) -> str:
    return f"Map {row['index']} ({elided(str(row['name']))}) was not solved. {row['message']}"


def norms_section(run: RunFiles) -> Markup | None:
    if not run.gammas:
        return None
    total = np.concatenate([np.ravel(g) for g in run.gammas.values()])
    share = sum(near_zero(g) * len(g) for g in run.gammas.values()) / max(1, len(total))
    names = list(run.gammas)
    return element(
        "section",
        element("h2", "The norm parameters"),
        element(
            "p",
            f"{len(total):,} γ and as many β were computed. {percent(share)} of the γ are near "
            f"zero: below a thousandth of their layer's root mean square.",
        ),
        figure(norm_figure(run.gammas, run.betas), CAPTION),
        table("Norm layers", NORM_HEAD, [_norm_row(run, name) for name in names[:MOST_ROWS]]),
        element("p", f"{len(names) - MOST_ROWS} more are in norms.npz.")
        if len(names) > MOST_ROWS
        else None,
        id="norms",
    )


def _norm_row(run: RunFiles, name: str) -> tuple[Child, ...]:
    gamma, beta = run.gammas[name], run.betas.get(name, np.empty(0))
    return (
        named(name),
        f"{len(gamma):,}",
        pretty(number(float(np.min(np.abs(gamma), initial=np.inf)))) if len(gamma) else DASH,
        pretty(number(float(np.max(np.abs(gamma), initial=0.0)))),
        percent(near_zero(gamma)),
        pretty(number(float(np.max(np.abs(beta), initial=0.0)))),
    )


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
