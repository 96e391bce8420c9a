"""Larger shifts: room for errors that come from the layers before.

A shift is added in front of the activation and taken away behind the second map; any that is
larger serves as well, t1' ≥ t1 with t2' = t2 − λ·s2∘(M2 (t1' − t1)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from reconstruct.constructions.matched_betas import matched
from reconstruct.constructions.sites import Site
from reconstruct.constructions.two_layers import TwoLayers
from reconstruct.khatri_rao.matrices import to_dense
from reconstruct.networks import Network, Norm
from reconstruct.numbers.arrays import Vector
from reconstruct.numbers.exact_dot import exact_dot

MOVED = 2.0**-14  # of a shift: what rounding of betas may take from it


def raised(
    network: Network,
    sites: Sequence[Site],
    lacking: Mapping[str, Vector],
    dtype: Any,
    most: float = inf,
) -> dict[str, Norm]:
    """The norms of those sites whose shifts have to grow, betas rounded to `dtype`.

    Empty where the shifts of some site would have to grow by more than `most` times their size
    (of the medians).
    """
    norms: dict[str, Norm] = {}
    for site in sites:
        if len(site.layers) != 2:
            continue
        first, second = site.layers
        lack = lacking.get(first.activation or "")
        groups = TwoLayers.groups_at(network, first, second)
        if lack is None or not lack.any() or len(groups) != 1:
            continue
        (layers,) = groups
        lack = lack.reshape(layers.norm1.channels, -1).max(axis=1)  # at the worst position
        shift = np.median(np.abs(layers.norm1.per_channel()[1]))
        if most < inf and np.median(lack) > most * shift:
            return {}
        norms[first.norm], norms[second.norm] = _raised(layers, lack, dtype)
    return norms


def _raised(layers: TwoLayers, lack: Vector, dtype: Any) -> tuple[Norm, Norm]:
    (s1, t1), (s2, t2) = layers.norm1.per_channel(), layers.norm2.per_channel()
    wanted = np.where(lack > 0, t1 + lack + MOVED * np.abs(t1 + lack), t1)
    shift = np.where(lack > 0, _above(wanted, dtype), t1)
    slope = layers.activation.piece.slope
    moved = exact_dot(layers.M2, shift) - exact_dot(layers.M2, t1)
    norm1 = layers.norm1.with_effective(s1, shift)
    norm2 = layers.norm2.with_effective(s2, t2 - s2 * slope * moved)
    return matched(norm1, norm2, to_dense(layers.M2), slope, dtype)


def _above(values: Vector, dtype: Any) -> Vector:
    """Numbers of the format that are at least as large."""
    near = values.astype(dtype)
    above = np.where(near < values, np.nextafter(near, np.asarray(np.inf, dtype)), near)
    return np.asarray(above.astype(np.float64))
