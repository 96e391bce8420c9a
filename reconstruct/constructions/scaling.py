"""What rounding in the frozen network does: which units of the target to scale so that it is least,
and how wide a frozen network has to be for a wanted error.

A site for W adds, in float arithmetic, an error of about u·c·‖s‖·range to every output, with
‖s‖ ∝ ‖W‖_F: the same error for all units, whether the rest of the network is sensitive to them or
not. Units of the activations in front of and behind the site may be scaled by powers of two, d and
e, which is exact. The error that reaches the output is then about

    ‖diag(e) W diag(1/d)‖_F · ‖d∘r‖ · ‖q/e‖,   r = ranges of the inputs, q = sensitivities,

the ranges from bounds, the sensitivities from samples. The sum of its squares over all maps beside
an activation is a·d² + b/d² for each unit, least at d⁴ = b/a; that is repeated some times. Nothing
here has to be proved: only accuracy depends on the choice. (Rows of W that the second norm scales
back, on top of it, lowered the largest error by a sixth at most.)

A site for W (m × k, n hidden units, unit variance) has scales of about ‖W‖_F/√(n(n − mk)), and
shifts of that times r, the reach of a random functional of its inputs (taken from the bounds). Each
hidden value is kept with a relative error of about u, and so is each partial sum behind it:

    variance of an output ≈ u² ‖W‖_F² r² / (n − mk) · (1 + L/20),     L = log2(n) + 1,

for sums as float32 networks have them, in blocks and without the shifts, carried on by the target's
own slopes. More width lowers it towards the sums' own part: √(c/(c − 1)) falls from 4.6 at ratio
c = 1.05 over 1.7 at 1.5 to 1.1 at 8, and no further. Numerical: a prediction, not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.constructions.construction import Construction
from reconstruct.constructions.frozen import Layout, plans_of
from reconstruct.constructions.sites import hidden_width, mixing_at
from reconstruct.constructions.tasks import functionals_of
from reconstruct.errors import InputError
from reconstruct.networks import Domain, Mixing, Network, dense
from reconstruct.networks.graph import adjoints
from reconstruct.networks.normal_form import rebuilt_nodes
from reconstruct.networks.rescaling import informative, probe_points, rescaled, scalable
from reconstruct.numbers.arrays import Array, Vector


@dataclass(frozen=True)
class ScalingLimits:
    """How far scaling goes, and on how many samples it rests."""

    points: int = 4000
    least_points: int = 64
    values: int = 2**24  # of all nodes at all points: fewer points where the network is large
    sweeps: int = 20
    power: int = 12  # of two, beyond which nothing is gained and float32 gets narrow
    # What every unit counts for, as squares and of the largest: samples may miss where it matters.
    pull: float = 3e-3
    # Of the squares of shifts: what hidden values vary by.
    varying: float = 0.1
    # Widths that are offered for a wanted error.
    ratios: tuple[float, ...] = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.6, 3.3, 4, 5, 6.5, 8)


LIMITS = ScalingLimits()


@dataclass(frozen=True, eq=False)
class _Site:
    """One affine map: squares of its entries, of its inputs' ranges, of its sensitivities.

    `source` is the activation (or input) before it, `behind` what takes its value.
    """

    squares: Array
    ranges: Vector
    effects: Vector
    source: str
    behind: str

    def scaled(self, scales: Mapping[str, Vector]) -> _Site:
        """The same map where units are scaled by d, as squares."""
        d = scales.get(self.source, np.ones(len(self.ranges)))
        e = scales.get(self.behind, np.ones(len(self.effects)))
        squares = e[:, None] * self.squares / d
        return replace(self, squares=squares, ranges=self.ranges * d, effects=self.effects / e)

    def pulls(self) -> tuple[Vector, Vector]:
        """By unit of its inputs: how much its error grows with d², and with 1/d²."""
        noise, size, reach = (float(p.sum()) for p in (self.effects, self.squares, self.ranges))
        return noise * size * self.ranges, noise * reach * self.squares.sum(axis=0)

    def pushes(self) -> tuple[Vector, Vector]:
        """The same by unit of its outputs, where the activation behind it scales them."""
        noise, size, reach = (float(p.sum()) for p in (self.effects, self.squares, self.ranges))
        return noise * reach * self.squares.sum(axis=1), size * reach * self.effects


def scaled_layout(layout: Layout, construction: Construction, known: Reach) -> Layout:
    """The layout with units scaled, where the target's own units can be; `known` bounds the target,
    or tells how large its values are about.

    Not meant for rational solves, which stay with the target's own numbers, nor for maps that are
    factored: their rank is decided on the weights as they are.
    """
    free = {node.name for node in scalable(layout.target)}
    found = find_scales(layout.form.network, known, free)
    try:
        form = replace(layout.form, network=rescaled(layout.form.network, found))
        scaled = rescaled(layout.target, found)
    except InputError:  # a weight would leave its floats
        return layout
    plans = plans_of(form.network, construction)
    return replace(layout, scaled=scaled, form=form, plans=plans)


def find_scales(
    network: Network, known: Reach, among: Collection[str] | None = None
) -> dict[str, Array]:
    """Powers for the units of activations that can be scaled (of those `among`); empty when nothing
    can be gained."""
    free = [n.name for n in scalable(network) if among is None or n.name in among]
    sites = _sites(network, known) if free else None
    if sites is None:
        return {}
    scales = {name: np.ones(network.sizes[name]) for name in free}
    for _ in range(LIMITS.sweeps):
        for name in free:
            pulls = [s.scaled(scales).pulls() for s in sites.values() if s.source == name]
            pulls += [s.scaled(scales).pushes() for s in sites.values() if s.behind == name]
            raising, lowering = np.sum(pulls, axis=0) if pulls else np.ones((2, 1))
            scales[name] = scales[name] * _evened(lowering, raising, LIMITS.pull)
    powers = {name: _powers(scale) for name, scale in scales.items()}
    units = _readable(network, known.box, powers)
    return {name: exponents for name, exponents in units.items() if exponents.any()}


def _powers(squares: Vector) -> Array:
    """The nearest powers of two of the roots of these."""
    found = np.rint(np.log2(squares) / 2)
    return np.asarray(np.clip(found, -LIMITS.power, LIMITS.power).astype(np.int64))


def _readable(network: Network, box: Domain, exponents: dict[str, Array]) -> dict[str, Array]:
    """No scale for units that are zero wherever a certificate would read it off: lattice networks
    compare functions that are equal, and have many of them."""
    with np.errstate(all="ignore"):
        values = network.values(probe_points(box))
    return {
        name: np.where(informative(values[network.node(name).inputs[0]]), powers, 0)
        for name, powers in exponents.items()
    }


def _sites(network: Network, known: Reach) -> dict[str, _Site] | None:
    """The maps with entries of their own, as squares; None where samples are not finite."""
    rng, box = np.random.default_rng(20240519), known.box
    count = min(
        LIMITS.points, max(LIMITS.least_points, LIMITS.values // sum(network.sizes.values()))
    )
    points = np.concatenate([box.sample(count, rng), box.corners(count // 8, rng)])
    with np.errstate(all="ignore"):
        values = network.values(points)
        effects = _effects(network, values)
    sites = {}
    for node in network.mixing_nodes():
        if not isinstance(node.op, Mixing) or not node.op.own_entries or node.name not in effects:
            continue
        with np.errstate(all="ignore"):
            squares, (source,) = dense(node.op.matrix) ** 2, node.inputs
            lo, hi = known.bounds(source)
            (user, *more) = [n.name for n in network.consumers(node.name)] or [""]
            behind = "" if more else user
            site = _Site(squares, (hi - lo) ** 2, effects[node.name], source, behind)
        if not all(np.isfinite(a).all() for a in (site.squares, site.ranges, site.effects)):
            return None
        sites[node.name] = site
    return sites


def _effects(network: Network, values: Mapping[str, Array]) -> dict[str, Vector]:
    """Squares of the derivative of the output by each map's value, the worst output, averaged over
    inputs by the root of the mean of their squares: where they are large they count for more."""
    worst: dict[str, Vector] = {}
    for slopes in _slopes(network, values):
        for name, rows in slopes.items():
            squares = rows * rows  # a general power takes ten times as long as two products
            mean = np.sqrt(np.mean(squares * squares, axis=0))
            worst[name] = np.maximum(worst[name], mean) if name in worst else mean
    return worst


def _slopes(network: Network, values: Mapping[str, Array]) -> Iterator[Mapping[str, Array]]:
    """The derivatives of each output (of 16 at most) by every value, at all inputs."""
    for j in range(min(network.size_out, 16)):
        seed = np.zeros_like(values[network.output])
        seed[:, j] = 1.0
        yield adjoints(network, values, {network.output: seed})


def _evened(first: Vector, second: Vector, least: float) -> Vector:
    """`√(first/second)`, the factor by which the two become equal; none counts for less than a
    share of the largest, since samples may miss where it is larger."""
    some, other = (_floored(one, least) for one in (first, second))
    return np.asarray(np.sqrt(some / other))


def _floored(values: Vector, least: float) -> Vector:
    top = float(np.max(values, initial=0.0))
    return np.maximum(values, least * top) if top > 0 else np.ones_like(values)


# --- the width for a wanted error ---------------------------------------------------------------


def ratio_for(layout: Layout, known: Reach, wanted: float) -> float:
    """The least ratio of a list at which no more than `wanted` is predicted."""
    expected = float32_error(layout, known)
    for ratio in LIMITS.ratios:
        if expected(ratio) <= wanted:
            return ratio
    most = LIMITS.ratios[-1]
    raise InputError(
        f"a float32 error of {wanted:.3g} is wanted, but at ratio {most:g} still "
        f"{expected(most):.2g} is predicted, and more width gains nothing; tighten the ranges "
        f"(--bounds adaptive, a smaller domain), or ask for {expected(most):.1g} or more"
    )


def float32_error(layout: Layout, known: Reach, samples: int = 10_000) -> Callable[[float], float]:
    """The largest float32 error to expect among so many inputs, at any ratio, of a target as it is
    laid out and scaled, which `known` bounds."""
    rng, form = np.random.default_rng(20240520), layout.form.network
    sites: dict[str, tuple[int, float]] = {}  # equations, and ‖W‖_F·r
    for node in rebuilt_nodes(form):
        op = mixing_at(form, node.name)
        m, k = op.kernels[0].shape
        squares = [float(np.sum(dense(W) ** 2)) for W in op.kernels]
        rows = rng.standard_normal((32, k))  # so many tell the reach of a map's inputs
        lo, hi = functionals_of(known, node.inputs[0], op)(rows)
        reach = math.sqrt(float(np.mean((lo**2 + hi**2) / 2)))
        sites[node.name] = m * k, math.sqrt(max(squares)) * reach
    reached = variances_at_outputs(form, known.box, dict.fromkeys(sites, 1.0))
    largest = 2.0**-24 * math.sqrt(2 * math.log(samples * form.size_out))

    def error(ratio: float) -> float:
        parts = {}
        for name, (equations, size) in sites.items():
            n = hidden_width(ratio, equations)
            levels = 1 + LIMITS.varying * (math.log2(n) + 1) / 2
            parts[name] = size**2 / max(n - equations, 1) * levels * reached[name]
        return largest * deviation(parts)

    return error


def variances_at_outputs(
    network: Network, domain: Domain, own: Mapping[str, Vector | float]
) -> dict[str, Vector]:
    """What the variances that maps add to their values, by name, become at the outputs: for each
    map one number for every sampled input and output.

    Errors of random sign: variances add, and the network's slopes at sampled inputs carry them on
    by their squares. Numerical: predictions rest on it, no bound.
    """
    count = max(16, min(500, 2**23 // sum(network.sizes.values())))  # 2^23 values: 64 MB
    values = network.values(domain.sample(count, np.random.default_rng(11)))
    found: dict[str, list[Vector]] = {name: [] for name in own}
    for slopes in _slopes(network, values):
        for name, variance in own.items():
            whole = np.broadcast_to(variance, network.sizes[name])
            none = np.zeros(len(values[network.output]))
            found[name].append(np.asarray(slopes[name] ** 2 @ whole if name in slopes else none))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def deviation(variances: Mapping[str, Vector]) -> float:
    """The deviation of their sum, where inputs at which it is large count for more."""
    whole = np.sum(list(variances.values()), axis=0) if variances else np.zeros(1)
    return math.sqrt(math.sqrt(float(np.mean(whole**2))))
