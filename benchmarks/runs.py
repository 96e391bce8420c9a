"""How long does a whole run take, and how far apart are the networks that come out of it?

The shipped digits network over [0, 1]^64 for each construction, and a random network of the size of
an ACAS Xu network (six hidden layers of 50) over [-0.5, 0.5]^5: time and its parts, memory, the
difference as measured, as predicted and as certified. `solve_seconds` are those of the systems,
`bounds_seconds` what bounds and shifts take beside them; `seconds` end with the certificate, and
`whole_seconds` with the page and the published directory.

    python -m benchmarks.runs -o benchmarks/results/runs.json
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.constructions import Construction, Deep, Factored, Frozen, Wide, draw
from reconstruct.demo import digits
from reconstruct.networks import Box, Domain, Network
from reconstruct.runs.run import RunOutcome
from reconstruct.runs.run import run as run_whole

QUESTION = "What does a whole run cost, and how close does it come?"
SEED = 0
ACASXU = (5, 50, 50, 50, 50, 50, 50, 5)
KEPT = (
    "float64_max",
    "float32_max",
    "target_float32_max",
    "certified_bound",
    "float64_bound",
    "float32_bound",
)


def whole_run(name: str, ratio: float) -> Row:
    """One run of `reconstruct run` on the digits network, in this process."""
    shipped = digits()
    frozen = draw(shipped.target, construction(name, ratio), seed=SEED)
    outcome, seconds = _ran(shipped.target, shipped.path, frozen, shipped.domain)
    return {
        "network": "digits",
        **_row(name, ratio, outcome, seconds),
        "accuracy_target": shipped.accuracy(shipped.target),
        "accuracy_frozen": shipped.accuracy(frozen.network),
        "accuracy": shipped.accuracy(outcome.network),
    }


def narrow_run(ratio: float) -> Row:
    """The same for a random network as deep and as wide as those of ACAS Xu."""
    rng = np.random.default_rng(SEED)
    weights = [rng.normal(size=(m, k)) * np.sqrt(2 / k) for k, m in pairwise(ACASXU)]
    target = Network.mlp(weights, [0.1 * rng.normal(size=len(w)) for w in weights])
    frozen = draw(target, Wide(ratio), seed=SEED)
    outcome, seconds = _ran(target, None, frozen, Box(-0.5, 0.5).of_size(5))
    return {"network": "like ACAS Xu", **_row("wide", ratio, outcome, seconds)}


def _ran(
    target: Network, path: Path | None, frozen: Frozen, domain: Domain
) -> tuple[RunOutcome, float]:
    """A run, and how long all of it took."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        outcome = run_whole(path or target, Path(folder) / "out", frozen=frozen, domain=domain)
        return outcome, time.perf_counter() - start


def _row(name: str, ratio: float, outcome: RunOutcome, whole: float) -> Row:
    report = outcome.report
    solves = sum(row.seconds for row in outcome.result.layers)
    error, predicted = report["error"], report["measurements"]["predicted"]
    return {
        "construction": name,
        "ratio": ratio,
        "seed": SEED,
        "verdict": report["verdict"],
        "rigor": report["rigor"],
        "weights": outcome.network.weights,
        "tunable": outcome.network.tunable,
        **{key: error[key] for key in KEPT},
        "float64_predicted": predicted["float64"],
        "float32_predicted": predicted["float32"],
        "seconds": report["cost"]["seconds"],
        "whole_seconds": whole,
        "solve_seconds": solves,
        "bounds_seconds": max(0.0, outcome.result.seconds - solves),
        "certify_seconds": outcome.certificate.seconds,
        "peak_bytes": report["cost"]["peak_bytes"],
    }


def construction(name: str, ratio: float) -> Construction:
    table: dict[str, Construction] = {
        "wide": Wide(ratio),
        "factored": Factored(ratio),
        "deep": Deep(block=8, ratio=ratio),
    }
    return table[name]


def measure(quick: bool) -> Iterator[Row]:
    cases = (
        [("wide", 1.5)]
        if quick
        else [("wide", 1.5), ("wide", 2.6), ("factored", 1.5), ("deep", 1.5)]
    )
    for name, ratio in cases:
        yield in_fresh_process(whole_run, name, ratio)
    if not quick:
        yield in_fresh_process(narrow_run, 1.5)


if __name__ == "__main__":
    run("runs", QUESTION, measure)
