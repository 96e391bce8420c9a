"""Figures by matplotlib as SVG that takes its colours and its font from the page.

    drawing("loss", "The loss falls", lambda figure: figure.subplots().plot(epochs, losses))

matplotlib (extra `plot`) is imported when the first figure is drawn; without it there is none.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.reports.markup import Child, Markup, element
from reconstruct.reports.words import pretty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Draw: TypeAlias = "Callable[[Figure], object]"

# The colours of page.css in the light; in a page they become its variables, so that one figure
# reads in light and in dark.
FIRST, SECOND, THIRD, FOURTH = SERIES = ("#1c6fa8", "#b8541a", "#3d7d3a", "#8a3d8c")
INK, FAINT, GRID = "#1d2327", "#5d6970", "#e6e9e6"
VARIABLES = {
    **dict(zip(SERIES, ("--first", "--second", "--third", "--fourth"), strict=True)),
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--grid",
}
WIDE, HALF = (9.0, 3.2), (4.9, 3.0)  # inches; the page scales them, so this sizes their text
STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "axes.titley": 1.0,
    "figure.facecolor": "none",
    "figure.subplot.hspace": 0.35,
    "figure.subplot.wspace": 0.25,
    "grid.color": GRID,
    "image.cmap": "viridis",
    "legend.frameon": False,
    "legend.fontsize": "small",
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # words stay words: they can be selected, and have the page's font
    "svg.hashsalt": "reconstruct",  # the same figure always has the same bytes
    "text.color": INK,
    "text.parse_math": False,  # a layer may be called $x$
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": "small",
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": "small",
}
MISSING = (
    "Figures were left out: they need matplotlib (pip install 'reconstruct[plot]'), and "
    "RECONSTRUCT_FIGURES not to be 0."
)
FAR, NEAR = 1e300, 1e-300  # beyond them, differences and quotients of axis limits overflow


def available() -> bool:
    """Whether figures can be drawn, and are wanted: thousands of runs go without them."""
    return os.environ.get("RECONSTRUCT_FIGURES") != "0" and find_spec("matplotlib") is not None


def drawing(name: str, title: str, draw: Draw, size: tuple[float, float] = HALF) -> Markup | None:
    """What `draw` puts on an empty figure, for a page; None without matplotlib.

    `name` keeps ids apart from other figures', `title` is what a screen reader says.
    """
    if not available():
        return None
    text = plain_svg(draw, size)
    box = re.search(r'viewBox="([^"]*)"', text)
    inner = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    inner = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", inner, flags=16)
    inner = re.sub(r'(id="|href="#|url\(#)', rf"\1{name}-", inner)
    inner = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", inner)
    for colour, variable in VARIABLES.items():
        inner = inner.replace(colour, f"var({variable})")
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        Markup(re.sub(r"\n\s*", "\n", inner)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=box[1] if box else None,
        role="img",
        aria_labelledby=f"{name}-title",
    )


def figure(
    name: str, title: str, caption: Child, draw: Draw, size: tuple[float, float] = HALF
) -> Markup | None:
    """The drawing with its caption; None without matplotlib."""
    svg = drawing(name, title, draw, size)
    return None if svg is None else element("figure", svg, element("figcaption", caption))


def plain_svg(
    draw: Draw,
    size: tuple[float, float],
    layout: Literal["constrained"] | None = None,
    **settings: Any,
) -> str:
    """The figure as matplotlib writes it: a file of its own.

    A `layout` engine draws a figure twice more to measure its words, which took longer than all the
    rest of a small run; the figures of a page have margins of given widths instead.
    """
    import matplotlib.style
    from matplotlib.figure import Figure

    # Whatever a report's numbers are, the figure is drawn as far as it goes: matplotlib warns of
    # missing glyphs in names and of numbers near the ends of the floats.
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        matplotlib.style.context({**STYLE, **settings}, after_reset=True),
    ):
        warnings.simplefilter("ignore")
        figure, buffer = Figure(size, layout=layout), io.StringIO()
        if layout is None:  # ticks and a label; above, a title or a factor such as 1e−12
            margins(figure, left=0.85, right=0.15, bottom=0.5, top=0.3)
        draw(figure)
        if layout is None:
            _place_labels(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def margins(figure: Figure | SubFigure, **inches: float) -> None:
    """Blank space around the axes; a layout engine, where there is one, knows better."""
    if figure.get_layout_engine() is not None:
        return
    width, height = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    for side, blank in inches.items():
        share = blank / (width if side in ("left", "right") else height)
        figure.subplots_adjust(**{side: 1 - share if side in ("right", "top") else share})


def _place_labels(figure: Figure) -> None:
    """Labels at fixed distances from their axes; by itself matplotlib measures every tick first."""
    width, height = figure.get_size_inches()
    for axes in figure.axes:
        place = axes.get_position()
        axes.yaxis.set_label_coords(-0.65 / (width * place.width), 0.5)
        axes.xaxis.set_label_coords(0.5, -0.36 / (height * place.height))


def clipped(values: Iterable[float | None]) -> Array:
    """The values as floats that axes can bear; None is not a number, which is not drawn."""
    found = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    return np.clip(found, -FAR, FAR)


def positive(values: Iterable[float | None]) -> Array:
    """The same for a logarithmic axis: what is not above 0 is not drawn."""
    found = clipped(values)
    return np.where(found > 0, np.maximum(found, NEAR), np.nan)


def logarithmic(axes: Axes, which: str = "y") -> None:
    """A logarithmic axis with powers of ten as 10⁻³; where nothing has a logarithm it stays plain.

    Call it after the data are drawn.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.dataLim.intervalx if which == "x" else axes.dataLim.intervaly
    if not (np.isfinite([low, high]).all() and high > 0):
        return
    axes.set(**{f"{which}scale": "log"})
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_locator(NullLocator())  # they would be most of the figure's time
    least, most = axis.get_view_interval()
    if most < 50 * least:  # powers of ten alone would be one tick or none
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))


def plain_number(value: float) -> str:
    """`10⁻³`, `2·10⁻³`; numbers of ordinary size as they are."""
    ordinary = value == 0 or 0.009 < abs(value) < 9999
    return f"{value:g}".replace("-", "−") if ordinary else pretty(f"{value:.0e}")


def whole_numbers(axes: Axes) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def named_rows(axes: Axes, names: Sequence[str]) -> None:
    """The names at 0, −1, −2, … on the upright axis, the first at the top."""
    axes.set_yticks([-i for i in range(len(names))], names)
    axes.set_ylim(0.6 - len(names), 0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    margins(axes.figure, left=0.3 + 0.075 * max(map(len, names)))


def legend_above(figure: Figure, axes: Axes, columns: int = 4) -> None:
    """The names of what `axes` shows, above all of the figure."""
    handles, names = axes.get_legend_handles_labels()
    if not handles:
        return
    if figure.get_layout_engine() is None:
        figure.legend(handles, names, loc="upper left", ncols=columns)
        margins(figure, top=0.45)
    else:
        figure.legend(handles, names, loc="outside upper left", ncols=columns)
