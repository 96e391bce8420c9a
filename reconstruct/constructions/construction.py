"""What every construction does: rebuild one map of the target in its frozen site.

A construction is settings with one verb, `plan(op)`. The plan of a map is made once per run and
carried along: it knows the frozen layers that the map needs, the systems that they lead to, how to
solve them, what it leaves out, and what can be proved of them. Nothing outside of the construction
asks for its name or class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from reconstruct.constructions.sites import Blueprint, Site, check_ratio, norm_at
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solution, Solver
from reconstruct.networks import LiveNorm, Matrix, Mixing, Norm
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.exact import rationals
from reconstruct.numbers.given import whole
from reconstruct.numbers.rounding import magnitude
from reconstruct.progress import Progress

GAMMA_BETA = ("gamma", "beta")

Functionals: TypeAlias = Callable[[Matrix], tuple[Vector, Vector]]
Examples: TypeAlias = Callable[[], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class ExactMap:
    """An affine map with rational entries, in arrays of Fractions."""

    weight: Array
    bias: Array

    @classmethod
    def of(cls, weight: Matrix, bias: Vector) -> ExactMap:
        """Floats are dyadic rationals: the same map with `Fraction` entries."""
        return cls(rationals(weight), rationals(bias))


@dataclass(frozen=True)
class ExactNorm:
    """The rational gamma and beta of a norm layer, from an exact solve."""

    gamma: tuple[Fraction, ...]
    beta: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Task:
    """One map `h ↦ weight·h + bias` of the target, with what is known of its inputs.

    `weight` is the map's kernel (m × k); `functionals(A)` gives rigorous bounds (lo, hi) of `A h`
    over all h that the kernel meets when x runs through the domain; `ends` (lo, hi) bound h itself,
    entry by entry.
    `exact` is the map over the rationals, where a rational solver was asked for. Of a convolution
    the h are its patches, wherever they lie. `examples()` gives inputs h that the frozen network
    has so far at this place, on data, and the values z that the target has behind it. `dtype` is
    what gammas and betas are to be written in.
    """

    index: int
    name: str
    weight: NDArray[np.float64]
    bias: Vector
    functionals: Functionals
    ends: tuple[Vector, Vector]
    exact: ExactMap | None = None
    examples: Examples | None = None
    dtype: Any = np.float64

    @property
    def magnitude(self) -> Vector:
        """A bound of |h|, entry by entry."""
        return magnitude(*self.ends)

    @property
    def rational(self) -> ExactMap:
        """The map over the rationals: as it was asked for, or of the floats that it has."""
        return self.exact or ExactMap.of(self.weight, self.bias)

    def with_map(self, weight: NDArray[np.float64], bias: Vector) -> Task:
        """The same inputs, another map."""
        return replace(self, weight=weight, bias=bias, exact=None, examples=None)


@dataclass(frozen=True, eq=False, repr=False)
class LayerSolution(Solution):
    """A solved system as a reconstruction tells it: which map it is of, and how far it shifts."""

    index: int = 0
    name: str = ""
    shift_max: float = 0.0

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


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`|W − W̃|` and `|b − b̃|` of a site that computes another map, known once it is solved."""

    weight: NDArray[np.float64]
    bias: Vector

    @classmethod
    def joined(cls, parts: Sequence[LeftOut]) -> LeftOut:
        """That of all groups."""
        return cls(block_diag(*(p.weight for p in parts)), np.concatenate([p.bias for p in parts]))


@dataclass(frozen=True, eq=False)
class GroupSolution:
    """One group of a site, solved: its norms, first layer to last, and what is told of it."""

    norms: tuple[Norm, ...]
    systems: tuple[LayerSolution, ...]
    exact: tuple[ExactNorm, ...] | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True, eq=False)
class SiteSolution:
    """The norms that make a site compute its map; `exact` when they were solved for rationally.

    `left_out` when the map that it computes is another one.
    """

    norms: Mapping[str, Norm | LiveNorm]
    systems: tuple[LayerSolution, ...]
    exact: Mapping[str, ExactNorm] | None = None
    left_out: LeftOut | None = None

    @classmethod
    def joined(cls, site: Site, groups: Sequence[GroupSolution]) -> SiteSolution:
        """All groups of a grouped convolution as one layer of channels each; a map has one."""
        norms: dict[str, Norm | LiveNorm] = {}
        exact: dict[str, ExactNorm] = {}
        for i, layer in enumerate(site.layers):
            parts = [group.norms[i] for group in groups]
            gamma, beta = (np.concatenate([getattr(p, key) for p in parts]) for key in GAMMA_BETA)
            norms[layer.norm] = norm_at(site.frozen, layer.norm).tuned(gamma, beta)
            rational = [group.exact[i] for group in groups if group.exact]
            if len(rational) == len(groups):
                pairs = (tuple(v for p in rational for v in getattr(p, key)) for key in GAMMA_BETA)
                exact[layer.norm] = ExactNorm(*pairs)
        left = [group.left_out for group in groups if group.left_out is not None]
        systems = tuple(row for group in groups for row in group.systems)
        return cls(norms, systems, exact or None, LeftOut.joined(left) if left else None)


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
    def left_out(self) -> LeftOut | None:
        """What is left out by design, where the site is meant to compute another map."""
        return None

    def check(self, site: Site) -> None:
        """Raise InputError when the frozen layers at `site` cannot do."""

    def solve(
        self, tasks: Sequence[Task], site: Site, solver: Solver, progress: Progress
    ) -> SiteSolution:
        """The norm parameters with which the site computes the map, whose groups are the tasks."""
        ...

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        """For each of `systems` a proof of full rank; None where it holds solved numbers."""
        return (None,) * len(self.systems)

    def describe(self) -> Mapping[str, Any] | None:
        """What was found out about the map on the way, as JSON values; None if nothing was."""
        return None


class Construction(Protocol):
    """A way to rebuild a map inside frozen layers, as a frozen dataclass of its settings."""

    def __post_init__(self) -> None:
        """Refuse settings that no map can have."""
        settings = vars(self)
        check_ratio(settings.get("ratio", 1.0))
        for name in ("block", "rank", "layers"):
            value = settings.get(name)
            if value is not None and whole(value, f"the {name}") < 1:
                raise InputError(f"the {name} must be at least 1, but is {value}")

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def summary(self) -> str:
        """What becomes of a map of the target, in half a sentence."""
        ...

    @property
    def scales_units(self) -> bool:
        """Whether units and rows of the target are scaled for it by powers of two (`scaling`)."""
        return False

    def plan(self, op: Mixing) -> SitePlan:
        """What this map becomes."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Its settings, as JSON values by the names that reports use."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}
