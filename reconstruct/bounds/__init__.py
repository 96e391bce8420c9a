"""Rigorous bounds of a network's values over a box: interval arithmetic, CROWN, and branch and
bound."""

from reconstruct.bounds.methods import Adaptive, Crown, Interval, Method
from reconstruct.bounds.reach import Reach, reach
from reconstruct.bounds.sketch import Sketch, of_scaled, sketch

__all__ = [
    "Adaptive",
    "Crown",
    "Interval",
    "Method",
    "Reach",
    "Sketch",
    "of_scaled",
    "reach",
    "sketch",
]
