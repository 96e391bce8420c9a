"""The former home of what is in `parallel` now."""

from reconstruct.numbers.parallel import (
    at_most_threads,
    cpu_count,
    one_blas_thread,
    physical_memory,
)

__all__ = ["at_most_threads", "cpu_count", "one_blas_thread", "physical_memory"]
