"""VNN-LIB 1.0 properties, read for their input box: `lo_i ≤ X_i ≤ hi_i`.

Bounds are collected from every assertion, through nested `and`s; constraints that mention an
output `Y_j` are the property's and are ignored. Decimal numbers become the nearest float64.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TypeAlias

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import LIMITS
from reconstruct.formats.text import decimal, text_of
from reconstruct.networks import Box

Expr: TypeAlias = "str | list[Expr]"
TOKEN = re.compile(r"[()]|[^\s();]+|;[^\r\n]*", re.ASCII)
INPUT = re.compile(r"X_(0|[1-9][0-9]*)")  # X_00 is another symbol than X_0
OUTPUT = re.compile(r"Y_(?:0|[1-9][0-9]*)")
FLIPPED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "=": "="}


@dataclass
class _Bounds:
    """What has been learned so far about the inputs."""

    declared: set[int] = field(default_factory=set)
    lo: dict[int, float] = field(default_factory=dict)
    hi: dict[int, float] = field(default_factory=dict)

    def narrow(self, i: int, relation: str, value: float) -> None:
        if relation in ("<=", "<", "="):
            self.hi[i] = min(value, self.hi.get(i, math.inf))
        if relation in (">=", ">", "="):
            self.lo[i] = max(value, self.lo.get(i, -math.inf))


def read_vnnlib(content: bytes) -> Box:
    """The box of the inputs that a VNN-LIB 1.0 property states."""
    statements = parse(text_of(content, "a VNN-LIB file"))
    bounds = _Bounds()
    for statement in statements:
        _read_statement(statement, bounds)
    return _box(bounds)


def parse(text: str) -> list[Expr]:
    """The S-expressions of the text, without its comments."""
    stack: list[list[Expr]] = [[]]
    for token in TOKEN.findall(text):
        if token == "(":
            stack.append([])
            if len(stack) > LIMITS.nesting:
                raise InputError(f"the VNN-LIB file nests deeper than {LIMITS.nesting} parentheses")
        elif token == ")":
            if len(stack) == 1:
                raise InputError("the VNN-LIB file closes a parenthesis that it never opened")
            done = stack.pop()
            stack[-1].append(done)
        elif not token.startswith(";"):
            stack[-1].append(token)
    if len(stack) > 1:
        raise InputError("the VNN-LIB file ends inside of a parenthesis; was it cut short?")
    return stack[0]


def _read_statement(statement: Expr, bounds: _Bounds) -> None:
    match statement:
        case ["declare-const", str(name), "Real"] | ["declare-fun", str(name), [], "Real"]:
            if found := INPUT.fullmatch(name):
                bounds.declared.add(_index(found))
            elif not OUTPUT.fullmatch(name):
                raise InputError(
                    f"the VNN-LIB file declares {shown(name)}, but inputs are X_0, X_1, … and "
                    "outputs Y_0, Y_1, …"
                )
        case ["assert", expression]:
            _read_assertion(expression, bounds)
        case ["declare-network", *_] | ["vnnlib-version", *_]:
            raise UnsupportedError(
                "the file is written in VNN-LIB 2, but VNN-LIB 1.0 is what can be read; give the "
                "box as LO,HI or as an .npz with lo and hi"
            )
        case _:
            raise InputError(
                f"the VNN-LIB file has the statement {shown(statement)}, but only declare-const "
                "of Reals named X_i or Y_j and assert are known"
            )


def _read_assertion(expression: Expr, bounds: _Bounds) -> None:
    names = _names(expression)
    if not any(INPUT.fullmatch(n) for n in names) and any(OUTPUT.fullmatch(n) for n in names):
        return
    match expression:
        case ["and", *parts] | ["or", *parts] if expression[0] == "and" or len(parts) == 1:
            for part in parts:
                _read_assertion(part, bounds)
        case ["or", *_]:
            raise UnsupportedError(
                "the VNN-LIB file states a disjunction over the inputs, several boxes, but a "
                "domain is a single box; split the property into one file per box"
            )
        case [str(relation), left, right] if relation in FLIPPED:
            _read_relation(relation, left, right, bounds)
        case _:
            raise InputError(f"the VNN-LIB file asserts {shown(expression)}, which is unknown")


def _read_relation(relation: str, left: Expr, right: Expr, bounds: _Bounds) -> None:
    if any(OUTPUT.fullmatch(n) for n in _names([left, right])):
        return
    if isinstance(left, str) and (found := INPUT.fullmatch(left)):
        bounds.narrow(_index(found), relation, _number(right))
    elif isinstance(right, str) and (found := INPUT.fullmatch(right)):
        bounds.narrow(_index(found), FLIPPED[relation], _number(left))
    else:
        said = shown([relation, left, right])
        raise UnsupportedError(
            f"the VNN-LIB file asserts {said}, but a box needs an input on one side and a number "
            "on the other"
        )


def _index(found: re.Match[str]) -> int:
    if len(found[1]) > LIMITS.index:
        raise InputError(
            f"the VNN-LIB file names the input {shown(found[0])}, whose index has more than "
            f"{LIMITS.index} digits"
        )
    return int(found[1])


def _number(expression: Expr) -> float:
    match expression:
        case str(text):
            try:
                value = decimal(text)
            except ValueError:
                value = math.nan
            if math.isfinite(value):
                return value
        case ["-", inner]:
            return -_number(inner)
    raise UnsupportedError(
        f"the VNN-LIB file bounds an input by {shown(expression)}, but a box needs a finite number"
    )


def _names(expression: Expr) -> list[str]:
    if isinstance(expression, str):
        return [expression]
    return [name for part in expression for name in _names(part)]


def shown(expression: Expr) -> str:
    text = (
        expression
        if isinstance(expression, str)
        else "(" + " ".join(shown(e) for e in expression) + ")"
    )
    return text if len(text) <= 60 else text[:57] + "…"


def _box(bounds: _Bounds) -> Box:
    known = bounds.declared | set(bounds.lo) | set(bounds.hi)
    if not known:
        raise InputError("the VNN-LIB file declares no inputs X_0, X_1, …")
    for i in range(max(known) + 1):
        if i not in bounds.declared:
            raise InputError(f"the VNN-LIB file does not declare X_{i}, but X_{max(known)} occurs")
        for side, values in (("lower", bounds.lo), ("upper", bounds.hi)):
            if i not in values:
                raise InputError(
                    f"the VNN-LIB file gives no {side} bound for X_{i}, but the domain must be "
                    "bounded; add one"
                )
    order = range(len(bounds.declared))
    return Box([bounds.lo[i] for i in order], [bounds.hi[i] for i in order])
