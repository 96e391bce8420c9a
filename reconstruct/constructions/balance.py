"""Which units of the target to scale, so that rounding in the frozen network does the least.

A site for W adds, in float arithmetic, an error of about u·c·‖s‖·range to every output, with
‖s‖ ∝ ‖W‖_F: the same error for all units, whether the rest of the network is sensitive to them or
not. With powers of two d on both sides, W becomes diag(d') W diag(1/d), and the error that reaches
the output is about

    ‖diag(d') W diag(1/d)‖_F · ‖d∘r‖ · ‖q/d'‖,   r = ranges of the inputs, q = sensitivities,

both taken from samples. The sum of its squares over all sites is made small one activation after
the other: for each unit it is a·d² + b/d², smallest at d⁴ = b/a. Nothing here has to be proved:
scaling by powers of two is exact, and only accuracy depends on the choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from reconstruct.constructions.construction import Construction
from reconstruct.constructions.layout import Layout, plans_of
from reconstruct.errors import InputError
from reconstruct.networks import Domain, Mixing, Network, Node, dense
from reconstruct.networks.gradients import adjoints
from reconstruct.networks.rescaling import rescaled, scalable, telling_points, told
from reconstruct.numbers.arrays import Array, Vector

POINTS = 2000
SEED = 20240519
SWEEPS = 20
LARGEST = 12  # a power of two beyond which nothing is gained, and float32 gets narrow
FLOOR = 1e-8  # of the largest: dead units and units without effect count this much


@dataclass(frozen=True, eq=False)
class _Site:
    """One affine map: squares of its entries, of its inputs' ranges, of its sensitivities."""

    squares: Array
    ranges: Vector
    effects: Vector


def balanced(layout: Layout, construction: Construction, box: Domain) -> Layout:
    """The layout with units scaled, where the target's own units can be.

    Not meant for rational solves, which stay with the target's own numbers, nor for maps that are
    factored: their rank is decided on the weights as they are.
    """
    free = {node.name for node in scalable(layout.target)}
    found = balance(layout.form.network, box)
    exponents = {name: powers for name, powers in found.items() if name in free}
    if not exponents:
        return layout
    try:
        form = replace(layout.form, network=rescaled(layout.form.network, exponents))
        scaled = rescaled(layout.target, exponents)
    except InputError:  # a weight would leave its floats
        return layout
    return replace(layout, scaled=scaled, form=form, plans=plans_of(form.network, construction))


def balance(network: Network, box: Domain) -> dict[str, Array]:
    """Exponents for the activations that can be scaled; empty when nothing can be gained."""
    free = {node.name: node for node in scalable(network)}
    if not free:
        return {}
    sites = _sites(network, box)
    if sites is None:
        return {}
    scales = {name: np.ones(network.sizes[name]) for name in free}
    for _ in range(SWEEPS):
        for node in free.values():
            scales[node.name] = _best(network, node, sites, scales)
    exponents = {
        name: np.clip(np.rint(np.log2(scale) / 2), -LARGEST, LARGEST).astype(np.int64)
        for name, scale in scales.items()
    }
    exponents = _readable(network, box, exponents)
    return {name: powers for name, powers in exponents.items() if powers.any()}


def _readable(network: Network, box: Domain, exponents: dict[str, Array]) -> dict[str, Array]:
    """No scale for units that are zero wherever a certificate would read it off: lattice networks
    compare functions that are equal, and have many of them."""
    with np.errstate(all="ignore"):
        values = network.values(telling_points(box))
    return {
        name: np.where(told(values[network.node(name).inputs[0]]), powers, 0)
        for name, powers in exponents.items()
    }


def _sites(network: Network, box: Domain) -> dict[str, _Site] | None:
    """The maps as squares; None where samples are not finite, or a map is too wide to look at."""
    rng = np.random.default_rng(SEED)
    points = np.concatenate([box.sample(POINTS, rng), box.corners(POINTS // 8, rng)])
    with np.errstate(all="ignore"):
        values = network.values(points)
        effects = _effects(network, values)
    sites = {}
    for node in network.mixing_nodes():
        if not isinstance(node.op, Mixing) or node.name not in effects:
            continue
        with np.errstate(all="ignore"):
            spread = np.ptp(values[node.inputs[0]], axis=0)
            site = _Site(dense(node.op.matrix) ** 2, spread**2, effects[node.name])
        if not all(np.isfinite(a).all() for a in (site.squares, site.ranges, site.effects)):
            return None
        sites[node.name] = site
    return sites


def _effects(network: Network, values: Mapping[str, Array]) -> dict[str, Vector]:
    """Mean squares of the derivative of the output by each map's value, the worst output."""
    count = len(values[network.output])
    worst: dict[str, Vector] = {}
    for j in range(min(network.size_out, 16)):
        seed = np.zeros((count, network.size_out))
        seed[:, j] = 1.0
        for name, rows in adjoints(network, values, {network.output: seed}).items():
            mean = np.mean(rows**2, axis=0)
            worst[name] = np.maximum(worst[name], mean) if name in worst else mean
    return worst


def _best(
    network: Network, node: Node, sites: Mapping[str, _Site], scales: Mapping[str, Vector]
) -> Vector:
    """d² for the units of one activation, the other activations' scales held."""
    before = node.inputs[0]
    raising, lowering = np.zeros(network.sizes[node.name]), np.zeros(network.sizes[node.name])
    if before in sites:
        site = sites[before]
        inside = _scale(scales, network.node(before).inputs[0], len(site.ranges))
        weight = site.squares / inside
        size, reach, effect = _noise(network, before, sites, scales)
        raising += reach * effect * weight.sum(axis=1)
        lowering += size * reach * site.effects
    for after in network.consumers(node.name):
        if after.name in sites:
            site = sites[after.name]
            outside = _after(network, after.name, scales)
            size, reach, effect = _noise(network, after.name, sites, scales)
            raising += size * effect * site.ranges
            lowering += reach * effect * (outside[:, None] * site.squares).sum(axis=0)
    return np.sqrt(_positive(lowering) / _positive(raising))


def _noise(
    network: Network, name: str, sites: Mapping[str, _Site], scales: Mapping[str, Vector]
) -> tuple[float, float, float]:
    """The three factors of a site's error, squared: of its weights, its inputs, its outputs."""
    site = sites[name]
    inside = _scale(scales, network.node(name).inputs[0], len(site.ranges))
    outside = _after(network, name, scales)
    size = float((outside[:, None] * site.squares / inside).sum())
    return size, float((inside * site.ranges).sum()), float((site.effects / outside).sum())


def _scale(scales: Mapping[str, Vector], name: str, size: int) -> Vector:
    return scales.get(name, np.ones(size))


def _after(network: Network, name: str, scales: Mapping[str, Vector]) -> Vector:
    """The scale d² of a map's value: that of the activation behind it."""
    users = network.consumers(name)
    return _scale(scales, users[0].name if len(users) == 1 else "", network.sizes[name])


def _positive(values: Vector) -> Vector:
    top = float(np.max(values, initial=0.0))
    return np.maximum(values, FLOOR * top) if top > 0 else np.ones_like(values)
