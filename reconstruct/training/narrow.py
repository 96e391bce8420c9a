"""Below m·k hidden units no γ gives every W; the best in least squares on data is a start.

For each map, on the values h that the frozen network itself has by then, and the values z that
the target has behind that map, the scales s solve

    min_s  Σ ‖M2 diag(s) M1 (h − h̄) − (z − z̄)‖²,

and the shifts keep every hidden unit active on the data and match the means.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.layout import lay_out
from reconstruct.constructions.sites import Site, find_sites
from reconstruct.constructions.wide import WidePlan
from reconstruct.errors import InputError
from reconstruct.networks import Mixing, Network, Norm, dense
from reconstruct.training.statistics import norms_of

RIDGE = 1e-9  # of the Gram matrix' mean diagonal: directions that the data do not have stay small
SLACK = 0.1  # room of the shifts beyond the data, as a share of each unit's range
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Narrow:
    """`ratio` hidden units per equation, which may be fewer than one: a shape to draw."""

    ratio: float

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1e6:
            raise InputError(f"the ratio must be above 0, but is {self.ratio:g}")

    @property
    def name(self) -> str:
        return "narrow"

    @property
    def summary(self) -> str:
        return "each affine map is fitted on data by two frozen layers with fewer than m·k neurons"

    def plan(self, op: Mixing) -> WidePlan:
        m, k = op.shape
        return WidePlan(op, m, k, max(1, ceil(self.ratio * m * k)))

    def describe(self) -> dict[str, Any]:
        return {"ratio": self.ratio}


def least_squares(target: Network, frozen: Network, shape: Narrow, x: Rows) -> Network:
    """The frozen network with the norms that fit the target best on the examples `x`, map by
    map."""
    layout = lay_out(target, shape)
    form = layout.form.network
    wanted = form.values(x)
    network = frozen
    for site in find_sites(form, frozen, layout.blueprints):
        have = network.values(x)[site.source] if site.source != network.source else x
        network = network.with_ops(_fitted(network, site, have, wanted[site.target]))
    return network


def _fitted(network: Network, site: Site, h: Rows, z: Rows) -> dict[str, Norm]:
    first, second = site.layers
    M1, M2 = (_matrix(network, name) for name in (first.entry, second.carry))
    s = _scales(M1, M2, h - h.mean(axis=0), z - z.mean(axis=0))
    hidden = s * (h @ M1.T)
    low, high = hidden.min(axis=0), hidden.max(axis=0)
    t = SLACK * (high - low) - low
    offset = z.mean(axis=0) - M2 @ (hidden.mean(axis=0) + t)
    return {
        first.norm: _effective(network, first.norm, s, t),
        second.norm: _effective(network, second.norm, np.ones(len(offset)), offset),
    }


def _scales(M1: Rows, M2: Rows, h: Rows, z: Rows) -> Rows:
    """The normal equations: Gram matrix (M2ᵀM2) ∘ (M1 hᵀh M1ᵀ), right side by the adjoint."""
    projected = h @ M1.T
    gram = (M2.T @ M2) * (projected.T @ projected)
    right = np.einsum("on,nl,ol->l", z.T, projected, M2, optimize=True)
    ridge = RIDGE * np.trace(gram) / len(gram)
    return np.asarray(np.linalg.solve(gram + ridge * np.eye(len(gram)), right))


def _effective(network: Network, name: str, s: Rows, t: Rows) -> Norm:
    """The norm of that name with effective scale s and shift t."""
    held = norms_of(network)[name]
    gamma = s * np.sqrt(held.var + held.eps)
    return Norm(gamma, t + s * held.mean, held.mean, held.var, held.eps, held.positions)


def _matrix(network: Network, name: str | None) -> Rows:
    op: Any = network.node(name or "").op
    if np.any(op.bias):
        raise InputError(f"frozen layers without biases are fitted, but {name!r} has some")
    return dense(op.matrix)
