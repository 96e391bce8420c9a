"""Do verifiers decide pairs of networks whose answer is known by construction?

    python -m benchmarks.equivalence [-o FILE.json] [--quick] [--marabou PYTHON]

`reconstruct pairs` makes thirty pairs, of five kinds and sizes; `verify` is not told the answers.
Marabou runs beside it where PYTHON has maraboupy, on the pairs of the two smallest sizes, for a
minute each; what it finds is replayed in exact arithmetic.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import Row, tell
from reconstruct.equivalence.export import pair_property
from reconstruct.equivalence.planted import KINDS, Planted, plant
from reconstruct.equivalence.witness import evaluate_exact
from reconstruct.formats import save
from reconstruct.formats.vnnlib import read_pair
from reconstruct.networks import Dense, Sparse, dense
from reconstruct.runs.pairs import LADDER
from reconstruct.runs.verify import verify

SECONDS = 60.0
SMALL = LADDER[:2]
CLIENT = Path(__file__).with_name("marabou_client.py")


def measure(quick: bool, marabou: str | None) -> Iterator[Row]:
    """One row for each pair: what it is, our answer and Marabou's."""
    rng = np.random.default_rng(0)
    for number in range(5 if quick else 30):
        kind = list(KINDS)[number % len(KINDS)]
        sizes = LADDER[number // len(KINDS) % len(LADDER)]
        pair = plant(kind, sizes, rng)
        row: Row = {"network": f"pair {number}", "kind": kind, "sizes": "-".join(map(str, sizes))}
        row |= {"answer": pair.answer, "seed": 0, "timeout": SECONDS}
        row["result"], row["seconds"] = ours(pair)
        if marabou is not None and sizes in SMALL:
            row |= theirs(pair, marabou)
        yield row


def ours(pair: Planted) -> tuple[str, float]:
    """What `verify --property` says of the files, and how long it takes."""
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / f"{role}.onnx" for role in ("target", "candidate")]
        for path, network in zip(files, (pair.target, pair.candidate), strict=True):
            save(network, path, dtype=np.float32)
        text = pair_property(pair.box, pair.target.size_out, pair.tolerance)
        question = Path(place) / "pair.vnnlib"
        question.write_text(text)
        read_pair(question.read_bytes())
        start = time.perf_counter()
        found = verify(*files, property=question, time_limit=SECONDS)
        return str(found.answer), time.perf_counter() - start


def theirs(pair: Planted, python: str) -> Row:
    """Marabou's result; a counterexample that is none in exact arithmetic is called wrong, and
    kept."""
    arrays: dict[str, Any] = {"lo": pair.box.lo, "hi": pair.box.hi, "tolerance": pair.tolerance}
    arrays["outputs"] = pair.target.size_out
    for role, network in (("target", pair.target), ("candidate", pair.candidate)):
        maps = network.mixing_nodes()
        arrays[f"{role}_layers"] = len(maps)
        for i, node in enumerate(maps):
            assert isinstance(node.op, Dense | Sparse)
            arrays[f"{role}_weight{i}"], arrays[f"{role}_bias{i}"] = (
                dense(node.op.weight),
                node.op.bias,
            )
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        np.savez(Path(place) / "pair.npz", **arrays)
        words = [python, "-P", str(CLIENT), str(Path(place) / "pair.npz"), str(SECONDS)]
        try:
            done = subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return {"marabou": "timeout", "marabou_seconds": SECONDS}
    seconds = time.perf_counter() - start
    if done.returncode:
        return {"marabou": "error", "marabou_seconds": seconds}
    found = json.loads(done.stdout.decode().splitlines()[-1])
    if found["result"] == "sat":
        point = np.clip(found["point"], pair.box.lo, pair.box.hi)
        both = (evaluate_exact(network, point) for network in (pair.target, pair.candidate))
        gap = max(abs(a - b) for a, b in zip(*both, strict=True))
        if gap <= Fraction(pair.tolerance):
            wrong = {"marabou_point": found["point"], "difference_there": float(gap)}
            return {"marabou": "wrong sat", "marabou_seconds": seconds, **wrong}
    return {"marabou": found["result"], "marabou_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.equivalence", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--quick", action="store_true", help="five pairs, for a first look")
    parser.add_argument("--marabou", metavar="PYTHON", help="a Python that has maraboupy")
    options = parser.parse_args()
    tell("equivalence", measure(options.quick, options.marabou), options.output)


if __name__ == "__main__":
    main()
