"""What a panel shows: each mark knows its values, and draws itself between two rulers."""

from reconstruct.reports.plots.marks.bars import Bars
from reconstruct.reports.plots.marks.curve import Curve
from reconstruct.reports.plots.marks.dots import Dots
from reconstruct.reports.plots.marks.mark import DASHED, DOTTED, Mark
from reconstruct.reports.plots.marks.note import Note
from reconstruct.reports.plots.marks.picture import Picture
from reconstruct.reports.plots.marks.ribbon import Ribbon
from reconstruct.reports.plots.marks.rule import Rule
from reconstruct.reports.plots.marks.span import Span
from reconstruct.reports.plots.marks.stairs import Stairs

__all__ = [
    "DASHED",
    "DOTTED",
    "Bars",
    "Curve",
    "Dots",
    "Mark",
    "Note",
    "Picture",
    "Ribbon",
    "Rule",
    "Span",
    "Stairs",
]
