"""What do grouped layers cost beside training, and on a network of ten million weights?

The first row: a target of 32-64-64-10 and one frozen grouped network. `reconstruct` solves for
its γ and β; Adam trains the same γ and β on the target's outputs at fresh inputs of the box, 100
times as long, with the best of three rates. The second row: a network 512-2048-2048-2048-300 by
`run` and `check` at 16 given inputs, in a process each. `--quick` leaves it out.

    python -m benchmarks.grouped [--quick] [-o FILE.json]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

import reconstruct as rc
from benchmarks._common import Row, run
from reconstruct.networks import Network

SEED = 0
SMALL = (32, 64, 64, 10)
LARGE = (512, 2048, 2048, 2048, 300)
RATES = (1e-1, 1e-2, 1e-3)
LONGER = 100.0
BATCH = 64


def measure(quick: bool) -> Iterator[Row]:
    yield beside_training()
    if not quick:
        yield whole_run()


def target(sizes: tuple[int, ...]) -> Network:
    """Weights of float32, as He draws them."""
    rng = np.random.default_rng(SEED)
    weights = [rng.standard_normal((m, k)) * np.sqrt(2 / k) for k, m in pairwise(sizes)]
    weights = [w.astype(np.float32).astype(np.float64) for w in weights]
    return Network.mlp(weights, [np.full(len(w), 0.125) for w in weights])


def beside_training() -> Row:
    """Seconds and errors of solving and of Adam on the same γ and β."""
    given = target(SMALL)
    frozen = rc.draw(given, rc.Grouped(), seed=SEED)
    tried = np.random.default_rng(1).uniform(-1, 1, (1000, SMALL[0]))
    wanted = given(tried)
    start = time.perf_counter()
    result = rc.reconstruct(given, frozen, domain=(-1, 1))
    seconds = time.perf_counter() - start
    solved = float(np.abs(result.network(tried) - wanted).max())
    errors = {}
    for rate in RATES:
        errors[rate], steps = trained(frozen.network, given, rate, LONGER * seconds, tried)
    best = min(errors, key=lambda rate: errors[rate])
    return {
        "kind": "beside training",
        "sizes": SMALL,
        "seed": SEED,
        "seconds": seconds,
        "error": solved,
        "output_scale": float(np.abs(wanted).max()),
        "adam_seconds": LONGER * seconds,
        "adam_rate": best,
        "adam_steps": steps,
        "adam_error": errors[best],
        "error_ratio": errors[best] / solved,
    }


def trained(
    network: Network, given: Network, rate: float, seconds: float, tried: np.ndarray
) -> tuple[float, int]:
    """The largest error of the outputs after so many seconds of Adam, and its steps."""
    import torch

    module = rc.to_torch(network, np.float32)  # twice as fast as float64
    tuned = rc.training.tunable(module, "norms")
    optimizer, rng = torch.optim.Adam(tuned, lr=rate), np.random.default_rng(2)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        x = rng.uniform(-1, 1, (BATCH, network.size_in))
        optimizer.zero_grad()
        near, wanted = module(torch.from_numpy(x).float()), torch.from_numpy(given(x)).float()
        loss = torch.mean((near - wanted) ** 2)
        loss.backward()
        optimizer.step()
        steps += 1
    with torch.no_grad():
        found = module(torch.from_numpy(tried).float()).numpy()
    return float(np.abs(found - given(tried)).max()), steps


def whole_run() -> Row:
    """`run` and `check` of the large network at given inputs."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        given = target(LARGE)
        rc.save(given, place / "target.npz", dtype=np.float32)
        x = np.random.default_rng(1).uniform(-1, 1, (16, LARGE[0])).astype(np.float32)
        np.savez(place / "x.npz", x=x)
        words = ["run", "target.npz", "--domain", "x.npz", "--construction", "grouped"]
        rows = [timed([*words, "--samples", "16", "-o", "out", "--quiet"], place)]
        rows.append(timed(["check", "out"], place))
    return {
        "kind": "large network",
        "sizes": LARGE,
        "seed": SEED,
        "weights": given.weights,
        "exit": rows[0][0],
        "seconds": rows[0][1],
        "check_exit": rows[1][0],
        "check_seconds": rows[1][1],
        "peak_bytes": rows[1][2],
    }


def timed(words: list[str], place: Path) -> tuple[int, float, int]:
    """The exit code, the seconds, and the largest memory of any process so far."""
    start = time.perf_counter()
    code = subprocess.run([sys.executable, "-m", "reconstruct", *words], cwd=place, check=False)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return code.returncode, seconds, peak


if __name__ == "__main__":
    run("grouped", __doc__ or "", measure)
