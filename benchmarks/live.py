"""Norms by live statistics: LayerNorm targets rebuilt in live norms, and ReLU targets in them.

Trains an MLP with LayerNorm on the digits (needs torch), rebuilds it and random ones of 2 to 6
layers, rebuilds the shipped ReLU digits in live norms, and trains γ and β of one frozen network
from random where they were computed before. A folder laid out by family adds ACAS Xu 1_1 and HCAS.
In float32 both the float64 network is evaluated and the one that `run --dtype float32` writes.

    python -m benchmarks.live [FOLDER] [-o FILE.json] [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import reconstruct as rc
from benchmarks._common import Row, tell
from reconstruct.demo import digits
from reconstruct.networks import Affine, LayerNorm, Network, Node, Points, Relu, in_blocks
from reconstruct.networks.graph import fitting
from reconstruct.networks.operation import Operation

Array = NDArray[Any]
CERTIFIED = 20  # inputs of a large network whose outputs are enclosed: seconds each


def measure(folder: Path | None, quick: bool) -> Iterator[Row]:
    yield from trained(5 if quick else 60)
    for layers in (2, 3) if quick else (2, 3, 4, 5, 6):
        yield random_mlp(layers)
    shipped = digits()
    yield from approximated("digits", shipped.target, shipped.domain)
    for family, pattern in (("acasxu", "*1_1*.onnx"), ("hcas", "*.nnet")):
        for path in sorted(folder.glob(f"{family}/{pattern}"))[:1] if folder else ():
            yield from approximated(f"{family}/{path.name}", rc.load(path), rc.Box(-0.5, 0.5))


def trained(epochs: int) -> Iterator[Row]:
    """64-64-64-10 with LayerNorm: computed norms, and norms trained in the same frozen network."""
    import torch

    from reconstruct.training.data import digits as data_of
    from reconstruct.training.experiment import Experiment, run_experiment
    from reconstruct.training.freezing import Tuning
    from reconstruct.training.loop import Schedule, train

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data, schedule = data_of(), Schedule(epochs=epochs, batch=64)
    whole = Experiment("mlp", 2, 64, tune=Tuning.ALL, schedule=schedule, norm="layer")
    (run,) = run_experiment(whole, data)
    target = rc.from_torch(run.module, data.test_x[:1])
    images, labels = data.test_x.reshape(len(data.test_x), -1).astype(np.float64), data.test_y
    row, network, frozen = rebuilt("digits with LayerNorm", target, images)
    row["parameters"] = sum(parameter.numel() for parameter in run.module.parameters())
    row |= {"accuracy": share(target(images), labels)}
    row["constructed_accuracy"] = share(network(images), labels)
    yield row | {"way": "A", "same_classes": same(network(images), target(images))}
    start = time.perf_counter()
    module = rc.to_torch(frozen, np.float32)
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, (torch.nn.LayerNorm, torch.nn.BatchNorm1d)):
                layer.weight.uniform_()
                layer.bias.zero_()
    history = train(module, data, Tuning.NORMS, schedule)
    yield {
        "network": "digits with LayerNorm, norms trained from random",
        "way": "trained",
        "tuned": history.tuned,
        "accuracy": history.accuracy,
        "train_accuracy": history.train_accuracy[-1],
        "seconds": time.perf_counter() - start,
    }


def random_mlp(layers: int) -> Row:
    """LayerNorm MLPs of widths up to 64, eps as torch has it."""
    rng = np.random.default_rng(layers)
    widths = [16, *rng.integers(8, 65, size=layers - 1).tolist(), 8]
    nodes: list[Node] = []
    last = "input"
    for i, (k, m) in enumerate(pairwise(widths)):
        norm = LayerNorm(1 + rng.normal(size=m) / 5, rng.normal(size=m) / 5, 1e-5)
        first = Affine(rng.normal(size=(m, k)) / np.sqrt(k), rng.normal(size=m) / 5)
        steps: tuple[Operation, ...] = (first, norm, Relu())
        for kind, step in zip("lnr", steps, strict=True):
            nodes.append(Node(f"{kind}{i}", step, (last,)))
            last = nodes[-1].name
    target = Network(widths[0], tuple(nodes[:-1]), nodes[-2].name)
    row, *_ = rebuilt(f"{layers} layers", target, rng.normal(size=(200, 16)))
    return row | {"way": "A", "widths": "-".join(map(str, widths))}


def rebuilt(name: str, target: Network, x: Array) -> tuple[Row, Network, Network]:
    """In live norms, at inputs; the certificate is about some of them."""
    start = time.perf_counter()
    frozen = rc.draw(target, rc.Wide(1.5), seed=0)
    network = rc.reconstruct(target, frozen, domain=Points(x)).network
    solved = time.perf_counter() - start
    certificate = rc.certify(target, network, domain=Points(x[:CERTIFIED]), tolerance=1e-2)
    row = errors(name, target, network, written(target, frozen, Points(x)), x) | {
        "solve_seconds": solved,
        "verdict": certificate.verdict.value,
        "certified_inputs": CERTIFIED,
        "bound": certificate.bound,
        "seconds": time.perf_counter() - start,
    }
    return row, network, frozen.network


def written(target: Network, frozen: rc.Frozen, domain: Any) -> Network:
    """As `run --dtype float32` writes it: norms of float32 numbers, long sums in blocks."""
    return in_blocks(rc.reconstruct(target, frozen, domain=domain, dtype=np.float32).network)


def errors(name: str, target: Network, network: Network, short: Network, x: Array) -> Row:
    """Relative to the largest output, and in float32 beside the target's own."""
    wanted = target(x)
    size = float(np.abs(wanted).max())
    plain, best, own = (
        float(np.abs(f(x, dtype=np.float32) - wanted).max()) for f in (network, short, target)
    )
    return {
        "network": name,
        "width": max(network.sizes.values()),
        "scale": size,
        "relative_error": float(np.abs(network(x) - wanted).max()) / size,
        "float32_error": plain / size,
        "float32_factor": plain / own,
        "float32_written": best / own,
    }


def approximated(name: str, target: Network, box: rc.Box) -> Iterator[Row]:
    """A ReLU target in live norms, over a box and at inputs, beside constant statistics."""
    x = fitting(box, target).sample(200, np.random.default_rng(0))
    for norm in ("layer", "rms", "batch"):
        for domain in (box, Points(x)):
            start = time.perf_counter()
            frozen = rc.draw(target, rc.Wide(1.5, norm), seed=0)
            network = rc.reconstruct(target, frozen, domain=domain).network
            row = errors(name, target, network, written(target, frozen, domain), x)
            at = domain if domain is box else Points(x[:CERTIFIED])
            found = rc.certify(target, network, domain=at)
            yield row | {
                "way": "B",
                "norm": norm,
                "domain": "box" if domain is box else "inputs",
                "verdict": found.verdict.value,
                "bound": found.bound,
                "seconds": time.perf_counter() - start,
            }


def share(logits: Array, labels: Array) -> float:
    return float(np.mean(logits.argmax(axis=1) == labels))


def same(found: Array, wanted: Array) -> bool:
    return bool((found.argmax(axis=1) == wanted.argmax(axis=1)).all())


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    options = parser.parse_args(argv)
    tell("live", measure(options.folder, options.quick), options.output)


if __name__ == "__main__":
    main()
