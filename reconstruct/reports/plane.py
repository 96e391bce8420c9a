"""A network of two inputs is a picture: g, and where f differs from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.networks import Box, Domain, Network
from reconstruct.numbers.arrays import Array
from reconstruct.reports.effort import affordable

SIDE, LEAST_SIDE = 48, 8
DIGITS = 3  # of each value: enough for a picture


def plane(target: Network, network: Network, domain: Domain) -> dict[str, Any] | None:
    """g and |f − g| in both precisions on a grid over the box; None for other networks."""
    if target.size_in != 2 or not isinstance(domain, Box):
        return None
    side = int(affordable(target, network, SIDE**2) ** 0.5)
    if side < LEAST_SIDE:
        return None
    axes = [np.linspace(a, b, side) for a, b in zip(domain.lo, domain.hi, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = np.clip(points.astype(np.float32).astype(np.float64), domain.lo, domain.hi)
    with np.errstate(all="ignore"):
        g = target(points)
        double = np.abs(network(points) - g)
        single = np.abs(network(points, np.float32).astype(np.float64) - g)
    if not all(np.isfinite(part).all() for part in (g, double, single)):
        return None
    output = int(np.argmax(np.max(double, axis=0)))
    pictures = {"target": g, "float64": double, "float32": single}
    return {
        "output": output,
        "side": side,
        "lo": domain.lo.tolist(),
        "hi": domain.hi.tolist(),
        **{name: _short(values[:, output]) for name, values in pictures.items()},
    }


def _short(values: Array) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
