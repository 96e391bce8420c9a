"""Two frozen layers become one affine map: the step that every construction repeats.

    h ↦ N2( M2 · act( N1( M1 h ) ) )  =  W h + b      for all reachable h

Solve `M2 diag(s1) M1 = W`, shift every hidden value into the linear piece of the activation,
cancel the shift behind it. Checked in `proofs_check/statements/theorem_1_wide/layers.py`.

Rests on proofs_check: vec-identity, two-frozen-layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.construction import ExactMap, ExactNorm, LayerSolution, Task
from reconstruct.constructions.nodes import activation_at, kernel_of, mixing_at, norm_at
from reconstruct.constructions.shifts import Placement, exact_dot, place
from reconstruct.constructions.sites import Layer
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver, prove_full_rank, solve, structural_obstruction
from reconstruct.networks import Activation, Matrix, Mixing, Network, Norm, dense
from reconstruct.numbers.arrays import Vector
from reconstruct.progress import Progress

MOST_ENTRIES = 2**25  # of a Khatri-Rao pattern that is examined: half a second, 400 MB


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """Two frozen maps with their norms, and the activation between them."""

    first: Mixing
    norm1: Norm
    activation: Activation
    second: Mixing
    norm2: Norm

    @classmethod
    def at(cls, frozen: Network, first: Layer, second: Layer) -> TwoLayers:
        """Two neighbouring layers of a site."""
        one, two = (mixing_at(frozen, n) for n in (first.entry or first.carry, second.carry))
        norm1, norm2 = norm_at(frozen, first.norm), norm_at(frozen, second.norm)
        return cls(one, norm1, activation_at(frozen, first.activation), two, norm2)

    def check_pattern(self, where: str) -> None:
        """Refuse, before any numerical work, weights whose zeros alone leave some W out of reach.

        Patterns with very many entries are not examined: those are nearly full, and the solver
        says what it finds.
        """
        first, second = kernel_of(self.first), kernel_of(self.second)
        served = (first != 0).sum(axis=1) * (second != 0).sum(axis=0)
        if served.sum() <= MOST_ENTRIES:
            obstruction = structural_obstruction(first, second)
            if obstruction is not None:
                raise InputError(
                    f"{where} cannot be reached by this frozen network: {obstruction.message}"
                )

    def prove_rank(self) -> RankProof:
        """Try to prove that the two layers reach every W."""
        return prove_full_rank(kernel_of(self.first), kernel_of(self.second))


@dataclass(frozen=True, eq=False)
class SolvedLayers:
    """The two norms with their gammas and betas; `exact` holds them as rationals if solved so."""

    norm1: Norm
    norm2: Norm
    system: LayerSolution
    exact: tuple[ExactNorm, ExactNorm] | None = None


def solve_two_layers(
    layers: TwoLayers, task: Task, solver: Solver, progress: Progress
) -> SolvedLayers:
    """The norms that make the two layers compute `task.weight·h + task.bias`."""
    exact = (task.exact or ExactMap.of(task.weight, task.bias)) if solver.rational else None
    W = task.weight if exact is None else np.array(exact.weight, dtype=object)
    solution = solve(
        kernel_of(layers.first), kernel_of(layers.second), W, solver, progress=progress
    )
    hidden = _place_hidden(layers, task, solution.s)
    norm1, norm2 = _norms(layers, task.bias, solution.s, hidden)
    shift = float(np.max(np.abs(hidden.shift), initial=0.0))
    rational = None
    if exact is not None and solution.rationals is not None:
        rational = _exact_norms(layers, exact, solution.rationals, hidden)
    return SolvedLayers(norm1, norm2, LayerSolution.of(task, solution, shift), rational)


def check_width(frozen: Network, layer: Layer, m: int, k: int, where: str) -> None:
    """Refuse a hidden layer with fewer neurons than equations."""
    width = channels(frozen, layer)
    if width < m * k:
        raise InputError(
            f"{where} needs a hidden width of at least m·k = {m}·{k} = {m * k} to reach every "
            f"{m}×{k} matrix, but the frozen network has {width} neurons at {layer.norm!r}; widen "
            f"it by {m * k - width}, or use --construction factored if the map has low rank"
        )


def channels(frozen: Network, layer: Layer) -> int:
    """The width of a layer as its norm counts it."""
    return norm_at(frozen, layer.norm).channels


def scale_rows(s: Vector, matrix: Matrix) -> NDArray[np.float64]:
    """`diag(s) M` as a dense float64 matrix."""
    return s[:, None] * dense(matrix)


def _place_hidden(layers: TwoLayers, task: Task, s: Vector) -> Placement:
    functional = scale_rows(s, kernel_of(layers.first))
    lo, hi = task.functionals(functional)
    return place(layers.activation.piece, lo, hi, np.abs(functional) @ task.magnitude)


def _norms(layers: TwoLayers, bias: Vector, s: Vector, hidden: Placement) -> tuple[Norm, Norm]:
    """The effective forms, with the layers' own biases c1, c2 absorbed.

    N1 gives `scale·s∘M1 h + shift`; behind the activation (slope λ) and M2 that is
    `λ·scale·W h + λ·M2 shift + c2`, from which N2 makes `W h + b`.
    """
    slope = layers.activation.piece.slope
    s1 = hidden.scale * s
    norm1 = layers.norm1.with_effective(s1, hidden.shift - s1 * layers.first.bias)
    back = 1.0 / (slope * hidden.scale)
    carried = slope * exact_dot(kernel_of(layers.second), hidden.shift) + layers.second.bias
    s2 = np.full(len(bias), back)
    return norm1, layers.norm2.with_effective(s2, bias - s2 * carried)


def _exact_norms(
    layers: TwoLayers, exact: ExactMap, s: tuple[Fraction, ...], hidden: Placement
) -> tuple[ExactNorm, ExactNorm]:
    slope, scale = Fraction(layers.activation.piece.slope), Fraction(hidden.scale)
    shift = [Fraction(float(t)) for t in hidden.shift]
    s1 = [scale * value for value in s]
    t1 = [t - v * Fraction(float(c)) for t, v, c in zip(shift, s1, layers.first.bias, strict=True)]
    back = 1 / (slope * scale)
    t2 = []
    for row, own, bias in zip(
        dense(kernel_of(layers.second)), layers.second.bias, exact.bias, strict=True
    ):
        carried = sum(
            (Fraction(float(w)) * t for w, t in zip(row, shift, strict=True)), Fraction(0)
        )
        t2.append(bias - back * (slope * carried + Fraction(float(own))))
    return exact_norm(layers.norm1, s1, t1), exact_norm(layers.norm2, [back] * len(t2), t2)


def exact_norm(norm: Norm, s: list[Fraction], t: list[Fraction]) -> ExactNorm:
    """The rational gamma = s·√(var + eps) and beta = t + s·mean.

    They are rational only when every √(var + eps) is; drawn networks have var + eps = 1.
    """
    gamma, beta = [], []
    deviations = norm.rational_deviations()
    for i, (scale, offset, deviation) in enumerate(zip(s, t, deviations, strict=True)):
        if deviation is None:
            variance = Fraction(float(norm.var[i])) + Fraction(norm.eps)
            raise InputError(
                f"an exact solve needs norm statistics whose √(var + eps) is rational, but channel "
                f"{i} has var + eps = {float(variance):.9g}; use a drawn network, set var so that "
                f"var + eps is a square such as 1, or use another solver"
            )
        gamma.append(scale * deviation)
        beta.append(offset + scale * Fraction(float(norm.mean[i])))
    return ExactNorm(tuple(gamma), tuple(beta))
