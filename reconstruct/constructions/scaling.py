"""What rounding in the frozen network does: which rows and units of the target to scale so that it
is least, and how wide a frozen network has to be for a wanted error.

A site for W adds, in float arithmetic, an error of about u·c·‖s‖·range to every output, with
‖s‖ ∝ ‖W‖_F: the same error for all units, whether the rest of the network is sensitive to them or
not. Powers of two help on both sides. In front, units of the activation before may be scaled by d;
behind, the site may be solved for the rows of W lifted by l, which its second norm takes back:

    M2 diag(s) M1 = diag(l) W diag(1/d),      N2 = diag(1/l) …

The error that reaches the output is then about

    ‖diag(l) W diag(1/d)‖_F · ‖d∘r‖ · ‖q/l‖,   r = ranges of the inputs, q = sensitivities,

the ranges from bounds, the sensitivities from samples. For given d it is least at
l² = q/‖rows of W diag(1/d)‖; for given l the sum of its squares over all maps behind an activation
is a·d² + b/d² for each unit, least at d⁴ = b/a. Both are repeated some times. Nothing here has to
be proved: scaling by powers of two is exact, and only accuracy depends on the choice.

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
from reconstruct.networks import Domain, Mixing, Network, Points, dense
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
    effect: float = 1e-2
    effect_seen: float = 1e-4  # where the inputs are given: samples miss none of them
    pull: float = 3e-3
    # Of the squares of shifts: what hidden values vary by.
    varying: float = 0.1
    # Widths that are offered for a wanted error.
    ratios: tuple[float, ...] = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.6, 3.3, 4, 5, 6.5, 8)


LIMITS = ScalingLimits()


@dataclass(frozen=True, eq=False)
class UnitScales:
    """Powers of two: by activation for its `units`, by map for the `rows` of its system."""

    units: Mapping[str, Array]
    rows: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class _Site:
    """One affine map: squares of its entries, of its inputs' ranges, of its sensitivities.

    `source` is the activation (or input) before it, `behind` what takes its value. The rows of a
    `bare` one, which no second norm follows, cannot be lifted; `least` is what each counts for.
    """

    squares: Array
    ranges: Vector
    effects: Vector
    source: str
    behind: str
    bare: bool
    least: float

    def scaled(self, scales: Mapping[str, Vector]) -> _Site:
        """The same map where units are scaled by d, as squares."""
        d = scales.get(self.source, np.ones(len(self.ranges)))
        e = scales.get(self.behind, np.ones(len(self.effects)))
        squares = e[:, None] * self.squares / d
        return replace(self, squares=squares, ranges=self.ranges * d, effects=self.effects / e)

    def lifts(self) -> Vector:
        """l² for its rows."""
        if self.bare:
            return np.ones(len(self.effects))
        return _evened(self.effects, self.squares.sum(axis=1), self.least)

    def pulls(self) -> tuple[Vector, Vector]:
        """By unit of its inputs: how much its error grows with d², and with 1/d²."""
        lifted = self.lifts()[:, None] * self.squares
        noise = float((self.effects / self.lifts()).sum())
        size, reach = float(lifted.sum()), float(self.ranges.sum())
        return noise * size * self.ranges, noise * reach * lifted.sum(axis=0)

    def pushes(self) -> tuple[Vector, Vector]:
        """The same by unit of its outputs, where the activation behind it scales them."""
        rows, reach = self.squares.sum(axis=1), float(self.ranges.sum())
        return float(self.effects.sum()) * reach * rows, float(rows.sum()) * reach * self.effects


def scaled_layout(layout: Layout, construction: Construction, known: Reach) -> Layout:
    """The layout with units scaled, where the target's own units can be, and rows lifted; `known`
    bounds the target, or tells how large its values are about.

    Not meant for rational solves, which stay with the target's own numbers, nor for maps that are
    factored: their rank is decided on the weights as they are.
    """
    free = {node.name for node in scalable(layout.target)}
    bare = {name for name, plan in layout.plans.items() if plan.blueprint.layers[-1].bare}
    found = find_scales(layout.form.network, known, free, bare)
    try:
        form = replace(layout.form, network=rescaled(layout.form.network, found.units))
        scaled = rescaled(layout.target, found.units)
    except InputError:  # a weight would leave its floats
        return layout
    plans = plans_of(form.network, construction)
    return replace(layout, scaled=scaled, form=form, plans=plans, lifts=found.rows)


def find_scales(
    network: Network,
    known: Reach,
    among: Collection[str] | None = None,
    bare: Collection[str] = (),
) -> UnitScales:
    """Powers for the activations that can be scaled (of those `among`) and for the rows of maps,
    but for those that become `bare` layers; empty when nothing can be gained."""
    free = [n.name for n in scalable(network) if among is None or n.name in among]
    sites = _sites(network, known, bare) if free else None
    if sites is None:
        return UnitScales({}, {})
    scales = {name: np.ones(network.sizes[name]) for name in free}
    for _ in range(LIMITS.sweeps):
        for name in free:
            users = [sites[n.name] for n in network.consumers(name) if n.name in sites]
            pulls = [site.scaled(scales).pulls() for site in users]
            makers = [site for site in sites.values() if site.bare and site.behind == name]
            pulls += [site.scaled(scales).pushes() for site in makers]
            raising, lowering = np.sum(pulls, axis=0) if pulls else np.ones((2, 1))
            scales[name] = scales[name] * _evened(lowering, raising, LIMITS.pull)
    units = _readable(network, known.box, {name: _powers(scale) for name, scale in scales.items()})
    final = {name: 4.0**powers for name, powers in units.items()}
    rows = {name: _lifted(site.scaled(final)) for name, site in sites.items()}
    return UnitScales(*({k: p for k, p in found.items() if p.any()} for found in (units, rows)))


def _powers(squares: Vector) -> Array:
    """The nearest powers of two of the roots of these."""
    found = np.rint(np.log2(squares) / 2)
    return np.asarray(np.clip(found, -LIMITS.power, LIMITS.power).astype(np.int64))


def _lifted(site: _Site) -> Array:
    """Powers for the rows, up to a common one: it is chosen so that all entries together are as
    large as they were."""
    rows, powers = site.squares.sum(axis=1), _powers(site.lifts())
    before, after = float(rows.sum()), float(rows @ 4.0**powers)
    common = int(np.rint(np.log2(before / after) / 2)) if before > 0 and after > 0 else 0
    return powers + common


def _readable(network: Network, box: Domain, exponents: dict[str, Array]) -> dict[str, Array]:
    """No scale for units that are zero wherever a certificate would read it off: lattice networks
    compare functions that are equal, and have many of them."""
    with np.errstate(all="ignore"):
        values = network.values(probe_points(box))
    return {
        name: np.where(informative(values[network.node(name).inputs[0]]), powers, 0)
        for name, powers in exponents.items()
    }


def _sites(network: Network, known: Reach, bare: Collection[str]) -> dict[str, _Site] | None:
    """The maps with entries of their own, as squares; None where samples are not finite."""
    rng, box = np.random.default_rng(20240519), known.box
    count = min(
        LIMITS.points, max(LIMITS.least_points, LIMITS.values // sum(network.sizes.values()))
    )
    points = np.concatenate([box.sample(count, rng), box.corners(count // 8, rng)])
    with np.errstate(all="ignore"):
        values = network.values(points)
        effects = _effects(network, values)
    least = LIMITS.effect_seen if isinstance(box, Points) else LIMITS.effect
    sites = {}
    for node in network.mixing_nodes():
        if not isinstance(node.op, Mixing) or not node.op.own_entries or node.name not in effects:
            continue
        with np.errstate(all="ignore"):
            squares, (source,) = dense(node.op.matrix) ** 2, node.inputs
            lo, hi = known.bounds(source)
            (user, *more) = [n.name for n in network.consumers(node.name)] or [""]
            behind = "" if more else user
            rest = (source, behind, node.name in bare, least)
            site = _Site(squares, (hi - lo) ** 2, effects[node.name], *rest)
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
    own: dict[str, Vector | float] = {}
    for node in rebuilt_nodes(form):
        op = mixing_at(form, node.name)
        m, k = op.kernels[0].shape
        lift = layout.lifts.get(node.name, np.zeros(m, dtype=np.int64))
        squares = [float(np.sum(np.ldexp(dense(W), lift[:, None]) ** 2)) for W in op.kernels]
        rows = rng.standard_normal((32, k))  # so many tell the reach of a map's inputs
        lo, hi = functionals_of(known, node.inputs[0], op)(rows)
        reach = math.sqrt(float(np.mean((lo**2 + hi**2) / 2)))
        sites[node.name] = m * k, math.sqrt(max(squares)) * reach
        own[node.name] = 4.0**-lift if lift.any() else 1.0
    reached = variances_at_outputs(form, known.box, own)
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
