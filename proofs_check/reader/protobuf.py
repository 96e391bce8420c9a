"""Protobuf's wire format: messages as lists of fields, by their numbers."""

from __future__ import annotations

from proofs_check.reader.plain import NotPlain

Field = int | memoryview
Fields = dict[int, list[Field]]


def varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & (2**64 - 1), at
        if shift > 63:
            raise NotPlain("a number of more than 64 bits")


def parse(message: Field, known: str, single: str = "") -> Fields:
    """The fields of a message: whole numbers, or bytes of whatever they hold.

    `known` lists the numbers of the fields that may occur, `single` those that may occur once.
    """
    data, at = as_bytes(message), 0
    found: Fields = {int(number): [] for number in known.split()}
    while at < len(data):
        tag, at = varint(data, at)
        key, wire = tag >> 3, tag & 7
        if key not in found:
            raise NotPlain(f"field {key} of a message")
        if wire == 0:
            value, at = varint(data, at)
            found[key].append(value)
            continue
        size = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            size, at = varint(data, at)
        if size is None or at + size > len(data):
            raise NotPlain("a message that is cut short")
        found[key].append(data[at : at + size])
        at += size
    if any(len(found[int(number)]) > 1 for number in single.split()):
        raise NotPlain("a field that is said twice")
    return found


def as_bytes(field: Field) -> memoryview:
    if isinstance(field, int):
        raise NotPlain("a number where a message was expected")
    return field


def text(found: list[Field]) -> str:
    return bytes(as_bytes(found[0])).decode() if found else ""


def number(found: list[Field]) -> int:
    if not found:
        return 0
    if not isinstance(found[0], int):
        raise NotPlain("a message where a number was expected")
    return signed(found[0])


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def integers(found: list[Field]) -> list[int]:
    """Repeated whole numbers, one to a field or packed into one."""
    values = []
    for entry in found:
        if isinstance(entry, int):
            values.append(signed(entry))
            continue
        at = 0
        while at < len(entry):
            value, at = varint(entry, at)
            values.append(signed(value))
    return values
