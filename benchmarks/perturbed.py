"""Are copies of a network, perturbed or pruned, decided as the competition asks it?

    python -m benchmarks.perturbed PROPERTY.vnnlib NETWORK.onnx[,COPY.onnx] … [-o FILE.json]

A network with a copy is one pair; of one without, copies are made. The published copies of ACAS Xu
add normal noise of 1e-3 to all weights and biases: so do ours, or the smallest weights are set to
0. `verify --property` has `--timeout` seconds for each pair, and what it certifies or refutes is
checked. `processor` counts the seconds of all threads and processes: on a machine that others use
as well, `seconds` says little, and the timeout has to be longer than the competition's 100.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks._common import Row, tell
from proofs_check.certificates import check
from reconstruct.formats import load, save
from reconstruct.networks import Dense, Network
from reconstruct.runs.verify import verify

SECONDS = 100.0  # of the competition
NOISE = 1e-3  # of weights and biases, as in the published copies
PRUNED = (0.05, 0.2)  # parts of the weights of each map, the smallest ones
KINDS = ("perturbed", *(f"pruned {part:.0%}" for part in PRUNED))


def copied(network: Network, kind: str, seed: int) -> Network:
    """The network with noise on all numbers, or with the smallest weights of each map gone."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for node in network.mixing_nodes():
        assert isinstance(node.op, Dense)
        weight, bias = (np.asarray(v, dtype=np.float64) for v in (node.op.weight, node.op.bias))
        if kind == "perturbed":
            weight = weight + NOISE * rng.standard_normal(weight.shape)
            bias = bias + NOISE * rng.standard_normal(bias.shape)
        else:
            part = PRUNED[KINDS.index(kind) - 1]
            weight = np.where(np.abs(weight) < np.quantile(np.abs(weight), part), 0.0, weight)
        weights.append(weight.astype(np.float32).astype(np.float64))
        biases.append(bias.astype(np.float32).astype(np.float64))
    return Network.mlp(weights, biases)


def measure(question: Path, words: list[str], kinds: list[str], seconds: float) -> Iterator[Row]:
    """One row for each pair."""
    for seed, word in enumerate(words):
        path, *given = map(Path, word.split(","))
        for kind in ["given"] if given else kinds:
            with tempfile.TemporaryDirectory() as place:
                copy = given[0] if given else Path(place) / "copy.onnx"
                if not given:
                    save(copied(load(path), kind, seed), copy, dtype=np.float32)
                row: Row = {"network": f"{path.stem}, {kind}", "kind": kind, "seed": seed}
                yield row | one(question, path, copy, Path(place) / "out", seconds)


def one(question: Path, path: Path, copy: Path, home: Path, seconds: float) -> Row:
    """What `verify --property` says of a pair, and the checker of that."""
    wall, busy = time.perf_counter(), _busy()
    outcome = verify(path, copy, property=question, time_limit=seconds, output=home)
    certificate, result = outcome.certificate, outcome.answer
    row: Row = {"timeout": seconds, "result": result, "bound": certificate.bound}
    row |= {"seconds": time.perf_counter() - wall, "processor": _busy() - busy}
    if certificate.witness is not None:
        row["witness_difference"] = float(certificate.witness.difference)
    report = check(home)
    row |= {"check": report.status.value, "check_seconds": report.seconds}
    return row | {"tried": certificate.tried[-1]}


def _busy() -> float:
    """Seconds of processor time, those of processes that helped and have ended among them."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perturbed", description=__doc__)
    parser.add_argument("property", type=Path, help="a VNN-LIB 2.0 property of two networks")
    parser.add_argument("networks", nargs="+", help="fully connected ReLU networks")
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=KINDS, help="kinds")
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--timeout", type=float, default=SECONDS, help="seconds for each pair")
    parser.add_argument("--add", action="store_true", help="keep rows that are not measured anew")
    options = parser.parse_args()
    earlier = json.loads(options.output.read_text()) if options.add else []
    rows = measure(options.property, options.networks, options.only, options.timeout)
    tell("perturbed", rows, options.output, earlier)


if __name__ == "__main__":
    main()
