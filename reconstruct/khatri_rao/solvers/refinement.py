"""Rounds of CGLS in a low precision, against a residual in float64.

Each round solves `K d = W − K s` for a correction `d`. The sum of the corrections is the
minimum-norm solution up to the inner precision: a null-space part of 1e-7 lengthens `s` by 1e-14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.checkpoint import Checkpoint
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import (
    Solution,
    attainable_residual,
    is_solved,
    relative_residual,
)
from reconstruct.khatri_rao.solvers.cgls import Inner, begin, cgls, expected_iterations
from reconstruct.khatri_rao.solvers.preconditioned import Preconditioned
from reconstruct.khatri_rao.solvers.rounds_state import Keeper, RoundsState
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Matrix
from reconstruct.progress import Progress, Step

Array: TypeAlias = NDArray[np.float64]

HOPELESS = 1e12  # condition beyond which a failed iteration is blamed on conditioning
OUT_OF_REACH = 1e-11  # gradient of a residual, relative: it is orthogonal to the range of K
INNER_AIM = {np.dtype(np.float32): 5e-6, np.dtype(np.float64): 1e-13}  # residual of one round
DEEPEST = {np.dtype(np.float32): 1.5e-6, np.dtype(np.float64): 1e-13}  # where it saves another
LEAST = 1e-300  # tolerance, where less or none is given: logarithms are taken of it
OWN_ROUNDING = 1e-15  # of a residual in float64, relative


@dataclass(frozen=True)
class Rounds:
    """When to stop: see `ConjugateGradient`; `patience` multiplies the expected iterations."""

    tolerance: float
    max_iterations: int | None
    refinements: int
    inner_dtype: np.dtype[Any]
    patience: float

    def limit(self, operator: KhatriRao) -> int:
        """Most iterations over all rounds."""
        if self.max_iterations is not None:
            return self.max_iterations
        return int(self.patience * expected_iterations(operator.rows, operator.width)) + 100


def refined(
    operator: KhatriRao,
    inner: Preconditioned,
    W: Array,
    rounds: Rounds,
    name: str,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solution:
    """Rounds of `inner` until the float64 residual meets the tolerance or stops falling."""
    keeper = Keeper(operator, checkpoint, (name, W, rounds))
    state = keeper.resumed() or RoundsState(np.zeros(operator.held), rounds.inner_dtype)
    R: Matrix = W
    state.residual = float(W.any())  # of s = 0
    if state.rounds:
        R, state.residual = relative_residual(operator, state.s, W)
    limit, report = rounds.limit(operator), _Digits(progress, rounds.tolerance)
    with keeper.watching(state):
        while state.rounds < rounds.refinements and not state.ended:
            if state.residual <= rounds.tolerance or len(state.history) >= limit:
                break
            R = _round(operator, inner, W, R, state, rounds, limit, keeper, report)
    status = _status(operator, state, W, R, rounds.tolerance)
    keeper.done()
    s = operator.engine.gather(state.s, operator.width)
    return Solution(
        s=s,
        status=status,
        solver=name,
        residual=state.residual,
        shape=operator.map_shape,
        condition=state.condition,
        history=tuple(state.history),
    )


def _round(
    operator: KhatriRao,
    inner: Preconditioned,
    W: Array,
    R: Matrix,
    state: RoundsState,
    rounds: Rounds,
    limit: int,
    keeper: Keeper,
    report: _Digits,
) -> Matrix:
    """One inner solve and the judgement on it; the residual to go on from."""
    aim = _aim(rounds.tolerance, state)
    report.start(state.residual)

    def watch(found: Inner) -> None:
        report(found.residuals[-1])
        keeper.offer(state)

    if state.inner is None:
        state.inner = begin(inner, inner.precondition(R), state.dtype)
    found = cgls(inner, state.inner, aim, limit - len(state.history), watch)
    if state.condition is None and (estimate := found.condition()) is not None:
        state.condition = inner.spread * estimate
    candidate = state.s + found.d
    R_new, new = relative_residual(operator, candidate, W)
    return state.judge(found, candidate, new, R, R_new)


def _aim(tolerance: float, state: RoundsState) -> float:
    """How far a round goes: no further than the tolerance needs, and as far as is safe.

    A little further where that saves a round: each begins anew, and ends with a residual in
    float64. Then the rounds share the way equally, so that none comes near its own rounding.
    """
    left = max(LEAST, 0.3 * tolerance, 0.9 * tolerance - OWN_ROUNDING) / state.residual
    usual, deepest = INNER_AIM[state.dtype], DEEPEST[state.dtype]
    if left >= usual:
        return left
    rounds = math.ceil(math.log(left) / math.log(deepest))
    return min(usual, math.pow(left, 1 / rounds))


def _status(
    operator: KhatriRao, state: RoundsState, W: Array, R: Matrix, tolerance: float
) -> Status:
    wide = operator.width >= operator.rows
    if is_solved(state.residual, tolerance, 0.0, wide):
        return Status.SOLVED
    if is_solved(state.residual, tolerance, attainable_residual(operator, state.s, W), wide):
        return Status.SOLVED
    if not wide:
        return Status.TOO_NARROW
    if state.orthogonal or _is_orthogonal(operator, R):
        return Status.RANK_DEFICIENT
    if state.condition is not None and state.condition > HOPELESS:
        return Status.ILL_CONDITIONED
    return Status.NOT_CONVERGED


def _is_orthogonal(operator: KhatriRao, R: Matrix) -> bool:
    """Whether `Kᵀ R` vanishes to rounding: then no correction brings the residual R down."""
    scale = math.sqrt(operator.squared_norm()) * float(np.linalg.norm(R))
    gradient = operator.apply_transposed(R)
    return math.sqrt(operator.inner(gradient, gradient)) <= OUT_OF_REACH * scale


class _Digits:
    """Turns inner residuals into progress: decimal digits gained out of those asked for."""

    def __init__(self, progress: Progress | None, tolerance: float) -> None:
        self._progress = progress
        self._digits = -math.log10(max(tolerance, 1e-16))
        self._scale = 1.0

    def start(self, residual: float) -> None:
        self._scale = residual

    def __call__(self, size: float) -> None:
        if self._progress is None:
            return
        residual = self._scale * size
        digits = -math.log10(max(residual, 1e-300))
        done = min(max(digits, 0.0), self._digits)
        self._progress(Step("conjugate gradients", done, self._digits, residual))
