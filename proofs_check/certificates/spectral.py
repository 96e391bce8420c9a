"""Errors by their Euclidean length: norms of maps, and weights in which units count alike.

‖M‖₂² = ‖MᵀM‖₂, which is repeated a few times, and then ‖G‖₂ ≤ ‖G‖_F. What rounding does to a
product of n terms is at most γ_n times that of absolute values, whose norm is at most ‖M‖_F².

All positive weights are right. These are the fourth root of b²/f²: f² adds up the squares of what
arrives at a unit, b² of what leaves it towards the output, half of it at every bend.

Rests on proofs_check: weighted-lengths, accumulated-rounding.
"""

from __future__ import annotations

import numpy as np

from proofs_check.certificates.arithmetic import UNIT, Floats
from proofs_check.certificates.chords import upper

DEPTH = 5  # Gram matrices of Gram matrices: the norm is then too large by a percent or two
LEAST = 2.0**-20  # of the largest square
FLOOR = 2.0**-900  # above what is lost below the smallest floats

Parts = list[tuple[str, Floats]]  # sources with their matrices


def spectral(stack: Floats, depth: int = DEPTH) -> Floats:
    """‖M‖₂ of every matrix of a stack, from above."""
    size = np.abs(stack).max(axis=(1, 2), initial=0.0)
    known = np.isfinite(size) & (size > 0)
    scale = np.ldexp(1.0, np.frexp(np.where(known, size, 1.0))[1])
    part = np.where(known[:, None, None], stack, 0.0) / scale[:, None, None]
    square = upper((part * part).sum(axis=(1, 2)))
    if depth:
        if part.shape[1] < part.shape[2]:
            part = part.transpose(0, 2, 1)
        slip = 4 * (part.shape[1] + 8) * UNIT * square + FLOOR
        square = upper(spectral(np.matmul(part.transpose(0, 2, 1), part), depth - 1) + slip)
    return np.where(known, upper(scale * np.sqrt(square)), np.where(size == 0, 0.0, np.inf))


def length(weights: Floats, values: Floats) -> Floats:
    """‖w ∘ v‖₂ of values (boxes, m, modes), from above: (boxes, modes)."""
    top = values.max(axis=1, initial=0.0)
    top = np.where(np.isfinite(top) & (top > 0), top, 1.0)
    shares = weights[:, None] * (values / top[:, None])
    return upper(top * np.sqrt((shares**2).sum(axis=1) + FLOOR))


def weights(cuts: dict[str, Parts], end: Parts) -> dict[str, Floats]:
    """The weights of each cut, from the maps that lead to the cuts, in order, and to the output."""
    arriving: dict[str, Floats] = {}
    with np.errstate(all="ignore"):
        for name, parts in cuts.items():
            met = [(m * m, arriving.get(source)) for source, m in parts]
            rows = [s.sum(axis=1) if f is None else s @ (0.5 * f) for s, f in met]
            arriving[name] = np.sum(rows, axis=0)
        leaving = {name: np.zeros(len(f)) for name, f in arriving.items()}
        for name in ("", *reversed(cuts)):
            for source, matrix in cuts.get(name, end):
                if source in leaving:
                    ahead = 0.5 * leaving[name] if name in cuts else np.ones(len(matrix))
                    leaving[source] += ahead @ (matrix * matrix)
        return {name: _root(leaving[name], arriving[name]) for name in cuts}


def _root(leaving: Floats, arriving: Floats) -> Floats:
    parts = (np.maximum(p, LEAST * p.max(initial=0.0)) for p in (leaving, arriving))
    found = np.divide(*parts) ** 0.25
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)
