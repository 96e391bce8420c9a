"""What every solver in floats does around its method: scale, ask the zero pattern, judge a loss.

Entries are brought near 1 by powers of two, which changes no digit that counts: the residual is
taken again in the system as it was given. Systems that their zero pattern forbids are refused. A
rank lost numerically is told apart from one lost to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.rank import prove_full_rank
from reconstruct.khatri_rao.solution import ACCEPTED_DEFICIENT, Solution, relative_residual
from reconstruct.khatri_rao.solvers.powers import powers_for
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import largest, scaled, to_dense
from reconstruct.khatri_rao.structure import StructuralObstruction, structural_obstruction

Array: TypeAlias = NDArray[np.float64]
Attempt: TypeAlias = Callable[[KhatriRao, Array], Solution]

MOST_ENTRIES = 1 << 26  # of a sparse K: 12 bytes each
PROOF_LIMIT = 400  # equations up to which a rank modulo a prime takes less than a second
ROUNDING = 1e-13  # a residual up to this is no sign of lost digits
SMALL_VIOLATOR = 512  # equations up to which consistency is decided by a dense least squares


def in_floats(operator: KhatriRao, W: Array, attempt: Attempt) -> Solution:
    """The solution of `attempt` on the scaled system, scaled back.

    Sparse systems are solved whole by each holder of the engine.
    """
    operator = operator.whole() if operator.sparse else operator
    first, second = powers_for(operator)
    c = int(np.frexp(largest(W))[1])
    found = _unless_refused(operator.scaled(first, second), scaled(W, -c), attempt)
    power = c + operator.of_all_units(first + second)
    with np.errstate(over="ignore", under="ignore"):
        s = np.ldexp(found.s, power)
        exact = np.array_equal(np.ldexp(s, -power), found.s)
    if not np.isfinite(s).all():
        return found.replace(s=np.zeros_like(s), status=Status.ILL_CONDITIONED, residual=1.0)
    if exact and not (np.any(first) or np.any(second)):
        return found.replace(s=s)
    return _judged_again(operator, W, c, found.replace(s=s))


def _judged_again(operator: KhatriRao, W: Array, c: int, found: Solution) -> Solution:
    """The solution with its residual in the system as it was given.

    It is the one of the scaled system, unless scaling cost digits: of entries far below the others
    of their unit, or of an `s` that floats do not hold.
    """
    with np.errstate(all="ignore"):
        image = np.ldexp(operator.apply(found.s[operator.engine.held(operator.width)]), -c)
        R, right = scaled(W, -c) - image, scaled(W, -c)
        size = float(np.linalg.norm(R)) / (float(np.linalg.norm(right)) or 1.0)
    if not np.isfinite(size):
        size = 1.0
    elif size <= max(2 * found.residual, ROUNDING):
        return found.replace(residual=size)
    status = Status.ILL_CONDITIONED if found.solved else found.status
    return found.replace(status=status, residual=size)


def _unless_refused(operator: KhatriRao, W: Array, attempt: Attempt) -> Solution:
    """Ask the zero pattern first where that is cheap, and after a failure in any case."""
    known = operator.sparse and operator.entries() <= MOST_ENTRIES
    obstruction = _obstruction(operator) if known else None
    if obstruction is not None and (refused := _refusal(operator, W, obstruction)) is not None:
        return refused
    solution = attempt(operator, W)
    if obstruction is None and solution.status is Status.RANK_DEFICIENT:
        if not known and operator.rows * operator.width <= MOST_ENTRIES:
            obstruction = _obstruction(operator)
        if obstruction is None and _is_regular(operator):
            return solution.replace(status=Status.ILL_CONDITIONED, rank=operator.rows)
    return solution.replace(obstruction=obstruction)


def _obstruction(operator: KhatriRao) -> StructuralObstruction | None:
    whole = operator.whole()
    return structural_obstruction(whole.M1, whole.M2T.T)


def _is_regular(operator: KhatriRao) -> bool:
    """Whether a numerical loss of rank is due to rounding alone, proved modulo a prime."""
    if operator.rows > PROOF_LIMIT:
        return False
    whole = operator.whole()
    return prove_full_rank(whole.M1, whole.M2T.T).proved


def _refusal(operator: KhatriRao, W: Array, obstruction: StructuralObstruction) -> Solution | None:
    """RANK_DEFICIENT at once, if `W` does not fit on the equations of the violator; else None.

    A special W (one with zeros in the right places) may still be in the range of K: that is
    decided on the violator alone when it is small, and left to the solver when it is not.
    """
    if len(obstruction.equations) > SMALL_VIOLATOR or _fits(operator, W, obstruction):
        return None
    zero = np.zeros(operator.width)
    return Solution(
        s=zero,
        status=Status.TOO_NARROW if operator.width < operator.rows else Status.RANK_DEFICIENT,
        solver="pattern",
        residual=relative_residual(operator, zero, W)[1],
        shape=operator.map_shape,
        rank=obstruction.rank,
        obstruction=obstruction,
    )


def _fits(operator: KhatriRao, W: Array, obstruction: StructuralObstruction) -> bool:
    """Whether the violator's equations have a common solution, by dense least squares."""
    i, j = np.array(obstruction.equations).T
    units = np.array(obstruction.units, dtype=int)
    left, right = to_dense(operator.M2T[units]), to_dense(operator.M1[units])
    K = (left[:, i] * right[:, j]).T.astype(np.float64)
    w = W[i, j]
    s = np.linalg.lstsq(K, w)[0] if units.size else np.zeros(0)
    return bool(np.linalg.norm(K @ s - w) <= ACCEPTED_DEFICIENT * np.linalg.norm(W))
