"""Rigorous bounds of a network's values over a box: interval arithmetic, CROWN, and splitting."""

from reconstruct.bounds.methods import Crown, Interval, Method, Split
from reconstruct.bounds.reach import Reach, reach

__all__ = ["Crown", "Interval", "Method", "Reach", "Split", "reach"]
