"""What do grouped layers cost, and what are they worth in float32?

Whole runs by the command line, `run` and then `check`, each in a process of its own: networks of
other projects, and one of ten million weights. Beside them two questions: how far Adam comes on the
same γ and β of one frozen network in 100 times as long (the best of three rates), and whether
grouped layers could stand in for what `--dtype float32` does to dense ones (sums in blocks,
headroom, rounding with feedback): largest float32 errors over the target's own.

    python -m benchmarks.grouped FOLDER [--only CASE …] [--add] [-o FILE.json]

FOLDER holds networks by family, as `benchmarks.targets` takes them; `--add` keeps the other rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

import reconstruct as rc
from benchmarks._common import Row, in_fresh_process, tell
from benchmarks.convolutions import run_and_check
from benchmarks.float32 import DIGITS, WHERE, Setting, measure_one
from benchmarks.images import images, write
from benchmarks.targets import earlier
from reconstruct.bounds import Adaptive
from reconstruct.networks import Network

SEED = 0
SMALL = (32, 64, 64, 10)
LARGE = (512, 2048, 2048, 2048, 300)
RATES = (1e-1, 1e-2, 1e-3)
LONGER = 100.0
BATCH = 64
BOXES = 2**11  # of adaptive bounds, in the comparison of float32 errors
BLOCK = 4
MNIST, RESNET = "mnist_fc/mnist-net_256x4.onnx", "resnet_bn/resnet20.npz"
SPLIT, CIFAR = "relusplitter/model_0_0", "oval21/cifar_base_kw.onnx"
TLL = "tll/tllBench_n=2_N=M=16_m=1_instance_1_0.onnx"
FAMILIES = {  # of the comparison in float32
    "digits": DIGITS.name,
    "hcas": "HCAS_rect_v6_pra0_tau00_25HU_3000.nnet",
    "acasxu": "ACASXU_run2a_1_1_batch_2000.onnx",
}


@dataclass(frozen=True)
class Case:
    """One whole run: a network of FOLDER, its domain as an option or as what writes the file, and
    other options."""

    network: str
    domain: str | Callable[[Path, Network], None]
    options: tuple[str, ...] = ("--samples", "200")


def _images(place: Path, network: Network) -> None:
    write(place, network, 16, SEED)


def _digits(place: Path, network: Network) -> None:
    np.savez(place, x=images(16, (1, 28, 28), SEED).reshape(16, network.size_in))


def _near_image(place: Path, network: Network) -> None:
    image = images(1, (3, 32, 32), SEED)
    np.savez(place, lo=np.clip(image - 2 / 255, 0, 1)[0], hi=np.clip(image + 2 / 255, 0, 1)[0])


def _inputs(place: Path, network: Network) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (16, network.size_in))
    np.savez(place, x=x.astype(np.float32))


FLOAT32 = ("--samples", "200", "--dtype", "float32", "--tolerance", "1")
CASES: dict[str, Case] = {
    "mnist-net_256x4, [0, 1]^784": Case(MNIST, "0,1"),
    "mnist-net_256x4, [0, 1]^784, --dtype float32": Case(MNIST, "0,1", FLOAT32),
    "mnist-net_256x4, 16 images": Case(MNIST, _digits),
    "relusplitter model_0_0, [0, 1]^784": Case(f"{SPLIT}.onnx", "0,1"),
    "relusplitter model_0_0_split, [0, 1]^784": Case(f"{SPLIT}_split.onnx", "0,1"),
    "tllBench, [−2, 2]^2": Case(TLL, "-2,2"),
    "cifar_base_kw, ±2/255 around an image": Case(CIFAR, _near_image),
    "ResNet-20, 16 images": Case(RESNET, _images),
    "ten million weights, 16 inputs": Case("", _inputs, ("--samples", "16")),
}


def whole_run(name: str, folder: Path) -> Row:
    """`run` and `check`: time, memory, and errors in float32."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as made:
        work, network = Path(made), folder / case.network
        if not case.network:
            network = work / "target.npz"
            rc.save(target(LARGE), network, dtype=np.float32)
        domain = case.domain
        if not isinstance(domain, str):
            domain(work / "domain.npz", rc.load(network))
            domain = str(work / "domain.npz")
        words = ("--domain", domain, "--construction", "grouped", *case.options)
        row = run_and_check(name, network, work / "out", *words)
    ours, own = row["float32_max"], row["target_float32_max"]
    return {"kind": "whole run", **row, "float32_factor": ours / own if ours and own else None}


def target(sizes: tuple[int, ...]) -> Network:
    """Weights of float32, as He draws them."""
    rng = np.random.default_rng(SEED)
    weights = [rng.standard_normal((m, k)) * np.sqrt(2 / k) for k, m in pairwise(sizes)]
    weights = [w.astype(np.float32).astype(np.float64) for w in weights]
    return Network.mlp(weights, [np.full(len(w), 0.125) for w in weights])


def beside_training(name: str, folder: Path) -> Row:
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
        "case": name,
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


def _with_all(plain: Setting) -> Setting:
    """With every measure for float32 taken."""
    measures = replace(plain, balance=True, feedback=True, blocks=True)
    return replace(measures, centred=True, headroom=True)


def in_float32(family: str, folder: Path) -> Iterator[Row]:
    """Dense layers with all that is done for float32, grouped layers without and with it; each in a
    process of its own, since the peak memory of a command is no less than that of its parent."""
    path = DIGITS if family == "digits" else folder / family / FAMILIES[family]
    plain = Setting(Adaptive(boxes=BOXES))
    grouped = replace(plain, block=BLOCK)
    for chosen in (_with_all(plain), grouped, _with_all(grouped)):
        row = in_fresh_process(measure_one, path, WHERE[family], chosen)
        yield {"kind": "in float32", "case": f"{family}, {row['measures']}", **row}


def measure(folder: Path, only: list[str]) -> Iterator[Row]:
    for name in only or [*CASES, "Adam", *FAMILIES]:
        if name in FAMILIES:
            yield from in_float32(name, folder)
        else:
            run = whole_run if name in CASES else beside_training
            yield run(name, folder)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grouped", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--add", action="store_true", help="keep other rows of the file")
    names = [*CASES, "Adam", *FAMILIES]
    parser.add_argument("--only", nargs="*", choices=names, default=[], metavar="CASE")
    options = parser.parse_args(argv)
    before = earlier(options.output) if options.add else []
    tell("grouped", measure(options.folder, options.only), options.output, before, "case")


if __name__ == "__main__":
    main()
