"""From a target and a frozen network to gammas and betas: one site after the other.

The sites are independent of each other given bounds on the *target's* values: the frozen network
is made to agree with the target, so the target's bounds are its own. That is why a run can be
interrupted after any site and resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import ceil
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from reconstruct import networks
from reconstruct.bounds import Crown, Method, Partition, Reach, reach
from reconstruct.bounds.useful import require_useful, require_variance
from reconstruct.constructions import Construction, ExactNorm, SiteSolution
from reconstruct.constructions.construction import Examples, LayerSolution
from reconstruct.constructions.frozen import Frozen, Layout, as_stored, lay_out
from reconstruct.constructions.grouped import recognised
from reconstruct.constructions.scaling import ratio_for, scaled_layout
from reconstruct.constructions.sites import Site, activation_at, find_sites, mixing_at
from reconstruct.constructions.tasks import as_reached, drift, tasks_of
from reconstruct.constructions.wide import Wide, rounded_norm
from reconstruct.khatri_rao import RankProof, Solver, Status
from reconstruct.khatri_rao.solve import as_solver
from reconstruct.networks import Box, Domain, DomainLike, Network, Node, Norm, Points
from reconstruct.networks.graph import as_network, fitting
from reconstruct.networks.normal_form import NormalForm
from reconstruct.notebook import table
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.given import at_least, precision
from reconstruct.progress import Progress, Step, listener, silent

FROZEN = "the frozen network"


@dataclass(frozen=True, eq=False)
class Result:
    """A reconstruction: `network` is the frozen one with gammas and betas that make it `target`.

    `layers` has one row for each linear system that was solved. `status` is SOLVED, or the first
    status that is not: then `network` holds the best that was found, and does not match.
    """

    layout: Layout
    frozen: Frozen
    domain: Box | Points
    sites: tuple[Site, ...]
    network: Network
    layers: tuple[LayerSolution, ...]
    exact: Mapping[str, ExactNorm] | None
    seconds: float
    known: Reach | None = field(default=None, repr=False)

    @property
    def target(self) -> Network:
        return self.layout.target

    @property
    def form(self) -> NormalForm:
        """The target as the construction saw it."""
        return self.layout.form

    @property
    def partition(self) -> Partition | None:
        """How the domain was divided, where it was."""
        return None if self.known is None else self.known.partition

    @property
    def norms(self) -> dict[str, Norm | networks.LiveNorm]:
        """The norm layers by name, gammas and betas as solved for."""
        return {
            n.name: n.op for n in self.network.nodes if isinstance(n.op, Norm | networks.LiveNorm)
        }

    @property
    def status(self) -> Status:
        failed = [layer.status for layer in self.layers if not layer.solved]
        return failed[0] if failed else Status.SOLVED

    @property
    def watched(self) -> dict[str, networks.Piece]:
        """The hidden activations' inputs, with the pieces on which the sites are their maps."""
        return {
            layer.norm: activation_at(self.network, layer.activation).piece
            for site in self.sites
            for layer in site.layers
            if layer.activation is not None
        }

    def margin(self, x: ArrayLike) -> Vector:
        """The least distance of a hidden unit from the end of its piece, for each input.

        Where it is 0 or more every site acts as its map, so that the network is the target up to
        the residuals, whether or not the input is in the domain (proofs_check: guard).
        """
        return self.guarded(x)[1]

    def guarded(self, x: ArrayLike, dtype: Any = np.float64) -> tuple[Array, Vector]:
        """The network's outputs with the margin of each, as the guarded file gives them."""
        watched = self.watched
        outputs, seen = self.network.extremes(x, watched, dtype)
        ends = [(seen[name], piece) for name, piece in watched.items()]
        margins = [np.minimum(low - part.lo, part.hi - high) for (low, high), part in ends]
        return outputs, np.asarray(np.min(margins, axis=0))

    def prove_ranks(self) -> tuple[RankProof | None, ...]:
        """For each of `layers` an exact proof that its system has full rank, where there is one."""
        return tuple(
            proof
            for site in self.sites
            for proof in self.layout.plans[site.target].prove_ranks(site)
        )

    def describe(self) -> list[dict[str, Any]] | None:
        """What the construction found out about each map; None if nothing."""
        said = [(site.target, self.layout.plans[site.target].describe()) for site in self.sites]
        return [{"name": name, **text} for name, text in said if text is not None] or None

    def __repr__(self) -> str:
        worst = max((layer.residual for layer in self.layers), default=0.0)
        return (
            f"Result({self.frozen.construction.name}, {self.status.value}, "
            f"{len(self.layers)} systems, largest relative residual {worst:.1e}, "
            f"{self.seconds:.1f} s)"
        )

    def _repr_html_(self) -> str:
        """In a notebook: a row for each system that was solved."""
        rows = [
            (x.name, f"{x.rows}×{x.cols}", x.width, x.solver, x.iterations, f"{x.residual:.2g}")
            for x in self.layers
        ]
        head = ("map", "size", "width", "solver", "steps", "residual")
        return table(repr(self), head, rows)


class SiteCheckpoint(Protocol):
    """Where solved sites are kept while a run goes on."""

    def load(self, site: str) -> SiteSolution | None: ...

    def store(self, site: str, solution: SiteSolution) -> None: ...


def reconstruct(
    target: Network,
    frozen: Frozen | Network,
    *,
    domain: DomainLike,
    slack: float = 1.0,
    solver: Solver | None = None,
    bounds: Method | None = None,
    dtype: Any = np.float64,
    progress: Progress = silent,
    checkpoint: SiteCheckpoint | None = None,
    data: ArrayLike | None = None,
) -> Result:
    """Choose the norm parameters of `frozen` so that it equals `target` on the domain.

    On a domain made of data, shifts cover the ranges seen there widened by the factor 1 + `slack`,
    so that unseen inputs are covered as a rule: the guard tells which are. A plain `Network` is
    taken as the frozen layers of a wide construction. `dtype` float32 rounds
    the gammas and betas to float32 numbers; the network is then the same in both precisions.
    `data` are inputs (rows) that a construction may fit to; by default they are drawn from the
    domain.
    """
    start, progress = time.perf_counter(), listener(progress)
    as_network(target, "the target")
    kind = precision(dtype, "norms are written")
    at_least(slack, "the slack", 0)
    kept = frozen if isinstance(frozen, Frozen) else Frozen(as_network(frozen, FROZEN), Wide())
    kept = replace(kept, network=as_stored(kept.network))
    box = fitting(domain, target)
    require_variance(target, box)
    chosen = as_solver(solver)
    layout = kept.layout_of(target)
    # exact solves stay with the target's own numbers
    scaled = kept.construction.scales_units and not chosen.rational
    layout, known = _bounded(layout, kept.construction, box, bounds or Crown(), scaled, progress)
    sites = find_sites(layout.form.network, kept.network, layout.blueprints)
    plans = {site.target: recognised(layout.plans[site.target], site) for site in sites}
    layout = replace(layout, plans=plans)
    for site in sites:
        plans[site.target].check(site)
    require_useful(known, chosen.rational)
    x, on_data = _inputs(box, data), slack if isinstance(box, Points) else None
    solutions: dict[str, SiteSolution] = {}
    for number, site in enumerate(sites, start=1):
        done = None if checkpoint is None else checkpoint.load(site.target)
        if done is None:
            examples = _examples(layout, kept.network, site, x, tuple(solutions.values()))
            rational = chosen.rational
            tasks = tasks_of(number, site.target, known, layout, rational=rational, dtype=kind)
            form, left = layout.form.network, {n: plan.left_out for n, plan in plans.items()}
            left |= {name: kept.left_out for name, kept in solutions.items() if kept.left_out}
            moved, op = drift(form, known, left), mixing_at(form, site.target)
            (source,) = form.node(site.target).inputs
            errors = None if moved is None else op.patch_maxima(moved[source])
            for g, task in enumerate(tasks):
                part = partial(_of_group, examples, g, len(tasks))
                error = None if errors is None else np.split(errors, len(tasks))[g]
                tasks[g] = as_reached(replace(task, examples=part), error, on_data)
            m, k = tasks[0].weight.shape
            notify = _prefixed(progress, f"map {number}/{len(sites)} ({m}×{k})")
            done = plans[site.target].solve(tasks, site, chosen, notify)
            if checkpoint is not None:
                checkpoint.store(site.target, done)
        solutions[site.target] = done
        progress(Step("maps solved", number, len(sites)))
    norms = {name: norm for s in solutions.values() for name, norm in s.norms.items()}
    exact = {name: norm for s in solutions.values() for name, norm in (s.exact or {}).items()}
    network = kept.network.with_ops({name: rounded_norm(n, kind) for name, n in norms.items()})
    rows = tuple(row for s in solutions.values() for row in s.systems)
    seconds = time.perf_counter() - start
    return Result(layout, kept, box, sites, network, rows, exact or None, seconds, known)


def one_layer(
    M1: networks.Matrix,
    M2: networks.Matrix,
    W: ArrayLike,
    b: ArrayLike | None = None,
    *,
    domain: DomainLike,
    activation: networks.Activation | None = None,
    solver: Solver | None = None,
    final_activation: bool = True,
) -> Result:
    """Norms that turn frozen `M1` (n × k) and `M2` (m × n) into `σ(W h + b)` on the domain.

    The network is `h ↦ σ(N2(M2 σ(N1(M1 h))))`, its norms are norm1 and norm2.
    """
    between, first, second = activation or networks.Relu(), networks.Affine(M1), networks.Affine(M2)
    target = Network.mlp([np.asarray(W)], [b], final_activation=final_activation)
    nodes = [
        Node("M1", first, (target.source,)),
        Node("norm1", Norm.neutral(first.shape[0]), ("M1",)),
        Node("act1", between, ("norm1",)),
        Node("M2", second, ("act1",)),
        Node("norm2", Norm.neutral(second.shape[0]), ("M2",)),
    ]
    if final_activation:
        nodes.append(Node("act2", networks.Relu(), ("norm2",)))
    frozen = Network(first.shape[1], tuple(nodes), nodes[-1].name)
    return reconstruct(target, frozen, domain=domain, solver=solver)


def width_for(target: Network, domain: DomainLike, bounds: Method, wanted: float) -> float:
    """The ratio of a wide construction for a wanted float32 error, as far as one can predict."""
    box = fitting(domain, target)
    layout = lay_out(target, Wide())
    layout, known = _bounded(layout, Wide(), box, bounds, True, silent)
    return ratio_for(layout, known, wanted)


def _bounded(
    layout: Layout,
    construction: Construction,
    box: Box | Points,
    method: Method,
    scaled: bool,
    progress: Progress,
) -> tuple[Layout, Reach]:
    """The layout, with units scaled if asked for, and bounds of the target as it is then.

    Scales are chosen by the ranges of the target without them, on the same partition of the
    domain: who compares the networks does not know the scales, and must find the same one.
    """
    first = reach(layout.scaled, box, method, progress=progress)
    if not scaled:
        return layout, first
    found = scaled_layout(layout, construction, first)
    if first.network.same(found.scaled):
        return found, first
    moved, partition = found.scaled, first.partition
    return found, reach(moved, box, method, partition=partition, progress=progress)


def _inputs(domain: Domain, data: ArrayLike | None, count: int = 2000) -> Array:
    """What maps are fitted on, where they are: the data that came, or inputs of the domain."""
    if data is None:
        return domain.sample(count, np.random.default_rng(0))
    return Points(data).of_size(domain.size).x


def _examples(
    layout: Layout, frozen: Network, site: Site, x: Array, solved: tuple[SiteSolution, ...]
) -> Examples:
    """What the site's kernels meet in the frozen network as solved so far, and what the target
    makes of it; of a convolution some positions of each input."""

    @cache
    def examples() -> tuple[Array, Array]:
        norms = {name: norm for s in solved for name, norm in s.norms.items()}
        form, op = layout.form.network, mixing_at(layout.form.network, site.target)
        rows = x[:: ceil(len(x) * op.positions / 2**16)]  # 2^16 positions of inputs at most
        h = op.patch_rows(_value(frozen.with_ops(norms), site.source, rows))
        z = _value(form, site.target, rows).reshape(len(rows), op.channels, op.positions)
        return h, z.transpose(0, 2, 1).reshape(len(h), -1)

    return examples


def _of_group(examples: Examples, group: int, count: int) -> tuple[Array, Array]:
    """What the kernel of one group meets, and what it makes of it."""
    h, z = (np.split(part, count, axis=1)[group] for part in examples())
    return h, z


def _value(network: Network, name: str, x: Array) -> Array:
    return x if name == network.source else network.ending_at(name)(x)


def _prefixed(progress: Progress, label: str) -> Callable[[Step], None]:
    return lambda step: progress(
        Step(f"{label}: {step.task}", step.done, step.total, step.residual)
    )
