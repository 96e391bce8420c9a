"""Two frozen layers become one affine map: the step that every construction repeats.

    h ↦ N2( M2 · act( N1( M1 h ) ) )  =  W h + b      for all reachable h

Solve `M2 diag(s1) M1 = W`, shift every hidden value into the linear piece of the activation,
cancel the shift behind it. Checked in `proofs_check/statements/layers.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.construction import ExactMap, ExactNorm, System, Task, Vector, system
from reconstruct.constructions.shifts import Placement, exact_dot, place, rational_root
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Exact, Solver, solve, solve_exact
from reconstruct.networks import (
    Activation,
    Matrix,
    Mixing,
    Norm,
    dense,
)
from reconstruct.progress import Progress


@dataclass(frozen=True, eq=False)
class Pair:
    """Two frozen linear layers with their norms, and the activation between them."""

    first: Mixing
    norm1: Norm
    activation: Activation
    second: Mixing
    norm2: Norm


@dataclass(frozen=True, eq=False)
class PairSolution:
    """The two norms with their gammas and betas; `exact` holds them as rationals if asked."""

    norm1: Norm
    norm2: Norm
    system: System
    exact: tuple[ExactNorm, ExactNorm] | None = None


def solve_pair(pair: Pair, task: Task, solver: Solver, progress: Progress) -> PairSolution:
    """The norms that make the pair compute `task.weight·h + task.bias`."""
    if isinstance(solver, Exact):
        return _solve_exactly(pair, task)
    solution = solve(pair.first.matrix, pair.second.matrix, task.weight, solver, progress=progress)
    hidden = _place_hidden(pair, task, solution.s)
    norm1, norm2 = _norms(pair, task.bias, solution.s, hidden)
    shift = float(np.max(np.abs(hidden.shift), initial=0.0))
    return PairSolution(norm1, norm2, system(task, solution, task.weight.shape, shift))


def scale_rows(s: Vector, matrix: Matrix) -> NDArray[np.float64]:
    """`diag(s) M` as a dense float64 matrix."""
    return s[:, None] * dense(matrix)


def _place_hidden(pair: Pair, task: Task, s: Vector) -> Placement:
    functional = scale_rows(s, pair.first.matrix)
    lo, hi = task.functionals(functional)
    return place(pair.activation.piece, lo, hi, np.abs(functional) @ task.magnitude)


def _norms(pair: Pair, bias: Vector, s: Vector, hidden: Placement) -> tuple[Norm, Norm]:
    """The effective forms, with the layers' own biases c1, c2 absorbed.

    N1 gives `scale·s∘M1 h + shift`; behind the activation (slope λ) and M2 that is
    `λ·scale·W h + λ·M2 shift + c2`, from which N2 makes `W h + b`.
    """
    slope = pair.activation.piece.slope
    s1 = hidden.scale * s
    norm1 = pair.norm1.with_effective(s1, hidden.shift - s1 * pair.first.bias)
    back = 1.0 / (slope * hidden.scale)
    carried = slope * exact_dot(pair.second.matrix, hidden.shift) + pair.second.bias
    s2 = np.full(len(bias), back)
    return norm1, pair.norm2.with_effective(s2, bias - s2 * carried)


def _solve_exactly(pair: Pair, task: Task) -> PairSolution:
    exact = task.exact or exact_map(task.weight, task.bias)
    found = solve_exact(pair.first.matrix, pair.second.matrix, exact.weight)
    solution = found.rounded()
    hidden = _place_hidden(pair, task, solution.s)
    norm1, norm2 = _norms(pair, task.bias, solution.s, hidden)
    rational = _exact_norms(pair, exact, found.s, hidden)
    shift = float(np.max(np.abs(hidden.shift), initial=0.0))
    row = system(task, solution, task.weight.shape, shift)
    return PairSolution(norm1, norm2, row, rational)


def _exact_norms(
    pair: Pair, exact: ExactMap, s: tuple[Fraction, ...], hidden: Placement
) -> tuple[ExactNorm, ExactNorm]:
    slope, scale = Fraction(pair.activation.piece.slope), Fraction(hidden.scale)
    shift = [Fraction(float(t)) for t in hidden.shift]
    s1 = [scale * value for value in s]
    t1 = [t - v * Fraction(float(c)) for t, v, c in zip(shift, s1, pair.first.bias, strict=True)]
    back = 1 / (slope * scale)
    second = dense(pair.second.matrix)
    t2 = []
    for row, own, bias in zip(second, pair.second.bias, exact.bias, strict=True):
        carried = sum(
            (Fraction(float(w)) * t for w, t in zip(row, shift, strict=True)), Fraction(0)
        )
        t2.append(bias - back * (slope * carried + Fraction(float(own))))
    return exact_norm(pair.norm1, s1, t1), exact_norm(pair.norm2, [back] * len(t2), t2)


def exact_norm(norm: Norm, s: list[Fraction], t: list[Fraction]) -> ExactNorm:
    """The rational gamma = s·√(var + eps) and beta = t + s·mean.

    They are rational only when every √(var + eps) is; drawn networks have var + eps = 1.
    """
    gamma, beta = [], []
    for i, (scale, offset) in enumerate(zip(s, t, strict=True)):
        variance = Fraction(float(norm.var[i])) + Fraction(norm.eps)
        deviation = rational_root(variance)
        if deviation is None:
            raise InputError(
                f"an exact solve needs norm statistics whose √(var + eps) is rational, but channel "
                f"{i} has var + eps = {float(variance):.9g}; use a drawn network, set var so that "
                f"var + eps is a square such as 1, or use another solver"
            )
        gamma.append(scale * deviation)
        beta.append(offset + scale * Fraction(float(norm.mean[i])))
    return ExactNorm(tuple(gamma), tuple(beta))


def exact_map(weight: NDArray[np.float64], bias: Vector) -> ExactMap:
    """Floats are dyadic rationals: the same map with `Fraction` entries."""
    rows = tuple(tuple(Fraction(float(v)) for v in row) for row in weight)
    return ExactMap(rows, tuple(Fraction(float(v)) for v in bias))
