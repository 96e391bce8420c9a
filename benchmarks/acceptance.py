"""Is every honest certificate accepted? Random reconstructions of every shape, made and checked.

    python -m benchmarks.acceptance [FAMILY …] [-o FILE.json]

Each family draws networks, rebuilds them, certifies what was written and checks the certificate.
`bound`, `float64_bound` and `float32_bound` are the largest ratios of what the checker found to
what is claimed: of the bound at most 1, or the certificate is not accepted; `no figure` counts the
claims of an evaluation in floats of which it says nothing, and `undecided` the cases that are not
certified and not checkable, and say so. `slower` is the time of all checks over
the time of all that was checked; `longest` the largest such ratio among cases that took more than a
second to make.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

import reconstruct as rc
from benchmarks._common import Row, tell
from benchmarks.attack.rebuilds import draw_case
from proofs_check.certificates import CheckReport, CheckStatus, check
from reconstruct.errors import ReconstructError
from reconstruct.networks import Add, Affine, Dense, Network, Node, Relu, Sparse
from reconstruct.runs.run import run as whole_run

FIGURES = ("bound", "float64_bound", "float32_bound")
Generator = np.random.Generator


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.acceptance", description=__doc__)
    parser.add_argument("families", nargs="*", help=f"some of {', '.join(FAMILIES)}; all")
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    options = parser.parse_args()
    tell("acceptance", measure(options.families or list(FAMILIES)), options.output)


def measure(names: list[str]) -> Iterator[Row]:
    """One row for each family."""
    for name in names:
        make, count = FAMILIES[name]
        yield family(name, make, range(count))


def family(name: str, make: Callable[[Generator, Path], None], seeds: range) -> Row:
    """What became of the certificates of one family."""
    row: Row = {"family": name, "cases": 0, "refused": 0, "accepted": 0, "undecided": 0}
    row |= {"not accepted": [], "no figure": 0}
    largest, spent, longest = dict.fromkeys(FIGURES, 0.0), [0.0, 0.0], 0.0
    for seed in seeds:
        with tempfile.TemporaryDirectory() as place:
            start = time.perf_counter()
            try:
                with np.errstate(all="ignore"):
                    make(np.random.default_rng([seed, len(name)]), Path(place))
            except ReconstructError:  # a network that cannot be rebuilt as was drawn
                row["refused"] += 1
                continue
            made = time.perf_counter() - start
            report = check(place)
            verdict = json.loads((Path(place) / "certificate.json").read_text())["verdict"]
        row["cases"] += 1
        row["accepted"] += report.accepted
        if verdict == "undecided" and report.status is CheckStatus.NOT_CHECKABLE:
            row["undecided"] += 1
        elif not report.accepted:
            row["not accepted"].append([seed, str(report.field), report.reason])
        for figure, ratio in ratios(report).items():
            row["no figure"] += ratio == np.inf
            largest[figure] = max(largest[figure], ratio if ratio < np.inf else 0.0)
        spent = [spent[0] + made, spent[1] + report.seconds]
        longest = max(longest, report.seconds / made if made > 1 else 0.0)
    return row | largest | {"slower": spent[1] / max(spent[0], 1e-9), "longest": longest}


def ratios(report: CheckReport) -> dict[str, float]:
    """What was found over what is claimed."""
    pairs = ((name, report.figures.get(name), report.claimed.get(name)) for name in FIGURES)
    return {name: float(found / claim) for name, found, claim in pairs if found and claim}


# --- families -------------------------------------------------------------------------------------


def drawn(rng: Generator, folder: Path) -> None:
    """Plain networks, residual ones and small images; constructions, domains and bounds drawn."""
    draw_case(rng, folder)


def branches(rng: Generator, folder: Path) -> None:
    """Two branches from one value that meet in a sum, twice in a row."""
    nodes: list[Node] = []
    source, size = "input", int(rng.integers(2, 5))
    inputs = size
    for stage in range(2):
        width = int(rng.integers(2, 9))
        ends = []
        for side in "ab":
            hidden = int(rng.integers(2, 9))
            name = f"{side}{stage}"
            nodes += [
                Node(f"{name}.first", _affine(rng, hidden, size), (source,)),
                Node(f"{name}.bend", Relu(), (f"{name}.first",)),
                Node(f"{name}.second", _affine(rng, width, hidden), (f"{name}.bend",)),
            ]
            ends.append(f"{name}.second")
        nodes += [Node(f"sum{stage}", Add(), tuple(ends))]
        nodes += [Node(f"bend{stage}", Relu(), (f"sum{stage}",))]
        source, size = f"bend{stage}", width
    nodes += [Node("output", _affine(rng, int(rng.integers(1, 4)), size), (source,))]
    _run(Network(inputs, tuple(nodes), "output"), rng, folder)


def deeper(rng: Generator, folder: Path) -> None:
    """Fully connected, three to six maps, on a partition where it helps."""
    _run(_mlp(rng, int(rng.integers(3, 7))), rng, folder)


def single(rng: Generator, folder: Path) -> None:
    """Written in float32, with long sums as trees."""
    _run(_mlp(rng, int(rng.integers(2, 5))), rng, folder, dtype="float32")


def grouped(rng: Generator, folder: Path) -> None:
    """Hidden units in blocks."""
    block = int(rng.integers(2, 5))
    _run(_mlp(rng, 3), rng, folder, construction=rc.Grouped(block=block, ratio=1.5))


def rational(rng: Generator, folder: Path) -> None:
    """Solved over the rationals: an identity beside the figures."""
    _run(_mlp(rng, 2), rng, folder, solver=rc.Exact())


def _mlp(rng: Generator, maps: int) -> Network:
    sizes = rng.integers(2, 9, size=maps + 1)
    scale = float(rng.choice([0.5, 1.0, 3.0]))
    weights = [scale * rng.standard_normal((m, k)) for k, m in pairwise(sizes)]
    return Network.mlp(weights, [scale * rng.standard_normal(m) for m in sizes[1:]])


def _affine(rng: Generator, rows: int, columns: int) -> Dense | Sparse:
    return Affine(rng.standard_normal((rows, columns)), rng.standard_normal(rows))


def _run(target: Network, rng: Generator, folder: Path, **options: object) -> None:
    """A whole run, as the command line makes it, in the folder."""
    half = float(rng.choice([0.01, 0.5, 2.0]))
    centre = rng.standard_normal(target.size_in)
    domain = rc.Box(centre - half, centre + half)
    rc.save(target, folder / "given.onnx", dtype="float64")
    whole_run(
        folder / "given.onnx",
        folder,
        domain=domain,
        seed=int(rng.integers(2**31)),
        tolerance=1e-2,
        force=True,
        **options,  # type: ignore[arg-type]
    )


FAMILIES: dict[str, tuple[Callable[[Generator, Path], None], int]] = {
    "drawn": (drawn, 240),
    "branches": (branches, 12),
    "deeper": (deeper, 12),
    "float32": (single, 7),
    "grouped": (grouped, 7),
    "rational": (rational, 4),
}


if __name__ == "__main__":
    main()
