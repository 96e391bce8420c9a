"""What every construction does: rebuild one map of the target in its frozen site.

A construction is settings with one verb, `plan(op)`. The plan of a map is made once per run and
carried along: it knows the frozen layers that the map needs, the systems that they lead to, how to
solve them, what it leaves out, and what can be proved of them. Nothing outside of the construction
asks for its name or class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.sites import Blueprint, Site
from reconstruct.khatri_rao import RankProof, Solution, Solver
from reconstruct.networks import Matrix, Mixing, Network, Norm
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.progress import Progress

Functionals: TypeAlias = Callable[[Matrix], tuple[Vector, Vector]]
Examples: TypeAlias = Callable[[], tuple[Array, Array]]


@dataclass(frozen=True)
class ExactMap:
    """An affine map with rational entries: `weight[i][j]` and `bias[i]`."""

    weight: tuple[tuple[Fraction, ...], ...]
    bias: tuple[Fraction, ...]

    @classmethod
    def of(cls, weight: NDArray[np.float64], bias: Vector) -> ExactMap:
        """Floats are dyadic rationals: the same map with `Fraction` entries."""
        rows = tuple(tuple(Fraction(float(v)) for v in row) for row in weight)
        return cls(rows, tuple(Fraction(float(v)) for v in bias))


@dataclass(frozen=True)
class ExactNorm:
    """The rational gamma and beta of a norm layer, from an exact solve."""

    gamma: tuple[Fraction, ...]
    beta: tuple[Fraction, ...]

    @classmethod
    def joined(cls, norms: Iterable[ExactNorm]) -> ExactNorm:
        """The norms of all groups as that of the whole layer."""
        parts = tuple(norms)
        gamma, beta = (tuple(v for p in parts for v in vars(p)[key]) for key in ("gamma", "beta"))
        return cls(gamma, beta)


def joined_exactly(
    names: Sequence[str], groups: Sequence[Sequence[ExactNorm] | None]
) -> dict[str, ExactNorm] | None:
    """The rational norms of a site by name, of all its groups; None if some group has none."""
    known = [group for group in groups if group is not None]
    if len(known) < len(groups):
        return None
    layers = zip(names, zip(*known, strict=True), strict=True)
    return {name: ExactNorm.joined(parts) for name, parts in layers}


@dataclass(frozen=True, eq=False)
class Task:
    """One map `h ↦ weight·h + bias` of the target, with what is known of its inputs.

    `weight` is the map's kernel (m × k); `functionals(A)` gives rigorous bounds (lo, hi) of `A h`
    over all h that the kernel meets when x runs through the domain; `magnitude[j]` bounds |h_j|,
    `ends` (lo, hi) bound h itself, entry by entry.
    `exact` is the map over the rationals, where a rational solver was asked for. Of a convolution
    the h are its patches, wherever they lie. `examples()` gives inputs h that the frozen network
    has so far at this place, on data, and the values z that the target has behind it. `dtype` is
    what gammas and betas are to be written in. `lift` are powers of two, one for each row, that
    a site may solve for instead and take back behind.
    """

    index: int
    name: str
    weight: NDArray[np.float64]
    bias: Vector
    functionals: Functionals
    magnitude: Vector
    exact: ExactMap | None = None
    groups: tuple[Task, ...] = ()
    examples: Examples | None = None
    dtype: Any = np.float64
    lift: Array | None = None
    ends: tuple[Vector, Vector] | None = None

    @property
    def lifted(self) -> NDArray[np.float64]:
        """The kernel with its rows lifted."""
        return self.weight if self.lift is None else np.ldexp(self.weight, self.lift[:, None])

    @property
    def each(self) -> tuple[Task, ...]:
        """The task of every group of a grouped convolution; of any other map the task itself."""
        return self.groups or (self,)

    def written_in(self, dtype: Any) -> Task:
        """The same task for gammas and betas of another type."""
        return replace(self, dtype=dtype, groups=tuple(g.written_in(dtype) for g in self.groups))

    def with_map(self, weight: NDArray[np.float64], bias: Vector) -> Task:
        """The same inputs, another map."""
        known = (self.functionals, self.magnitude)
        return Task(self.index, self.name, weight, bias, *known, dtype=self.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class LayerSolution(Solution):
    """A solved system as a reconstruction tells it: which map it is of, and how far it shifts.

    `said` and `steps` are for constructions whose systems are part of something larger: their own
    sentence, and how many of the residuals in `history` were iterations.
    """

    index: int = 0
    name: str = ""
    shift_max: float = 0.0
    said: str | None = field(default=None, repr=False)
    steps: int | None = field(default=None, repr=False)

    @classmethod
    def of(cls, task: Task, solution: Solution, shift_max: float) -> LayerSolution:
        """The solution of one of the task's systems."""
        known = {f.name: getattr(solution, f.name) for f in fields(Solution)}
        return cls(**known, index=task.index, name=task.name, shift_max=shift_max)

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def cols(self) -> int:
        return self.shape[1]

    @property
    def gamma_max(self) -> float:
        return self.largest

    @property
    def iterations(self) -> int:
        return len(self.history) if self.steps is None else self.steps

    def timed(self, seconds: float) -> LayerSolution:
        """The same with the time of the whole site."""
        return replace(self, seconds=seconds)

    @property
    def message(self) -> str:
        return super().message if self.said is None else self.said


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`|W − W̃|` and `|b − b̃|` of a site that computes another map, known once it is solved."""

    weight: NDArray[np.float64]
    bias: Vector


@dataclass(frozen=True, eq=False)
class SiteSolution:
    """The norms that make a site compute its map; `exact` when they were solved for rationally.

    `left_out` when the map that it computes is another one.
    """

    norms: Mapping[str, Norm]
    systems: tuple[LayerSolution, ...]
    exact: Mapping[str, ExactNorm] | None = None
    left_out: LeftOut | None = None


class SitePlan(Protocol):
    """What a construction makes of one map of the target."""

    @property
    def blueprint(self) -> Blueprint:
        """The frozen layers that the map needs."""
        ...

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        """The Khatri-Rao systems (m, k, n) that they lead to, in the order of solving."""
        ...

    @property
    def left_out(self) -> NDArray[np.float64] | None:
        """`|W − W̃|` entry by entry where the site is meant to compute another map W̃."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it is solved without looking at what other sites have become."""
        ...

    def check(self, site: Site, frozen: Network, number: int) -> None:
        """Raise InputError when the frozen layers at `site` cannot do; `number` names the map."""
        ...

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        """The norm parameters with which the site computes the task's map."""
        ...

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        """For each of `systems` a proof of full rank; None where it holds solved numbers."""
        ...

    def describe(self) -> Mapping[str, Any] | None:
        """What was found out about the map on the way, as JSON values; None if nothing was."""
        ...


class Construction(Protocol):
    """A way to rebuild a map inside frozen layers, as a frozen dataclass of its settings."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """What becomes of a map of the target, in half a sentence."""
        ...

    @property
    def scales_units(self) -> bool:
        """Whether units and rows of the target are scaled for it by powers of two (`scaling`)."""
        ...

    def plan(self, op: Mixing) -> SitePlan:
        """What this map becomes."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Its settings, as JSON values by the names that reports use."""
        ...
