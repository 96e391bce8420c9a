"""The error layer by layer: what is certified at each cut, and what is met there.

A certificate carries a bound from cut to cut. At the same cuts the two networks are evaluated on a
few inputs, in float64 and in float32 (numerical): a layer where the two part is where digits go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from reconstruct.certificates.verdicts import Certificate, Segment
from reconstruct.networks import Network
from reconstruct.networks.evaluation import held_at
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import Result
from reconstruct.reports.effort import affordable

MOST_INPUTS = 32


def layer_errors(result: Result, certificate: Certificate) -> list[dict[str, Any]]:
    """One row for each segment of the certificate, in the order of the network."""
    target, network = result.form.network, result.network
    least = inf if certificate.bound is None else certificate.bound  # signs may have helped
    last = [replace(s, error_out=min(s.error_out, least)) for s in certificate.segments[-1:]]
    rows = [_ended(s, result) for s in last]
    rows = [
        s
        for s in (*certificate.segments[:-1], *rows)
        if _known(target, s.target_node) and _known(network, s.candidate_node)
    ]
    count = affordable(target, network, MOST_INPUTS)
    if not rows or not count:
        return []
    x = result.domain.sample(count, np.random.default_rng(0))[:count]
    with np.errstate(all="ignore"):
        met = _met(target, network, rows, x)
    chains = {name: set(chain) | {name} for name, chain in result.form.chains.items()}
    shifts = {row.name: row.shift_max for row in result.layers}
    return [
        {
            "name": segment.target_node,
            "maps": list(segment.maps),
            "certified": _finite(segment.error_out),
            "shift": _finite(
                max(
                    (shift for name, shift in shifts.items() if _part_of(chains, name, segment)),
                    default=0.0,
                )
            ),
            **found,
        }
        for segment, found in zip(rows, met, strict=True)
    ]


def _met(
    target: Network, network: Network, rows: Sequence[Segment], x: Array
) -> list[dict[str, float | None]]:
    """The largest difference at each cut among these inputs; and the largest value of g there."""
    single = x.astype(np.float32).astype(np.float64)
    ours, theirs = [s.target_node for s in rows], [s.candidate_node for s in rows]
    g, f = held_at(target, x, ours), held_at(network, x, theirs)
    g32, f32 = held_at(target, single, ours), held_at(network, single, theirs, np.float32)
    own = held_at(target, single, ours, np.float32)
    return [
        {
            "scale": _largest(g[a]),
            "float64": _largest(f[b] - g[a]),
            "float32": _largest(f32[b].astype(np.float64) - g32[a]),
            "target_float32": _largest(own[a].astype(np.float64) - g32[a]),
        }
        for a, b in zip(ours, theirs, strict=True)
    ]


def _ended(last: Segment, result: Result) -> Segment:
    """The last segment ends at the outputs, which files may have under other names."""
    return replace(
        last, target_node=result.form.network.output, candidate_node=result.network.output
    )


def _known(network: Network, name: str) -> bool:
    return name != network.source and name in network.sizes


def _part_of(chains: Mapping[str, set[str]], name: str, segment: Segment) -> bool:
    return bool(chains.get(name, {name}) & set(segment.maps))


def _largest(values: Array) -> float | None:
    return _finite(float(np.max(np.abs(values), initial=0.0)))


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
