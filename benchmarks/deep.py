"""How much does the deep construction lose in float64, by block size and width ratio?

One random target map d × d with entries N(0, 1)/√d on [−1, 1]^d per case. `error` is the largest
|f − g| / max(1, |g|) over the samples; `composite` the relative Frobenius error of the map that
the frozen layers compose to, with the norms as they are stored; `rounding` what the construction
itself expected of float64. `python -m benchmarks.deep [-o FILE] [--quick]` ends with a table by
size, block and ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import hypot

import numpy as np

from benchmarks._common import Row, run
from reconstruct.constructions import Deep, draw
from reconstruct.networks import Box, Network
from reconstruct.pipeline import Result, reconstruct

SEED = 0
SAMPLES = 1000
RATIOS = (1.0, 1.5, 2.0, 3.0)


def blocks(d: int) -> list[int]:
    """d, d/2, d/4, 4, 2, 1 without repeats, largest first."""
    return sorted({d, d // 2, d // 4, 4, 2, 1}, reverse=True)


def measure(quick: bool) -> Iterator[Row]:
    """One row per size, block and ratio."""
    for d in (16,) if quick else (16, 32, 64):
        for block in blocks(d):
            for ratio in RATIOS:
                yield measure_case(d, block, ratio)


def measure_case(d: int, block: int, ratio: float) -> Row:
    """Draw, rebuild and compare one map."""
    rng = np.random.default_rng(SEED)
    W, b = rng.standard_normal((d, d)) / np.sqrt(d), rng.standard_normal(d)
    target = Network.mlp([W], [b])
    frozen = draw(target, Deep(block=block, ratio=ratio), seed=SEED)
    box = Box(-1, 1)
    result = reconstruct(target, frozen, domain=box)
    x = box.of_size(d).sample(SAMPLES, np.random.default_rng(SEED + 1))
    expected = target(x)
    difference = np.abs(result.network(x) - expected) / np.maximum(1.0, np.abs(expected))
    return {
        "d": d,
        "block": block,
        "ratio": ratio,
        "seed": SEED,
        "samples": SAMPLES,
        "layers": len(result.layers) + 1,
        "width": result.layers[0].width,
        "status": result.status.value,
        "error": float(np.max(difference)),
        "composite": hypot(*(layer.residual for layer in result.layers)),
        **_extremes(result),
        "seconds": result.seconds,
    }


def _extremes(result: Result) -> Row:
    conditions = [layer.condition or 0.0 for layer in result.layers]
    return {
        "condition": float(min(np.max(conditions), 1e300)),
        "gamma_max": max(layer.gamma_max for layer in result.layers),
        "shift_max": max(layer.shift_max for layer in result.layers),
    }


def table(rows: Iterable[Row]) -> str:
    """The errors as a Markdown table; in brackets where the status is not `solved`."""
    found = {(row["d"], row["block"], row["ratio"]): row for row in rows}
    head = "| d | block | layers | " + " | ".join(f"ratio {r:g}" for r in RATIOS) + " |"
    lines = [head, "|" + "---|" * (3 + len(RATIOS))]
    for d, block in dict.fromkeys((d, block) for d, block, _ in found):
        cells = [_cell(found[d, block, ratio]) for ratio in RATIOS]
        layers = found[d, block, RATIOS[0]]["layers"]
        lines.append(f"| {d} | {block} | {layers} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row) -> str:
    error = f"{row['error']:.0e}"
    return error if row["status"] == "solved" else f"({row['status'].replace('_', '-')}: {error})"


if __name__ == "__main__":
    print(table(run("deep", __doc__ or "", measure)))
