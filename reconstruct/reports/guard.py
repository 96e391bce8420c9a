"""What the guard says: of inputs of the domain, and of others that a user brings.

Shifts are made for the domain, so a margin there is 0 or more whatever the slack. How much of the
inputs to come is covered only other inputs can tell. Numerical, all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import Result
from reconstruct.reports.effort import affordable

TRIED = 32  # inputs of the domain at which the guard is tried
MOST_UNSEEN = 10_000
WORK = 2e11  # multiplications for the unseen inputs: they are asked for


def guard_part(
    result: Result, file: str, slack: float | None, unseen: Array | None
) -> dict[str, Any]:
    """The share with margin ≥ 0 on the domain's own inputs, and on `unseen` ones (rows)."""
    margins = result.margin(result.domain.sample(TRIED, np.random.default_rng(0))[:TRIED])
    return {
        "file": file,
        "slack": slack,
        "inputs": len(margins),
        "share": float(np.mean(margins >= 0)),
        "least_margin": float(margins.min()),
        "unseen": None if unseen is None else _unseen(result, unseen),
    }


def _unseen(result: Result, x: Array) -> dict[str, Any] | None:
    """How many are covered, and the largest |f − g| on these and on the others."""
    count = affordable(result.target, result.network, min(MOST_UNSEEN, len(x)), WORK)
    if not count:
        return None
    with np.errstate(all="ignore"):
        covered = result.margin(x[:count]) >= 0
        gaps = np.max(np.abs(result.network(x[:count]) - result.target(x[:count])), axis=1)
    return {
        "inputs": count,
        "of": len(x),
        "covered": int(np.count_nonzero(covered)),
        "covered_error": _largest(gaps[covered]),
        "others_error": _largest(gaps[~covered]),
    }


def _largest(gaps: Array) -> float | None:
    """None where there is no input, or an answer that is no number."""
    top = float(gaps.max()) if gaps.size else np.nan
    return top if np.isfinite(top) else None
