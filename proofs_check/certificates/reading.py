"""The certificate as the checker reads it: every field named, every number exact.

A document is JSON; floats are hexadecimal text exactly as Python writes it, so that none is
rounded while reading, rationals are "p/q" in hexadecimal. Whatever is not built so is rejected by
the name of the field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from math import isfinite
from typing import TypeAlias

import numpy as np

from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.claims import Claims, FilePart, PairClaim, Segment, Witness
from proofs_check.certificates.rationals import RationalNorm
from proofs_check.certificates.report import CheckFailed, NotCheckable, Unreadable
from reconstruct.errors import InputError
from reconstruct.networks import Box

SCHEMA = "reconstruct.certificate/2"
REACH = "reconstruct.reach/1"
OLD = "reconstruct.certificate/1"
DOMAINS = ("box", "boxes", "points")
NODES = 2**18  # a tree of more nodes than this is refused
POWERS = 1000  # a power of two beyond this is refused
DIGITS = 2**16  # a rational of longer text than this is refused: its gcd takes a third of a second
WORDS = {
    "verdict": ("certified", "refuted", "undecided"),
    "rigor": ("exact", "rigorous", "numerical"),
    "method": ("layered", "pointwise", "general", "witness", "none"),
}

FIELDS = {  # what may stand in an object, by its place; whatever else does is no part of a proof
    "certificate": "schema verdict rigor method target candidate domain tolerance output_scale "
    "bound float64_bound float32_bound alignment lines places tree pairs scales segments "
    "exact_identity exact_norms witness tried seconds digest",
    "domain": "kind lo hi",
    "target": "file sha256 data_sha256 path nnet_header unchecked_reading casts",
    "candidate": "file sha256 data_sha256 path nnet_header unchecked_reading casts",
    "segments": "target_node candidate_node maps rows columns residual_bound constant_bound "
    "error_in error_out inner margin",
    "exact_norms": "gamma beta",
    "witness": "point target candidate difference strictly_inside",
}

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def parse(content: bytes) -> dict[str, Json]:
    """The JSON object of a certificate, each name once."""
    try:
        document: Json = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Unreadable("certificate", f"this is not JSON; give a run's OUT ({error})") from None
    if isinstance(document, dict) and document.get("schema") == OLD:
        raise Unreadable(
            "schema",
            f"this is {OLD!r}, which does not say all steps of its proof; run `reconstruct run` "
            f"again for {SCHEMA!r}",
        )
    if not isinstance(document, dict) or document.get("schema") not in (SCHEMA, REACH):
        raise Unreadable("schema", f"a certificate of schema {SCHEMA!r} is needed")
    return document


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An object whose names occur once: another reader might take the other value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice in one object")
    return found


def digest(document: Mapping[str, Json]) -> str:
    """SHA-256 of the document without its digest, as sorted compact JSON."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(document: Mapping[str, Json]) -> Claims:
    """Every field, by its name and type."""
    _object(dict(document), "certificate", "certificate")
    domain = as_domain(document.get("domain"))
    norms, method = document.get("exact_norms"), _word(document, "method")
    return Claims(
        verdict=_word(document, "verdict"),
        rigor=_word(document, "rigor"),
        method=method,
        target=as_file(document, "target"),
        candidate=as_file(document, "candidate"),
        domain=domain,
        tolerance=_bound(document.get("tolerance"), "tolerance"),
        bound=_bound(document.get("bound"), "bound"),
        float64_bound=_bound(document.get("float64_bound"), "float64_bound"),
        float32_bound=_bound(document.get("float32_bound"), "float32_bound"),
        alignment=_pairs(document.get("alignment")),
        tree=_tree(document.get("tree"), domain, method),
        pairs=_unit_pairs(document.get("pairs", [])),
        scales=_whole_numbers(document.get("scales"), "scales", -POWERS, POWERS),
        segments=_segments(document.get("segments")),
        exact_identity=_flag(document.get("exact_identity", False), "exact_identity"),
        exact_norms=None if norms is None else _norms(norms),
        witness=_witness(document.get("witness")),
    )


def _word(document: Mapping[str, Json], field: str) -> str:
    word = _text(document.get(field), field)
    if word not in WORDS[field]:
        raise CheckFailed(field, f"one of {', '.join(WORDS[field])} is needed")
    return word


def _text(value: Json, field: str) -> str:
    if not isinstance(value, str):
        raise CheckFailed(field, f"text is needed, not {_shown(value)}")
    return value


def _flag(value: Json, field: str) -> bool:
    if not isinstance(value, bool):
        raise CheckFailed(field, f"true or false is needed, not {_shown(value)}")
    return value


def as_list(value: Json, field: str) -> list[Json]:
    if not isinstance(value, list):
        raise CheckFailed(field, f"a list is needed, not {_shown(value)}")
    return value


def _object(value: Json, field: str, kind: str | None = None) -> dict[str, Json]:
    """An object; of a `kind` that has fields, with these alone."""
    if not isinstance(value, dict):
        raise CheckFailed(field, f"an object is needed, not {_shown(value)}")
    if kind is not None:
        for name in value.keys() - set(FIELDS[kind].split()):
            where = name if kind == "certificate" else f"{field}.{name}"
            raise CheckFailed(where, "this field is not known to the checker; leave it out")
    return value


def as_float(value: Json, field: str) -> float:
    """A hex float exactly as Python writes it: nothing is rounded while reading."""
    text = _text(value, field)
    try:
        number = float.fromhex(text)
    except (ValueError, OverflowError):
        raise CheckFailed(field, f"a hex float is needed, not {_shown(value)}") from None
    if not isfinite(number) or number.hex() != text:
        raise CheckFailed(field, f"a finite hex float of 53 bits is needed, not {_shown(value)}")
    return number


def _bound(value: Json, field: str) -> float | None:
    """A hex float ≥ 0, or None where the certificate has null."""
    if value is None:
        return None
    number = as_float(value, field)
    if number < 0:
        raise CheckFailed(field, f"a number ≥ 0 is needed, not {number}")
    return number


def _floats(value: Json, field: str) -> Floats:
    return np.array([as_float(entry, field) for entry in as_list(value, field)], dtype=np.float64)


def _rational(value: Json, field: str) -> Fraction:
    """A rational "p/q", both in hexadecimal (decimal text is limited to 4,300 digits)."""
    text = _text(value, field)
    try:
        if len(text) > DIGITS:
            raise ValueError
        above, below = text.split("/")
        return Fraction(int(above, 16), int(below, 16))
    except (ValueError, ZeroDivisionError):
        raise CheckFailed(field, f"a rational p/q is needed, not {_shown(value)}") from None


def _rationals(value: Json, field: str) -> list[Fraction]:
    return [_rational(entry, field) for entry in as_list(value, field)]


def as_domain(value: Json) -> tuple[Box, ...]:
    """One box, or, of kind "boxes" and "points", a list of lower and of upper ends per box."""
    sides = _object(value, "domain", "domain")
    kind = _text(sides.get("kind", "box"), "domain.kind")
    if kind not in DOMAINS:
        raise NotCheckable(f"a domain of the kind {_shown(kind)} is not known to this checker")
    rows = {side: sides.get(side) for side in ("lo", "hi")}
    if kind == "box":
        return (_box(rows["lo"], rows["hi"]),)
    lows, highs = (as_list(rows[side], f"domain.{side}") for side in ("lo", "hi"))
    if not lows or len(lows) != len(highs):
        raise CheckFailed("domain", f"{len(lows)} lower and {len(highs)} upper ends are no boxes")
    boxes = tuple(_box(lo, hi) for lo, hi in zip(lows, highs, strict=True))
    if len({box.size for box in boxes}) != 1:
        raise CheckFailed("domain", "its boxes do not have the same number of inputs")
    if kind == "points" and any((box.lo != box.hi).any() for box in boxes):
        raise CheckFailed("domain", "points have no width")
    return boxes


def _box(lower: Json, upper: Json) -> Box:
    lo, hi = _floats(lower, "domain.lo"), _floats(upper, "domain.hi")
    if not len(lo) or len(lo) != len(hi):
        raise CheckFailed("domain", f"two ends per input are needed, not {len(lo)} and {len(hi)}")
    try:
        return Box(lo, hi)
    except InputError as error:
        raise CheckFailed("domain", str(error)) from None


def as_file(document: Mapping[str, Json], field: str) -> FilePart:
    entry = _object(document.get(field), field, field)
    path = entry.get("path")
    data = _object(entry.get("data_sha256", {}), f"{field}.data_sha256")
    casts = _object(entry.get("casts", {}), f"{field}.casts")
    return FilePart(
        _text(entry.get("file"), f"{field}.file"),
        None if path is None else _text(path, f"{field}.path"),
        _text(entry.get("sha256"), f"{field}.sha256"),
        {name: _text(code, f"{field}.data_sha256") for name, code in data.items()},
        _flag(entry.get("nnet_header", False), f"{field}.nnet_header"),
        {name: _text(to, f"{field}.casts") for name, to in casts.items()},
    )


def _pairs(value: Json) -> tuple[tuple[str, str], ...]:
    found = []
    for pair in as_list(value, "alignment"):
        names = [_text(name, "alignment") for name in as_list(pair, "alignment")]
        if len(names) != 2:
            raise CheckFailed("alignment", "pairs of names are needed")
        found.append((names[0], names[1]))
    return tuple(found)


def _bytes(value: Json, field: str) -> bytes:
    """Bytes as two hexadecimal digits each, and nothing between them."""
    text = _text(value, field)
    if text and not (text.isascii() and text.isalnum()):
        raise CheckFailed(field, f"bytes in hexadecimal are needed, not {_shown(value)}")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise CheckFailed(field, f"bytes in hexadecimal are needed, not {_shown(value)}") from None


def _tree(value: Json, domain: tuple[Box, ...], method: str) -> bytes | None:
    """Bytes in hexadecimal, one per node of the tree; only one box can be divided, but where both
    networks are bounded together."""
    if value is None:
        return None
    if len(domain) != 1 and method != "general":
        raise CheckFailed("tree", f"one box can be cut, but the domain has {len(domain)}")
    text = _text(value, "tree")
    if len(text) > 2 * NODES:
        raise CheckFailed("tree", f"at most {NODES} nodes are checked, but it has more")
    return _bytes(text, "tree")


def _unit_pairs(value: Json) -> tuple[PairClaim, ...]:
    found = []
    for entry in as_list(value, "pairs"):
        row = as_list(entry, "pairs")
        kinds = (str, int, str, int, str)
        if len(row) != 5 or any(type(x) is not k for x, k in zip(row, kinds, strict=True)):
            raise CheckFailed("pairs", "node, unit, node, unit and a hex float are needed")
        node, unit, partner, index, factor = row
        assert isinstance(unit, int) and isinstance(index, int)
        number = as_float(factor, "pairs")
        found.append(PairClaim(_text(node, "pairs"), unit, _text(partner, "pairs"), index, number))
    return tuple(found)


def _whole_numbers(value: Json, field: str, least: int, most: int) -> dict[str, tuple[int, ...]]:
    """Whole numbers by cut, one for each unit."""
    found = {}
    for name, row in _object(value, field).items():
        numbers = [n for n in as_list(row, field) if isinstance(n, int) and least <= n <= most]
        if len(numbers) != len(as_list(row, field)) or any(isinstance(n, bool) for n in numbers):
            raise CheckFailed(field, f"whole numbers from {least} to {most} are needed")
        found[name] = tuple(numbers)
    return found


def _segments(value: Json) -> tuple[Segment, ...]:
    found = []
    for index, entry in enumerate(as_list(value, "segments")):
        path = f"segments[{index}]"
        row = _object(entry, path, "segments")
        names = [_text(row.get(n), f"{path}.{n}") for n in ("target_node", "candidate_node")]
        numbers = []
        for field in ("residual_bound", "constant_bound", "error_in", "error_out"):
            number = _bound(row.get(field), f"{path}.{field}")
            if number is None:
                raise CheckFailed(f"{path}.{field}", "a hex float is needed")
            numbers.append(number)
        found.append(Segment(names[0], names[1], *numbers))
    return tuple(found)


def _norms(value: Json) -> dict[str, RationalNorm]:
    found: dict[str, RationalNorm] = {}
    for name, entry in _object(value, "exact_norms").items():
        path = f"exact_norms.{name}"
        row = _object(entry, path, "exact_norms")
        gamma, beta = (_rationals(row.get(p), f"{path}.{p}") for p in ("gamma", "beta"))
        found[name] = (gamma, beta)
    return found


def _witness(value: Json) -> Witness | None:
    if value is None:
        return None
    row = _object(value, "witness", "witness")
    sides = []
    for side in ("target", "candidate"):
        field = f"witness.{side}"
        pairs = [_rationals(pair, field) for pair in as_list(row.get(side), field)]
        if any(len(pair) != 2 or pair[0] > pair[1] for pair in pairs):
            raise CheckFailed(field, "two rationals per output are needed, the smaller one first")
        sides.append(tuple((low, high) for low, high in pairs))
    return Witness(
        tuple(_floats(row.get("point"), "witness.point").tolist()),
        sides[0],
        sides[1],
        _rational(row.get("difference"), "witness.difference"),
        _flag(row.get("strictly_inside"), "witness.strictly_inside"),
    )


def _shown(value: Json) -> str:
    """A value in a sentence: short, and of plain characters."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
