"""certificate.json: what a certificate says, in numbers that lose nothing.

The format is specified in docs/certificate-format.md. Floats and rationals p/q are written in
hexadecimal, so that what is checked is what was proved.
Networks are named by file and by the sha256 of the bytes that were read, external data included;
no path of the machine is told, only how to get there from the certificate. `digest` covers the
whole document: a change that touches no proof is noticed too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from reconstruct.certificates.arithmetic import RationalNorm
from reconstruct.certificates.verdicts import Certificate, Segment
from reconstruct.equivalence.witness import Witness
from reconstruct.errors import InputError
from reconstruct.formats import Origin, load
from reconstruct.formats.files import write_atomically
from reconstruct.networks import Domain, Network

SCHEMA = "reconstruct.certificate/2"

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Source:
    """A network as it was read, and where its file lies; without a place, beside the certificate.

    The network's metadata pin the bytes that were read: not what lies there by now.
    """

    network: Network
    path: PathLike | None = None

    def part(self, home: Path) -> dict[str, Any]:
        """Name, hashes and, from the folder `home`, the relative path of the file."""
        origin = Origin.of(self.network)
        if origin is None:
            raise InputError(
                "a certificate names networks by the bytes of their files, but this one was not "
                "read from a file; save it and load it first"
            )
        part, path = origin.document(), self.path_from(home)
        return part if path is None else {**part, "path": path}

    def path_from(self, home: Path) -> str | None:
        """How to get to the file from the folder `home`; None for one that lies there."""
        origin = Origin.of(self.network)
        if self.path is None or origin is None:
            return None
        folder = Path(self.path).resolve().parent
        if folder == home.resolve():
            return None
        return (Path(os.path.relpath(folder, home.resolve())) / origin.file).as_posix()


def write_certificate(
    path: PathLike,
    certificate: Certificate,
    *,
    target: Source | PathLike,
    candidate: Source | PathLike,
    exact_norms: Mapping[str, RationalNorm] | None = None,
    nnet_header: bool = False,
    home: PathLike | None = None,
) -> None:
    """Writes the certificate of `candidate` against `target` to `path`, whole or not at all.

    A path in place of a `Source` is read now (with the header of a .nnet target if
    `nnet_header`). `home` is the folder where the certificate will lie in the end.
    """
    place = Path(path).parent if home is None else Path(home)
    first = target if isinstance(target, Source) else _read(target, nnet_header)
    second = candidate if isinstance(candidate, Source) else _read(candidate, False)
    document = build_document(
        certificate,
        target=first.part(place),
        candidate=second.part(place),
        exact_norms=exact_norms,
    )
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    write_atomically(Path(path), (text + "\n").encode())


def _read(path: PathLike, nnet_header: bool) -> Source:
    return Source(load(path, nnet_header=nnet_header), path)


def build_document(
    certificate: Certificate,
    *,
    target: Mapping[str, Any],
    candidate: Mapping[str, Any],
    exact_norms: Mapping[str, RationalNorm] | None = None,
) -> dict[str, Any]:
    """The document of a certificate, its digest included."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "verdict": certificate.verdict.value,
        "rigor": certificate.rigor.value,
        "method": certificate.method,
        "target": dict(target),
        "candidate": dict(candidate),
        "domain": domain_part(certificate.domain),
        "tolerance": _hex(certificate.tolerance),
        "output_scale": _hex(certificate.output_scale),
        "bound": _hex(certificate.bound),
        "float64_bound": _hex(certificate.float64_bound),
        "float32_bound": _hex(certificate.float32_bound),
        "alignment": [list(pair) for pair in certificate.alignment],
        "tree": None if certificate.tree is None else certificate.tree.hex(),
        "pairs": [[*pair[:4], _hex(pair[4])] for pair in certificate.pairs],
        "scales": {name: list(row) for name, row in certificate.scales.items()},
        "segments": [_segment(segment) for segment in certificate.segments],
        "exact_identity": certificate.exact_identity,
        "exact_norms": _norms(exact_norms) if certificate.exact_identity else None,
        "witness": None if certificate.witness is None else _witness(certificate.witness),
        "tried": list(certificate.tried),
        "seconds": _hex(certificate.seconds),
    }
    return {**document, "digest": digest_of(document)}


def domain_part(domain: Domain) -> dict[str, Any]:
    """The ends of the box, or of every box that the domain is made of."""
    if domain.kind == "box":
        ends = {"lo": domain.lo, "hi": domain.hi}
        return {side: [x.hex() for x in end.tolist()] for side, end in ends.items()}
    lows, highs = domain.boxes
    return {
        "kind": domain.kind,
        "lo": [[x.hex() for x in row] for row in lows.tolist()],
        "hi": [[x.hex() for x in row] for row in highs.tolist()],
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "target_node": segment.target_node,
        "candidate_node": segment.candidate_node,
        "maps": list(segment.maps),
        "rows": segment.rows,
        "columns": segment.columns,
        "residual_bound": _hex(segment.residual_bound),
        "constant_bound": _hex(segment.constant_bound),
        "error_in": _hex(segment.error_in),
        "error_out": _hex(segment.error_out),
        "inner": list(segment.inner),
        "margin": _hex(segment.margin),
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "point": [float(x).hex() for x in witness.point],
        "target": [[_rational(lo), _rational(hi)] for lo, hi in witness.target],
        "candidate": [[_rational(lo), _rational(hi)] for lo, hi in witness.candidate],
        "difference": _rational(witness.difference),
        "strictly_inside": witness.strictly_inside,
    }


def _norms(norms: Mapping[str, RationalNorm] | None) -> dict[str, Any] | None:
    if norms is None:
        return None
    return {
        name: {"gamma": _rationals(norm.gamma), "beta": _rationals(norm.beta)}
        for name, norm in norms.items()
    }


def _rationals(values: tuple[Fraction, ...]) -> list[str]:
    return [_rational(value) for value in values]


def _rational(value: Fraction) -> str:
    """p/q in hexadecimal: Python limits decimal text to 4,300 digits."""
    return f"{value.numerator:#x}/{value.denominator:#x}"


def _hex(value: float | None) -> str | None:
    return None if value is None else float(value).hex()


def digest_of(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
