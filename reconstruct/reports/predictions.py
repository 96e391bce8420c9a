"""What rounding should cost: a numerical prediction, not a bound.

A hidden value `h_j = s_j (M1 x)_j + t_j` is kept with a relative error of about one unit of
rounding `u`, and so is each partial sum behind it. With errors of random sign, output `i` of a
site gets a variance of about

    u² Σ_j M2_ij² t_j² (1 + L/2),      L = log2(n) + 1 levels of a pairwise sum,

and the target's own maps carry variances on by the squares of their entries. The largest of N
Gaussian numbers is about √(2 ln N) standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.constructions.nodes import mixing_at, norm_at
from reconstruct.constructions.sites import Site
from reconstruct.networks import Activation, Map, Matrix, Mixing, Network, dense
from reconstruct.numbers.drawn import is_drawn

Vector = NDArray[np.float64]
HIDDEN = 2**13  # hidden units of a large site that are looked at together
TILE = 2**22  # entries of a map that are looked at together
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}


def predicted_rounding(
    target: Network, frozen: Network, sites: Mapping[str, Site], samples: int
) -> dict[str, float]:
    """The largest difference to expect among `samples` inputs, for each precision.

    `target` is in normal form, `frozen` has its gammas and betas, `sites` are the frozen layers
    by the name of the target's map.
    """
    variances: dict[str, Vector] = {target.source: np.zeros(target.size_in)}
    for node in target.nodes:
        before = [variances[i] for i in node.inputs]
        if isinstance(node.op, Map):
            own = site_variance(frozen, sites[node.name]) if node.name in sites else 0.0
            variances[node.name] = _carried(node.op, before[0]) + own
        elif isinstance(node.op, Activation):
            size = target.sizes[node.name]  # of a pool smaller: any of its inputs may come through
            worst = before[0] if size == len(before[0]) else np.full(size, np.max(before[0]))
            variances[node.name] = max(1.0, node.op.lipschitz) ** 2 * worst
        else:
            variances[node.name] = np.sum(before, axis=0)
    deviation = math.sqrt(float(np.max(variances[target.output], initial=0.0)))
    count = max(2, samples * target.size_out)
    return {kind: u * deviation * math.sqrt(2 * math.log(count)) for kind, u in UNITS.items()}


def site_variance(frozen: Network, site: Site) -> Vector:
    """The variance of a site's outputs in units of `u²`, carried through its own layers."""
    variance = squares = np.zeros(0)  # of the layer before: its errors, and its values, by channel
    for layer in site.layers:
        norm = norm_at(frozen, layer.norm)
        s, t = (values[:: norm.positions] for values in norm.effective())
        arriving = np.zeros(len(s))
        if layer.carry is not None:
            kernels = mixing_at(frozen, layer.carry).kernels
            summing = squares * (math.log2(kernels[0].shape[1]) + 1) / 2
            arriving = _through(kernels, variance + summing)
        squares = t**2  # a hidden value is about as large as its shift
        variance = s**2 * arriving + (squares if layer.activation is not None else 0.0)
    return norm.spread(variance)


def _carried(op: Map, variance: Vector) -> Vector:
    """Errors of random sign behind a map: the squares of its entries, a tile of them at a time."""
    if not isinstance(op, Mixing):  # one summand to a unit
        return np.asarray(op.absolute(np.sqrt(variance)) ** 2)
    return np.concatenate([rows**2 @ variance for _, _, rows in op.tiles(TILE)])


def _through(kernels: tuple[Matrix, ...], variance: Vector) -> Vector:
    """The same by channels, each group on its own."""
    groups = np.split(variance, len(kernels))
    return np.concatenate([_squared(k, v) for k, v in zip(kernels, groups, strict=True)])


def _squared(weight: Matrix, variance: Vector) -> Vector:
    if is_drawn(weight):
        tiles = (slice(i, i + HIDDEN) for i in range(0, len(variance), HIDDEN))
        parts = [variance[t] @ dense(weight.T[t]) ** 2 for t in tiles]
        return np.asarray(np.sum(parts, axis=0))
    if sparse.issparse(weight):
        return np.asarray(weight.astype(np.float64).power(2) @ variance)
    return np.asarray(dense(weight) ** 2 @ variance)
