"""Certificates to be checked: honest ones, and the same with a field changed."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from proofs_check.certificates.reading import digest
from proofs_check.certificates.report import CheckReport
from reconstruct.certificates import Certificate, certify, write_certificate
from reconstruct.formats import load, save
from reconstruct.networks import Box, Network
from tests.certificates.building import random_target, wide


def certified(
    folder: Path, target: Network, network: Network, box: Box, **options: Any
) -> Certificate:
    """Write both networks, certify what is read back, write the certificate."""
    save(target, folder / "target.npz")
    save(network, folder / "network.npz")
    pair = load(folder / "target.npz"), load(folder / "network.npz")
    certificate = certify(*pair, domain=box, **options)
    write_certificate(
        folder / "certificate.json",
        certificate,
        target=folder / "target.npz",
        candidate=folder / "network.npz",
        exact_norms=options.get("exact_norms"),
    )
    return certificate


def simple(folder: Path, **options: Any) -> Certificate:
    """A small reconstruction with its certificate: made once, then copied."""
    certificate, files = _simple(tuple(sorted(options.items())))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return certificate


@cache
def _simple(options: tuple[tuple[str, Any], ...]) -> tuple[Certificate, dict[str, bytes]]:
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (3, 5, 4, 2)), Box(-0.5, 0.5).of_size(3)
    with TemporaryDirectory() as name:
        folder = Path(name)
        certificate = certified(folder, target, wide(target, box, rng, **dict(options)), box)
        return certificate, {path.name: path.read_bytes() for path in folder.iterdir()}


def close(report: CheckReport, folder: Path, factor: float = 3.0) -> bool:
    """Whether each figure that is claimed of an evaluation in floats is confirmed, or what the
    checker has found in its place is no more than `factor` times it."""
    document, names = document_of(folder), ("float64_bound", "float32_bound")
    claimed = {name: float.fromhex(document[name]) for name in names if document[name]}
    return claimed.keys() == report.figures.keys() - {"bound"} and all(
        report.figures[name] <= factor * claim for name, claim in claimed.items()
    )


def document_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text("utf-8"))
    return found


def write(folder: Path, document: dict[str, Any], sign: bool = True) -> None:
    """The document with a fresh digest, as a forger would write it."""
    if sign:
        document = document | {"digest": digest(document)}
    (folder / "certificate.json").write_text(json.dumps(document), "utf-8")


def edit(folder: Path, *path: str | int, value: object, sign: bool = True) -> None:
    """Change one field of the certificate; a function is applied to what is there."""
    document = document_of(folder)
    holder: Any = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value(holder[path[-1]]) if callable(value) else value
    write(folder, document, sign)


def forged(
    folder: Path,
    target: Network,
    candidate: Network,
    domain: tuple[list[float], list[float]],
    bound: float,
    cuts: tuple[str, ...] = (),
    figure: float | None = None,
) -> None:
    """A document that claims `bound` outright, each segment as large as `figure` or the bound."""
    hashes = {}
    for name, network in (("target", target), ("candidate", candidate)):
        save(network, folder / f"{name}.npz", dtype=None)
        code = hashlib.sha256((folder / f"{name}.npz").read_bytes()).hexdigest()
        hashes[name] = {"file": f"{name}.npz", "sha256": code}
    size = (bound if figure is None else figure).hex()
    figures = dict.fromkeys(("residual_bound", "constant_bound", "error_in", "error_out"), size)
    segments = [
        {"target_node": name, "candidate_node": name, **figures} for name in (*cuts, "output")
    ]
    write(
        folder,
        {
            "schema": "reconstruct.certificate/2",
            "verdict": "certified",
            "rigor": "rigorous",
            "method": "layered",
            **hashes,
            "domain": {"lo": [x.hex() for x in domain[0]], "hi": [x.hex() for x in domain[1]]},
            "tolerance": (1e-6).hex(),
            "bound": bound.hex(),
            "float64_bound": None,
            "float32_bound": None,
            "alignment": [[name, name] for name in cuts],
            "tree": None,
            "scales": {},
            "segments": segments,
            "exact_identity": False,
            "exact_norms": None,
            "witness": None,
        },
    )
