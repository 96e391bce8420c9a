"""How a solve can end, with an explanation and a remedy for each, from one table."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Outcome of a solve; `explanation` says what it means and `remedy` what to try.

    Ranks are numerical, except where the exact solver or a proof modulo a prime found them.
    """

    SOLVED = "solved"
    RANK_DEFICIENT = "rank_deficient"
    TOO_NARROW = "too_narrow"
    NOT_CONVERGED = "not_converged"
    ILL_CONDITIONED = "ill_conditioned"

    @property
    def explanation(self) -> str:
        """What the status says about the system."""
        return _TABLE[self][0]

    @property
    def remedy(self) -> str:
        """What to try next; empty for SOLVED."""
        return _TABLE[self][1]


_TABLE: dict[Status, tuple[str, str]] = {
    Status.SOLVED: ("M2 diag(s) M1 equals W to rounding", ""),
    Status.RANK_DEFICIENT: (
        "the Khatri-Rao matrix of these M1, M2 does not have full row rank, "
        "and W is outside of its range",
        "draw weights from a continuous distribution, or use a larger width (ratio 1.5)",
    ),
    Status.TOO_NARROW: (
        "there are fewer hidden units than equations, and W is not among the maps that they reach",
        "widen the hidden layer to at least m·k, or factor W if its rank is low",
    ),
    Status.NOT_CONVERGED: (
        "the iteration stopped before the residual reached the tolerance",
        "use the direct solver, a larger width (ratio 1.5 or more), or more iterations",
    ),
    Status.ILL_CONDITIONED: (
        "the system has a solution, but float64 cannot carry it",
        "use a larger width (ratio 1.5 or more), or the exact solver",
    ),
}
