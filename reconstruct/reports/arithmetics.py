"""One verdict for each arithmetic: a proof in real arithmetic says nothing of float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconstruct.certificates.verdicts import Standing, standing
from reconstruct.reports.numbers import at_least, at_most, number

REAL_STANDING = {
    "certified": Standing.PROVED,
    "refuted": Standing.BEYOND,
    "undecided": Standing.UNKNOWN,
}


@dataclass(frozen=True)
class ArithmeticVerdict:
    """What is known of the network evaluated in one arithmetic, and the figures behind it."""

    name: str
    standing: Standing
    detail: str


def arithmetics(report: Mapping[str, Any]) -> tuple[ArithmeticVerdict, ...]:
    """Real arithmetic, float64 and float32, in this order."""
    return _real(report), _floating(report, "float64"), _floating(report, "float32")


def asked(report: Mapping[str, Any]) -> ArithmeticVerdict:
    """The one that the run was for: float32 with `--dtype float32`, else real arithmetic."""
    dtype = (report.get("options") or {}).get("dtype")
    return _floating(report, "float32") if dtype == "float32" else _real(report)


def _real(report: Mapping[str, Any]) -> ArithmeticVerdict:
    bound, witness = report["error"]["certified_bound"], report["certificate"]["witness"]
    if report["verdict"] == "refuted" and witness:
        detail = f"{at_least(witness['difference'])} or more at the witness"
    else:
        detail = "no bound" if bound is None else f"at most {at_most(bound)}"
    return ArithmeticVerdict("real arithmetic", REAL_STANDING[report["verdict"]], detail)


def _floating(report: Mapping[str, Any], name: str) -> ArithmeticVerdict:
    bound, seen = report["error"][f"{name}_bound"], report["error"][f"{name}_max"]
    word = standing(bound, seen, report["certificate"]["tolerance"])
    proved = "no bound" if bound is None else f"at most {at_most(bound)}"
    return ArithmeticVerdict(name, word, f"{proved}, {number(seen)} found")
