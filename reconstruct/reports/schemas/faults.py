"""Where a document breaks its schema, with as much of JSON Schema as ours use.

Numbers must moreover be finite float64: JSON has no others, but readers take NaN and 1e999.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Rules = Mapping[str, Any]

LONGEST = 60  # characters of a value in a message
SAID = frozenset({"$schema", "title", "description"})  # what asks nothing of a document


@dataclass(frozen=True)
class Fault:
    """What a place of the document must be, and what it is."""

    place: str
    needed: str
    came: str

    def __str__(self) -> str:
        return f"{self.place} must be {self.needed}, but is {self.came}"


def faults(value: Any, rules: Rules, place: str = "the report") -> Iterator[Fault]:
    """All faults of the value by these rules, in the order of the document."""
    found = [f for name, check in CHECKS.items() if name in rules for f in check(value, rules)]
    if found:
        yield from (Fault(place, needed, shown(value)) for needed in found)
        return
    for name, part, inner in _parts(value, rules):
        yield from faults(part, inner, f"{place}.{name}" if place != "the report" else name)
    if "anyOf" in rules:
        yield from _nearest(value, rules["anyOf"], place)


def shown(value: Any) -> str:
    """The value in a few characters."""
    if isinstance(value, dict | list):
        what = "an object" if isinstance(value, dict) else "a list"
        return f"{what} of {len(value)}"
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # false for NaN too


def _integer(value: Any) -> bool:
    return _number(value) and value == int(value)


TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "null": (lambda value: value is None, "null"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "integer": (_integer, "a whole number"),
    "number": (_number, "a finite number"),
    "string": (lambda value: isinstance(value, str), "text"),
    "array": (lambda value: isinstance(value, list), "a list"),
    "object": (lambda value: isinstance(value, dict), "an object"),
}


def _type(value: Any, rules: Rules) -> Iterator[str]:
    kinds = [rules["type"]] if isinstance(rules["type"], str) else rules["type"]
    if not any(TYPES[kind][0](value) for kind in kinds):
        yield " or ".join(TYPES[kind][1] for kind in kinds)


def _const(value: Any, rules: Rules) -> Iterator[str]:
    if value != rules["const"]:
        yield shown(rules["const"])


def _enum(value: Any, rules: Rules) -> Iterator[str]:
    if value not in rules["enum"]:
        yield f"one of {', '.join(map(str, rules['enum']))}"


def _minimum(value: Any, rules: Rules) -> Iterator[str]:
    if _number(value) and value < rules["minimum"]:
        yield f"at least {rules['minimum']}"


def _fewest(value: Any, rules: Rules) -> Iterator[str]:
    if isinstance(value, list) and len(value) < rules["minItems"]:
        yield f"a list of at least {rules['minItems']}"


def _most(value: Any, rules: Rules) -> Iterator[str]:
    if isinstance(value, list) and len(value) > rules["maxItems"]:
        yield f"a list of at most {rules['maxItems']}"


def _required(value: Any, rules: Rules) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"an object with {key!r}" for key in rules["required"] if key not in value)


CHECKS: dict[str, Callable[[Any, Rules], Iterator[str]]] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "minimum": _minimum,
    "minItems": _fewest,
    "maxItems": _most,
    "required": _required,
}
INNER = frozenset({"properties", "additionalProperties", "items", "anyOf"})


def _parts(value: Any, rules: Rules) -> Iterator[tuple[str, Any, Rules]]:
    """The members of an object and the items of a list that have rules of their own."""
    known = rules.get("properties", {})
    if isinstance(value, dict):
        for name, part in value.items():
            inner = known.get(name, rules.get("additionalProperties"))
            if inner is not None:
                yield name, part, inner
    if isinstance(value, list) and "items" in rules:
        yield from ((str(i), part, rules["items"]) for i, part in enumerate(value))


def _nearest(value: Any, choices: list[Rules], place: str) -> Iterator[Fault]:
    """Nothing if one of the choices holds, else the faults by the one that is meant: the last."""
    found = [list(faults(value, choice, place)) for choice in choices]
    if all(found):
        yield from found[-1]
