"""How much of a frozen network's weights may stay in memory while its systems are solved.

Beside the weights a run holds Python and its libraries, the tiles under way, some vectors over the
hidden units and some matrices of the size of a map. What is left of the memory that was asked for
keeps tiles, so that they are not drawn anew in every iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.errors import InputError

HELD = 2**20  # entries up to which a matrix is held: 4 MiB
LEAST = 512 * 2**20  # bytes below which nothing can be promised
OWN = 480 * 2**20  # bytes of Python, its libraries and the tiles under way
PER_UNIT = 256  # bytes: vectors over hidden units, of a solve and of its norms
PER_EQUATION = 64  # bytes: matrices m × k


@dataclass(frozen=True)
class Allowance:
    """`memory` bytes for a run, one of whose sites has these `systems` (m, k, n)."""

    memory: int
    systems: tuple[tuple[int, int, int], ...]

    @property
    def share(self) -> float:
        """The share of the largest system's weights that may be kept while it is solved."""
        return min((self._share(*system) for system in self.systems), default=1.0)

    def _share(self, m: int, k: int, n: int) -> float:
        left = self.memory - OWN - PER_UNIT * n - PER_EQUATION * m * k
        return min(1.0, max(0.0, left / (4 * n * (m + k))))


def check_memory(memory: int) -> int:
    """The size, unless it is less than a run takes by itself."""
    if memory < LEAST:
        raise InputError(
            f"a run needs at least {LEAST // 2**20}M of memory by itself, but --memory allows "
            f"{memory // 2**20}M; allow more"
        )
    return memory
