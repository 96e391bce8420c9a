"""Random pairs: no difference that exact arithmetic shows exceeds a bound that was stated.

Points are corners, samples, the witness, and inputs beside the kinks of hidden units, where a
bound that is too small by a corner of a piece would show.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.attack.pair_networks import draw_pair
from benchmarks.attack.registry import Outcome, attack
from proofs_check.certificates import CheckStatus, check
from reconstruct.bounds import Adaptive, Crown, Interval, Method
from reconstruct.certificates import Certificate, certify
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.equivalence.witness import Evaluator
from reconstruct.formats import load, save
from reconstruct.networks import Activation, Box, Network

Array = NDArray[Any]
METHODS: tuple[Method, ...] = (Crown(), Crown(), Interval(), Adaptive(boxes=16))
SECONDS = 2.0  # of a case's proofs


@attack("pairs")
def pairs(rng: np.random.Generator) -> Outcome:
    """One pair: certified, checked, and compared with exact arithmetic."""
    target, candidate, box, kind = draw_pair(rng)
    tolerance = float(rng.choice([0.0, 1e-12, 1e-6, 1e-2, 1e6]))
    method = METHODS[int(rng.integers(len(METHODS)))]
    with np.errstate(all="ignore"):
        found = certify(
            target,
            candidate,
            domain=box,
            bounds=method,
            tolerance=tolerance,
            bound_anyway=bool(rng.integers(2)),
            time_limit=SECONDS,
        )
        points = points_of(target, candidate, box, rng)
    files = _files(target, candidate)
    worst = largest(target, candidate, points)
    stated = [("bound", found.bound)]
    if found.verdict == "certified":
        stated.append(("tolerance", tolerance))
    for name, figure in stated:
        if figure is not None and worst > Fraction(figure):
            return Outcome("exceeded", f"{kind}: {name} {figure!r}, but {worst}", files)
    rejected = _rejected(found, files)
    if rejected is not None:
        return Outcome("honest, but rejected", f"{kind}: {rejected}", files)
    return Outcome(f"{kind}: {found.verdict}")


def points_of(target: Network, candidate: Network, box: Box, rng: np.random.Generator) -> Array:
    """Corners, samples, and where hidden units change their piece."""
    start = np.concatenate([box.corners(8, rng), box.sample(12, rng)])
    return np.concatenate([start, *(kinks(n, start, box) for n in (target, candidate))])


def kinks(network: Network, points: Array, box: Box) -> Array:
    """Inputs beside breakpoints, by bisection between neighbouring points."""
    found = [np.empty((0, box.size))]
    left, right = points[:-1], points[1:]
    for node in network.activation_nodes()[:3]:
        assert isinstance(node.op, Activation)
        for edge in getattr(node.op, "breakpoints", ())[:1]:
            if np.isfinite(edge):
                found.append(_bisected(network, node.inputs[0], float(edge), left, right))
    return np.clip(np.concatenate(found)[:24], box.lo, box.hi)


def _bisected(network: Network, name: str, edge: float, left: Array, right: Array) -> Array:
    """Points on the lines where the first unit of a value passes an edge, from both sides."""
    low, high = left.copy(), right.copy()
    first = network.values(low)[name][:, 0] < edge
    crossing = first != (network.values(high)[name][:, 0] < edge)
    low, high, first = low[crossing], high[crossing], first[crossing]
    for _ in range(60):
        middle = 0.5 * low + 0.5 * high
        if not len(middle):
            break
        same = ((network.values(middle)[name][:, 0] < edge) == first)[:, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.concatenate([low, high])


def largest(target: Network, candidate: Network, points: Array) -> Fraction:
    """The largest difference that is certain at the points."""
    ours, theirs = Evaluator(target), Evaluator(candidate)
    worst = Fraction(0)
    for x in points:
        for (a, b), (c, d) in zip(ours(x), theirs(x), strict=True):
            worst = max(worst, a - d, c - b)
    return worst


def _files(target: Network, candidate: Network) -> dict[str, bytes]:
    """Both networks as files that lose nothing."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, network in (("target.npz", target), ("candidate.npz", candidate)):
            save(network, Path(folder) / name, dtype=None)
            found[name] = (Path(folder) / name).read_bytes()
    return found


def _rejected(found: Certificate, files: dict[str, bytes]) -> str | None:
    """Why the checker rejects a certificate that we hold for true; None if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, content in files.items():
            (place / name).write_bytes(content)
        sources = [Source(load(place / name), place / name) for name in files]
        write_certificate(
            place / "certificate.json", found, target=sources[0], candidate=sources[1]
        )
        report = check(place)
    return str(report) if report.status is CheckStatus.REJECTED else None
