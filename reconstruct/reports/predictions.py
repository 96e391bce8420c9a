"""What rounding should cost: a numerical prediction, not a bound.

A hidden value `h_j = s_j (M1 x)_j + t_j` is kept with a relative error of about one unit of
rounding `u`, and so is each partial sum behind it. With errors of random sign, output `i` of a
site gets a variance of about

    u² Σ_j M2_ij² t_j² (1 + v L/2),      L = log2(n) + 1 levels of a pairwise sum,

v = 1, or, where the shifts are taken out before values are added up, what these vary by. The target
carries it on by the squares of its derivatives, at sampled inputs; those at which it is largest
count for more. The largest of N Gaussian numbers is about √(2 ln N) standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.constructions.nodes import mixing_at, norm_at
from reconstruct.constructions.ratio import VARYING
from reconstruct.constructions.sites import Site
from reconstruct.constructions.variances import deviation, variances_at_outputs
from reconstruct.networks import Domain, Matrix, Network, dense
from reconstruct.numbers.drawn import is_drawn
from reconstruct.numbers.in_order import in_order

Vector = NDArray[np.float64]
HIDDEN = 2**13  # hidden units of a large site that are looked at together
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}


@dataclass(frozen=True, eq=False)
class RoundingForecast:
    """What each map adds at the output, by map: variances in units of u², one for each sampled
    input and each output."""

    variances: Mapping[str, Vector]
    outputs: int

    def largest(self, samples: int, only: str | None = None) -> dict[str, float]:
        """The largest difference to expect among `samples` inputs, for each precision; of all maps
        or of one."""
        parts = self.variances if only is None else {only: self.variances[only]}
        most = deviation(parts) * math.sqrt(2 * math.log(max(2, samples * self.outputs)))
        return {kind: u * most for kind, u in UNITS.items()}


def rounding_by_map(
    target: Network, frozen: Network, sites: Mapping[str, Site], domain: Domain, *, blocks: bool
) -> RoundingForecast:
    """The prediction for `target` in normal form, `frozen` with its gammas and betas, `sites` the
    frozen layers by the name of the target's map; `blocks` if sums are spelled out."""
    own = {name: site_variance(frozen, site, blocks=blocks) for name, site in sites.items()}
    return RoundingForecast(variances_at_outputs(target, domain, own), target.size_out)


def site_variance(frozen: Network, site: Site, *, blocks: bool = False) -> Vector:
    """The variance of a site's outputs in units of `u²`, carried through its own layers."""
    variance = squares = np.zeros(0)  # of the layer before: its errors, and its values, by channel
    for layer in site.layers:
        norm = norm_at(frozen, layer.norm)
        s, t = (values[:: norm.positions] for values in norm.effective())
        arriving = np.zeros(len(s))
        if layer.carry is not None:
            kernels = mixing_at(frozen, layer.carry).kernels
            share = VARYING if blocks else 1.0
            summing = share * squares * (math.log2(kernels[0].shape[1]) + 1) / 2
            arriving = _through(kernels, variance + summing)
        squares = t**2  # a hidden value is about as large as its shift
        variance = s**2 * arriving + (squares if layer.activation is not None else 0.0)
    return norm.spread(variance)


def _through(kernels: tuple[Matrix, ...], variance: Vector) -> Vector:
    """The same by channels, each group on its own."""
    groups = np.split(variance, len(kernels))
    return np.concatenate([_squared(k, v) for k, v in zip(kernels, groups, strict=True)])


def _squared(weight: Matrix, variance: Vector) -> Vector:
    if is_drawn(weight):
        tiles = (slice(i, i + HIDDEN) for i in range(0, len(variance), HIDDEN))
        parts = in_order(lambda t: variance[t] @ np.square(dense(weight.T[t])), tiles)
        return np.asarray(np.sum(list(parts), axis=0))
    if sparse.issparse(weight):
        return np.asarray(weight.astype(np.float64).power(2) @ variance)
    return np.asarray(dense(weight) ** 2 @ variance)
