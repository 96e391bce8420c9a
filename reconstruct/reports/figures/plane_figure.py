"""A network of two inputs as three maps: g, and |f − g| in each precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reconstruct.reports.figures.canvas import drawn, power_of_ten
from reconstruct.reports.markup import Markup

LEAST = 1e-300


def plane_figure(plane: Mapping[str, Any] | None) -> Markup | None:
    """Three pictures of the box, each with its own scale of colours."""
    if not plane:
        return None
    side = int(plane["side"])
    ends = [plane["lo"][0], plane["hi"][0], plane["lo"][1], plane["hi"][1]]

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 3, sharey=True)
        names = ("target", "float64", "float32")
        titles = ("g", "|f − g|, float64", "|f − g|, float32")
        for place, name, title in zip(axes, names, titles, strict=True):
            picture = np.asarray(plane[name]).reshape(side, side).T
            shown = picture if name == "target" else np.log10(np.maximum(picture, LEAST))
            lowest = picture[picture > 0].min(initial=np.inf)
            floor = None if name == "target" or not np.isfinite(lowest) else np.log10(lowest)
            drawing = place.imshow(
                shown, origin="lower", extent=ends, aspect="auto", cmap="viridis", vmin=floor
            )
            bar = figure.colorbar(drawing, ax=place, location="bottom", pad=0.02)
            bar.ax.locator_params(nbins=3)
            if name != "target":
                bar.ax.xaxis.set_major_formatter(lambda v, _: power_of_ten(10.0**v))
            place.set_title(title)
            place.grid(False)
            place.locator_params(nbins=3)
        axes[0].set_ylabel("second input")
        axes[1].set_xlabel("first input")

    double, single = max(plane["float64"]), max(plane["float32"])
    title = (
        f"Output {plane['output']} over the box: g, and |f − g|, which reaches {double:.2g} in "
        f"float64 and {single:.2g} in float32"
    )
    return drawn("plane", title, draw, height=3.2)
