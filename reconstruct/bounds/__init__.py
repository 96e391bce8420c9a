"""Rigorous bounds of a network's values over a box: interval arithmetic, and CROWN on one box or on
the boxes of a partition."""

from reconstruct.bounds.methods import Adaptive, Crown, Interval, Method
from reconstruct.bounds.partition import Partition
from reconstruct.bounds.reach import Reach, reach
