"""The question for other verifiers: is there an input in the box where f and g differ too much?

Two forms of it. VNN-LIB 1.0 speaks of one network, so f − g is written as one ONNX file with the
property `d_j ≥ tolerance or d_j ≤ −tolerance for some j`; VNN-LIB 2.0 declares both networks with
equal inputs. Either is satisfiable exactly when there is a counterexample (in real arithmetic), so
"unsat" is the certificate. Numbers are written as exact decimals without an exponent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

from reconstruct.equivalence.branch_and_bound import difference_network
from reconstruct.errors import InputError
from reconstruct.formats import save
from reconstruct.formats.files import write_atomically
from reconstruct.networks import Box, Network
from reconstruct.networks.graph import require_same_ends


@dataclass(frozen=True)
class Exported:
    """The files of an export."""

    difference: Path
    property_1: Path
    target: Path
    candidate: Path
    property_2: Path


def export(
    target: Network,
    candidate: Network,
    *,
    domain: Box,
    tolerance: float,
    folder: str | os.PathLike[str],
) -> Exported:
    """Writes difference.onnx and difference.vnnlib (1.0), target.onnx, candidate.onnx and
    pair.vnnlib (2.0) into `folder`; refuses a question that cannot fail."""
    require_same_ends(target, candidate)
    box = domain.of_size(target.size_in)
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise InputError(f"an export needs a tolerance above 0, but got {tolerance}")
    if not not_vacuous(target, candidate, box, tolerance):
        raise InputError(
            "the exported property would be vacuous: a candidate that is off by three times the "
            "tolerance does not violate it; check the box and the tolerance"
        )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    files = Exported(*(place / name for name in FILES))
    save(difference_network(target, candidate), files.difference)
    save(target, files.target)
    save(candidate, files.candidate)
    first = difference_property(box, target.size_out, tolerance)
    second = pair_property(box, target.size_out, tolerance)
    write_atomically(files.property_1, first.encode())
    write_atomically(files.property_2, second.encode())
    return files


FILES = ("difference.onnx", "difference.vnnlib", "target.onnx", "candidate.onnx", "pair.vnnlib")


def difference_property(box: Box, outputs: int, tolerance: float) -> str:
    """VNN-LIB 1.0: some |d_j| ≥ tolerance, for inputs in the box."""
    names = [f"X_{i}" for i in range(box.size)]
    results = [f"Y_{j}" for j in range(outputs)]
    lines = ["; satisfiable exactly if the two networks differ by the tolerance or more"]
    lines += [f"(declare-const {name} Real)" for name in (*names, *results)]
    for name, lo, hi in zip(names, box.lo, box.hi, strict=True):
        lines += [f"(assert (>= {name} {decimal(lo)}))", f"(assert (<= {name} {decimal(hi)}))"]
    size = decimal(tolerance)
    wrong = [f"(and (>= {y} {size}))\n  (and (<= {y} -{size}))" for y in results]
    return "\n".join([*lines, "(assert (or", *(f"  {w}" for w in wrong), "))"]) + "\n"


def pair_property(box: Box, outputs: int, tolerance: float) -> str:
    """VNN-LIB 2.0: the same for two declared networks with equal inputs."""
    lines = ["(vnnlib-version <2.0>)"]
    for name, x, y in (("target", "X", "Y"), ("candidate", "Xc", "Yc")):
        lines += [
            f"(declare-network {name}",
            f"  (declare-input {x} Real [1,{box.size}])",
            f"  (declare-output {y} Real [1,{outputs}])",
            ")",
        ]
    for i, (lo, hi) in enumerate(zip(box.lo, box.hi, strict=True)):
        lines.append(f"(assert (== X[0,{i}] Xc[0,{i}]))")
        lines.append(f"(assert (and (>= X[0,{i}] {decimal(lo)}) (<= X[0,{i}] {decimal(hi)})))")
    size = decimal(tolerance)
    wrong = []
    for j in range(outputs):
        gap = f"(- Yc[0,{j}] Y[0,{j}])"
        wrong += [f"(>= {gap} {size})", f"(<= {gap} -{size})"]
    return "\n".join([*lines, "(assert (or", *(f"  {w}" for w in wrong), "))"]) + "\n"


def decimal(value: float) -> str:
    """The float as an exact decimal, without an exponent and with a point."""
    text = format(Decimal(float(value)), "f")
    return text if "." in text else text + ".0"


def not_vacuous(target: Network, candidate: Network, box: Box, tolerance: float) -> bool:
    """Whether a candidate that is off by 3·tolerance, one way or the other, would violate the
    property at the middle of the box: not where rounding loses as much."""
    middle = np.clip(0.5 * box.lo + 0.5 * box.hi, box.lo, box.hi)
    ours, theirs = target(middle), candidate(middle)
    gaps = [np.abs(theirs[0] + by - ours[0]) for by in (3 * tolerance, -3 * tolerance)]
    return any(gap >= tolerance for gap in gaps)
