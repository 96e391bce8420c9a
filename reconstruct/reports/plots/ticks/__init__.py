"""Which places of an axis are named, and how: one file for each kind of scale."""

from reconstruct.reports.plots.ticks.evenly import even_ticks
from reconstruct.reports.plots.ticks.powers import doubling_ticks, power_ticks
from reconstruct.reports.plots.ticks.signed import signed_ticks
from reconstruct.reports.plots.ticks.tick import Tick, Ticks

__all__ = ["Tick", "Ticks", "doubling_ticks", "even_ticks", "power_ticks", "signed_ticks"]
