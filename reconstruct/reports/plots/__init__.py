"""Plots as SVG: a figure is said, not drawn step by step, and needs nothing but NumPy.

    Figure("loss", "The loss falls", ((Panel((Curve(epochs, losses, FIRST),)),),)).svg()

A figure has panels, a panel has marks between two axes, an axis has a scale.
"""

from reconstruct.reports.plots.axis import Axis
from reconstruct.reports.plots.colours import (
    FAINT,
    FIRST,
    FOURTH,
    PAGE,
    SECOND,
    SERIES,
    THIRD,
    Palette,
)
from reconstruct.reports.plots.figure import Figure, Legend, svg
from reconstruct.reports.plots.marks import (
    DASHED,
    DOTTED,
    Bars,
    Curve,
    Dots,
    Mark,
    Note,
    Picture,
    Ribbon,
    Rule,
    Span,
    Stairs,
)
from reconstruct.reports.plots.panel import Panel
from reconstruct.reports.plots.scales import Linear, Logarithmic, SignedLogarithmic
from reconstruct.reports.plots.ticks import Tick

__all__ = [
    "DASHED",
    "DOTTED",
    "FAINT",
    "FIRST",
    "FOURTH",
    "PAGE",
    "SECOND",
    "SERIES",
    "THIRD",
    "Axis",
    "Bars",
    "Curve",
    "Dots",
    "Figure",
    "Legend",
    "Linear",
    "Logarithmic",
    "Mark",
    "Note",
    "Palette",
    "Panel",
    "Picture",
    "Ribbon",
    "Rule",
    "SignedLogarithmic",
    "Span",
    "Stairs",
    "Tick",
    "svg",
]
