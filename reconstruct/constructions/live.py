"""Frozen layers with live norms: LayerNorm and RMSNorm by the statistics of their own input.

A site is h ↦ M2 · act( norm_{s,t}( M1 h + c ) ), no norm behind it. With P the projection that
the norm begins with (P z = z − mean z, or P = I for RMSNorm) and ρ(h) its deviation,

    M2 · act(…) = M2 diag(s) P (M1 h + c) / ρ(h) + M2 t     where every hidden unit is active.

*Exactly*, for a map that a live norm follows in the target: that norm sees neither positive factors
nor, if it takes the mean away, a common shift. With U an orthonormal basis of what it sees,

    U M2 diag(s) P [M1 | c] = U [W | b],     U M2 t = 0,    t ≥ −min s∘P z/ρ

make f = g for every h, up to eps: the norm then acts with eps·ρ²/λ², (s, t) being free up to a
factor λ. Frozen biases c that are 2^L times as large as the weights keep ρ near λ, to about 2^-L:
eps leaves a relative error of about eps·2^-L, and L bits of what varies are lost. Measured: in
float32 the sum of both is least at L = 3, in float64 at L = 14 to 16, for eps = 1e-5. L is the
least with which eps leaves no more than the wanted error. (m − 1)(k + 1) equations.

*Approximately*, for any other map: frozen weights of size δ leave ρ = √eps up to the factor
1 + R²/(2·n·eps), R = |P M1 h| = O(δ), so that M2 diag(s) P M1 = √eps·W and M2 t = b do. δ = 2^-60
puts that below the rounding of float64.

|P z|_j ≤ √(n − 1)·ρ: the shift t = |s|·√(n − 1) would do for every h, without any domain; shifts
here cover the domain, which is less. They exist as soon as 0 lies inside the convex hull of the
columns of U M2 (Wendel: with probability 1 − 2^(1−n)·Σ_{i<m−1} C(n−1, i) for symmetric weights).

Rests on proofs_check: live-layers-exact, live-width, live-shifts-exist, live-eps; what no live norm
can do is in proofs_check: live-directions-alone, live-norm-never-affine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log2, sqrt
from typing import Any

import numpy as np

from reconstruct.constructions import sites
from reconstruct.constructions.chain import ChainPlan, find_shift
from reconstruct.constructions.construction import ExactNorm, LayerSolution, SiteSolution, Task
from reconstruct.constructions.sites import Blueprint, LayerPlan, Site, hidden_width
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.khatri_rao import Solver, solve
from reconstruct.khatri_rao.corrections import cast_with_feedback
from reconstruct.khatri_rao.solvers.exact import solve_exact
from reconstruct.networks import LayerNorm, LiveNorm, Mixing, Network, Node, Piece, RMSNorm
from reconstruct.numbers.arrays import Array, Vector, to_dense
from reconstruct.numbers.exact import rationals
from reconstruct.numbers.exact_dot import exact_dot
from reconstruct.progress import Progress

NORMS: dict[str, type[LiveNorm]] = {"layer": LayerNorm, "rms": RMSNorm}
EPS = float(np.float32(1e-5))  # torch's default
SMALL = -60  # of two, δ: δ²·R² is far below eps·2^-53 for R up to 1e8, and float32 holds δ²
LIVE_ERROR = 2.0**-22  # relative, that eps may leave: a quarter of the tolerance
LARGEST_BIAS = 20  # of two, beyond which float64 loses more than eps does


@dataclass(frozen=True, eq=False)
class LivePlan(ChainPlan):
    """One map m × k in two frozen layers with a live norm between them.

    `behind` is the norm that follows the map in the target: then the map is rebuilt exactly, as far
    as that norm sees it; without one, approximately. `norm` is the hidden norm's kind and eps;
    `error` is what the eps of the norm behind may leave, relative.
    """

    width: int
    norm: LiveNorm
    behind: LiveNorm | None
    error: float = LIVE_ERROR

    @property
    def blueprint(self) -> Blueprint:
        power = SMALL if self.behind is None else 0
        bias = None
        if self.behind is not None:  # L: frozen biases are 2^L times as large as frozen weights
            wanted = ceil(log2(max(self.behind.eps / self.error, 1.0)))
            bias = min(wanted, LARGEST_BIAS)
        drawn = sites.Drawn(self.norm, power, bias)
        hidden = LayerPlan(self.width, (0, self.cols), carry=False, live=drawn)
        last = LayerPlan(self.rows, bare=True)
        return Blueprint(self.rows, self.cols, (hidden, last))

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        if self.behind is None:
            return ((self.rows, self.cols, self.width),)
        return ((self.rows - self.behind.centred, self.cols + 1, self.width),)

    def check(self, site: Site) -> None:
        m, k, _ = self.systems[0]
        width = site.frozen.sizes[site.layers[0].norm]
        if width < m * k:
            raise InputError(
                f"{site.where} needs a hidden width of at least {m}·{k} = "
                f"{m * k} with live norms, but the frozen network has {width} neurons at "
                f"{site.layers[0].norm!r}; widen it by {m * k - width}"
            )

    def solve(
        self, tasks: Sequence[Task], site: Site, solver: Solver, progress: Progress
    ) -> SiteSolution:
        (task,) = tasks
        # one that was brought has an eps of its own
        hidden = site.frozen.node(site.layers[0].norm).op
        assert isinstance(hidden, LiveNorm)
        return replace(self, norm=hidden)._solved(task, site, solver, progress)

    def _solved(self, task: Task, site: Site, solver: Solver, progress: Progress) -> SiteSolution:
        first, second = site.layers
        one, two = (sites.mixing_at(site.frozen, n) for n in (first.entry, second.carry))
        piece = sites.activation_at(site.frozen, first.activation).piece
        if np.isfinite(piece.hi):
            raise UnsupportedError(
                "live norms need an inner activation that is a line from some point on, such as "
                "ReLU or GELU; use one, or --norm batch"
            )
        M1, M2 = (to_dense(op.kernels[0]).astype(np.float64) for op in (one, two))
        if solver.rational and self.behind is not None and not (self.behind.eps or piece.lo):
            return self._exactly(task, first.norm, (one, two), piece)
        aim = np.column_stack([task.weight, task.bias])
        outer = np.eye(len(aim))
        if self.behind is not None and self.behind.centred:  # U, and what that norm sees of [W | b]
            outer = np.linalg.svd(np.ones((1, len(aim))))[2][1:]
            aim = outer @ aim
        if self.behind is None:
            inner = self._projected(M1) / sqrt(self.norm.eps)
            aim, offset = aim[:, :-1], task.bias - two.channel_bias
        else:
            inner = self._projected(np.column_stack([M1, one.channel_bias]))
            offset = -two.channel_bias
        solution = solve(inner, outer @ M2, aim, solver, progress=progress)
        s, scale = solution.s / piece.slope, self._scale(task, M1, one.channel_bias)

        def cast(values: Vector, units: Array) -> Vector:
            return np.asarray((scale * values).astype(task.dtype).astype(np.float64) / scale)

        columns, wanted = outer @ M2, outer @ offset / piece.slope
        short = np.dtype(task.dtype) != np.float64 and solution.solved
        if short:
            s = cast_with_feedback(inner, columns, aim / piece.slope, s, cast, progress)
        reached = replace(piece, lo=piece.lo / scale)  # for what is behind it is scaled by λ
        t = _cancelling(columns, self._needed(task, M1, one.channel_bias, s, reached), wanted)
        if short:
            ones = np.ones((len(t), 1))
            t = cast_with_feedback(ones, columns, wanted[:, None], t, cast, progress)
        norm = self.norm.tuned(scale * s, scale * t)
        row = LayerSolution.of(task, solution, float(np.max(np.abs(norm.beta))))
        return SiteSolution({first.norm: norm}, (row,))

    def _exactly(
        self, task: Task, name: str, maps: tuple[Mixing, Mixing], piece: Piece
    ) -> SiteSolution:
        """Without eps, over the rationals: shifts for every input, and f = g by ==."""
        assert self.behind is not None
        (M1, c1), (M2, c2) = (map(rationals, (op.kernels[0], op.channel_bias)) for op in maps)
        aim, slope = task.rational, Fraction(piece.slope)
        # of what Q leaves, all rows but the last are a basis
        outer, wanted, gap = (
            (_mean_free(part)[:-1] if self.behind.centred else part)
            for part in (M2, np.column_stack([aim.weight, aim.bias]), -c2[:, None] / slope)
        )
        inner = np.column_stack([M1, c1])
        solution = solve_exact(_mean_free(inner) if self.norm.centred else inner, outer, wanted)
        s = solution.s / piece.slope
        need = np.abs(s) * self.norm.cap * (1 + 2.0**-20)
        near = _cancelling(outer.astype(np.float64), need, gap[:, 0].astype(np.float64))
        t = solve_exact(np.ones((len(s), 1)), outer, gap, free=near.tolist())
        row = LayerSolution.of(task, solution, float(np.abs(t.s).max()))
        norm = self.norm.tuned(s, t.s)
        if solution.rationals is None or t.rationals is None:
            return SiteSolution({name: norm}, (row,))
        rational = tuple(value / slope for value in solution.rationals)
        return SiteSolution({name: norm}, (row,), {name: ExactNorm(rational, t.rationals)})

    def _projected(self, values: Array) -> Array:
        return values - values.mean(axis=0) if self.norm.centred else values

    def _needed(self, task: Task, M1: Array, c: Vector, s: Vector, piece: Piece) -> Vector:
        """Shifts that keep every unit active for what reaches the map."""
        rows, constant = self._projected(M1), self._projected(c)
        lo, hi = task.functionals(rows)
        ends = (lo + constant)[None], (hi + constant)[None]
        plain = RMSNorm(np.ones(len(s)), np.zeros(len(s)), self.norm.eps)
        low, high = (end[0, 0] for end in plain.units(*ends))
        below = np.minimum(s * low, s * high)
        magnitude = np.abs(s) * np.maximum(np.abs(low), np.abs(high))
        shift = find_shift(piece, below, np.maximum(s * low, s * high), magnitude)
        return np.asarray(shift.shift)

    def _scale(self, task: Task, M1: Array, c: Vector) -> float:
        """λ: the middle of ρ² on inputs of the domain, so that eps·ρ²/λ² is about eps."""
        if self.behind is None or self.behind.eps == 0:
            return 1.0
        assert task.examples is not None
        z = self._projected((task.examples()[0] @ M1.T + c).T)
        square = (z * z).mean(axis=0) + self.norm.eps
        return float(np.sqrt(0.5 * (square.min() + square.max())))

    def describe(self) -> Mapping[str, Any]:
        return {"norm": self.norm.kind, "exact_up_to_eps": self.behind is not None}


def live_plan(
    form: Network, node: Node, ratio: float, norm: str | None, error: float
) -> LivePlan | None:
    """What a map becomes with live norms; None where its statistics stay constants.

    Without a word for the norm, maps that a live norm follows in the target get one of its kind.
    """
    op = node.op
    users = form.consumers(node.name)
    behind = users[0].op if len(users) == 1 and node.name != form.output else None
    if not isinstance(behind, LiveNorm) or behind.positions > 1:
        behind = None
    if norm == "batch" or (norm is None and behind is None):
        return None
    if not isinstance(op, Mixing) or not op.own_entries:
        raise UnsupportedError(
            f"live norms are drawn for fully connected maps, but {node.name!r} is a "
            f"{type(op).__name__}; use --norm batch"
        )
    m, k = op.shape
    kind = type(behind) if norm is None and behind is not None else NORMS[norm or "layer"]
    equations = m * k if behind is None else (m - behind.centred) * (k + 1)
    # the projection takes one direction away, which counts where there are few equations
    width = hidden_width(ratio, equations + 1)
    eps = EPS if behind is None else behind.eps
    template = kind(np.ones(width), np.zeros(width), eps)
    return LivePlan(op, width, template, behind, error)


def _mean_free(rows: Array) -> Array:
    """Columns less their mean, over the rationals."""
    return np.asarray(rows - rows.sum(axis=0) / Fraction(len(rows)))


def _cancelling(columns: Array, need: Vector, wanted: Vector) -> Vector:
    """t ≥ need with columns·t = wanted, the shortest addition: shifts that cancel behind M2.

    The shortest d ≥ 0 with C d = gap is max(Cᵀλ, 0), λ the maximum of λᵀgap − ½·‖max(Cᵀλ, 0)‖²
    (duality), which is smooth, in as many unknowns as C has rows. Spread over about half
    of all units it is small beside `need`; a vertex of the linear program would put all of it into
    a few units, whose shifts float32 then pays for. What rounding leaves is taken up by all shifts
    together, by far less than the slack that they have.
    """
    from scipy.optimize import minimize  # large, and seldom needed

    gap = wanted - exact_dot(columns, need)
    size = float(np.abs(gap).max()) or 1.0

    def dual(at: Vector) -> tuple[float, Vector]:
        extra = np.maximum(at @ columns, 0.0)
        return float(0.5 * (extra @ extra) - at @ gap / size), columns @ extra - gap / size

    start = np.zeros(len(columns))
    found = minimize(dual, start, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    extra = size * np.maximum(found @ columns, 0.0)
    left = gap - columns @ extra
    t = need + extra
    for _ in range(3):
        t = t + np.linalg.lstsq(columns, wanted - exact_dot(columns, t), rcond=None)[0]
    if np.abs(left).max() > 1e-6 * max(1.0, float(np.abs(gap).max())):
        raise InputError(
            f"shifts that cancel behind the second frozen layer need 0 inside the convex hull of "
            f"its columns, but these {columns.shape[1]} columns in {columns.shape[0]} dimensions "
            f"miss it by {np.abs(left).max():.1e}; widen the frozen layer (--ratio)"
        )
    return np.asarray(t)
