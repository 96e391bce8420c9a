"""How far is f from g when it is evaluated in float32, and what does each measure gain?

For each network the factor between the float32 error of f, by onnxruntime on the written file, and
that of g itself, at samples, corners and the worst of them searched around. One row for each way to
bound the ranges, with and without the balancing of units, feedback in rounding, sums in
blocks, shifts taken out of them and headroom for float32, and for each ratio; beside it what is
proved of the evaluation in floats, and what float16 and bfloat16 would do.
Networks of ACAS Xu with `--extent quick`.

    python -m benchmarks.float32 FOLDER [-o FILE.json] [--only acasxu]
        [--extent full|brief|quick|large]

FOLDER holds networks by family (acasxu/, hcas/, …), as `benchmarks.targets` takes them; `digits` is
the shipped network. `--add` keeps the rows of FILE.json about other networks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks._common import Row, tell
from benchmarks.half import half_errors
from benchmarks.targets import DOMAINS, earlier, networks
from reconstruct import demo
from reconstruct.bounds import Adaptive, Crown, Interval, Method
from reconstruct.certificates import certify
from reconstruct.constructions import Grouped, Wide, draw
from reconstruct.formats import load, load_domain, save
from reconstruct.networks import Box, Network
from reconstruct.pipeline import Result, reconstruct
from reconstruct.runs.files import Forms, with_headroom

DIGITS = Path(demo.__file__).with_name("digits.onnx")
WHERE = {**DOMAINS, "digits": "0,1"}
SAMPLES = 20_000
CORNERS = 1_024
ROUNDS = 4  # of a search around the worst points
NEARBY = 2_000
ANY = 1e30  # a tolerance: figures are wanted, and no verdict
LARGE = 2**26  # weights of a network from which on an evaluation takes all processors


@dataclass(frozen=True)
class Setting:
    """Which measures are taken: how ranges are bounded, balanced units,
    how gammas become float32, long sums in blocks, shifts taken out before (then sums are in
    blocks), shifts with headroom for float32 (too), and the ratio; of grouped layers their block.
    """

    bounds: Method
    balance: bool = False
    feedback: bool = False
    blocks: bool = False
    centred: bool = False
    headroom: bool = False
    ratio: float = 1.5
    block: int | None = None

    @property
    def measures(self) -> str:
        """The bounds, and what else is taken."""
        taken = (
            (self.balance, "balance"),
            (self.feedback, "feedback"),
            (self.blocks, "blocks"),
            (self.centred, "shifts taken out"),
            (self.headroom, "headroom"),
        )
        words = [word for yes, word in taken if yes]
        grouped = [] if self.block is None else [f"blocks of {self.block}"]
        return ", ".join([*grouped, type(self.bounds).__name__.lower(), *words])


def settings(boxes: int, extent: str) -> Iterator[Setting]:
    """None of it and all together; then each measure alone, and all but one; then the ratios."""
    adaptive, none = Adaptive(boxes=boxes), Setting(Crown())
    sums = replace(none, blocks=True, centred=True)
    whole = replace(sums, bounds=adaptive, balance=True, feedback=True)
    whole = replace(whole, headroom=True)
    if extent == "large":  # what --dtype float32 does, where each row takes ten minutes
        yield replace(whole, headroom=False)
        yield none
        return
    yield whole
    yield replace(whole, headroom=False)
    yield replace(whole, centred=False, headroom=False)
    yield none
    yield replace(whole, headroom=False, ratio=2.6)
    if extent == "quick":
        return
    yield replace(whole, ratio=2.6)
    yield replace(whole, balance=False)
    yield Setting(adaptive)
    if extent == "brief":
        return
    yield Setting(Interval())
    yield replace(none, balance=True)
    yield replace(none, feedback=True)
    yield replace(none, blocks=True)
    yield sums
    yield replace(whole, feedback=False, headroom=False)
    yield replace(whole, ratio=4.0)
    yield replace(whole, ratio=8.0)


def measure_one(path: Path, domain: str, chosen: Setting) -> Row:
    """One reconstruction, evaluated in float32 by onnxruntime as it is written."""
    plain = replace(chosen, blocks=False, centred=False, headroom=False)
    result, took = _reconstructed(path, domain, plain)
    with ExitStack() as stack:
        _left_out(stack, chosen)
        return _measured(path, chosen, result, took)


def _left_out(stack: ExitStack, chosen: Setting) -> None:
    """Measures that the package takes by itself and this setting does not."""
    if not chosen.balance:
        plain = mock.patch("reconstruct.pipeline.scaled_layout", lambda layout, *_: layout)
        stack.enter_context(plain)
    if not chosen.centred:
        nothing = mock.patch("reconstruct.networks.blocks.centre", lambda network, node: None)
        stack.enter_context(nothing)


def _measured(path: Path, chosen: Setting, result: Result, took: float) -> Row:
    target, box = result.target, result.domain
    assert isinstance(box, Box)
    start = time.perf_counter()
    forms = Forms(np.dtype(np.float32), guarded=False, blocks=chosen.blocks)
    if chosen.headroom:
        result = with_headroom(result, forms, np.inf)
    seconds = took + time.perf_counter() - start
    network = forms.spelled(result.network)
    with tempfile.TemporaryDirectory() as folder:
        save(target, Path(folder) / "target.onnx", dtype=np.float32)
        save(network, Path(folder) / "network.onnx", dtype=np.float32)
        threads = 1 if network.weights <= LARGE else 0
        ours = error_of(target, Path(folder) / "network.onnx", box, threads)
        own = error_of(target, Path(folder) / "target.onnx", box)
        proved = _proved(target, load(Path(folder) / "network.onnx"), result)
    return {
        "network": path.name,
        "measures": chosen.measures,
        "ratio": chosen.ratio,
        "error": ours,
        "target_error": own,
        "factor": ours / own if own else None,
        **proved,
        **(half_errors(target, network, box) if network.weights <= LARGE else {}),
        "boxes": None if result.partition is None else result.partition.count,
        "seconds": seconds,
    }


def _proved(target: Network, network: Network, result: Result) -> Row:
    """What is proved of the file as written, beside the same figures of the target."""
    known = result.known
    assert known is not None
    found = certify(
        target,
        network,
        domain=result.domain,
        bounds=known.method,
        tolerance=ANY,
        known=known,
    )
    return {
        "bound": found.bound,
        "float64_bound": found.float64_bound,
        "float32_bound": found.float32_bound,
        "target_float64_bound": found.target_float64_bound,
        "target_float32_bound": found.target_float32_bound,
    }


@lru_cache(maxsize=1)
def _reconstructed(path: Path, domain: str, chosen: Setting) -> tuple[Result, float]:
    """The reconstruction with some of the measures taken away, and its time; what is done to it
    afterwards begins with the same one."""
    start, target = time.perf_counter(), load(path)
    box = load_domain(domain, target.size_in)
    with ExitStack() as stack:
        _left_out(stack, chosen)
        block, ratio = chosen.block, chosen.ratio
        kind = Wide(ratio) if block is None else Grouped(block, ratio)
        frozen = draw(target, kind, seed=0)
        dtype = np.float32 if chosen.feedback else np.float64
        result = reconstruct(target, frozen, domain=box, bounds=chosen.bounds, dtype=dtype)
    return result, time.perf_counter() - start


def error_of(target: Network, path: Path, box: Box, threads: int = 1) -> float:
    """The largest |fl32(f) − g| found: samples, corners, and points around the worst of them.

    `threads` 0 are as many as there are processors.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
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


def measure(
    folder: Path, only: list[str], names: list[str], boxes: int, extent: str
) -> Iterator[Row]:
    shipped = [("digits", DIGITS)] if not only or "digits" in only else []
    others = [name for name in only if name != "digits"]
    found = networks(folder, others) if others or not only else []
    for family, path in [*shipped, *found]:
        if not names or any(name in path.name for name in names):
            for chosen in settings(boxes, extent):
                yield {"family": family, **measure_one(path, WHERE[family], chosen)}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.float32", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(WHERE), default=[])
    parser.add_argument("--add", action="store_true", help="keep rows about other networks")
    parser.add_argument("--names", nargs="*", default=[], help="networks whose names hold these")
    parser.add_argument("--boxes", type=int, default=2**13, help="for adaptive bounds")
    parser.add_argument("--extent", choices=["full", "brief", "quick", "large"], default="full")
    options = parser.parse_args(argv)
    chosen = (options.only, options.names, options.boxes, options.extent)
    before = earlier(options.output) if options.add else []
    tell("float32", measure(options.folder, *chosen), options.output, before)


if __name__ == "__main__":
    main()
