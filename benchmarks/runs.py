"""How long does a whole run take, and how far apart are the networks that come out of it?

The shipped digits network over [0, 1]^64 for each construction: time, memory, the difference as
measured, as predicted and as certified.

    python -m benchmarks.runs -o benchmarks/results/runs.json
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.constructions import Construction, Deep, Factored, Wide, draw
from reconstruct.demo import digits
from reconstruct.runs.job import Job
from reconstruct.runs.job import run as run_job

QUESTION = "What does a whole run cost, and how close does it come?"
SEED = 0
KEPT = (
    "float64_max",
    "float32_max",
    "target_float32_max",
    "certified_bound",
    "float64_bound",
    "float32_bound",
)


def whole_run(name: str, ratio: float, samples: int) -> Row:
    """One run of `reconstruct run` on the digits network, in this process."""
    shipped = digits()
    frozen = draw(shipped.target, construction(name, ratio), seed=SEED)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            shipped.target,
            shipped.path,
            frozen,
            shipped.domain,
            Path(folder) / "out",
            samples=samples,
        )
        outcome = run_job(job)
    report = outcome.report
    error, predicted = report["error"], report["measurements"]["predicted"]
    return {
        "construction": name,
        "ratio": ratio,
        "seed": SEED,
        "verdict": report["verdict"],
        "rigor": report["rigor"],
        "weights": outcome.network.weights,
        "tunable": outcome.network.tunable,
        "accuracy_target": shipped.accuracy(shipped.target),
        "accuracy_frozen": shipped.accuracy(frozen.network),
        "accuracy": shipped.accuracy(outcome.network),
        **{key: error[key] for key in KEPT},
        "float64_predicted": predicted["float64"],
        "float32_predicted": predicted["float32"],
        "seconds": report["cost"]["seconds"],
        "solve_seconds": outcome.result.seconds,
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
        yield in_fresh_process(whole_run, name, ratio, 1_000 if quick else 10_000)


if __name__ == "__main__":
    run("runs", QUESTION, measure)
