"""The wide construction (Theorem 1): each m × k map from two layers of hidden width ≥ m·k.

    h ↦ N2( M2 · act( N1( M1 h ) ) )  =  W h + b      for all reachable h

Solve `M2 diag(s1) M1 = W`, shift every hidden value into the linear piece of the activation,
cancel the shift behind it: the step that other constructions repeat (`solve_two_layers`). Checked
in `proofs_check/statements/theorem_1_wide/layers.py`.

Rests on proofs_check: khatri-rao-full-rank, width-is-necessary, vec-identity, two-frozen-layers,
layerwise-to-network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any, ClassVar

import numpy as np

from reconstruct.constructions import chain as chains
from reconstruct.constructions import sites
from reconstruct.constructions.chain import Chain, ChainPlan, Shift
from reconstruct.constructions.construction import (
    Construction,
    ExactNorm,
    GroupSolution,
    LayerSolution,
    Task,
)
from reconstruct.constructions.live import LIVE_ERROR, NORMS, LivePlan, live_plan
from reconstruct.constructions.sites import Blueprint, Layer, Site, hidden_width
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solution, Solver, prove_full_rank, solve
from reconstruct.khatri_rao.blocks import solve_apart
from reconstruct.khatri_rao.corrections import cast_with_feedback, polished
from reconstruct.networks import Matrix, Mixing, Network, Node, Norm, dense
from reconstruct.numbers.arrays import Array, Vector, to_dense
from reconstruct.numbers.exact import rationals
from reconstruct.numbers.exact_dot import exact_dot
from reconstruct.numbers.given import number
from reconstruct.numbers.parallel import parallel_map
from reconstruct.progress import Progress


@dataclass(frozen=True)
class TwoLayerLimits:
    """Sizes up to which more is done for two layers than a solve."""

    products: int = 2**27  # m·n·k up to which gammas are refined: some seconds
    held: int = 2**24  # entries of a frozen matrix that may be held dense for that


LIMITS = TwoLayerLimits()


@dataclass(frozen=True)
class Wide(Construction):
    """`ratio` hidden neurons for each of the m·k equations; 1 is the paper's square system.

    `live_error` is the relative error that the eps of a target's live norms may leave.
    """

    ratio: float = 1.5
    norm: str | None = None  # batch (constants), layer or rms (live); None: as the target has it
    live_error: float = LIVE_ERROR

    summary: ClassVar[str] = (
        "each affine map of the target is rebuilt by two frozen layers with at least "
        "m·k neurons between them"
    )
    scales_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < number(self.live_error, "the error of live norms") < 1:
            raise InputError(
                f"the relative error that live norms may leave must lie between 0 and 1, but is "
                f"{self.live_error:g}; {LIVE_ERROR:.1e} is the default"
            )
        if self.norm not in (None, "batch", *NORMS):
            words = ", ".join(("batch", *NORMS))
            raise InputError(f"the norm must be one of {words}, but is {self.norm!r}")

    def live_plan(self, form: Network, node: Node) -> LivePlan | None:
        """Two layers with a live norm between them, where one is asked for or the target has one
        behind the map."""
        return live_plan(form, node, self.ratio, self.norm, self.live_error)

    def plan(self, op: Mixing) -> WidePlan:
        m, k = op.kernels[0].shape
        return WidePlan(op, hidden_width(self.ratio, m * k))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio} | ({"norm": self.norm} if self.norm else {})


@dataclass(frozen=True, eq=False)
class WidePlan(ChainPlan):
    """Each group in two layers with `width` neurons between."""

    width: int

    @property
    def blueprint(self) -> Blueprint:
        return self.in_a_row(self.width, self.rows)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, self.width),) * self.groups

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        return solve_two_layers(chain, task, solver, progress)

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        return tuple(full_rank(layers) for layers in chains.read_chains(site))


# --- two layers become one map --------------------------------------------------------------------


def solve_two_layers(
    layers: Chain, task: Task, solver: Solver, progress: Progress
) -> GroupSolution:
    """The norms that make a chain of one link compute `task.weight·h + task.bias`."""
    M1, M2, W = layers.first.entry, layers.end.kernel, task.weight
    if solver.rational:
        W = task.rational.weight
    apart = solve_apart(M1, M2, W, solver, progress)
    solution = apart or solve(M1, M2, W, solver, progress=progress)
    if solution.solved and not solver.rational:
        solution = refined(layers, task, solution, progress)
    return two_norms(layers, task, solution, shift_hidden(layers, task, solution.s))


def two_norms(layers: Chain, task: Task, solution: Solution, hidden: Shift) -> GroupSolution:
    """Both norms: with them the pair is W h + b where the scales solve for W; over the rationals
    too, where the solution has them."""
    one, two = layers.first.norm, layers.end.norm
    first, second = _effective(layers, task.bias, solution.s, hidden)
    norms = one.with_effective(*first), two.with_effective(*second)
    system = LayerSolution.of(task, solution, hidden.largest)
    if solution.rationals is None:
        return GroupSolution(norms, (system,))
    exact = task.rational
    scales = np.array(solution.rationals, dtype=object)
    first, second = _effective(layers, exact.bias, scales, hidden)
    return GroupSolution(norms, (system,), (exact_norm(one, *first), exact_norm(two, *second)))


def full_rank(layers: Chain) -> RankProof:
    """Try to prove that the two layers reach every W."""
    return prove_full_rank(layers.first.entry, layers.end.kernel)


def refined(layers: Chain, task: Task, solution: Solution, progress: Progress) -> Solution:
    """The solution as accurate as its gammas can be in the type that they are written in."""
    M1, M2 = layers.first.entry, layers.end.kernel
    (n, k), m = M1.shape, len(task.weight)
    if m * n * k > LIMITS.products or n * max(m, k) > LIMITS.held:
        return solution
    M1, M2 = to_dense(M1), to_dense(M2)
    s, residual = polished(M1, M2, task.weight, solution.s)
    residual = solution.residual if residual is None else residual
    solution = solution.replace(s=s, residual=residual)
    if np.dtype(task.dtype) == np.float64:
        return solution
    deviation = layers.first.norm.deviation

    def cast(values: Vector, units: Array) -> Vector:
        gamma = (values * deviation[units]).astype(task.dtype).astype(np.float64)
        return np.asarray(gamma / deviation[units])

    found = cast_with_feedback(M1, M2, task.weight, solution.s, cast, progress)
    return solution.replace(s=found)


def rounded_norm(norm: Any, dtype: Any) -> Any:
    """The norm with gamma and beta rounded to `dtype` (its statistics are frozen as they are)."""
    if np.dtype(dtype) == np.float64:
        return norm
    gamma, beta = (a.astype(dtype).astype(np.float64) for a in (norm.gamma, norm.beta))
    return norm.tuned(gamma, beta)


def channels(site: Site, layer: Layer) -> int:
    """The width of a layer as its norm counts it."""
    return sites.norm_at(site.frozen, layer.norm).channels


def shift_hidden(layers: Chain, task: Task, s: Vector, together: int = 2**13) -> Shift:
    """Where `s∘M1 h` has to be moved so that the activation is linear on all that occurs.

    So many hidden units are bounded `together`: functionals of more would not stay in memory.
    """
    M1, M2, piece = layers.first.entry, layers.end.kernel, layers.first.piece
    lo, hi, magnitude = (np.empty(len(s)) for _ in range(3))

    def prepared(part: slice) -> tuple[slice, Array, Array]:
        functional = s[part, None] * dense(M1[part])
        return part, functional, np.abs(functional) @ task.magnitude

    parts = [slice(i, min(i + together, len(s))) for i in range(0, len(s), together)]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by `find_shift`
        for part, functional, size in parallel_map(prepared, parts):
            lo[part], hi[part] = task.functionals(functional)
            magnitude[part] = size
    found = chains.find_shift(piece, lo, hi, magnitude)
    if isfinite(piece.hi) or M2.size > LIMITS.held:
        return found
    return replace(found, shift=chains.round_up(chains.cancelling(dense(M2), found.shift)))


def _effective(
    layers: Chain, bias: Array, s: Array, hidden: Shift
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The effective forms (s, t) of both norms, the layers' own biases c1, c2 absorbed; in the
    arithmetic of s, floats or Fractions.

    N1 gives `scale·s∘M1 h + shift`; behind the activation (slope λ) and M2 that is
    `λ·scale·W h + λ·M2 shift + c2`, from which N2 makes `W h + b`.
    """
    first, end = layers.first, layers.end
    exact: Any = rationals if s.dtype == object else np.asarray
    number: Any = Fraction if s.dtype == object else float
    slope, scale = number(first.piece.slope), number(hidden.scale)
    c1, c2, shift, s1 = exact(first.bias), exact(end.bias), exact(hidden.shift), scale * s
    carried = slope * carried_by(end.kernels, shift) + c2
    s2 = np.full(len(bias), 1 / (slope * scale))
    return (s1, shift - s1 * c1), (s2, bias - s2 * carried)


def exact_norm(norm: Norm, s: Iterable[Fraction], t: Iterable[Fraction]) -> ExactNorm:
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


# --- headroom: larger shifts, for errors that come from the layers before ------------------------


def raised_norms(
    network: Network,
    rebuilt: Sequence[Site],
    lacking: Mapping[str, Vector],
    dtype: Any,
    most: float = inf,
) -> dict[str, Norm]:
    """The norms of those sites whose shifts have to grow by what they lack, betas in `dtype`.

    A shift is added in front of the activation and taken away behind the second map; any that is
    larger serves as well, t1' ≥ t1 with t2' = t2 − λ·s2∘(M2 (t1' − t1)). Empty where the shifts of
    some site would have to grow by more than `most` times their size (of the medians).
    """
    norms: dict[str, Norm] = {}
    for site in rebuilt:
        if len(site.layers) != 2 or not isinstance(network.node(site.layers[0].norm).op, Norm):
            continue
        first, second = site.layers
        lack = lacking.get(first.activation or "")
        if lack is None or not lack.any():
            continue
        one, two = (sites.norm_at(network, layer.norm) for layer in site.layers)
        (s1, t1), (s2, t2) = one.per_channel(), two.per_channel()
        lack = lack.reshape(one.channels, -1).max(axis=1)  # at the worst position
        if most < inf and np.median(lack) > most * np.median(np.abs(t1)):
            return {}
        shift = np.where(lack > 0, _above(t1 + lack, dtype), t1)
        slope = sites.activation_at(network, first.activation).piece.slope
        kernels = sites.mixing_at(network, second.carry).kernels
        moved = carried_by(kernels, shift) - carried_by(kernels, t1)
        norms[first.norm] = rounded_norm(one.with_effective(s1, shift), dtype)
        norms[second.norm] = rounded_norm(two.with_effective(s2, t2 - s2 * slope * moved), dtype)
    return norms


def carried_by(kernels: Sequence[Matrix], shift: Array) -> Array:
    """`M2 t` for t on channels, group by group; each entry rounded once, or exact for Fractions."""
    exact = shift.dtype == object
    parts = zip(kernels, np.split(shift, len(kernels)), strict=True)
    return np.concatenate([rationals(M) @ t if exact else exact_dot(M, t) for M, t in parts])


def _above(values: Vector, dtype: Any) -> Vector:
    """Numbers of the format that are at least as large.

    By 2^-14 of them more: betas around a mean are rounded once more, and still have to be.
    """
    wanted = values + 2.0**-14 * np.abs(values)
    near = wanted.astype(dtype)
    above = np.where(near < wanted, np.nextafter(near, np.asarray(np.inf, dtype)), near)
    return np.asarray(above.astype(np.float64))
