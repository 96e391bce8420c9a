"""Constructions: each affine map of the target becomes a small frozen sub-graph."""

from reconstruct.constructions.construction import Construction, ExactNorm, SitePlan, SiteSolution
from reconstruct.constructions.deep import Deep
from reconstruct.constructions.factored import Factored, factor
from reconstruct.constructions.fitted import Fitted
from reconstruct.constructions.frozen import Frozen, draw
from reconstruct.constructions.grouped import Grouped
from reconstruct.constructions.stacked import Stacked
from reconstruct.constructions.wide import Wide

CONSTRUCTIONS = {
    "wide": Wide,
    "grouped": Grouped,
    "factored": Factored,
    "deep": Deep,
    "stacked": Stacked,
    "fitted": Fitted,
}  # by the command line's names
