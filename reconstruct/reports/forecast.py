"""Map by map: what rounding in float32 should cost, and how tight the ranges behind it are.

`float32` is what the rounding of this map alone should add at the output (`predictions`).
`tightness` is the width of the ranges that are proved for the map's value over the width that
samples reach, the mean over its units: 1 is perfect, and shifts are about that much too large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.networks import Domain
from reconstruct.pipeline import Result
from reconstruct.reports.predictions import RoundingForecast

POINTS = 2000
SEED = 7
MOST_WORK = 2e9  # multiplications that sampling may cost


def forecast(result: Result, rounding: RoundingForecast, samples: int) -> list[dict[str, Any]]:
    """One row for each map of the target in normal form, in its order."""
    tightness, found = _tightness(result, result.domain), []
    for site in result.sites:
        alone = rounding.largest(samples, only=site.target)
        row = {"name": site.target, "float32": alone["float32"]}
        found.append({**row, "tightness": tightness.get(site.target)})
    return [{k: _finite(v) for k, v in row.items()} for row in found]


def _tightness(result: Result, domain: Domain) -> dict[str, float]:
    """Proved over sampled widths; units that samples do not move are left out."""
    network, known = result.form.network, result.known
    if known is None or POINTS * network.weights > MOST_WORK:
        return {}
    with np.errstate(all="ignore"):
        values = network.values(domain.sample(POINTS, np.random.default_rng(SEED)))
    found = {}
    for site in result.sites:
        seen = np.ptp(values[site.target], axis=0)
        lo, hi = (end[0] for end in known.whole.values[site.target])
        if known.leaves is not None:
            below, above = known.leaves.ranges[site.target]
            lo, hi = np.maximum(lo, below), np.minimum(hi, above)
        moves = seen > 0
        if moves.any():
            found[site.target] = float(np.mean((hi - lo)[moves] / seen[moves]))
    return found


def _finite(value: Any) -> Any:
    return value if not isinstance(value, float) or np.isfinite(value) else None
