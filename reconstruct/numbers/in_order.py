"""The former name of `parallel.parallel_map`."""

from reconstruct.numbers.parallel import parallel_map as in_order

__all__ = ["in_order"]
