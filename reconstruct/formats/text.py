"""Texts with one meaning: ASCII numbers, lines that end at \\n or \\r\\n, JSON names said once.

Python's `float` takes "1_0" for ten and digits of other scripts, and `str.splitlines` ends lines at
form feeds; other programs do not. What two programs would read differently is refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from reconstruct.errors import InputError
from reconstruct.formats.files import LIMITS

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def decimal(text: str) -> float:
    """The float64 nearest to a decimal number in ASCII digits; ValueError for anything else."""
    if len(text) > LIMITS.decimal or not NUMBER.fullmatch(text):
        raise ValueError(f"{text[:24]!r} is not a decimal number")
    return float(text)


def text_of(content: bytes, what: str) -> str:
    """The text in these bytes, without control characters beside tab and the ends of lines."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{what} is text, but this one holds binary data") from None
    strange = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029]|\r(?!\n)", text)
    if strange is not None:
        raise InputError(
            f"{what} has lines that end at \\n or \\r\\n, but this one holds the character "
            f"{strange[0]!r}, which some programs take for the end of a line; remove it"
        )
    return text


def parse_json(text: str, what: str) -> Any:
    """JSON whose names are said once in each object, and whose numbers float64 comes near to."""
    try:
        return json.loads(
            text,
            parse_float=lambda literal: _float(literal, what),
            parse_int=lambda literal: _integer(literal, what),
            parse_constant=lambda literal: _infinite(literal, what),
            object_pairs_hook=lambda pairs: _object(pairs, what),
        )
    except RecursionError:
        raise InputError(f"{what} is malformed (nested too deeply)") from None


def _object(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what} says {twice!r} twice; leave one of them out")
    return found


def _float(literal: str, what: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise InputError(f"the number {_short(literal)} of {what} does not fit into float64")
    return value


def _integer(literal: str, what: str) -> int:
    if len(literal) > LIMITS.digits:
        raise InputError(
            f"the number {_short(literal)} of {what} has more than {LIMITS.digits} digits"
        )
    return int(literal)


def _infinite(literal: str, what: str) -> float:
    """Infinity and −Infinity, the open ends of a Clip; NaN is no number."""
    if literal == "NaN":
        raise InputError(f"{what} holds NaN, which is no number")
    return float(literal)


def _short(literal: str) -> str:
    return literal if len(literal) <= 24 else f"{literal[:20]}…"
