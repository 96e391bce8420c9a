"""The gammas and betas that were found."""

from __future__ import annotations

import numpy as np

from reconstruct.reports.figures.norm_figures import near_zero, norm_figure
from reconstruct.reports.markup import Child, Markup, element, figure, table, whole
from reconstruct.reports.names import named
from reconstruct.reports.numbers import DASH, number, percent, pretty
from reconstruct.reports.run_files import RunFiles

MOST_ROWS = 60
CAPTION = (
    "γ and β of each norm layer: the line goes from the least to the largest, the thick part holds "
    "the middle half, the dot is the median."
)
HEAD = (
    "norm layer",
    "channels",
    whole("least |γ|"),
    whole("largest |γ|"),
    whole("near-zero γ"),
    whole("largest |β|"),
)


def section(run: RunFiles) -> Markup | None:
    if not run.gammas:
        return None
    drawing = norm_figure(run.gammas, run.betas)
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
        figure(drawing, CAPTION) if drawing else None,
        table("Norm layers", HEAD, [_row(run, name) for name in names[:MOST_ROWS]]),
        element("p", f"{len(names) - MOST_ROWS} more are in norms.npz.")
        if len(names) > MOST_ROWS
        else None,
        id="norms",
    )


def _row(run: RunFiles, name: str) -> tuple[Child, ...]:
    gamma, beta = run.gammas[name], run.betas.get(name, np.empty(0))
    return (
        named(name),
        f"{len(gamma):,}",
        pretty(number(float(np.min(np.abs(gamma), initial=np.inf)))) if len(gamma) else DASH,
        pretty(number(float(np.max(np.abs(gamma), initial=0.0)))),
        percent(near_zero(gamma)),
        pretty(number(float(np.max(np.abs(beta), initial=0.0)))),
    )
