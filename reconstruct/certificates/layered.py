"""The layered proof as a certificate: its bound, the float bounds, and what a checker needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Layered, bound_layers
from reconstruct.certificates.propagate import FLOATS, Figures, figures
from reconstruct.certificates.verdicts import Certificate, Segment
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Network
from reconstruct.numbers.double_double import upward

PUBLISHED = 1 + 2.0**-8  # claims are rounded up by this much, so that another proof may differ


def prove(
    known: Reach,
    network: Network,
    alignment: Alignment,
    start: Certificate,
    tried: list[str],
    tick: Callable[[int, int], None],
) -> Certificate:
    """The certificate `start` with the bounds that this alignment gives, if it gives any.

    `known` bounds the target's values; what was done is told in `tried`.
    """
    target = known.network
    try:
        layered = bound_layers(target, network, known, alignment, tick)
    except UnsupportedError as error:
        tried.append(f"layer by layer: {error}")
        return start
    if not isfinite(layered.bound):
        tried.append("layer by layer: no finite bound")
        return start
    tried.append(
        f"layer by layer: {len(alignment.pairs)} cuts aligned of "
        f"{len(target.activation_nodes())} activations in the target, bound "
        f"{layered.bound:.3g}, least margin of an inner activation {layered.margin:.3g}"
    )
    found = figures(known, network, alignment, layered, tick)
    tried.append(f"carried through the target's own maps: bound {found.real:.3g}")
    for kind, bound, reason in zip(FLOATS, found.floats, found.reasons, strict=True):
        if bound is None:
            tried.append(f"{np.dtype(kind).name} bound: none, {reason}")
    return _filled(start, found, layered, alignment, known)


def _filled(
    start: Certificate, found: Figures, layered: Layered, alignment: Alignment, known: Reach
) -> Certificate:
    """The certificate with all figures and what a checker needs."""
    return replace(
        start,
        bound=published(found.real),
        float64_bound=_claimed(found.floats[0]),
        float32_bound=_claimed(found.floats[1]),
        target_float64_bound=_claimed(found.target[0]),
        target_float32_bound=_claimed(found.target[1]),
        method="layered",
        segments=tuple(_published_segment(segment) for segment in layered.segments),
        alignment=alignment.pairs,
        tree=None if known.partition is None else known.partition.code,
    )


def _claimed(bound: float | None) -> float | None:
    return None if bound is None else published(bound)


def published(value: float) -> float:
    """The figure as it is claimed: a little above what was proved."""
    return float(upward(value * PUBLISHED))


def _published_segment(segment: Segment) -> Segment:
    return replace(
        segment,
        residual_bound=published(segment.residual_bound),
        constant_bound=published(segment.constant_bound),
        error_in=published(segment.error_in),
        error_out=published(segment.error_out),
    )
