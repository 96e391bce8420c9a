"""How far is f from g when it is evaluated in float32, and what does each measure gain?

For each network the factor between the float32 error of f, by onnxruntime on the written file, and
that of g itself, at samples, corners and the worst of them searched around. One row for each way to
bound the ranges, with and without the small slack and the balancing of units, and for each ratio.

    python -m benchmarks.float32 FOLDER [-o FILE.json] [--only acasxu] [--seconds 60] [--quick]

FOLDER holds networks by family (acasxu/, hcas/, …), as `benchmarks.targets` takes them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks._common import Row, complete
from benchmarks.targets import DOMAINS, networks
from reconstruct.bounds import Adaptive, Crown, Interval, Method, Split
from reconstruct.constructions import Wide, draw
from reconstruct.constructions.shifts import SLACK
from reconstruct.formats import load, load_domain, save
from reconstruct.networks import Box, Network
from reconstruct.pipeline import Result, reconstruct

SAMPLES = 20_000
CORNERS = 1_024
ROUNDS = 4  # of a search around the worst points
NEARBY = 2_000


def settings(seconds: float, quick: bool) -> Iterator[dict[str, Any]]:
    """All together first, then each measure alone, then the ratios."""
    adaptive = Adaptive(seconds)
    yield {"bounds": adaptive, "slack": True, "balance": True, "ratio": 1.5}
    yield {"bounds": Crown(), "slack": False, "balance": False, "ratio": 1.5}
    if quick:
        return
    for method in (Interval(), Split(), adaptive):
        yield {"bounds": method, "slack": False, "balance": False, "ratio": 1.5}
    yield {"bounds": adaptive, "slack": True, "balance": False, "ratio": 1.5}
    yield {"bounds": Crown(), "slack": True, "balance": False, "ratio": 1.5}
    yield {"bounds": Crown(), "slack": False, "balance": True, "ratio": 1.5}
    for ratio in (2.6, 4.0):
        yield {"bounds": adaptive, "slack": True, "balance": True, "ratio": ratio}


def measure_one(path: Path, domain: str, chosen: dict[str, Any]) -> Row:
    """One reconstruction, evaluated in float32 by onnxruntime as it is written."""
    target = load(path)
    box = load_domain(domain, target.size_in).of_size(target.size_in)
    assert isinstance(box, Box)
    start = time.perf_counter()
    result = _reconstructed(target, box, **chosen)
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        save(target, Path(folder) / "target.onnx", dtype=np.float32)
        save(result.network, Path(folder) / "network.onnx", dtype=np.float32)
        ours = error_of(target, Path(folder) / "network.onnx", box)
        own = error_of(target, Path(folder) / "target.onnx", box)
    return {
        "network": path.name,
        "bounds": _name(chosen["bounds"]),
        "slack": "small" if chosen["slack"] else "3 %",
        "balance": chosen["balance"],
        "ratio": chosen["ratio"],
        "error": ours,
        "target_error": own,
        "factor": ours / own if own else None,
        "leaves": None if result.cuts is None else result.cuts.leaves,
        "shift_max": [row.shift_max for row in result.layers],
        "seconds": seconds,
    }


def _name(method: Method) -> str:
    return type(method).__name__.lower()


def _reconstructed(
    target: Network, box: Box, *, bounds: Method, slack: bool, balance: bool, ratio: float
) -> Result:
    """The reconstruction with some of the measures taken away."""
    with ExitStack() as stack:
        if not slack:
            stack.enter_context(mock.patch("reconstruct.constructions.two_layers.ROOM", SLACK))
        if not balance:
            plain = mock.patch("reconstruct.pipeline.balanced", lambda layout, *_: layout)
            stack.enter_context(plain)
        frozen = draw(target, Wide(ratio=ratio), seed=0)
        return reconstruct(target, frozen, domain=box, bounds=bounds)


def error_of(target: Network, path: Path, box: Box) -> float:
    """The largest |fl32(f) − g| found: samples, corners, and points around the worst of them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    x = np.concatenate([box.sample(SAMPLES, rng), box.corners(CORNERS, rng)])
    worst = 0.0
    for step in range(ROUNDS + 1):
        x = _inside(x, box)
        gaps = _gaps(session, target, x)
        top = np.argsort(-gaps)[:20]
        worst = max(worst, float(gaps[top[0]]))
        spread = (box.hi - box.lo) * 0.02 * 0.5**step
        near = np.repeat(x[top].astype(np.float64), NEARBY // 20, axis=0)
        x = near + rng.normal(size=near.shape) * spread
    return worst


def _inside(x: Any, box: Box) -> Any:
    """float32 points of the box."""
    near = np.clip(x, box.lo, box.hi).astype(np.float32)
    inward = np.where(near > box.hi, np.nextafter(near, np.float32(-np.inf)), near)
    return np.where(inward < box.lo, np.nextafter(inward, np.float32(np.inf)), inward)


def _gaps(session: Any, target: Network, x: Any) -> Any:
    """The largest difference of each point's outputs."""
    (given,) = session.get_inputs()
    shape = [size if isinstance(size, int) else -1 for size in given.shape[1:]]
    gaps = []
    for start in range(0, len(x), 2000):
        rows = x[start : start + 2000]
        found = session.run(None, {given.name: rows.reshape(len(rows), *shape)})[0]
        exact = target(rows.astype(np.float64))
        gaps.append(np.abs(found.reshape(exact.shape) - exact).max(axis=1))
    return np.concatenate(gaps)


def measure(folder: Path, only: list[str], seconds: float, quick: bool) -> Iterator[Row]:
    for family, path in networks(folder, only):
        for chosen in settings(seconds, quick):
            yield {"family": family, **measure_one(path, DOMAINS[family], chosen)}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.float32", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(DOMAINS), default=[])
    parser.add_argument("--seconds", type=float, default=60.0, help="for adaptive bounds")
    parser.add_argument("--quick", action="store_true", help="all together, and none of it")
    options = parser.parse_args(argv)
    rows = []
    found = measure(options.folder, options.only, options.seconds, options.quick)
    for row in complete("float32", found):
        shown = {k: v for k, v in row.items() if k not in ("versions", "machine", "benchmark")}
        print(json.dumps(shown), flush=True)
        rows.append(row)
        if options.output is not None:
            options.output.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
