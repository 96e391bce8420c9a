"""The second beta in fewer bits: what its rounding does is taken back by the first ones.

`t2 = b − M2 t1` is large, because it cancels the shifts, and a cast of it moves the output by as
much as half a unit in its last place. With t2 cast first, the shifts are moved by roundings of
their own so that

    M2 t1' = b − fl(t2),      each t1' a number of the format,

each rounding error fed into the shifts that follow (`khatri_rao.casting`, with one column). They
move by a few units in their last place, far less than the room that they leave; the smallest, whose
room is small, are only cast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.khatri_rao.corrections import cast_with_feedback
from reconstruct.networks import Norm
from reconstruct.numbers.arrays import Array, Vector

SMALLEST = 0.1  # of the median: smaller shifts are not moved
MOST_MOVED = 2.0**-15  # of a shift, an eighth of its room: beyond it all stay as they are


def matched(norm1: Norm, norm2: Norm, M2: Array, slope: float, dtype: Any) -> tuple[Norm, Norm]:
    """The norms with betas of the format, for norms whose scale is gamma and whose mean is 0."""
    if not (_plain(norm1) and _plain(norm2)):
        return norm1, norm2
    cast2 = _cast(norm2.beta, dtype)
    moved = (norm2.beta - cast2) / (norm2.gamma * slope)
    beta = _cast(norm1.beta, dtype)
    free = norm1.beta > SMALLEST * np.median(norm1.beta)
    wanted = M2 @ norm1.beta + moved - M2[:, ~free] @ beta[~free]

    def cast(values: Vector, units: Array) -> Vector:
        return _cast(values, dtype)

    ones = np.ones((int(free.sum()), 1))
    beta[free] = cast_with_feedback(ones, M2[:, free], wanted[:, None], norm1.beta[free], cast)
    if np.any(np.abs(beta - norm1.beta) > MOST_MOVED * np.abs(norm1.beta)):
        return norm1, norm2
    return norm1.tuned(norm1.gamma, beta), norm2.tuned(norm2.gamma, cast2)


def _plain(norm: Norm) -> bool:
    return bool(np.all(norm.deviation == 1) and not norm.mean.any())


def _cast(values: Vector, dtype: Any) -> Vector:
    return np.asarray(values.astype(dtype).astype(np.float64))
