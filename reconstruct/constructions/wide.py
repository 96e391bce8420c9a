"""The wide construction (Theorem 1): each m × k map from two layers of hidden width ≥ m·k."""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.constructions.blueprint import Blueprint, LayerPlan, check_ratio, hidden_width
from reconstruct.constructions.construction import SiteSolution, Task
from reconstruct.constructions.sites import Layer, Site, activation_of
from reconstruct.constructions.two_layers import Pair, solve_pair
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Solver, structural_obstruction
from reconstruct.networks import (
    Mixing,
    Network,
    Norm,
)
from reconstruct.progress import Progress

MOST_ENTRIES = 2**25  # of a Khatri-Rao pattern that is examined: half a second, 400 MB


@dataclass(frozen=True)
class Wide:
    """`ratio` hidden neurons for each of the m·k equations; 1 is the paper's square system."""

    ratio: float = 1.5

    def __post_init__(self) -> None:
        check_ratio(self.ratio)

    @property
    def name(self) -> str:
        return "wide"

    def blueprint(self, op: Mixing) -> Blueprint:
        m, k = op.shape
        width = hidden_width(self.ratio, m * k)
        layers = (LayerPlan(width, (0, k), carry=False), LayerPlan(m, None, carry=True))
        return Blueprint(m, k, layers)

    def check(self, site: Site, frozen: Network, op: Mixing, number: int) -> None:
        m, k = op.shape
        first, second = site.layers
        where = f"map {number} ({site.target!r})"
        check_width(frozen, first, m, k, where)
        check_pattern(pair_of(frozen, first, second), where)

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        first, second = site.layers
        solved = solve_pair(pair_of(frozen, first, second), task, solver, progress)
        names = (first.norm, second.norm)
        exact = dict(zip(names, solved.exact, strict=True)) if solved.exact else None
        norms = dict(zip(names, (solved.norm1, solved.norm2), strict=True))
        return SiteSolution(norms, (solved.system,), exact)


def pair_of(frozen: Network, first: Layer, second: Layer) -> Pair:
    """Two layers of a site as the pair that `solve_pair` works on."""
    ops = [frozen.node(n).op for n in (first.entry or first.carry or "", first.norm)]
    ops += [frozen.node(n).op for n in (second.carry or "", second.norm)]
    one, norm1, two, norm2 = ops
    assert isinstance(one, Mixing) and isinstance(two, Mixing)
    assert isinstance(norm1, Norm) and isinstance(norm2, Norm)
    return Pair(one, norm1, activation_of(frozen, first), two, norm2)


def check_width(frozen: Network, layer: Layer, m: int, k: int, where: str) -> None:
    """Refuse a hidden layer with fewer neurons than equations."""
    width = frozen.sizes[layer.norm]
    if width < m * k:
        raise InputError(
            f"{where} needs a hidden width of at least m·k = {m}·{k} = {m * k} to reach every "
            f"{m}×{k} matrix, but the frozen network has {width} neurons at {layer.norm!r}; widen "
            f"it by {m * k - width}, or use --construction factored if the map has low rank"
        )


def check_pattern(pair: Pair, where: str) -> None:
    """Refuse, before any numerical work, weights whose zeros alone leave some W out of reach.

    Patterns with very many entries are not examined: those are nearly full, and the solver says
    what it finds.
    """
    first, second = pair.first.matrix, pair.second.matrix
    served = (first != 0).sum(axis=1) * (second != 0).sum(axis=0)
    if served.sum() <= MOST_ENTRIES:
        obstruction = structural_obstruction(first, second)
        if obstruction is not None:
            raise InputError(
                f"{where} cannot be reached by this frozen network: {obstruction.message}"
            )
