"""VNN-LIB properties: the box of a network's inputs, or a tolerance on the outputs of two networks.

Version 1.0 declares inputs X_0, X_1, … and outputs Y_0, Y_1, … one by one; version 2.0 declares
networks with inputs and outputs of some shape, of which X[0,3] is an entry. Either is read the same
way: bounds of inputs, conjunct by conjunct, and the claim, which is whatever speaks of outputs.

As a domain, of a network that is not named, the claim is ignored and decimal numbers become the
nearest float64. As a property of two networks with equal inputs (or, in version 1.0, of one that is
their difference) the claim must be satisfiable exactly if some output differs by more than a
tolerance. Decimals stay rationals there: the box of floats around theirs and the float below the
tolerance are what is proved. A text that can never hold, because it wants an output to be larger
and smaller at once, is told apart: what was meant is the claim with "or" in place of "and".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import LIMITS, text_of
from reconstruct.networks import Box
from reconstruct.numbers.exact import float_beside

Expr: TypeAlias = "str | list[Expr]"
Entry: TypeAlias = tuple[int, str, int]  # network, "input" or "output", place
Linear: TypeAlias = dict[Entry | None, Fraction]  # a sum: coefficients of entries, and a number
Atom: TypeAlias = tuple[int, str, Fraction]  # output i, relation, number t: d_i > t, or d_i < −t
Tree: TypeAlias = "Atom | list[Any]"  # or a list: "and" or "or", and what it joins
TOKEN = re.compile(r"[()]|[^\s();]+|;[^\r\n]*", re.ASCII)
BRACKETS = re.compile(r"\[[^\]\n]*\]")
SHAPE = re.compile(r"\[(?:[0-9]{1,9}(?:,[0-9]{1,9})*)?\]")
SYMBOL = re.compile(r"([XY])_(0|[1-9][0-9]{0,8})")  # X_00 is another symbol than X_0
ENTRY = re.compile(r"([A-Za-z_]\w*)\[([0-9]{1,9}(?:,[0-9]{1,9})*)\]", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
KINDS = {"X": "input", "Y": "output"}
FLIPPED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "=": "=", "==": "=="}


def _fault(told: str) -> InputError:
    return InputError(f"the VNN-LIB file {told}")


def _refuse(told: str) -> UnsupportedError:
    return UnsupportedError(f"the VNN-LIB file {told}")


def read_vnnlib(content: bytes) -> Box:
    """The box of the inputs that a property of one network states."""
    reading = _read(content)
    if len(reading.networks) > 1:
        raise _refuse(
            "speaks of two networks, but a domain is that of one; give it to verify as the "
            "--property, or the box as LO,HI or as an .npz with lo and hi"
        )
    lo, hi = reading.ends()
    return Box([float(x) for x in lo], [float(x) for x in hi])


def read_pair(content: bytes) -> PairProperty:
    """The property of two networks, or of their difference."""
    reading = _read(content)
    single = not reading.networks and reading.size("input") > 0
    if len(reading.networks) != (0 if single else 2):
        raise _refuse(
            f"declares {len(reading.networks)} networks, but a property of two networks is needed"
        )
    lo, hi = reading.ends()
    for i in range(len(lo)):
        if not single and i not in reading.equal:
            raise _fault(f"must have input {i} equal in both networks, but does not; assert it")
    outputs = reading.size("output")
    tolerance, closed, never = _claimed(reading, outputs)
    return PairProperty(tuple(reading.networks), lo, hi, outputs, tolerance, closed, never)


@dataclass(frozen=True)
class PairProperty:
    """`lo ≤ x ≤ hi` for both networks, and |difference| ≤ tolerance as the claim; `closed` where a
    difference of exactly the tolerance breaks it; `never` where the text itself cannot hold.
    Without `networks` it is about one network, the difference."""

    networks: tuple[str, ...]
    lo: tuple[Fraction, ...]
    hi: tuple[Fraction, ...]
    outputs: int
    tolerance: Fraction
    closed: bool
    never: bool

    @property
    def box(self) -> Box:
        """The least box of floats around the property's."""
        lo = [float_beside(x, up=False) for x in self.lo]
        return Box(lo, [float_beside(x, up=True) for x in self.hi])

    @property
    def limit(self) -> float:
        """The largest float that a bound may have."""
        limit = float_beside(self.tolerance, up=False)
        return math.nextafter(limit, 0) if self.closed and limit == self.tolerance else limit

    def broken_by(self, point: tuple[float, ...], difference: Fraction) -> bool:
        """Whether an input with this difference is a counterexample, exactly."""
        ends = zip(self.lo, point, self.hi, strict=True)
        inside = all(low <= Fraction(x) <= high for low, x, high in ends)
        more = difference > self.tolerance
        return inside and (more or (self.closed and difference == self.tolerance))


# --- statements -----------------------------------------------------------------------------------


@dataclass
class _Reading:
    """What has been declared and asserted so far."""

    networks: list[str] = field(default_factory=list)
    variables: dict[str, tuple[int, str, tuple[int, ...]]] = field(default_factory=dict)
    symbols: dict[str, Entry] = field(default_factory=dict)  # X_i and Y_j, of no network by name
    lo: dict[int, Fraction] = field(default_factory=dict)
    hi: dict[int, Fraction] = field(default_factory=dict)
    equal: set[int] = field(default_factory=set)
    claims: list[Expr] = field(default_factory=list)

    def entry(self, token: Expr) -> Entry | None:
        """What X_3 or X_f[0,3] stands for; None for other words."""
        if not isinstance(token, str) or token in self.symbols:
            return self.symbols.get(token) if isinstance(token, str) else None
        found = ENTRY.fullmatch(token)
        if found is None and not SYMBOL.fullmatch(token):
            return None
        if found is None or found[1] not in self.variables:
            told = f"speaks of {shown(token)}, but declares no such input or output; declare it"
            raise _fault(told)
        network, kind, shape = self.variables[found[1]]
        try:
            place = np.ravel_multi_index([int(i) for i in found[2].split(",")], shape)
        except ValueError:
            told = f"speaks of {shown(token)}, but {found[1]} has the shape {list(shape)}"
            raise _fault(told) from None
        return network, kind, int(place)

    def kinds(self, expression: Expr) -> set[str]:
        """Whether an expression speaks of inputs and of outputs."""
        if isinstance(expression, str):
            found = self.entry(expression)
            return set() if found is None else {found[1]}
        return set().union(*(self.kinds(part) for part in expression))

    def size(self, kind: str) -> int:
        """How many inputs or outputs there are, in each of the networks."""
        if not self.networks:
            return 1 + max((i for _, what, i in self.symbols.values() if what == kind), default=-1)
        each = [math.prod(shape) for _, what, shape in self.variables.values() if what == kind]
        if len(each) != len(self.networks) or len(set(each)) != 1:
            raise _fault(f"needs one {kind} of each network, all of one size, but they have {each}")
        return each[0]

    def ends(self) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """The lower and the upper bounds of all inputs."""
        size = self.size("input")
        if size < 1:
            raise _fault("declares no inputs X_0, X_1, …")
        for i in range(size):
            for side, known in (("lower", self.lo), ("upper", self.hi)):
                if i not in known:
                    raise _fault(
                        f"gives no {side} bound for input {i}, but the domain must be bounded; "
                        f"add one"
                    )
        lo, hi = (tuple(known[i] for i in range(size)) for known in (self.lo, self.hi))
        return lo, hi


def _read(content: bytes) -> _Reading:
    text = BRACKETS.sub(lambda m: m[0].replace(" ", ""), text_of(content, "a VNN-LIB file"))
    reading = _Reading()
    for statement in _parse(text):
        match statement:
            case ["vnnlib-version", _]:
                pass
            case ["declare-const", str(name), "Real"] | ["declare-fun", str(name), [], "Real"]:
                symbol = SYMBOL.fullmatch(name)
                if symbol is None:
                    raise _fault(
                        f"declares {shown(name)}, but inputs are X_0, X_1, … and outputs Y_0, Y_1, "
                        f"…, with indices of at most {LIMITS.index} digits"
                    )
                reading.symbols[name] = 0, KINDS[symbol[1]], int(symbol[2])
            case ["declare-network", str(name), *parts]:
                _declare(reading, name, parts)
            case ["assert", expression]:
                _assert(reading, expression)
            case _:
                raise _refuse(
                    f"has the statement {shown(statement)}, but declare-const of Reals named X_i "
                    f"or Y_j, declare-network and assert are what can be read"
                )
    if reading.networks and reading.symbols:
        raise _refuse(
            "declares networks and also inputs X_i or outputs Y_j of none of them; remove the "
            "latter"
        )
    return reading


def _parse(text: str) -> list[Expr]:
    """The S-expressions of the text, without its comments."""
    stack: list[list[Expr]] = [[]]
    for token in TOKEN.findall(text):
        if token == "(":
            stack.append([])
            if len(stack) > LIMITS.nesting:
                raise _fault(f"nests deeper than {LIMITS.nesting} parentheses")
        elif token == ")":
            done = stack.pop()
            if not stack:
                raise _fault("closes a parenthesis that it never opened")
            stack[-1].append(done)
        elif not token.startswith(";"):
            stack[-1].append(token)
    if len(stack) > 1:
        raise _fault("ends inside of a parenthesis; was it cut short?")
    return stack[0]


def shown(expression: Expr) -> str:
    plain = isinstance(expression, str)
    text = str(expression) if plain else "(" + " ".join(shown(e) for e in expression) + ")"
    return text if len(text) <= 60 else text[:57] + "…"


def _declare(reading: _Reading, name: str, parts: list[Expr]) -> None:
    number = len(reading.networks)
    for part in parts:
        match part:
            case ["isomorphic-to" | "equal-to", str(other)]:
                if other not in reading.networks:
                    raise _fault(
                        f"says that {name} is like {shown(other)}, but declares no such network "
                        f"before it"
                    )
            case ["declare-input" | "declare-output" as kind, str(variable), str(), str(shape)] if (
                SHAPE.fullmatch(shape)
            ):
                sizes = tuple(int(n) for n in re.findall("[0-9]+", shape))
                reading.variables[variable] = number, str(kind).partition("-")[2], sizes
            case _:
                raise _refuse(
                    f"declares {shown(part)} in a network, but inputs and outputs of real numbers "
                    f"are what can be read"
                )
    reading.networks.append(name)


def _assert(reading: _Reading, expression: Expr) -> None:
    """Bounds and equalities of inputs are noted; what speaks of outputs is a claim."""
    kinds = reading.kinds(expression)
    match expression:
        case ["and", *parts] | ["or", *parts] if expression[0] == "and" or len(parts) == 1:
            for part in parts:
                _assert(reading, part)
        case ["or", *_] if "input" in kinds and not (reading.networks and "output" in kinds):
            raise _refuse(
                "states a disjunction over the inputs, several boxes, but a domain is a single "
                "box; split the property into one file per box"
            )
        case _ if "output" in kinds:
            reading.claims.append(expression)
        case [str(relation), left, right] if relation in FLIPPED:
            _bound(reading, relation, left, right)
        case _:
            raise _refuse(f"asserts {shown(expression)} of inputs, but one box is needed")


def _bound(reading: _Reading, relation: str, left: Expr, right: Expr) -> None:
    """`left relation right` of an input and a number, or of one input in both networks."""
    said = shown([relation, left, right])
    first, second = reading.entry(left), reading.entry(right)
    if first and second and relation in ("==", "="):
        if first[2] != second[2] or first[0] == second[0]:
            raise _refuse(
                f"asserts {said}, but both networks must have the same input, entry by entry"
            )
        reading.equal.add(first[2])
        return
    if first is None:
        first, right, relation = second, left, FLIPPED[relation]
    value = _linear(reading, right)
    if first is None or set(value) - {None}:
        raise _refuse(
            f"asserts {said}, but a box needs an input on one side and a finite number on the other"
        )
    place, number = first[2], value.get(None, Fraction(0))
    if relation != ">=" and relation != ">":
        reading.hi[place] = min(number, reading.hi.get(place, number))
    if relation != "<=" and relation != "<":
        reading.lo[place] = max(number, reading.lo.get(place, number))


def _linear(reading: _Reading, expression: Expr) -> Linear:
    """A sum of entries and numbers."""
    match expression:
        case str(text):
            found = reading.entry(text)
            if found is not None:
                return {found: Fraction(1)}
            if len(text) <= LIMITS.decimal and NUMBER.fullmatch(text):
                value = Fraction(text)
                if abs(value) < 2**1000:  # so that floats hold what is read
                    return {None: value}
        case ["-", inner]:
            return _sum({}, _linear(reading, inner), -1)
        case ["+" | "-" as sign, first, *others] if others:
            total = _linear(reading, first)
            for other in others:
                total = _sum(total, _linear(reading, other), 1 if sign == "+" else -1)
            return total
    raise _refuse(
        f"has the term {shown(expression)}, but sums of outputs and finite numbers are what can be "
        f"read"
    )


def _sum(first: Linear, second: Linear, factor: int) -> Linear:
    zero = Fraction(0)
    return first | {key: first.get(key, zero) + factor * value for key, value in second.items()}


# --- the claim ------------------------------------------------------------------------------------


def _claimed(reading: _Reading, outputs: int) -> tuple[Fraction, bool, bool]:
    """The tolerance of the claim, whether it is closed, and whether it can never hold."""
    tree = _tree(reading, ["and", *reading.claims])
    atoms = list(_atoms(tree))
    sides = {(i, relation[0]) for i, relation, _ in atoms}
    numbers = {number if relation[0] == ">" else -number for _, relation, number in atoms}
    closed = {len(relation) == 2 for _, relation, _ in atoms}
    complete = len(sides) == 2 * outputs
    if not complete or len(numbers) != 1 or len(closed) != 1 or not min(numbers) > 0:
        raise _refuse(
            "must ask whether some output differs by more than one tolerance above 0, in either "
            "direction, but asks for something else; state it for every output"
        )
    free = tree[0] == "or" and all(isinstance(part, tuple) for part in tree[1:])
    never = not free and _never(tree)
    if not (free or never):
        raise _refuse(
            "asks for several outputs to differ at once, but whether some output differs is what "
            "can be decided; join its assertions by or"
        )
    return numbers.pop(), closed.pop(), never


def _tree(reading: _Reading, expression: Expr) -> Tree:
    """A claim as what it joins: no "and" inside of an "and", no "or" inside of an "or", and neither
    of a single part."""
    match expression:
        case ["and" | "or" as word, *parts]:
            found: list[Any] = [word]
            for part in (_tree(reading, part) for part in parts):
                found += part[1:] if part[0] == word else [part]
            return found if len(found) != 2 else found[1]
        case [str(relation), left, right] if relation in ("<", "<=", ">", ">="):
            return _atom(reading, relation, left, right)
    raise _refuse(f"asserts {shown(expression)}, which is unknown")


def _atoms(tree: Tree) -> Iterator[Atom]:
    if isinstance(tree, tuple):
        yield tree
    else:
        for part in tree[1:]:
            yield from _atoms(part)


def _atom(reading: _Reading, relation: str, left: Expr, right: Expr) -> Atom:
    """`left relation right` as d_i relation number, d = second network − first."""
    terms = _sum(_linear(reading, left), _linear(reading, right), -1)
    number = -terms.pop(None, Fraction(0))
    match sorted((key, value) for key, value in terms.items() if value and key is not None):
        case [((0, "output", i), a), ((1, "output", j), b)] if i == j and a == -b and abs(b) == 1:
            return (i, relation, number) if b > 0 else (i, FLIPPED[relation], -number)
        case [((0, "output", j), b)] if not reading.networks and abs(b) == 1:  # the difference
            return (j, relation, number) if b > 0 else (j, FLIPPED[relation], -number)
    raise _refuse(
        f"asserts {shown([relation, left, right])}, but the same output of both networks has to be "
        f"compared"
    )


def _never(tree: Tree) -> bool:
    """Whether a conjunction wants an output to be both above and below."""
    if isinstance(tree, tuple):
        return False
    if tree[0] == "or":
        return all(_never(part) for part in tree[1:])
    atoms = [part for part in tree[1:] if isinstance(part, tuple)]
    return any(_never(part) for part in tree[1:]) or any(
        i == j and above[0] == ">" and below[0] == "<" and low > high
        for i, above, low in atoms
        for j, below, high in atoms
    )
