"""The deep and narrow construction (Theorem 2): width m·K instead of m·k, one layer per block.

The input of an m × k map enters in blocks of K through skip connections:

    h_1 = act(N_1(A_1 x^(1))),   h_i = act(N_i(M_i h_{i-1} + A_i x^(i))),   out = N_out(M_out h_D)

The scales σ_i = λ_i s_i (λ_i the slope of the activation) come from the last block to the first,

    B_D = M_out,    B_i diag(σ_i) A_i = W^(i),    B_{i-1} = B_i diag(σ_i) M_i,

the shifts then from the first layer to the last (`chain.shift_chain`). Exact in theory; in float64
each block loses as many digits as the condition of its B has, and that grows with depth. So the
rows of B are made orthonormal before a block is solved, B always comes from the scales that the
norms really have after rounding (each block makes up for what rounding did to those behind it), and
the spare width (`ratio` above 1) is spent on the condition of the next B. `deep_exact` does the
same over the rationals and modulo a prime.

Rests on proofs_check: mixed-product, rank-of-a-product, cramer-cofactors, nonzero-entries,
deep-backward-induction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from reconstruct.constructions.chain import (
    Chain,
    Link,
    LinkScale,
    Reals,
    ShiftedChain,
    check_patterns,
    extended,
    extended_product,
    read_chain,
    shift_chain,
)
from reconstruct.constructions.construction import (
    ExactMap,
    ExactNorm,
    LayerSolution,
    SiteSolution,
    Task,
    joined_exactly,
)
from reconstruct.constructions.deep_exact import exact_norms, height, prove_deep, solve_exactly
from reconstruct.constructions.sites import (
    Blueprint,
    LayerPlan,
    Site,
    check_geometry,
    check_ratio,
    hidden_width,
    kernel_of,
)
from reconstruct.constructions.two_layers import check_width, joined
from reconstruct.errors import InputError
from reconstruct.khatri_rao import (
    Auto,
    Direct,
    KhatriRao,
    RankProof,
    Solver,
    Status,
    solve,
)
from reconstruct.khatri_rao.solvers.direct import CompleteOrthogonal, Factor, SquareLU, WideQR
from reconstruct.networks import Matrix, Mixing, Network, Norm, dense
from reconstruct.numbers.arrays import Vector
from reconstruct.numbers.given import whole
from reconstruct.numbers.parallel import one_blas_thread
from reconstruct.progress import Progress, Step

Array: TypeAlias = NDArray[np.float64]


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
    # Tries to fit all values into bounded pieces; τ of the last block and the share of a piece
    # beyond which float64 has no digits left for the rest.
    attempts: int = 24
    stretch: float = 1e13
    share: float = 0.05
    # ‖B'‖_F ‖B'⁺‖_F ≤ fine·m needs no improvement: half of it is there at condition 1.
    fine: float = 2.0
    # Iterations of the improvement (most of the gain comes in the first 30), and its flops.
    steps: int = 100
    work: float = 4e11


LIMITS = DeepLimits()


@dataclass(frozen=True)
class Deep:
    """`block` inputs enter per layer; `ratio` hidden neurons for each of the m·block equations.

    A map with fewer inputs than `block` takes them all at once. At ratio 1 the systems are square
    and leave no choice: block sizes below 4 are then lost in float64 beyond a dozen layers.
    """

    block: int = 8
    ratio: float = 1.5

    name: ClassVar[str] = "deep"
    summary: ClassVar[str] = (
        "each affine map is rebuilt by a chain of narrow frozen layers that take the "
        "input in block by block"
    )
    scales_units: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if whole(self.block, "the block size") < 1:
            raise InputError(
                f"the block size must be at least 1, the number of inputs that enter each layer, "
                f"but is {self.block}"
            )

    def plan(self, op: Mixing) -> DeepPlan:
        m, k = op.kernels[0].shape
        size = min(self.block, k)
        edges = tuple(pairwise([*range(0, k, size), k]))
        return DeepPlan(op, m, k, hidden_width(self.ratio, m * size), edges, len(op.kernels))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio, "block": self.block}


@dataclass(frozen=True, eq=False)
class DeepPlan:
    """The map `op`, m × k in each of its groups, whose inputs enter in `blocks`, each layer
    `width` wide.

    Of a convolution the inputs are the entries of a patch: the k columns of its kernel.
    """

    op: Mixing
    rows: int
    cols: int
    width: int
    blocks: tuple[tuple[int, int], ...]
    groups: int = 1

    left_out = None
    alone = True

    @property
    def blueprint(self) -> Blueprint:
        width, rows = self.groups * self.width, self.groups * self.rows
        layers = [LayerPlan(width, edge, carry=edge[0] > 0) for edge in self.blocks]
        whole = (*layers, LayerPlan(rows, None, carry=True))
        return Blueprint(rows, self.cols, whole, self.groups)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        blocks = ((self.rows, stop - start, self.width) for start, stop in self.blocks)
        return tuple(blocks) * self.groups

    def check(self, site: Site, frozen: Network, number: int) -> None:
        where = f"map {number} ({site.target!r})"
        check_geometry(self.op, frozen, site, where)
        for i, (layer, (start, stop)) in enumerate(
            zip(site.layers[:-1], self.blocks, strict=True), start=1
        ):
            check_width(frozen, layer, self.rows, stop - start, f"{where}, block {i}", self.groups)
        for chain in self._chains(site, frozen):
            check_patterns(chain, where)

    def _chains(self, site: Site, frozen: Network) -> list[Chain]:
        return [read_chain(site, frozen, group, self.groups) for group in range(self.groups)]

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        pairs = zip(self._chains(site, frozen), task.each, strict=True)
        found = [_solve_group(chain, part, solver, progress) for chain, part in pairs]
        names = [layer.norm for layer in site.layers]
        norms = [joined(parts) for parts in zip(*(own for own, _, _ in found), strict=True)]
        exact = joined_exactly(names, [rational for _, _, rational in found])
        systems = tuple(row for _, rows, _ in found for row in rows)
        return SiteSolution(dict(zip(names, norms, strict=True)), systems, exact)

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        """None: the systems hold products of solved gammas (`prove_deep` has another way)."""
        return (None,) * len(self.systems)

    def describe(self) -> None:
        return None


def unit_of(W: Array) -> float:
    """The power of two next to W's largest entry: the last norm multiplies by it."""
    return float(np.ldexp(1.0, int(np.frexp(np.max(np.abs(W), initial=0.0))[1])))


def _solve_group(
    chain: Chain, task: Task, solver: Solver, progress: Progress
) -> tuple[tuple[Norm, ...], tuple[LayerSolution, ...], list[ExactNorm] | None]:
    """The norms of one group's layers, what is told of its blocks, and the rational norms."""
    unit = unit_of(task.weight)
    inner = task.with_map(task.weight / unit, task.bias / unit)
    in_floats = Auto() if solver.rational else solver
    blocks, shifted = _solve_and_shift(chain, inner, in_floats, progress, unit)
    systems = _block_systems(chain, inner, blocks, shifted)
    if not solver.rational:
        return shifted.norms, systems, None
    said, exact = _exactly(chain, task, blocks, unit)
    told = (replace(row, said=f"{row.message}; {said}", solver="exact") for row in systems)
    return shifted.norms, tuple(told), exact


def _exactly(
    chain: Chain, task: Task, blocks: Sequence[BlockSolution], unit: float
) -> tuple[str, list[ExactNorm] | None]:
    """The rational norms, or a proof that there are some when they are too long to write down."""
    exact = task.exact or ExactMap.of(task.weight, task.bias)
    bits = height(chain, len(task.weight))
    if bits > LIMITS.bits:
        proof = prove_deep(chain, task.weight)
        return f"exact numbers would have about {bits:.0e} bits; {proof.message}", None
    near = [np.asarray(block.real, np.float64) for block in blocks]
    near[-1] = unit * near[-1]  # the last norm's factor belongs to the last block here
    scales, reason = solve_exactly(chain, exact.weight, near)
    if scales is None:
        return reason, None
    said = "over the rationals B_i diag(s_i) A_i == W^(i) for every block"
    return said, exact_norms(chain, scales, task, exact)


# --- all blocks, last to first ------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """How large the free part of the solutions is; only bounded activations need to change it.

    `last` multiplies τ in the last block: it makes B larger and so the hidden values before it
    smaller. `share` is the part of a bounded piece that a block's own input may fill.
    """

    last: float = 1.0
    share: float = 0.5


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


def _solve_and_shift(
    chain: Chain, task: Task, solver: Solver, progress: Progress, unit: float
) -> tuple[tuple[BlockSolution, ...], ShiftedChain]:
    """Scales and shifts; with bounded pieces, stretched until every layer's values fit.

    A layer's values shrink when the B behind it grows, which the last block's free part decides;
    each block on the way takes some of it away. When a stretch no longer helps, the blocks' own
    inputs are given a smaller share of the piece.
    """
    stretch, before = Stretch(), (len(chain.links), 0.0)
    m = len(task.weight)
    square = all(link.width <= m * (link.block[1] - link.block[0]) for link in chain.links[1:])
    for _ in range(LIMITS.attempts):
        blocks = solve_backward(chain, task.weight, task.magnitude, solver, progress, stretch)
        shifted = shift_chain(chain, task, blocks, unit)
        if shifted.fits or square:  # square systems leave no choice of the solution
            break
        if stretch.last > LIMITS.stretch or stretch.share < LIMITS.share:
            break
        if shifted.front < before:
            stretch = replace(stretch, last=stretch.last * 4 * max(shifted.overflow))
        else:
            stretch = replace(stretch, share=stretch.share / 2)
        before = shifted.front
    return blocks, shifted


def solve_backward(
    chain: Chain,
    W: Array,
    reach: Vector,
    solver: Solver,
    progress: Progress,
    stretch: Stretch,
) -> tuple[BlockSolution, ...]:
    """All blocks of `W` (m × k), first to last, in extended precision; `reach[j]` bounds |x_j|."""
    B: Reals = extended(dense(kernel_of(chain.last)))
    found: list[BlockSolution] = []
    count = len(chain.links)
    with one_blas_thread() if chain.width <= LIMITS.one_thread else nullcontext():
        for done, link in enumerate(reversed(chain.links), start=1):
            block = _solve_block(link, B, W, reach, solver, stretch, last=done == 1)
            found.append(block)
            progress(Step("blocks", done, count, block.residual))
            if link.carry is not None:
                B = extended_product(B * block.real, link.carry)
    return tuple(reversed(found))


def _solve_block(
    link: Link,
    B: Reals,
    W: Array,
    reach: Vector,
    solver: Solver,
    stretch: Stretch,
    *,
    last: bool,
) -> BlockSolution:
    start = time.perf_counter()
    block = W[:, slice(*link.block)]
    system = block_system(B, link.entry, solver)
    initial = np.zeros(link.width)
    if link.carry is not None and not system.square:
        initial = _carrying_start(link, link.carry, system, B, W, reach, stretch, last=last)

    def residual(sigma: Reals) -> Array:
        """`W^(i) − B diag(σ) A` with the true B, extended where B is."""
        return np.asarray(block - extended_product(B * sigma, link.entry), np.float64)

    sigma, history = _refine(system, initial, residual)
    s = sigma / link.piece.slope
    rounded = link.real_scale(s)
    history.append(float(np.linalg.norm(residual(rounded))))
    return BlockSolution(
        s=s,
        real=rounded,
        B=B,
        condition=system.condition,
        solver=system.solver,
        rank=system.rank,
        history=tuple(history),
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
    if small and isinstance(solver, (Auto, Direct)):
        factor = _factor(operator)

        def by_factor(w: Array) -> Vector:
            return factor.solve(w.ravel())

        return BlockSystem(operator, R, condition, by_factor, "direct", factor.rank, True)

    def by_solver(w: Array) -> Vector:
        return solve(A, Q, w, solver).s

    name = solve(A, Q, np.zeros(operator.map_shape), solver).solver
    return BlockSystem(operator, R, condition, by_solver, name, None, False)


def _orthonormal_rows(B: Array) -> tuple[Array, Array, float]:
    """Q and R of `B = Rᵀ Q`, and the condition of B; a B without full rank is only scaled."""
    scale = float(np.linalg.norm(B)) or 1.0
    q, r = np.linalg.qr((B / scale).T)
    sizes = np.linalg.svd(r, compute_uv=False)
    condition = float(sizes[0] / sizes[-1]) if sizes[-1] > 0 else float("inf")
    if not condition < LIMITS.singular or np.any(np.diagonal(r) == 0):
        return B / scale, np.eye(len(B)) * scale, condition
    return q.T, r * scale, condition


def _factor(operator: KhatriRao) -> Factor:
    K = operator.dense()
    if operator.width < operator.rows:
        return CompleteOrthogonal(K)
    factor: Factor = SquareLU(K) if operator.width == operator.rows else WideQR(K)
    limit = 1 / (np.finfo(float).eps * operator.width)
    return factor if factor.condition < limit else CompleteOrthogonal(operator.dense())


def _refine(
    system: BlockSystem, start: Vector, residual: Callable[[Vector], Array], most: int = 4
) -> tuple[Vector, list[float]]:
    """`s ← s + K⁺ R⁻ᵀ r` while the residual r at least halves; its size each time."""
    best, rest = start, residual(start)
    history = [float(np.linalg.norm(rest))]
    for _ in range(most):
        s = best + system.inverse(system.undo(rest))
        if not np.isfinite(s).all():
            break
        left = residual(s)
        size = float(np.linalg.norm(left))
        if not size < history[-1]:
            break
        halved = size <= history[-1] / 2
        best, rest = s, left
        history.append(size)
        if not halved or size == 0:
            break
    return best, history


# --- spare width: a solution that carries the earlier blocks on well ----------------------------


def _carrying_start(
    link: Link,
    M: Matrix,
    system: BlockSystem,
    B: Reals,
    W: Array,
    reach: Vector,
    stretch: Stretch,
    *,
    last: bool,
) -> Vector:
    """A solution whose carried matrix is well conditioned: the constant one, then improved."""
    first, stop = link.block
    reference = scale_of(link, system, W) * np.full(link.width, stretch.last if last else 1.0)
    if link.bounded and not last:
        reference = _within_piece(link, reach[first:stop], stretch.share)
    wanted = system.undo(W[:, first:stop])
    start = reference + system.inverse(wanted - system.apply(reference))
    if not system.factored:
        return start
    before = np.asarray(B, np.float64)
    fine = _condition(before, M, start) <= LIMITS.fine * len(W)
    if fine and (last or not link.bounded):
        return start
    unit = before / np.linalg.norm(before)
    return improve(Carried(unit, dense(M), reference, link.bounded), start, system.project)


def scale_of(link: Link, system: BlockSystem, W: Array) -> float:
    """τ: the typical entry of a minimum-norm solution for one of the blocks still to come.

    Rows of the Khatri-Rao matrix have squared norm α² = mean A², so `K⁺ w` has norm ‖w‖/α.
    """
    first, stop = link.block
    typical = np.linalg.norm(system.undo(W[:, :stop])) * np.sqrt((stop - first) / stop)
    alpha = np.sqrt(np.mean(dense(link.entry) ** 2) * link.width)
    value = float(typical / alpha) if alpha > 0 else 0.0
    return value if np.isfinite(value) and value > 0 else 1.0


def _within_piece(link: Link, reach: Vector, share: float) -> Vector:
    """Scales with which the block's own input fills at most `share` of the bounded piece."""
    entering = np.abs(dense(link.entry)) @ reach
    typical = float(np.mean(entering)) or 1.0
    return share * (link.piece.hi - link.piece.lo) / 2 / (entering + typical)


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
    For activations with a bounded piece τ is what fits into the piece, and s has to stay there
    while B' is kept large: then it is `log tr G⁻¹ + ½·mean (s/τ)⁴`, least at s about τ.
    """

    B: Array
    M: Array
    tau: Vector
    bounded: bool = False
    rho: float = 0.01

    def value(self, s: Vector) -> tuple[float, Vector]:
        """The objective and its gradient; B' enters through its singular values.

        With `B' = U Σ Vᵀ` a function f of the singular values has the gradient
        `diag(Bᵀ U f'(Σ) Vᵀ Mᵀ)`.
        """
        left, size, right = np.linalg.svd((self.B * s) @ self.M, full_matrices=False)
        # 1e-16 of the largest counts as rounding: smaller ones would drown the gradient
        size = np.maximum(size, 1e-16 * size[0] + np.finfo(float).tiny ** 0.25)
        value, slope = self._spectrum(size)
        gradient = np.einsum("ij,ij->j", self.B, ((left * slope) @ right) @ self.M.T)
        extra, direction = self._size(s / self.tau)
        return value + extra, gradient + direction / self.tau

    def _spectrum(self, size: Vector) -> tuple[float, Vector]:
        total, inverse = float(np.sum(size**2)), float(np.sum(size**-2.0))
        value, slope = np.log(inverse), -2 * size**-3.0 / inverse
        if not self.bounded:
            value, slope = value + np.log(total), slope + 2 * size / total
        return float(value), slope

    def _size(self, ratio: Vector) -> tuple[float, Vector]:
        if self.bounded:
            return 0.5 * float(np.mean(ratio**4)), 2 * ratio**3 / len(ratio)
        mean = max(float(np.mean(ratio**2)), np.finfo(float).tiny)
        value = self.rho * (mean - float(np.log(mean)))
        return value, (2 * self.rho * (1 - 1 / mean) / len(ratio)) * ratio


def improve(carried: Carried, start: Vector, project: Callable[[Vector], Vector]) -> Vector:
    """A solution at the scale τ whose B' is better conditioned than the start's.

    `start` solves the block; `project` projects onto the null space of its system, so every
    iterate solves it too.
    """
    from scipy.optimize import minimize  # large, and needed here alone

    flops = float(4 * carried.B.shape[0] * carried.M.size)  # of one evaluation
    steps = min(LIMITS.steps, int(LIMITS.work / flops))
    unit = float(np.sqrt(np.mean(carried.tau**2)))

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
        carried = max(residuals[i], rounding[i]) <= LIMITS.accepted / share
        status, reason = _judge(task, link, block, carried, shifted.overflow[i], behind)
        behind = status if behind is Status.SOLVED else behind
        needed = len(task.weight) * (stop - start)
        numbers = (
            f"block {i + 1} of {len(blocks)}, inputs {start} to {stop - 1}, rank "
            f"{block.rank or 'unknown'} of {needed} needed, condition of B {block.condition:.1e}, "
            f"relative residual {residuals[i]:.1e}, float64 rounding about {rounding[i]:.1e}"
        )
        said = f"{status.value}: {reason or status.explanation} ({numbers})"
        rows.append(
            LayerSolution(
                s=np.asarray(block.s, np.float64),
                status=status,
                solver=block.solver,
                residual=residuals[i],
                shape=(len(task.weight), stop - start),
                rank=block.rank,
                condition=block.condition,
                history=tuple(value / norm for value in block.history),
                seconds=block.seconds,
                index=task.index,
                name=task.name,
                shift_max=shifted.shift_max[i],
                said=f"{said}; {status.remedy}" if status.remedy else said,
                steps=len(block.history) - 2,
            )
        )
    return tuple(reversed(rows))


def _judge(
    task: Task,
    link: Link,
    block: BlockSolution,
    carried: bool,
    overflow: float,
    behind: Status,
) -> tuple[Status, str]:
    """The status of a block, and a sentence of its own where it has one."""
    start, stop = link.block
    needed = len(task.weight) * (stop - start)
    if overflow > 1:
        status = Status.ILL_CONDITIONED if link.width > needed else Status.TOO_NARROW
        return status, (
            f"the values are {overflow:g} times too wide for the activation's linear piece "
            f"[{link.piece.lo:g}, {link.piece.hi:g}], and among the solutions that width "
            f"{link.width} for {needed} equations leaves, none was found that fits"
        )
    carries = bool(np.any(task.weight[:, :start]))  # something of the inputs before
    if not np.any(block.s) and not np.any(task.weight[:, start:stop]) and carries:
        return Status.RANK_DEFICIENT, (
            f"the block of W is zero, and with width {link.width} for {needed} equations its only "
            f"solution is s = 0, which carries nothing of the {start} inputs before it"
        )
    if carried:
        return Status.SOLVED, "B_i diag(s_i) A_i equals the block of W, and float64 carries it"
    if behind is not Status.SOLVED:
        return behind, ""
    missing = block.rank is not None and block.rank < needed
    return (Status.RANK_DEFICIENT if missing else Status.ILL_CONDITIONED), ""
