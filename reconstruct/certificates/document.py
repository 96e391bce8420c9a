"""certificate.json: what a certificate says, in numbers that lose nothing.

Floats and rationals p/q are written in hexadecimal, so that what is checked is what was proved.
Networks are named by file and sha256. `digest` covers the whole document: a change that touches no
proof is noticed too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from reconstruct.certificates.identity import RationalNorm
from reconstruct.certificates.verdicts import Certificate, Segment
from reconstruct.formats.files import sha256_file, write_atomically
from reconstruct.refutation.witness import Witness

SCHEMA = "reconstruct.certificate/1"

PathLike = str | os.PathLike[str]


def write_certificate(
    path: PathLike,
    certificate: Certificate,
    *,
    target: PathLike,
    candidate: PathLike,
    exact_norms: Mapping[str, RationalNorm] | None = None,
    nnet_header: bool = False,
) -> None:
    """Writes the certificate of `candidate` against `target` to `path`, whole or not at all."""
    document = build_document(
        certificate,
        target=_file_part(Path(target), Path(path), nnet_header),
        candidate=_file_part(Path(candidate), Path(path), False),
        exact_norms=exact_norms,
    )
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    write_atomically(Path(path), (text + "\n").encode())


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
        "domain": {
            "lo": [float(x).hex() for x in certificate.domain.lo],
            "hi": [float(x).hex() for x in certificate.domain.hi],
        },
        "tolerance": _hex(certificate.tolerance),
        "output_scale": _hex(certificate.output_scale),
        "bound": _hex(certificate.bound),
        "float64_bound": _hex(certificate.float64_bound),
        "float32_bound": _hex(certificate.float32_bound),
        "alignment": [list(pair) for pair in certificate.alignment],
        "lines": dict(certificate.lines),
        "grid": None if certificate.grid is None else list(certificate.grid),
        "segments": [_segment(segment) for segment in certificate.segments],
        "exact_identity": certificate.exact_identity,
        "exact_norms": _norms(exact_norms) if certificate.exact_identity else None,
        "witness": None if certificate.witness is None else _witness(certificate.witness),
        "tried": list(certificate.tried),
        "seconds": _hex(certificate.seconds),
    }
    return {**document, "digest": _digest(document)}


def _file_part(file: Path, certificate: Path, nnet_header: bool) -> dict[str, Any]:
    """Name and hash; the path too unless the file lies beside the certificate."""
    part: dict[str, Any] = {"file": file.name, "sha256": sha256_file(file)}
    if file.resolve().parent != certificate.resolve().parent:
        part["path"] = str(file.resolve())
    if nnet_header:
        part["nnet_header"] = True
    return part


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


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
