"""How much narrower do searched slopes make ranges, where there are too many inputs to cut a box?

Of each activation the mean width of random functionals, distributed as the rows of a drawn layer:
by CROWN, by CROWN with searched slopes as a part of that (`of_crown`; 1 is no gain), and as samples
reach it; and the same of the values that the activation takes. On the whole domain of a network,
and on a box of radius 0.05 around a point inside. Nothing is solved.

    python -m benchmarks.slopes FOLDER [-o FILE.json] [--only safenlp digits mnist_fc]

FOLDER holds networks by family, as `benchmarks.targets` takes them; `digits` is the shipped one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks._common import Row, tell
from benchmarks.float32 import DIGITS, WHERE
from benchmarks.targets import networks
from reconstruct.bounds import Adaptive, Crown, Reach, reach
from reconstruct.formats import load, load_domain
from reconstruct.networks import Box, Network
from reconstruct.numbers.arrays import Array

FAMILIES = ("digits", "safenlp", "mnist_fc")
ROWS = 256
POINTS = 4000
RADIUS = 0.05


def measure(folder: Path, only: list[str]) -> Iterator[Row]:
    """Rows for each network, box and activation."""
    for family in only:
        found = [DIGITS] if family == "digits" else [p for _, p in networks(folder, [family])]
        for path in found:
            network = load(path)
            domain = load_domain(WHERE[family], network.size_in)
            assert isinstance(domain, Box)
            for name, box in (("domain", domain), (f"radius {RADIUS}", _around(domain))):
                for row in widths(network, box):
                    yield {"family": family, "network": path.name, "box": name, **row}


def widths(network: Network, box: Box) -> Iterator[Row]:
    """One row for each activation."""
    plain = reach(network, box, Crown())
    start = time.process_time()
    found = reach(network, box, Adaptive(boxes=1))
    seconds = time.process_time() - start
    rng = np.random.default_rng(0)
    points = box.sample(POINTS, rng)
    ends = rng.random(points.shape) < rng.random((POINTS, 1))
    points = np.where(ends, np.where(rng.random(points.shape) < 0.5, box.lo, box.hi), points)
    values = network.values(points)
    for node in network.activation_nodes():
        rows = rng.standard_normal((ROWS, network.sizes[node.name]))
        before, after = (_width(known.functionals(node.name, rows)) for known in (plain, found))
        yield {
            "activation": node.name.split("/")[-2] if "/" in node.name else node.name,
            "crown": before,
            "of_crown": after / before,
            "sampled": float(np.ptp(values[node.name] @ rows.T, axis=0).mean()),
            "taken_of_crown": _taken(found, node.inputs[0]) / _taken(plain, node.inputs[0]),
            "seconds": seconds,
        }


def _around(domain: Box) -> Box:
    """A box around a point inside of the domain."""
    point = domain.sample(1, np.random.default_rng(3))[0]
    return Box(np.maximum(point - RADIUS, domain.lo), np.minimum(point + RADIUS, domain.hi))


def _width(ends: tuple[Array, Array]) -> float:
    return float((ends[1] - ends[0]).mean())


def _taken(known: Reach, name: str) -> float:
    lo, hi = known.whole.values[name]
    return _width((lo[0], hi[0]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slopes", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    options = parser.parse_args(argv)
    tell("slopes", measure(options.folder, options.only), options.output, [])


if __name__ == "__main__":
    main()
