"""The stacked construction: L hidden norm layers in their linear range, no skip connections.

    h ↦ N_out( M_L act( N_L( … act( N_1( M_0 h ) ) ) ) ),      P(s) = M_L D_L M_{L-1} … D_1 M_0 = W

Moving a factor from one diagonal to the next changes nothing, so of the Σ n_i parameters L − 1 are
spent: Σ n_i ≥ m·k + L − 1 is necessary for all W. That it nearly suffices for random factors is
measured, not proved: the diagonals D_i = diag(s_i) are found by damped Gauss-Newton (Levenberg and
Marquardt) from random starts. Each step is the least one, in units of the diagonals, that solves
the linearised equations with damping,

    δ = Jᵀ (J Jᵀ + λ I)⁻¹ (W − P(s)),

with J Jᵀ formed and factored. Whether a residual is small is checked by the certificate.

Rests on proofs_check: stacked-width.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la

from reconstruct.constructions.chain import Chain, ChainPlan, LinkScale, read_chains, shift_chain
from reconstruct.constructions.construction import Construction, GroupSolution, LayerSolution, Task
from reconstruct.constructions.deep import check_pieces, unit_of
from reconstruct.constructions.sites import Blueprint, Site, check_geometry, hidden_width
from reconstruct.constructions.wide import channels
from reconstruct.errors import InputError
from reconstruct.khatri_rao import KhatriRao, Solution, Solver, Status
from reconstruct.networks import Mixing, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.progress import Progress, Step

Scales = tuple[Vector, ...]


@dataclass(frozen=True)
class StackLimits:
    """How far the search for the diagonals goes, and when its result is said to have failed."""

    starts: int = 4
    steps: int = 200  # at most, from one start
    close: float = 2.0**-50  # relative residual at which rounding is all that is left
    accepted: float = 1e-10  # relative residual that counts when no step improves it
    rounding: float = 1e-6  # expected rounding error beyond which float64 does not carry the map
    dense_bytes: int = 1 << 29  # largest J that is formed
    least_damping: float = 1e-16  # relative to the mean eigenvalue of J Jᵀ
    most_damping: float = 1e6


LIMITS = StackLimits()


@dataclass(frozen=True)
class Stacked(Construction):
    """`layers` hidden layers for each map; `ratio` times the neurons that they need.

    `ratio` multiplies what parameters ask for, m·k + L − 1 neurons in all, shared out evenly. The
    first layer needs k neurons and the last m (W's rows lie in the row space of M_0, its columns in
    the column space of M_L), those between min(m, k); where they do not fit, a map takes fewer.
    """

    layers: int = 2
    ratio: float = 1.3

    summary: ClassVar[str] = (
        "each affine map of the target is rebuilt by a plain stack of frozen layers whose "
        "widths add up to little more than m·k"
    )

    def plan(self, op: Mixing) -> StackedPlan:
        m, k = op.kernels[0].shape
        for layers in range(self.layers, 0, -1):
            total = hidden_width(self.ratio, m * k + layers - 1)
            if sum(least_widths(m, k, layers)) <= total:
                break
        return StackedPlan(op, shared_out(total, least_widths(m, k, layers)))


def least_widths(m: int, k: int, layers: int) -> list[int]:
    """What each layer needs to let every m × k matrix pass."""
    inner = [min(m, k)] * layers
    inner[0], inner[-1] = k, max(m, inner[-1])
    return inner if layers > 1 else [m * k]


def shared_out(total: int, least: list[int]) -> tuple[int, ...]:
    """`total` in shares that are as even as their least values allow."""
    widths = list(least)
    for _ in range(total - sum(least)):
        widths[widths.index(min(widths))] += 1
    return tuple(widths)


@dataclass(frozen=True, eq=False)
class StackedPlan(ChainPlan):
    """Each group in hidden layers of these widths, one behind the other."""

    widths: tuple[int, ...]

    @property
    def blueprint(self) -> Blueprint:
        return self.in_a_row(*self.widths, self.rows)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, sum(self.widths)),) * self.groups

    @property
    def needed(self) -> int:
        """The least Σ n_i that reaches every W: m·k, and 1 for each factor between neighbours."""
        return self.rows * self.cols + len(self.widths) - 1

    def check(self, site: Site) -> None:
        check_geometry(self.op, site)
        formed = 8 * self.rows * self.cols * sum(self.widths)
        if formed > LIMITS.dense_bytes:
            raise InputError(
                f"{site.where} has {self.rows}·{self.cols} equations, whose derivatives a stack "
                f"needs as a matrix of {formed / 2**30:.1f} GiB, but at most "
                f"{LIMITS.dense_bytes / 2**30:.1f} GiB is formed; use --construction grouped or "
                f"wide"
            )
        for chain in read_chains(site):
            check_pieces(chain, site.where)
        found = [channels(site, layer) // self.groups for layer in site.layers[:-1]]
        if sum(found) < self.needed:
            raise InputError(
                f"{site.where} needs hidden widths of at least m·k + L − 1 = {self.needed} in all, "
                f"but the frozen network has {' + '.join(map(str, found))} = {sum(found)}; widen "
                f"it by {self.needed - sum(found)}"
            )
        least = least_widths(self.rows, self.cols, len(found))
        for i, (width, needed) in enumerate(zip(found, least, strict=True), start=1):
            if width < needed:
                raise InputError(
                    f"{site.where} needs at least {needed} neurons in hidden layer {i} of "
                    f"{len(found)} to let every {self.rows}×{self.cols} matrix pass, but it has "
                    f"{width}; share the neurons out otherwise, or use fewer layers"
                )

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        if solver.rational:
            raise InputError(
                "the exact solver works with --construction wide and deep: the diagonals of a "
                "stack solve polynomial equations, whose solutions are not rational"
            )
        start = time.perf_counter()
        unit = unit_of(task.weight)
        inner = task.with_map(task.weight / unit, task.bias / unit)
        product = Product.of(chain)
        found = fit(product, inner.weight, progress)
        scales = [
            LinkScale(s := sigma / link.piece.slope, link.real_scale(s), B)
            for link, sigma, B in zip(
                chain.links, found.scales, product.lefts(found.scales), strict=True
            )
        ]
        shifted = shift_chain(chain, inner, scales, unit)
        rounding = float(np.linalg.norm(shifted.rounding(inner)))
        status = Status.SOLVED if found.converged else Status.NOT_CONVERGED
        if found.converged and not rounding <= LIMITS.rounding:
            status = Status.ILL_CONDITIONED
        solution = Solution(
            np.concatenate(found.scales),
            status,
            "gauss-newton",
            found.residual,
            (self.rows, self.cols),
            condition=found.condition,
            history=found.history[1:],
            seconds=time.perf_counter() - start,
            said=self._said(found, status, rounding),
        )
        row = LayerSolution.of(task, solution, max(shifted.shift_max))
        return GroupSolution(shifted.norms, (row,))

    def _said(self, found: Fit, status: Status, rounding: float) -> str:
        condition = "unknown" if found.condition is None else f"{found.condition:.1e}"
        what, remedy = status.explanation, "; use a larger --ratio or fewer --layers"
        if status is Status.SOLVED:
            what, remedy = "M_L D_L … D_1 M_0 equals W to rounding", ""
        elif status is Status.NOT_CONVERGED:
            what = "no start of Gauss-Newton reached W"
        return (
            f"{status.value}: {what} ({len(self.widths)} hidden layers of "
            f"{' + '.join(map(str, self.widths))} = {sum(self.widths)} neurons for {self.needed} "
            f"needed, relative residual {found.residual:.1e} after {len(found.history) - 1} steps "
            f"from start {found.starts}, condition {condition}, float64 rounding about "
            f"{rounding:.1e}){remedy}"
        )

    def describe(self) -> Mapping[str, Any]:
        return {
            "widths": sum(self.widths),
            "needed": self.needed,
            "hidden layers": len(self.widths),
        }


# --- the product and its derivative -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Product:
    """`P(s) = M_L D_L … D_1 M_0` of the frozen factors `M_0` (n_1 × k), `M_1` (n_2 × n_1), …, `M_L`
    (m × n_L), in float64.

    The derivative in s_i is `δ ↦ A_i diag(δ) B_i` with `A_i = M_L D_L … M_i` and
    `B_i = M_{i-1} … M_0`; so all of it is the Khatri-Rao operator of [A_1 … A_L] and [B_1; …; B_L].
    """

    factors: tuple[Array, ...]

    @classmethod
    def of(cls, chain: Chain) -> Product:
        """The maps of a chain whose first link alone takes inputs in."""
        first, *rest = chain.links
        maps = [first.entry, *(link.carry for link in rest), chain.end.kernel]
        return cls(tuple(dense(one) for one in maps if one is not None))

    @property
    def layers(self) -> int:
        return len(self.factors) - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """n_1, …, n_L."""
        return tuple(len(factor) for factor in self.factors[:-1])

    def value(self, scales: Sequence[Vector]) -> Array:
        """P(s), m × k."""
        value = self.factors[0]
        for s, factor in zip(scales, self.factors[1:], strict=True):
            value = factor @ (s[:, None] * value)
        return value

    def lefts(self, scales: Sequence[Vector]) -> tuple[Array, ...]:
        """A_1, …, A_L."""
        found = [self.factors[-1]]
        for i in range(self.layers - 1, 0, -1):
            found.append((found[-1] * scales[i]) @ self.factors[i])
        return tuple(reversed(found))

    def rights(self, scales: Sequence[Vector]) -> tuple[Array, ...]:
        """B_1, …, B_L."""
        found = [self.factors[0]]
        for i in range(1, self.layers):
            found.append(self.factors[i] @ (scales[i - 1][:, None] * found[-1]))
        return tuple(found)

    def jacobian(self, scales: Sequence[Vector]) -> KhatriRao:
        """J at s, its columns in units of the typical size of each s_i."""
        pairs = zip(_units(scales), self.lefts(scales), strict=True)
        return KhatriRao(np.vstack(self.rights(scales)), np.hstack([u * A for u, A in pairs]))

    def moved(self, scales: Sequence[Vector], step: Vector) -> Scales:
        """`s + δ`, the step taken out of its units."""
        parts = np.split(step, np.cumsum(self.widths)[:-1])
        return tuple(s + u * d for s, u, d in zip(scales, _units(scales), parts, strict=True))


def _units(scales: Sequence[Vector]) -> list[float]:
    return [float(np.sqrt(np.mean(s**2))) or 1.0 for s in scales]


# --- Gauss-Newton -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fit:
    """The best scales found; `history` holds the relative residuals of the start that gave them.

    `condition` is that of J at the solution; `starts` how many were tried.
    """

    scales: Scales
    history: tuple[float, ...]
    condition: float | None
    starts: int

    @property
    def residual(self) -> float:
        return self.history[-1]

    @property
    def converged(self) -> bool:
        return self.residual <= LIMITS.accepted


def fit(product: Product, W: Array, progress: Progress) -> Fit:
    """Scales with `P(s) = W`, or the best of several starts."""
    if not W.any():
        return Fit(tuple(np.zeros(n) for n in product.widths), (0.0,), None, 0)
    best = _descend(product, W, 0, progress)
    for start in range(1, LIMITS.starts):
        if best.converged:
            break
        best = min(best, _descend(product, W, start, progress), key=lambda found: found.residual)
    return best


def _descend(product: Product, W: Array, start: int, progress: Progress) -> Fit:
    """Steps from one start, each with the first damping at which it lowers the residual.

    Damping falls to a fifth after a step that helped and grows fourfold after one that did not;
    near the solution more than five times that of the step before does not help.
    """
    rng, size = np.random.default_rng(start), np.linalg.norm(W)
    # entries around 1, scaled alike so that the product is as large as W
    first = [1 + 0.5 * rng.normal(size=n) for n in product.widths]
    ratio = float(size / (np.linalg.norm(product.value(first)) or 1.0))
    scales: Scales = tuple(ratio ** (1 / product.layers) * s for s in first)
    rest = W - product.value(scales)
    history, damping = [float(np.linalg.norm(rest) / size)], 1e-3
    for number in range(1, LIMITS.steps + 1):
        K = product.jacobian(scales).dense()
        gram = K @ K.T
        mean, near = np.trace(gram) / len(gram), history[-1] <= LIMITS.accepted
        most = min(LIMITS.most_damping, 5.0 * damping) if near else LIMITS.most_damping
        helped = False
        while not helped and damping <= most:
            with suppress(la.LinAlgError):
                factor = la.cho_factor(gram + damping * mean * np.eye(len(gram)))
                moved = product.moved(scales, K.T @ la.cho_solve(factor, rest.ravel()))
                left = W - product.value(moved)
                helped = bool(np.linalg.norm(left) < history[-1] * size)
            damping = max(damping * (0.2 if helped else 4.0), LIMITS.least_damping)
        if not helped:
            break
        scales, rest = moved, left
        history.append(float(np.linalg.norm(rest) / size))
        progress(Step("Gauss-Newton", number, None, history[-1]))
        # steps are quadratic near the solution: one that gains next to nothing is at rounding
        at_rounding = history[-1] <= LIMITS.accepted and history[-1] > history[-2] / 2
        if history[-1] <= LIMITS.close or at_rounding:
            break
    K = product.jacobian(scales).dense()
    values = np.linalg.eigvalsh(K @ K.T)
    condition = float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else float("inf")
    return Fit(scales, tuple(history), condition, start + 1)
