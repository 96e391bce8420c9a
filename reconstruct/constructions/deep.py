"""The deep and narrow construction (Theorem 2): width m·K instead of m·k, one layer per block.

The input of an m × k map enters in blocks of K through skip connections:

    h_1 = act(N_1(A_1 x^(1))),   h_i = act(N_i(M_i h_{i-1} + A_i x^(i))),   out = N_out(M_out h_D)

The scales σ_i = λ_i s_i (λ_i the slope of the activation) come from the last block to the first,

    B_D = M_out,    B_i diag(σ_i) A_i = W^(i),    B_{i-1} = B_i diag(σ_i) M_i,

the shifts then from the first layer to the last (`chain.shift_chain`). Exact in theory; in float64
each block loses as many digits as the condition of its B has, and that grows with depth. So the
rows of B are made orthonormal before a block is solved, B always comes from the scales that the
norms really have after rounding (each block makes up for what rounding did to those behind it), and
the spare width (`ratio` above 1) is spent on the condition of the next B. Over the rationals the
same induction gives scales with which the composed map equals W by ==; they grow, each block
multiplies their length by about its number of equations plus one.

Rests on proofs_check: mixed-product, rank-of-a-product, cramer-cofactors, nonzero-entries,
deep-backward-induction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la

from reconstruct import khatri_rao
from reconstruct.constructions import chain as chains
from reconstruct.constructions.chain import Chain, ChainPlan, Link, LinkScale, Reals, ShiftedChain
from reconstruct.constructions.construction import (
    Construction,
    ExactNorm,
    GroupSolution,
    LayerSolution,
    Task,
)
from reconstruct.constructions.sites import Blueprint, LayerPlan, Site, hidden_width
from reconstruct.constructions.wide import exact_norm
from reconstruct.errors import InputError
from reconstruct.khatri_rao import KhatriRao, Solution, Solver, Status, solve
from reconstruct.khatri_rao.solution import refine
from reconstruct.khatri_rao.solvers.direct import factored
from reconstruct.networks import Matrix, Mixing, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.exact import rationals
from reconstruct.numbers.parallel import one_blas_thread
from reconstruct.progress import Progress, Step


@dataclass(frozen=True)
class DeepLimits:
    """How far a deep site goes before it does otherwise, or says that it failed."""

    # Relative error of the whole map beyond which float64 is said not to carry it.
    accepted: float = 1e-6
    # Bits of the longest rational: beyond it an exact solve takes minutes.
    bits: float = 200_000
    # Bytes of a dense Khatri-Rao matrix that is factored here; beyond it the solver is asked.
    dense_bytes: int = 1 << 27
    # Condition of R beyond which B has lost its rank: then nothing is preconditioned.
    singular: float = 1e20
    # Width up to which threads of BLAS cost more than they save on the many small products.
    one_thread: int = 1024
    # ‖B'‖_F ‖B'⁺‖_F ≤ fine·m needs no improvement: half of it is there at condition 1.
    fine: float = 2.0
    refinements: int = 4  # of one block
    # Iterations of the improvement (most of the gain comes in the first 30), and its flops.
    steps: int = 100
    work: float = 4e11


LIMITS = DeepLimits()


@dataclass(frozen=True)
class Deep(Construction):
    """`block` inputs enter per layer; `ratio` hidden neurons for each of the m·block equations.

    A map with fewer inputs than `block` takes them all at once. At ratio 1 the systems are square
    and leave no choice: block sizes below 4 are then lost in float64 beyond a dozen layers.
    """

    block: int = 8
    ratio: float = 1.5

    summary: ClassVar[str] = (
        "each affine map is rebuilt by a chain of narrow frozen layers that take the "
        "input in block by block"
    )

    def plan(self, op: Mixing) -> DeepPlan:
        m, k = op.kernels[0].shape
        size = min(self.block, k)
        edges = tuple(pairwise([*range(0, k, size), k]))
        return DeepPlan(op, hidden_width(self.ratio, m * size), edges)


@dataclass(frozen=True, eq=False)
class DeepPlan(ChainPlan):
    """Inputs enter in `blocks`, each layer `width` wide.

    Of a convolution the inputs are the entries of a patch: the k columns of its kernel.
    """

    width: int
    blocks: tuple[tuple[int, int], ...]

    @property
    def blueprint(self) -> Blueprint:
        width, rows = self.groups * self.width, self.groups * self.rows
        layers = [LayerPlan(width, edge, carry=edge[0] > 0) for edge in self.blocks]
        whole = (*layers, LayerPlan(rows))
        return Blueprint(rows, self.cols, whole, self.groups)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        blocks = ((self.rows, stop - start, self.width) for start, stop in self.blocks)
        return tuple(blocks) * self.groups

    def check(self, site: Site) -> None:
        super().check(site)
        for chain in chains.read_chains(site):
            check_pieces(chain, site.where)

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        unit = unit_of(task.weight)
        inner = task.with_map(task.weight / unit, task.bias / unit)
        in_floats = khatri_rao.Auto() if solver.rational else solver
        blocks = solve_backward(chain, inner.weight, in_floats, progress)
        shifted = chains.shift_chain(chain, inner, blocks, unit)
        systems = _block_systems(chain, inner, blocks, shifted)
        if not solver.rational:
            return GroupSolution(shifted.norms, systems)
        said, exact = _exactly(chain, task, blocks, unit)
        told = (replace(row, said=f"{row.message}; {said}", solver="exact") for row in systems)
        return GroupSolution(shifted.norms, tuple(told), exact)


def check_pieces(chain: Chain, where: str) -> None:
    """Refuse activations that are linear on an interval only.

    What a layer carries is scaled as its own inputs are, so that nothing is left to choose by which
    both would fit into the interval.
    """
    for piece in (link.piece for link in chain.links if np.isfinite(link.piece.hi)):
        raise InputError(
            f"{where} needs activations that are linear on a half-line, as ReLU is, but the frozen "
            f"network has one that is linear on [{piece.lo:g}, {piece.hi:g}] only; use "
            f"--construction wide"
        )


def unit_of(W: Array) -> float:
    """The power of two next to W's largest entry: the last norm multiplies by it."""
    return float(np.ldexp(1.0, int(np.frexp(np.max(np.abs(W), initial=0.0))[1])))


# --- all blocks, last to first ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BlockSolution(LinkScale):
    """One block solved: its scale, and the matrix B that it met, of this 2-norm condition.

    `history` holds `‖W^(i) − B diag(real) A‖_F`, before and after the refinements and after
    rounding.
    """

    condition: float
    solver: str
    rank: int | None
    history: tuple[float, ...]
    seconds: float

    @property
    def residual(self) -> float:
        return self.history[-1]


def solve_backward(
    chain: Chain, W: Array, solver: Solver, progress: Progress
) -> tuple[BlockSolution, ...]:
    """All blocks of `W` (m × k), first to last, in extended precision."""
    B: Reals = chains.extended(dense(chain.end.kernel))
    found: list[BlockSolution] = []
    count = len(chain.links)
    with one_blas_thread() if chain.width <= LIMITS.one_thread else nullcontext():
        for done, link in enumerate(reversed(chain.links), start=1):
            block = _solve_block(link, B, W, solver)
            found.append(block)
            progress(Step("blocks", done, count, block.residual))
            if link.carry is not None:
                B = chains.extended_product(B * block.real, link.carry)
    return tuple(reversed(found))


def _solve_block(link: Link, B: Reals, W: Array, solver: Solver) -> BlockSolution:
    start = time.perf_counter()
    block = W[:, slice(*link.block)]
    system = block_system(B, link.entry, solver)
    initial = np.zeros(link.width)
    if link.carry is not None and not system.square:
        initial = _carrying_start(link, link.carry, system, B, W)

    def sized(sigma: Reals) -> tuple[Array, float]:
        """`W^(i) − B diag(σ) A` with the true B, extended where B is, and its size."""
        rest = np.asarray(block - chains.extended_product(B * sigma, link.entry), np.float64)
        return rest, float(np.linalg.norm(rest))

    rest, size = sized(initial)
    sigma, steps = refine(
        initial, rest, size, lambda R: system.inverse(system.undo(R)), sized, LIMITS.refinements
    )
    s = sigma / link.piece.slope
    rounded = link.real_scale(s)
    return BlockSolution(
        s=s,
        real=rounded,
        B=B,
        condition=system.condition,
        solver=system.solver,
        rank=system.rank,
        history=(size, *steps, sized(rounded)[1]),
        seconds=time.perf_counter() - start,
    )


# --- one block: B diag(σ) A = W^(i) -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BlockSystem:
    """`Q diag(s) A = R⁻ᵀ W` with orthonormal rows Q, `B = Rᵀ Q`: its own condition is that of a
    fresh random system; that of B comes in once, through R⁻ᵀ.

    `inverse` applies the pseudo-inverse of its Khatri-Rao matrix; `condition` is B's, by singular
    values.
    """

    operator: KhatriRao
    R: Array
    condition: float
    inverse: Callable[[Array], Vector]
    solver: str
    rank: int | None
    factored: bool

    @property
    def square(self) -> bool:
        return self.operator.width <= self.operator.rows

    def undo(self, W: Array) -> Array:
        """`R⁻ᵀ W`."""
        return np.asarray(la.solve_triangular(self.R, W, trans="T", check_finite=False))

    def apply(self, v: Vector) -> Array:
        """`Q diag(v) A`."""
        return np.asarray(self.operator.apply(v), np.float64)

    def project(self, v: Vector) -> Vector:
        """The part of v in the null space: `v − K⁺ K v`."""
        return v - self.inverse(self.apply(v))


def block_system(B: Reals, A: Matrix, solver: Solver) -> BlockSystem:
    """Factor the block's system, or hand it to the solver when it is too large for that."""
    Q, R, condition = _orthonormal_rows(np.asarray(B, np.float64))
    operator = KhatriRao(A, Q)
    small = 8 * operator.rows * operator.width <= LIMITS.dense_bytes
    if small and isinstance(solver, khatri_rao.Auto | khatri_rao.Direct):
        factor = factored(operator)
        known = ("direct", factor.rank, True)
        return BlockSystem(operator, R, condition, lambda w: factor.solve(w.ravel()), *known)
    name = solve(A, Q, np.zeros(operator.map_shape), solver).solver
    return BlockSystem(
        operator, R, condition, lambda w: solve(A, Q, w, solver).s, name, None, False
    )


def _orthonormal_rows(B: Array) -> tuple[Array, Array, float]:
    """Q and R of `B = Rᵀ Q`, and the condition of B; a B without full rank is only scaled."""
    scale = float(np.linalg.norm(B)) or 1.0
    q, r = np.linalg.qr((B / scale).T)
    sizes = np.linalg.svd(r, compute_uv=False)
    condition = float(sizes[0] / sizes[-1]) if sizes[-1] > 0 else float("inf")
    if not condition < LIMITS.singular or np.any(np.diagonal(r) == 0):
        return B / scale, np.eye(len(B)) * scale, condition
    return q.T, r * scale, condition


# --- spare width: a solution that carries the earlier blocks on well ----------------------------


def _carrying_start(link: Link, M: Matrix, system: BlockSystem, B: Reals, W: Array) -> Vector:
    """A solution whose carried matrix is well conditioned: the constant one, then improved."""
    tau = scale_of(link, system, W)
    wanted = system.undo(W[:, slice(*link.block)])
    reference = np.full(link.width, tau)
    start = reference + system.inverse(wanted - system.apply(reference))
    before = np.asarray(B, np.float64)
    if not system.factored or _condition(before, M, start) <= LIMITS.fine * len(W):
        return start
    unit = before / np.linalg.norm(before)
    return improve(Carried(unit, dense(M), tau), start, system.project)


def scale_of(link: Link, system: BlockSystem, W: Array) -> float:
    """τ: the typical entry of a minimum-norm solution for one of the blocks still to come.

    Rows of the Khatri-Rao matrix have squared norm α² = mean A², so `K⁺ w` has norm ‖w‖/α.
    """
    first, stop = link.block
    typical = np.linalg.norm(system.undo(W[:, :stop])) * np.sqrt((stop - first) / stop)
    alpha = np.sqrt(np.mean(dense(link.entry) ** 2) * link.width)
    value = float(typical / alpha) if alpha > 0 else 0.0
    return value if np.isfinite(value) and value > 0 else 1.0


def _condition(B: Array, M: Matrix, s: Vector) -> float:
    """`‖B'‖_F ‖B'⁺‖_F` of `B' = B diag(s) M`: between the condition number and m times it."""
    size = np.linalg.svd((B * s) @ dense(M), compute_uv=False)
    return float(np.linalg.norm(size) * np.linalg.norm(1 / size)) if size[-1] > 0 else np.inf


@dataclass(frozen=True, eq=False)
class Carried:
    """What is minimised along the null space of a block: the condition of `B' = B diag(s) M`,
    which the blocks before it meet, and the size of s against τ:

        log tr G + log tr G⁻¹ + ρ·(q − log q),      G = B' B'ᵀ,   q = mean (s/τ)².

    The first two terms are twice the logarithm of `‖B'‖_F ‖B'⁺‖_F`; the last keeps s, and with it
    the shifts, at the scale τ of the equations (a decade of ρ more or less changes little).
    """

    B: Array
    M: Array
    tau: float
    rho: float = 0.01

    def value(self, s: Vector) -> tuple[float, Vector]:
        """The objective and its gradient; B' enters through its singular values.

        With `B' = U Σ Vᵀ` a function f of the singular values has the gradient
        `diag(Bᵀ U f'(Σ) Vᵀ Mᵀ)`.
        """
        left, size, right = np.linalg.svd((self.B * s) @ self.M, full_matrices=False)
        # 1e-16 of the largest counts as rounding: smaller ones would drown the gradient
        size = np.maximum(size, 1e-16 * size[0] + np.finfo(float).tiny ** 0.25)
        total, inverse = float(np.sum(size**2)), float(np.sum(size**-2.0))
        slope = 2 * size / total - 2 * size**-3.0 / inverse
        gradient = np.einsum("ij,ij->j", self.B, ((left * slope) @ right) @ self.M.T)
        ratio = s / self.tau
        mean = max(float(np.mean(ratio**2)), np.finfo(float).tiny)
        value = float(np.log(total * inverse)) + self.rho * (mean - float(np.log(mean)))
        pull = (2 * self.rho * (1 - 1 / mean) / len(ratio)) * ratio / self.tau
        return value, gradient + pull


def improve(carried: Carried, start: Vector, project: Callable[[Vector], Vector]) -> Vector:
    """A solution at the scale τ whose B' is better conditioned than the start's.

    `start` solves the block; `project` projects onto the null space of its system, so every
    iterate solves it too.
    """
    from scipy.optimize import minimize  # large, and needed here alone

    flops = float(4 * carried.B.shape[0] * carried.M.size)  # of one evaluation
    steps = min(LIMITS.steps, int(LIMITS.work / flops))
    unit = carried.tau

    def objective(y: Vector) -> tuple[float, Vector]:
        value, gradient = carried.value(start + unit * y)
        return value, unit * project(gradient)

    found = minimize(
        objective, np.zeros(len(start)), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    return np.asarray(start + unit * project(found.x))


# --- what is said of each block -----------------------------------------------------------------


def _block_systems(
    chain: Chain, task: Task, blocks: Sequence[BlockSolution], shifted: ShiftedChain
) -> tuple[LayerSolution, ...]:
    """One row per block, first to last.

    `residual` is that of the block's own equation with the true matrices and the rounded scales,
    relative to ‖W‖_F. Only the error of all blocks together counts (of unrelated signs, in
    squares); when it is too large, the blocks to blame are those with more than 1/√D of what is
    accepted. A block that fails meets what a failure behind it left over, and has its status.
    """
    norm = float(np.linalg.norm(task.weight)) or 1.0
    rounding = shifted.rounding(task)
    residuals = [block.residual / norm for block in blocks]
    total = max(float(np.linalg.norm(residuals)), float(np.linalg.norm(rounding)))
    share = 1.0 if total <= LIMITS.accepted else float(np.sqrt(len(blocks)))
    rows, behind = [], Status.SOLVED
    for i in reversed(range(len(blocks))):
        link, block, (start, stop) = chain.links[i], blocks[i], chain.links[i].block
        needed = len(task.weight) * (stop - start)
        nothing = not block.s.any() and not task.weight[:, start:stop].any()
        status, reason = behind, ""
        if nothing and task.weight[:, :start].any():
            status = Status.RANK_DEFICIENT
            reason = (
                f"the block of W is zero, and with width {link.width} for {needed} equations its "
                f"only solution is s = 0, which carries nothing of the {start} inputs before it"
            )
        elif max(residuals[i], rounding[i]) <= LIMITS.accepted / share:
            status = Status.SOLVED
            reason = "B_i diag(s_i) A_i equals the block of W, and float64 carries it"
        elif behind is Status.SOLVED:
            missing = block.rank is not None and block.rank < needed
            status = Status.RANK_DEFICIENT if missing else Status.ILL_CONDITIONED
        behind = status if behind is Status.SOLVED else behind
        said = (
            f"{status.value}: {reason or status.explanation} (block {i + 1} of {len(blocks)}, "
            f"inputs {start} to {stop - 1}, rank {block.rank or 'unknown'} of {needed} needed, "
            f"condition of B {block.condition:.1e}, relative residual {residuals[i]:.1e}, float64 "
            f"rounding about {rounding[i]:.1e})"
        )
        solution = Solution(
            np.asarray(block.s, np.float64),
            status,
            block.solver,
            residuals[i],
            (len(task.weight), stop - start),
            block.rank,
            block.condition,
            tuple(value / norm for value in block.history[1:-1]),
            block.seconds,
            said=f"{said}; {status.remedy}" if status.remedy else said,
        )
        rows.append(LayerSolution.of(task, solution, shifted.shift_max[i]))
    return tuple(reversed(rows))


# --- over the rationals --------------------------------------------------------------------------


def _exactly(
    chain: Chain, task: Task, blocks: Sequence[BlockSolution], unit: float
) -> tuple[str, tuple[ExactNorm, ...] | None]:
    """The rational norms, or why there are none.

    Spare width leaves entries of a block free; taking them from the float64 solution keeps the
    exact one beside it.
    """
    exact = task.rational
    bits = height(chain, len(task.weight))
    if bits > LIMITS.bits:
        return f"exact numbers would have about {bits:.0e} bits: use larger blocks", None
    near = [np.asarray(block.real, np.float64) for block in blocks]
    near[-1] = unit * near[-1]  # the last norm's factor belongs to the last block here
    B = rationals(chain.end.kernel)
    scales: list[Array] = []
    for link, free in zip(reversed(chain.links), reversed(near), strict=True):
        block = exact.weight[:, slice(*link.block)]
        found = khatri_rao.solve_exact(link.entry, B, block, free=free.tolist())
        if found.rationals is None:
            return f"the block of inputs {link.block}: {found.message}", None
        sigma = np.array(found.rationals, dtype=object)
        scales.append(sigma)
        if link.carry is not None:
            B = (B * sigma) @ rationals(link.carry)
    said = "over the rationals B_i diag(s_i) A_i == W^(i) for every block"
    return said, exact_norms(chain, scales[::-1], task)


def height(chain: Chain, rows: int, entry_bits: float = 30.0) -> float:
    """About how many bits the longest numerator of the exact solution will have.

    A float32 weight over a common power of two has about `entry_bits`.
    """
    longest, before = entry_bits, entry_bits
    for link in reversed(chain.links):
        equations = rows * (link.block[1] - link.block[0])
        longest = equations * (before + entry_bits)
        before += longest + entry_bits
    return longest


def exact_norms(chain: Chain, scales: Sequence[Array], task: Task) -> tuple[ExactNorm, ...]:
    """The rational norms: shifts from the exact values, each taken back exactly one layer later."""
    norms: list[ExactNorm] = []
    linear, constant = np.zeros((0, 0), dtype=object), np.zeros(0, dtype=object)
    for link, sigma in zip(chain.links, scales, strict=True):
        slope: Any = Fraction(link.piece.slope)
        s, arriving, met = sigma / slope, rationals(link.entry), rationals(link.bias)
        if link.carry is not None:
            M = rationals(link.carry)
            arriving, met = np.hstack([M @ linear, arriving]), met + M @ constant
        values = s[:, None] * arriving
        rounded = chains.padded(values.astype(np.float64), task.weight.shape[1])
        held = chains.find_shift(
            link.piece, *task.functionals(rounded), np.abs(rounded) @ task.magnitude
        )
        shift = rationals(held.shift)
        norms.append(exact_norm(link.norm, s, shift - s * met))
        linear, constant = slope * values, slope * shift
    met = rationals(chain.end.kernel) @ constant + rationals(chain.end.bias)
    one = [Fraction(1)] * len(met)
    return (*norms, exact_norm(chain.end.norm, one, task.rational.bias - met))
