"""Certificates of random reconstructions: honest ones are accepted, forged ones only if true."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.attack import forger
from benchmarks.attack.pairs import largest
from benchmarks.attack.rebuilds import FILES, Case, draw_case
from benchmarks.attack.registry import Outcome, attack
from proofs_check.certificates import CheckStatus, check
from reconstruct.errors import ReconstructError
from reconstruct.networks import Box

FORGERIES = 12  # changed documents tried on one honest certificate


@attack("honest")
def honest(rng: np.random.Generator) -> Outcome:
    """One reconstruction: its bound holds exactly, and the checker accepts what was proved."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = _drawn(rng, folder)
        if isinstance(case, Outcome):
            return case
        files = {file: (folder / file).read_bytes() for file in FILES}
        report = check(folder)
    if report.status is CheckStatus.REJECTED:
        return Outcome("honest, but rejected", f"{case.words}: {report}", files)
    bound = case.certificate.bound
    worst = largest(case.target, case.network, _points(case, rng))
    if bound is not None and worst > Fraction(bound):
        return Outcome("exceeded", f"{case.words}: {bound!r}, but {float(worst)!r}", files)
    return Outcome(case.words if report.accepted else f"{case.words}, not checkable")


@attack("forged")
def forged(rng: np.random.Generator) -> Outcome:
    """One certificate, some of its fields changed in turn or together: nothing false passes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = _drawn(rng, folder)
        if isinstance(case, Outcome):
            return case
        document = forger.read(folder)
        for _ in range(FORGERIES):
            changed, told = document, []
            for _ in range(int(rng.integers(1, 4))):
                routes = [route for route in forger.fields(changed) if route != ("method",)]
                route = routes[int(rng.integers(len(routes)))]
                values = forger.changes(forger.at(changed, route))
                changed = forger.forge(changed, route, values[int(rng.integers(len(values)))])
                told.append(route)
            forger.sign(folder, changed)
            report = check(folder)
            if report.accepted and not forger.is_true(folder, changed, report):
                files = {file: (folder / file).read_bytes() for file in FILES}
                return Outcome("forged, but accepted", f"{case.words}: {told}, {report}", files)
    return Outcome(case.words)


def _drawn(rng: np.random.Generator, folder: Path) -> Case | Outcome:
    """A case, or that it was refused."""
    try:
        with np.errstate(all="ignore"):
            return draw_case(rng, folder)
    except ReconstructError as error:
        return Outcome(f"refused: {type(error).__name__}")


def _points(
    case: Case, rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Samples and corners of every box of the domain."""
    lows, highs = case.certificate.domain.boxes
    parts = [Box(lo, hi) for lo, hi in zip(lows, highs, strict=True)]
    return np.concatenate([p for box in parts for p in (box.sample(6, rng), box.corners(4, rng))])
