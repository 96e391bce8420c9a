"""Two frozen layers become one affine map: the step that every construction repeats.

    h ↦ N2( M2 · act( N1( M1 h ) ) )  =  W h + b      for all reachable h

Solve `M2 diag(s1) M1 = W`, shift every hidden value into the linear piece of the activation,
cancel the shift behind it. Checked in `proofs_check/statements/theorem_1_wide/layers.py`.

Rests on proofs_check: vec-identity, two-frozen-layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Protocol

import numpy as np

from reconstruct.constructions.construction import (
    ExactMap,
    ExactNorm,
    GroupSolution,
    LayerSolution,
    Task,
)
from reconstruct.constructions.shifts import Shift, cancelling, find_shift, round_up
from reconstruct.constructions.sites import Layer, Site, activation_at, mixing_at, norm_at
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.khatri_rao import (
    RankProof,
    Solution,
    Solver,
    prove_full_rank,
    solve,
    structural_obstruction,
)
from reconstruct.khatri_rao.blocks import solve_apart
from reconstruct.khatri_rao.corrections import cast_with_feedback, polished
from reconstruct.khatri_rao.matrices import to_dense
from reconstruct.networks import Activation, Matrix, Network, Norm, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.exact_dot import exact_dot
from reconstruct.numbers.parallel import parallel_map
from reconstruct.numbers.rational_matrix import rationals
from reconstruct.progress import Progress


@dataclass(frozen=True)
class TwoLayerLimits:
    """Sizes up to which more is done for two layers than a solve."""

    products: int = 2**27  # m·n·k up to which gammas are refined: some seconds
    held: int = 2**24  # entries of a frozen matrix that may be held dense for that
    pattern: int = 2**25  # entries of a Khatri-Rao pattern that is examined: half a second, 400 MB


LIMITS = TwoLayerLimits()


class FrozenPair(Protocol):
    """What stands around the weights of two frozen maps: biases, norms, the activation between.

    `seconds` are the kernels of the second map, group by group.
    """

    @property
    def seconds(self) -> Sequence[Matrix]: ...
    @property
    def norms(self) -> tuple[Norm, Norm]: ...
    @property
    def biases(self) -> tuple[Vector, Vector]: ...
    @property
    def activation(self) -> Activation: ...


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """The kernels of two frozen maps, `M1 h + c1` and `M2 h + c2`, with their norms and the
    activation between them; of a grouped convolution, those of one group."""

    M1: Matrix
    c1: Vector
    norm1: Norm
    activation: Activation
    M2: Matrix
    c2: Vector
    norm2: Norm

    @property
    def seconds(self) -> tuple[Matrix]:
        return (self.M2,)

    @property
    def norms(self) -> tuple[Norm, Norm]:
        return self.norm1, self.norm2

    @property
    def biases(self) -> tuple[Vector, Vector]:
        return self.c1, self.c2

    @classmethod
    def at(cls, frozen: Network, first: Layer, second: Layer) -> TwoLayers:
        """Two neighbouring layers of a site, of one group."""
        found = cls.groups_at(frozen, first, second)
        if len(found) != 1:
            raise UnsupportedError(
                f"a map of one group is needed here, but the frozen layers have {len(found)}; use "
                f"--construction wide, where each group is a system of its own"
            )
        return found[0]

    @classmethod
    def groups_at(cls, frozen: Network, first: Layer, second: Layer) -> tuple[TwoLayers, ...]:
        """Two neighbouring layers of a site, group by group."""
        one, two = (mixing_at(frozen, n) for n in (first.entry or first.carry, second.carry))
        norm1, norm2 = norm_at(frozen, first.norm), norm_at(frozen, second.norm)
        activation = activation_at(frozen, first.activation)
        count = len(one.kernels)
        inner, outer = one.channels // count, two.channels // count
        return tuple(
            cls(
                M1,
                one.channel_bias[g * inner : (g + 1) * inner],
                norm1.hidden(g * inner, (g + 1) * inner),
                activation,
                M2,
                two.channel_bias[g * outer : (g + 1) * outer],
                norm2.hidden(g * outer, (g + 1) * outer),
            )
            for g, (M1, M2) in enumerate(zip(one.kernels, two.kernels, strict=True))
        )

    def check_pattern(self, where: str) -> None:
        """Refuse, before any numerical work, weights whose zeros alone leave some W out of reach.

        Patterns with very many entries are not examined: those are nearly full, and the solver
        says what it finds.
        """
        first, second = self.M1, self.M2
        served = (first != 0).sum(axis=1) * (second != 0).sum(axis=0)
        if served.sum() <= LIMITS.pattern:
            obstruction = structural_obstruction(first, second)
            if obstruction is not None:
                raise InputError(
                    f"{where} cannot be reached by this frozen network: {obstruction.message}"
                )

    def prove_rank(self) -> RankProof:
        """Try to prove that the two layers reach every W."""
        return prove_full_rank(self.M1, self.M2)


def solve_two_layers(
    layers: TwoLayers, task: Task, solver: Solver, progress: Progress
) -> GroupSolution:
    """The norms that make the two layers compute `task.weight·h + task.bias`."""
    exact = (task.exact or ExactMap.of(task.weight, task.bias)) if solver.rational else None
    W = task.lifted if exact is None else exact.weight
    apart = solve_apart(layers.M1, layers.M2, np.asarray(W), solver, progress)
    solution = apart or solve(layers.M1, layers.M2, W, solver, progress=progress)
    if exact is None and solution.solved:
        solution = refined(layers, task, solution, progress)
    hidden = shift_hidden(layers, task, solution.s)
    norms = norms_of(layers, task.bias, solution.s, hidden, task.lift)
    system = LayerSolution.of(task, solution, hidden.largest)
    if exact is None or solution.rationals is None:
        return GroupSolution(norms, (system,))
    rational = exact_norms_of(layers, exact.bias, solution.rationals, hidden)
    return GroupSolution(norms, (system,), rational)


def refined(layers: TwoLayers, task: Task, solution: Solution, progress: Progress) -> Solution:
    """The solution as accurate as its gammas can be in the type that they are written in."""
    (n, k), m = layers.M1.shape, len(task.weight)
    if m * n * k > LIMITS.products or n * max(m, k) > LIMITS.held:
        return solution
    M1, M2 = to_dense(layers.M1), to_dense(layers.M2)
    s, residual = polished(M1, M2, task.lifted, solution.s)
    residual = solution.residual if residual is None else residual
    solution = solution.replace(s=s, residual=residual)
    if np.dtype(task.dtype) == np.float64:
        return solution
    deviation = layers.norm1.deviation

    def cast(values: Vector, units: Array) -> Vector:
        gamma = (values * deviation[units]).astype(task.dtype).astype(np.float64)
        return np.asarray(gamma / deviation[units])

    found = cast_with_feedback(M1, M2, task.lifted, solution.s, cast, progress)
    return solution.replace(s=found)


def rounded_norm(norm: Any, dtype: Any) -> Any:
    """The norm with gamma and beta rounded to `dtype` (its statistics are frozen as they are)."""
    if np.dtype(dtype) == np.float64:
        return norm
    gamma, beta = (a.astype(dtype).astype(np.float64) for a in (norm.gamma, norm.beta))
    return norm.tuned(gamma, beta)


def check_width(frozen: Network, layer: Layer, m: int, k: int, where: str, groups: int = 1) -> None:
    """Refuse a hidden layer with fewer neurons than equations."""
    width = channels(frozen, layer) // groups
    if width < m * k:
        raise InputError(
            f"{where} needs a hidden width of at least m·k = {m}·{k} = {m * k} to reach every "
            f"{m}×{k} matrix, but the frozen network has {width} neurons at {layer.norm!r}; widen "
            f"it by {m * k - width}, or use --construction factored if the map has low rank"
        )


def channels(frozen: Network, layer: Layer) -> int:
    """The width of a layer as its norm counts it."""
    return norm_at(frozen, layer.norm).channels


def shift_hidden(layers: TwoLayers, task: Task, s: Vector, together: int = 2**13) -> Shift:
    """Where `s∘M1 h` has to be moved so that the activation is linear on all that occurs.

    So many hidden units are bounded `together`: functionals of more would not stay in memory.
    """
    lo, hi, magnitude = (np.empty(len(s)) for _ in range(3))

    def prepared(part: slice) -> tuple[slice, Array, Array]:
        functional = s[part, None] * dense(layers.M1[part])
        return part, functional, np.abs(functional) @ task.magnitude

    parts = [slice(i, min(i + together, len(s))) for i in range(0, len(s), together)]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by `find_shift`
        for part, functional, size in parallel_map(prepared, parts):
            lo[part], hi[part] = task.functionals(functional)
            magnitude[part] = size
    found = find_shift(layers.activation.piece, lo, hi, magnitude)
    if isfinite(layers.activation.piece.hi) or layers.M2.size > LIMITS.held:
        return found
    return replace(found, shift=round_up(cancelling(dense(layers.M2), found.shift)))


def norms_of(
    layers: FrozenPair, bias: Vector, s: Vector, hidden: Shift, lift: Array | None = None
) -> tuple[Norm, Norm]:
    """Both norms: with them the pair is W h + `bias` where the scales `s` solve for W, its rows
    lifted by powers of two if there is a `lift`."""
    parts = _effective(layers, bias, s, hidden, lift)
    one, two = (norm.with_effective(*part) for norm, part in zip(layers.norms, parts, strict=True))
    return one, two


def exact_norms_of(
    layers: FrozenPair, bias: Array, s: Sequence[Fraction], hidden: Shift
) -> tuple[ExactNorm, ExactNorm]:
    """The same over the rationals."""
    parts = _effective(layers, bias, np.array(s, dtype=object), hidden)
    one, two = (exact_norm(norm, *part) for norm, part in zip(layers.norms, parts, strict=True))
    return one, two


def _effective(
    layers: FrozenPair, bias: Array, s: Array, hidden: Shift, lift: Array | None = None
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The effective forms (s, t) of both norms, the layers' own biases c1, c2 absorbed; in the
    arithmetic of s, floats or Fractions.

    N1 gives `scale·s∘M1 h + shift`; behind the activation (slope λ) and M2 that is
    `λ·scale·2^lift∘W h + λ·M2 shift + c2`, from which N2 makes `W h + b`.
    """
    exact: Any = rationals if s.dtype == object else np.asarray
    number: Any = Fraction if s.dtype == object else float
    slope, scale = number(layers.activation.piece.slope), number(hidden.scale)
    (c1, c2), shift, s1 = map(exact, layers.biases), exact(hidden.shift), scale * s
    carried = slope * carried_by(layers.seconds, shift) + c2
    s2 = np.full(len(bias), 1 / (slope * scale))
    s2 = s2 if lift is None else np.ldexp(s2, -lift)
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
    sites: Sequence[Site],
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
    for site in sites:
        if len(site.layers) != 2 or not isinstance(network.node(site.layers[0].norm).op, Norm):
            continue
        first, second = site.layers
        lack = lacking.get(first.activation or "")
        if lack is None or not lack.any():
            continue
        norm = norm_at(network, first.norm)
        lack = lack.reshape(norm.channels, -1).max(axis=1)  # at the worst position
        shift = np.median(np.abs(norm.per_channel()[1]))
        if most < inf and np.median(lack) > most * shift:
            return {}
        norms[first.norm], norms[second.norm] = _raised(network, first, second, lack, dtype)
    return norms


def _raised(
    network: Network, first: Layer, second: Layer, lack: Vector, dtype: Any
) -> tuple[Norm, Norm]:
    norm1, norm2 = norm_at(network, first.norm), norm_at(network, second.norm)
    (s1, t1), (s2, t2) = norm1.per_channel(), norm2.per_channel()
    shift = np.where(lack > 0, _above(t1 + lack, dtype), t1)
    slope, op = (
        activation_at(network, first.activation).piece.slope,
        mixing_at(network, second.carry),
    )
    moved = carried_by(op.kernels, shift) - carried_by(op.kernels, t1)
    raised = norm1.with_effective(s1, shift), norm2.with_effective(s2, t2 - s2 * slope * moved)
    return rounded_norm(raised[0], dtype), rounded_norm(raised[1], dtype)


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
