"""A forger at work: any field of a certificate changed, and the document signed anew.

The digest is no signature, so a forged document is as well-formed as an honest one. Whatever is
still accepted has to be true: `is_true` holds it against exact differences at points of the domain
that the document names, and figures of floats against evaluations in that format there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from proofs_check.certificates.reading import digest
from proofs_check.certificates.report import CheckReport
from reconstruct.equivalence.witness import Evaluator
from reconstruct.formats import load
from reconstruct.networks import Box

Route = tuple[Any, ...]  # keys and indices from the document's top to a value
Ends = tuple[str, ...]


def read(folder: Path) -> dict[str, Any]:
    """The certificate that lies in a folder."""
    found: dict[str, Any] = json.loads((folder / "certificate.json").read_text("utf-8"))
    return found


def sign(folder: Path, document: dict[str, Any]) -> None:
    """Writes the document with a fresh digest."""
    signed = document | {"digest": digest(document)}
    (folder / "certificate.json").write_text(json.dumps(signed), "utf-8")


def fields(node: Any, path: Route = ()) -> Iterator[Route]:
    """The paths to every value, list and object; of a list the first and the last entry."""
    if path:
        yield path
    entries = list(node.items() if isinstance(node, dict) else enumerate(node))
    inner = entries if isinstance(node, dict) else [*entries[:1], *entries[1:][-1:]]
    for key, value in inner:
        if isinstance(value, dict | list):
            yield from fields(value, (*path, key))
        elif (*path, key) != ("digest",):
            yield (*path, key)


def changes(value: Any) -> list[Any]:
    """What a forger might write in place of a value."""
    if isinstance(value, dict):
        return [{}, [], {**value, "more": 1}]
    if isinstance(value, list):
        turned = [*value[1:], *value[:1]]
        return [
            [],
            value[:-1],
            value[1:],
            value[::-1],
            turned,
            [*value, *value[-1:]],
            value * 2,
            {},
        ]
    if isinstance(value, bool):
        return [not value, None, 1]
    if isinstance(value, str):
        return [*numbers(value), *partitions(value), "", value + "x", "certified", "output", None]
    if value is None:
        return ["00", "0100", "010000", {}, [], 0, "0x1.0000000000000p-30", True]
    others = (value and -value, value + 1, value - 1, 0.5, 10**30, [value], "0x0.0p+0", "0x0/0x1")
    return [0, None, *others]


def partitions(text: str) -> list[str]:
    """Other trees: a box less, a box more, boxes that are not divided, or along other inputs."""
    try:
        code = bytes.fromhex(text)
    except ValueError:
        return []
    fewer, other = code[:-1], bytes(byte and byte % 2 + 1 for byte in code)
    trees = (b"\0", fewer, code[1:], code + b"\0", b"\1" + code, b"\1" + code + b"\0", other)
    return [tree.hex() for tree in trees]


def numbers(text: str) -> list[str]:
    """Other numbers: smaller, larger, of the other sign, and such as no number is."""
    try:
        if text.count("/") == 1 and "0x" in text:
            n, d = (int(part, 16) for part in text.split("/"))
            return [f"{n:#x}/{2 * d:#x}", f"{-n:#x}/{d:#x}", "0x0/0x1", "0x1/0x0"]
        number = float.fromhex(text)
    except (ValueError, OverflowError):
        return []
    others = (number * 0.9, number * 1.5, -number, 0.0, 2.0**-1074, 1e300, number + 1e-9)
    return [*(x.hex() for x in others), "nan", "inf", text + "0" * 30]


def at(document: Any, path: Route) -> Any:
    """The value at the end of a path."""
    for key in path:
        document = document[key]
    return document


def forge(document: dict[str, Any], path: Route, value: Any) -> dict[str, Any]:
    """A copy of the document with another value at the end of a path."""
    forged = copy.deepcopy(document)
    at(forged, path[:-1])[path[-1]] = value
    return forged


def forgeries(document: dict[str, Any]) -> Iterator[tuple[Route, dict[str, Any]]]:
    """Every change of every field, one at a time."""
    for path in fields(document):
        for value in changes(at(document, path)):
            yield path, forge(document, path, value)


# --- what is true ---------------------------------------------------------------------------------


def is_true(folder: Path, document: dict[str, Any], report: CheckReport) -> bool:
    """Whether what was accepted holds, by exact values at points of the document's domain."""
    bound, tolerance = report.bound, document["tolerance"]
    boxes = _boxes(document["domain"])
    if bound is not None and worst(folder, boxes) > Fraction(bound):
        return False
    for name, kind in (("float64_bound", np.float64), ("float32_bound", np.float32)):
        proved = min(report.figures.get(name, np.inf), *_confirmed(report, name))
        if proved < np.inf and rounded(folder, boxes, kind) > Fraction(proved):
            return False
    if document["verdict"] == "certified":
        return bound is not None and bound <= float.fromhex(tolerance)
    if document["verdict"] == "refuted":
        point = tuple(document["witness"]["point"])
        return worst(folder, ((point, point),)) > Fraction(float.fromhex(tolerance))
    return True


def _confirmed(report: CheckReport, name: str) -> tuple[float, ...]:
    return (report.claimed[name], np.inf) if name in report.verified else (np.inf,)


def _boxes(domain: dict[str, Any]) -> tuple[tuple[Ends, Ends], ...]:
    """The boxes that a document's domain is made of, as text."""
    if "kind" not in domain:
        return ((tuple(domain["lo"]), tuple(domain["hi"])),)
    pairs = zip(domain["lo"], domain["hi"], strict=True)
    return tuple((tuple(low), tuple(high)) for low, high in pairs)


@lru_cache(maxsize=256)
def worst(folder: Path, boxes: tuple[tuple[Ends, Ends], ...]) -> Fraction:
    """The largest difference that is certain at a few points of some boxes, exactly."""
    ours, theirs = (Evaluator(load(folder / name)) for name in ("target.npz", "network.npz"))
    rng, found = np.random.default_rng(0), Fraction(0)
    for lo, hi in boxes:
        box = Box(*(np.array([float.fromhex(x) for x in side]) for side in (lo, hi)))
        for x in (*box.sample(6, rng), *box.corners(4, rng)):
            pairs = zip(ours(x), theirs(x), strict=True)
            found = max(found, *(max(a - d, c - b) for (a, b), (c, d) in pairs))
    return found


@lru_cache(maxsize=256)
def rounded(
    folder: Path, boxes: tuple[tuple[Ends, Ends], ...], kind: type[np.floating[Any]]
) -> Fraction:
    """The same of an evaluation in floats, at points of that format."""
    target, network = (load(folder / name) for name in ("target.npz", "network.npz"))
    ours, rng, found = Evaluator(target), np.random.default_rng(1), Fraction(0)
    for lo, hi in boxes:
        box = Box(*(np.array([float.fromhex(x) for x in side]) for side in (lo, hi)))
        for x in (*box.sample(6, rng), *box.corners(2, rng)):
            x = x.astype(kind).astype(np.float64)
            if ((box.lo <= x) & (x <= box.hi)).all():
                values = network(x[None], kind)[0].astype(np.float64).tolist()
                pairs = zip(ours(x), map(Fraction, values), strict=True)
                found = max(found, *(max(low - v, v - high) for (low, high), v in pairs))
    return found
