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

from reconstruct.constructions.sites import Site
from reconstruct.networks import (
    Activation,
    Matrix,
    Mixing,
    Network,
    Norm,
    dense,
)

Vector = NDArray[np.float64]
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
        if isinstance(node.op, Mixing):
            own = site_variance(frozen, sites[node.name])
            variances[node.name] = dense(node.op.matrix) ** 2 @ before[0] + own
        elif isinstance(node.op, Activation):
            variances[node.name] = max(1.0, node.op.lipschitz) ** 2 * before[0]
        else:
            variances[node.name] = np.sum(before, axis=0)
    deviation = math.sqrt(float(np.max(variances[target.output], initial=0.0)))
    count = max(2, samples * target.size_out)
    return {kind: u * deviation * math.sqrt(2 * math.log(count)) for kind, u in UNITS.items()}


def site_variance(frozen: Network, site: Site) -> Vector:
    """The variance of a site's outputs in units of `u²`, carried through its own layers."""
    variance = squares = np.zeros(0)  # of the layer before: its errors, and its values
    for layer in site.layers:
        norm = frozen.node(layer.norm).op
        assert isinstance(norm, Norm)
        s, t = norm.effective()
        arriving = np.zeros(len(s))
        if layer.carry is not None:
            weight = _weight(frozen, layer.carry)
            summing = squares * (math.log2(weight.shape[1]) + 1) / 2
            arriving = _squared(weight) @ (variance + summing)
        squares = t**2  # a hidden value is about as large as its shift
        variance = s**2 * arriving + (squares if layer.activation is not None else 0.0)
    return variance


def _weight(frozen: Network, name: str) -> Matrix:
    op = frozen.node(name).op
    assert isinstance(op, Mixing)
    return op.matrix


def _squared(weight: Matrix) -> Matrix:
    if sparse.issparse(weight):
        return weight.astype(np.float64).power(2)
    return dense(weight) ** 2
