"""Is anything slower than before? The same commands on two checkouts of this project.

`python -m benchmarks.before_after BEFORE [-o FILE] [--repeats N]`, where BEFORE is a folder with
another checkout. Both run the same list of commands in turn, with one thread, and what is compared
is processor time, the best of some: it depends little on what else the machine does. Commands that
have a budget of time (adaptive bounds) are left out, for they take what they are given.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks._common import Row, tell

ROOT = Path(__file__).resolve().parents[1]
RUN = ["run", "target.npz", "-o", "out", "--force", "--domain=-1,1", "--bounds", "crown", "--quiet"]
CASES = {
    "demo": ["demo", "-o", "demo-out", "--force"],
    "inspect": ["inspect", "target.npz"],
    "run, wide": RUN,
    "run, wide, square": [*RUN, "--ratio", "1", "--solver", "direct"],
    "run, factored": [*RUN, "--construction", "factored"],
    "run, deep": [*RUN, "--construction", "deep", "--ratio", "2"],
    "run, interval": [*RUN, "--bounds", "interval"],
    "run, exact": ["run", "small.npz", *RUN[2:], "--solver", "exact", "--ratio", "1"],
    "verify": ["verify", "target.npz", "same.npz", "--domain=-1,1"],
    "check": ["check", "demo-out"],
}
SIZES = {"target.npz": (12, 24, 24, 8), "same.npz": (12, 24, 24, 8), "small.npz": (3, 4, 2)}


def write_targets(folder: Path) -> None:
    """The networks that the commands speak of, random and always the same."""
    for name, sizes in SIZES.items():
        rng = np.random.default_rng(0)
        layers = pairwise(sizes)
        arrays = {f"W{i}": rng.normal(size=(m, k)) for i, (k, m) in enumerate(layers, start=1)}
        np.savez(folder / name, **arrays)  # type: ignore[arg-type]


def seconds(tree: Path, folder: Path, words: list[str]) -> tuple[float, int]:
    """Processor time of one command of a checkout, and its exit code."""
    around = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
    around |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    before = _used()
    done = subprocess.run(
        [sys.executable, "-m", "reconstruct", *words],
        cwd=folder,
        env=around,
        capture_output=True,
        check=False,
    )
    return _used() - before, done.returncode


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(before: Path, repeats: int) -> Iterator[Row]:
    """One row per command: both times, their ratio, and whether both end alike."""
    with tempfile.TemporaryDirectory() as name:
        folders = {tree: Path(name) / str(i) for i, tree in enumerate((before, ROOT))}
        for folder in folders.values():
            folder.mkdir()
            write_targets(folder)
        for case, words in CASES.items():
            found = {tree: [seconds(tree, folders[tree], words)] for tree in folders}
            for _ in range(repeats - 1):
                for tree, folder in folders.items():
                    found[tree].append(seconds(tree, folder, words))
            old, new = (min(time for time, _ in found[tree]) for tree in folders)
            codes = [found[tree][0][1] for tree in folders]
            yield {
                "case": case,
                "before_seconds": old,
                "after_seconds": new,
                "ratio": new / old,
                "exit_codes": codes,
            }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("before", type=Path, help="a folder with another checkout")
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each command (3)")
    options = parser.parse_args(argv)
    tell("before_after", measure(options.before.resolve(), options.repeats), options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
