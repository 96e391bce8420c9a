"""What a report says in words that page and terminal share: domains, verdicts by arithmetic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconstruct.certificates.verdicts import Standing, standing
from reconstruct.reports.numbers import at_least, at_most, number

UNBOUNDED = re.compile(r"\bbound (inf|nan)\b")
REAL_STANDING = {
    "certified": Standing.PROVED,
    "refuted": Standing.BEYOND,
    "undecided": Standing.UNKNOWN,
}


@dataclass(frozen=True)
class ArithmeticVerdict:
    """What is known of the network evaluated in one arithmetic, and the figures behind it.

    A proof in real arithmetic says nothing of float32.
    """

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


def in_words(step: str) -> str:
    """A line about a proof; a bound that is not finite is none."""
    return UNBOUNDED.sub("no bound", step)


def domain_text(domain: Mapping[str, Any]) -> str:
    """`[lo, hi]^d` for a cube, else the hull; of data, what it is made of."""
    lo, hi = domain["lo"], domain["hi"]
    if domain.get("kind") == "points":
        return _these(domain["inputs"])
    if domain.get("kind") == "boxes":
        count, radius = domain["inputs"], f"{domain['radius']:g}"
        boxes = "the box" if count == 1 else "the boxes"
        return f"{boxes} of radius {radius} around {_these(count)}"
    if len(set(lo)) == 1 and len(set(hi)) == 1:
        return f"[{lo[0]:g}, {hi[0]:g}]^{len(lo)}"
    return f"a box in [{min(lo):g}, {max(hi):g}]^{len(lo)}"


def _these(count: int) -> str:
    return "this input" if count == 1 else f"these {count:,} inputs"


def witness_place(domain: Mapping[str, Any]) -> str:
    """Where a witness lies, for a sentence: of data it is one of them."""
    text = domain_text(domain)
    if domain.get("kind") != "points":
        return f"an input inside {text}"
    return text if domain["inputs"] == 1 else f"one of {text}"


def members(domain: Mapping[str, Any], count: int) -> str:
    """So many inputs of the domain in words."""
    inputs = "input" if count == 1 else "inputs"
    kind = f"given {inputs}" if domain.get("kind") == "points" else f"{inputs} of the domain"
    return f"{count:,} {kind}"


def unseen_error(unseen: Mapping[str, Any], which: str) -> str:
    """The largest difference at unseen inputs that the guard covers, or at the `others`."""
    covered = unseen["covered"]
    count = covered if which == "covered" else unseen["inputs"] - covered
    found = unseen[f"{which}_error"]
    return "not a number" if found is None and count else number(found)


def weight_count(part: Mapping[str, Any]) -> int:
    """The weights of a network in a report; a kernel that moves over an image counts once.

    Reports of older versions have no images in them: there it is the entries of the maps.
    """
    known = part.get("weight_count")
    return int(sum(m * k for m, k in part.get("maps") or ()) if known is None else known)
