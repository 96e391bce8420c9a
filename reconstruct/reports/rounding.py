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

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.constructions.ratio import VARYING, deviation, variances_at_outputs
from reconstruct.constructions.sites import Site, mixing_at, norm_at
from reconstruct.networks import Domain, Matrix, Network, dense

Vector = NDArray[np.float64]
HIDDEN = 2**13  # hidden units of a large site that are looked at together
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}


def predicted_rounding(
    target: Network,
    frozen: Network,
    sites: tuple[Site, ...],
    domain: Domain,
    samples: int,
    *,
    blocks: bool,
) -> dict[str, float]:
    """The largest difference to expect among `samples` inputs, for each precision.

    `target` is in normal form, `frozen` has its gammas and betas; `blocks`: sums are written out.
    """
    own = {site.target: site_variance(frozen, site, blocks=blocks) for site in sites}
    variances = variances_at_outputs(target, domain, own)
    most = deviation(variances) * math.sqrt(2 * math.log(max(2, samples * target.size_out)))
    return {kind: u * most for kind, u in UNITS.items()}


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
    if sparse.issparse(weight):
        return np.asarray(weight.astype(np.float64).power(2) @ variance)
    return np.asarray(dense(weight) ** 2 @ variance)
