"""What every construction does: rebuild one affine map of the target in its frozen site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.blueprint import Blueprint
from reconstruct.constructions.sites import Site
from reconstruct.khatri_rao import Solution, Solver, Status
from reconstruct.networks import (
    Matrix,
    Mixing,
    Network,
    Norm,
)
from reconstruct.progress import Progress

Vector: TypeAlias = NDArray[np.float64]
Functionals: TypeAlias = Callable[[Matrix], tuple[Vector, Vector]]


@dataclass(frozen=True)
class ExactMap:
    """An affine map with rational entries: `weight[i][j]` and `bias[i]`."""

    weight: tuple[tuple[Fraction, ...], ...]
    bias: tuple[Fraction, ...]


@dataclass(frozen=True)
class ExactNorm:
    """The rational gamma and beta of a norm layer, from an exact solve."""

    gamma: tuple[Fraction, ...]
    beta: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Task:
    """One affine map `h ↦ weight·h + bias` of the target, with what is known of its inputs.

    `functionals(A)` gives rigorous bounds (lo, hi) of `A h` over all inputs h that occur when x
    runs through the domain; `magnitude[j]` bounds |h_j|.
    """

    index: int
    name: str
    weight: NDArray[np.float64]
    bias: Vector
    functionals: Functionals
    magnitude: Vector
    exact: ExactMap | None = None

    def with_map(self, weight: NDArray[np.float64], bias: Vector) -> Task:
        """The same inputs, another map."""
        return Task(self.index, self.name, weight, bias, self.functionals, self.magnitude)


@dataclass(frozen=True)
class System:
    """One Khatri-Rao system that was solved on the way, as the report tells it."""

    index: int
    name: str
    rows: int
    cols: int
    width: int
    solver: str
    status: Status
    message: str
    iterations: int
    residual: float
    rank: int | None
    condition: float | None
    gamma_max: float
    shift_max: float
    seconds: float
    history: tuple[float, ...] = field(default=(), repr=False)

    @property
    def solved(self) -> bool:
        return self.status is Status.SOLVED


@dataclass(frozen=True, eq=False)
class SiteSolution:
    """The norms that make a site compute its map; `exact` when they were solved for rationally."""

    norms: Mapping[str, Norm]
    systems: tuple[System, ...]
    exact: Mapping[str, ExactNorm] | None = None


class Construction(Protocol):
    """A way to rebuild an affine map inside frozen layers."""

    @property
    def name(self) -> str: ...

    def blueprint(self, op: Mixing) -> Blueprint:
        """The layers that this map needs."""
        ...

    def check(self, site: Site, frozen: Network, op: Mixing, number: int) -> None:
        """Raise InputError when the frozen layers at `site` are too narrow for the map."""
        ...

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        """The norm parameters with which the site computes the task's map."""
        ...


def system(task: Task, solution: Solution, shape: tuple[int, int], shift_max: float) -> System:
    """The report's row for one solved system of `shape` (rows, cols)."""
    return System(
        index=task.index,
        name=task.name,
        rows=shape[0],
        cols=shape[1],
        width=solution.width,
        solver=solution.solver,
        status=solution.status,
        message=solution.message,
        iterations=solution.iterations,
        residual=solution.residual,
        rank=solution.rank,
        condition=solution.condition,
        gamma_max=float(np.max(np.abs(solution.s), initial=0.0)),
        shift_max=shift_max,
        seconds=solution.seconds,
        history=solution.history,
    )
