"""From matplotlib to SVG that lives inside a page: no metadata, no fonts, ids of its own.

matplotlib is optional: without it `available` is False and the page is made without figures.
"""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable
from typing import Any

from reconstruct.reports.figures.palette import FAINT, GRID, INK, themed
from reconstruct.reports.markup import Markup, escaped

WIDTH, HEIGHT = 5.2, 3.0  # inches; the page scales the drawing, so this sets the size of its text

STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.limits": (-3, 4),
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": True,
}

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Draw = Callable[[Any], None]


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def drawn(name: str, title: str, draw: Draw, height: float = HEIGHT) -> Markup | None:
    """The figure that `draw` puts on a matplotlib Figure, as inline SVG; None without matplotlib.

    `name` keeps its ids apart from those of other figures; `title` is what a screen reader says.
    """
    if not available():
        return None
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        _lay_out(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return inline(buffer.getvalue(), name, title)


def _lay_out(figure: Any) -> None:
    """Places the axes now: saving a figure that is still to be laid out draws it twice."""
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)


def inline(svg: str, name: str, title: str) -> Markup:
    """The `<svg>` element alone, themed, with prefixed ids, a title and nothing of its origin."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # it would style all the page
    body = re.sub(r'font-family: [^;"]*;? ?', "", body)
    body = re.sub(r'font: ([\d.]+px) [^;"]*', r"font-size: \1", body)
    opening = body[: body.index(">") + 1]
    box = re.search(r'viewBox="([^"]+)"', opening)
    assert box is not None, "matplotlib always writes a viewBox"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box[1]}" role="img" '
        f'aria-labelledby="{name}-title"><title id="{name}-title">{escaped(title)}</title>'
    )
    return Markup(themed(head + re.sub(r"\n\s*", "\n", body[len(opening) :])).strip())


def powers_of_ten(axis: Any) -> None:
    """Label a logarithmic axis with 10⁻⁸ as one word that any font can show.

    On a short axis 2 and 5 times a power are labelled too. Call it when all data is drawn.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    short = low > 0 and high < 300 * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())
    if short:
        axis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """10⁻⁸ for 1e-8, 2·10⁻⁸ for 2e-8."""
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
    return power if mantissa == "1" else f"{mantissa}·{power}"
