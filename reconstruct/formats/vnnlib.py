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
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import LIMITS
from reconstruct.formats.text import text_of
from reconstruct.networks import Box

Expr: TypeAlias = "str | list[Expr]"
Entry: TypeAlias = tuple[int, str, int]  # network, "input" or "output", place
Linear: TypeAlias = dict[Entry | None, Fraction]  # a sum: coefficients of entries, and a number
Atom: TypeAlias = tuple[int, str, Fraction]  # output i, relation, number t: d_i > t, or d_i < −t
TOKEN = re.compile(r"[()]|[^\s();]+|;[^\r\n]*", re.ASCII)
BRACKETS = re.compile(r"\[[^\]\n]*\]")
SHAPE = re.compile(r"\[(?:[0-9]{1,9}(?:,[0-9]{1,9})*)?\]")
SYMBOL = re.compile(r"([XY])_(0|[1-9][0-9]*)")  # X_00 is another symbol than X_0
ENTRY = re.compile(r"([A-Za-z_]\w*)\[([0-9]{1,9}(?:,[0-9]{1,9})*)\]", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
KINDS = {"X": "input", "Y": "output"}
FLIPPED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "=": "=", "==": "=="}


def read_vnnlib(content: bytes) -> Box:
    """The box of the inputs that a property of one network states."""
    reading = _read(content)
    if len(reading.networks) > 1:
        raise UnsupportedError(
            "the VNN-LIB file speaks of two networks, but a domain is that of one; give it to "
            "verify as the --property, or the box as LO,HI or as an .npz with lo and hi"
        )
    lo, hi = _ends(reading)
    return Box([float(x) for x in lo], [float(x) for x in hi])


def read_pair(content: bytes) -> PairProperty:
    """The property of two networks, or of their difference."""
    reading = _read(content)
    single = not reading.networks and bool(reading.constants["X"])
    if len(reading.networks) != (0 if single else 2):
        raise UnsupportedError(
            f"a property of two networks is needed, but the VNN-LIB file declares "
            f"{len(reading.networks)}"
        )
    lo, hi = _ends(reading)
    for i in range(len(lo)):
        if not single and i not in reading.equal:
            raise InputError(
                f"the VNN-LIB file must have input {i} equal in both networks, but does not; "
                f"assert it"
            )
    outputs = _size(reading, "output")
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
        return Box([_float(x, up=False) for x in self.lo], [_float(x, up=True) for x in self.hi])

    @property
    def limit(self) -> float:
        """The largest float that a bound may have."""
        limit = _float(self.tolerance, up=False)
        return math.nextafter(limit, 0) if self.closed and limit == self.tolerance else limit

    def broken_by(self, point: tuple[float, ...], difference: Fraction) -> bool:
        """Whether an input with this difference is a counterexample, exactly."""
        ends = zip(self.lo, point, self.hi, strict=True)
        inside = all(low <= Fraction(x) <= high for low, x, high in ends)
        more = difference > self.tolerance
        return inside and (more or (self.closed and difference == self.tolerance))


def _float(value: Fraction, *, up: bool) -> float:
    near = float(value)
    if (Fraction(near) < value) if up else (Fraction(near) > value):
        return math.nextafter(near, math.inf if up else -math.inf)
    return near


# --- statements -----------------------------------------------------------------------------------


@dataclass
class _Reading:
    """What has been declared and asserted so far."""

    networks: list[str] = field(default_factory=list)
    variables: dict[str, tuple[int, str, tuple[int, ...]]] = field(default_factory=dict)
    constants: dict[str, set[int]] = field(default_factory=lambda: {"X": set(), "Y": set()})
    lo: dict[int, Fraction] = field(default_factory=dict)
    hi: dict[int, Fraction] = field(default_factory=dict)
    equal: set[int] = field(default_factory=set)
    claims: list[Expr] = field(default_factory=list)

    def entry(self, token: Expr) -> Entry | None:
        """What X_3 or X_f[0,3] stands for; None for other words."""
        if not isinstance(token, str):
            return None
        if symbol := SYMBOL.fullmatch(token):
            if _index(symbol) not in self.constants[symbol[1]]:
                raise _undeclared(token)
            return 0, KINDS[symbol[1]], _index(symbol)
        found = ENTRY.fullmatch(token)
        if found is None:
            return None
        if found[1] not in self.variables:
            raise _undeclared(token)
        network, kind, shape = self.variables[found[1]]
        indices, place = [int(i) for i in found[2].split(",")], 0
        if len(indices) != len(shape) or any(i >= n for i, n in zip(indices, shape, strict=True)):
            raise InputError(
                f"the VNN-LIB file speaks of {shown(token)}, but {found[1]} has the shape "
                f"{list(shape)}"
            )
        for i, n in zip(indices, shape, strict=True):
            place = place * n + i
        return network, kind, place

    def kinds(self, expression: Expr) -> set[str]:
        """Whether an expression speaks of inputs and of outputs."""
        if isinstance(expression, str):
            found = self.entry(expression)
            return set() if found is None else {found[1]}
        return set().union(*(self.kinds(part) for part in expression))


def _undeclared(token: str) -> InputError:
    return InputError(
        f"the VNN-LIB file speaks of {shown(token)}, but declares no such input or output; "
        f"declare it"
    )


def _index(symbol: re.Match[str]) -> int:
    if len(symbol[2]) > LIMITS.index:
        raise InputError(
            f"the VNN-LIB file names {shown(symbol[0])}, whose index has more than {LIMITS.index} "
            f"digits"
        )
    return int(symbol[2])


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
                    raise InputError(
                        f"the VNN-LIB file declares {shown(name)}, but inputs are X_0, X_1, … and "
                        "outputs Y_0, Y_1, …"
                    )
                reading.constants[symbol[1]].add(_index(symbol))
            case ["declare-network", str(name), *parts]:
                _declare(reading, name, parts)
            case ["assert", expression]:
                _assert(reading, expression)
            case _:
                raise UnsupportedError(
                    f"the VNN-LIB file has the statement {shown(statement)}, but declare-const of "
                    f"Reals named X_i or Y_j, declare-network and assert are what can be read"
                )
    if reading.networks and any(reading.constants.values()):
        raise UnsupportedError(
            "the VNN-LIB file declares networks and also inputs X_i or outputs Y_j of none of "
            "them; remove the latter"
        )
    return reading


def _parse(text: str) -> list[Expr]:
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


def shown(expression: Expr) -> str:
    text = (
        expression
        if isinstance(expression, str)
        else "(" + " ".join(shown(e) for e in expression) + ")"
    )
    return text if len(text) <= 60 else text[:57] + "…"


def _declare(reading: _Reading, name: str, parts: list[Expr]) -> None:
    number = len(reading.networks)
    reading.networks.append(name)
    for part in parts:
        match part:
            case ["isomorphic-to" | "equal-to", str(other)]:
                if other not in reading.networks[:-1]:
                    raise InputError(
                        f"the VNN-LIB file says that {name} is like {shown(other)}, but declares "
                        f"no such network before it"
                    )
            case ["declare-input" | "declare-output" as kind, str(variable), str(), str(shape)] if (
                SHAPE.fullmatch(shape)
            ):
                sizes = tuple(int(n) for n in re.findall("[0-9]+", shape))
                reading.variables[variable] = number, str(kind).partition("-")[2], sizes
            case _:
                raise UnsupportedError(
                    f"the VNN-LIB file declares {shown(part)} in a network, but inputs and outputs "
                    f"of real numbers are what can be read"
                )


def _assert(reading: _Reading, expression: Expr) -> None:
    """Bounds and equalities of inputs are noted; what speaks of outputs is a claim."""
    kinds = reading.kinds(expression)
    match expression:
        case ["and", *parts] | ["or", *parts] if expression[0] == "and" or len(parts) == 1:
            for part in parts:
                _assert(reading, part)
        case ["or", *_] if "input" in kinds and not (reading.networks and "output" in kinds):
            raise UnsupportedError(
                "the VNN-LIB file states a disjunction over the inputs, several boxes, but a "
                "domain is a single box; split the property into one file per box"
            )
        case _ if "output" in kinds:
            reading.claims.append(expression)
        case [str(relation), left, right] if relation in FLIPPED:
            _bound(reading, relation, left, right)
        case _:
            raise UnsupportedError(
                f"the VNN-LIB file asserts {shown(expression)} of inputs, but one box is needed"
            )


def _bound(reading: _Reading, relation: str, left: Expr, right: Expr) -> None:
    """`left relation right` of an input and a number, or of one input in both networks."""
    said = shown([relation, left, right])
    first, second = reading.entry(left), reading.entry(right)
    if first and second and relation in ("==", "="):
        if first[2] != second[2] or first[0] == second[0]:
            raise UnsupportedError(
                f"the VNN-LIB file asserts {said}, but both networks must have the same input, "
                f"entry by entry"
            )
        reading.equal.add(first[2])
        return
    if first is None:
        first, right, relation = second, left, FLIPPED[relation]
    value = _linear(reading, right)
    if first is None or set(value) - {None}:
        raise UnsupportedError(
            f"the VNN-LIB file asserts {said}, but a box needs an input on one side and a finite "
            f"number on the other"
        )
    place, number = first[2], value.get(None, Fraction(0))
    if relation in ("<=", "<", "=", "=="):
        reading.hi[place] = min(number, reading.hi.get(place, number))
    if relation in (">=", ">", "=", "=="):
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
            return {key: -value for key, value in _linear(reading, inner).items()}
        case ["+" | "-" as sign, first, *others] if others:
            total = _linear(reading, first)
            for other in others:
                total = _sum(total, _linear(reading, other), 1 if sign == "+" else -1)
            return total
    raise UnsupportedError(
        f"the VNN-LIB file has the term {shown(expression)}, but sums of outputs and finite "
        f"numbers are what can be read"
    )


def _sum(first: Linear, second: Linear, factor: int) -> Linear:
    keys = [*first, *(key for key in second if key not in first)]
    zero = Fraction(0)
    return {key: first.get(key, zero) + factor * second.get(key, zero) for key in keys}


# --- the box and the claim ------------------------------------------------------------------------


def _size(reading: _Reading, kind: str) -> int:
    """How many inputs or outputs there are, in each of the networks."""
    if not reading.networks:
        declared = reading.constants["X" if kind == "input" else "Y"]
        return 1 + max(declared, default=-1)
    each = [math.prod(shape) for _, what, shape in reading.variables.values() if what == kind]
    if len(each) != len(reading.networks) or len(set(each)) != 1:
        raise InputError(
            f"each network of the VNN-LIB file needs one {kind}, all of one size, but they have "
            f"{each}"
        )
    return each[0]


def _ends(reading: _Reading) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """The lower and the upper bounds of all inputs."""
    size = _size(reading, "input")
    if size < 1:
        raise InputError("the VNN-LIB file declares no inputs X_0, X_1, …")
    for i in range(size):
        for side, known in (("lower", reading.lo), ("upper", reading.hi)):
            if i not in known:
                raise InputError(
                    f"the VNN-LIB file gives no {side} bound for input {i}, but the domain must be "
                    "bounded; add one"
                )
    lo, hi = (tuple(known[i] for i in range(size)) for known in (reading.lo, reading.hi))
    return lo, hi


def _claimed(reading: _Reading, outputs: int) -> tuple[Fraction, bool, bool]:
    """The tolerance of the claim, whether it is closed, and whether it can never hold."""
    whole: Expr = ["and", *reading.claims]
    atoms = _atoms(reading, whole)
    sides = {(i, relation[0]) for i, relation, _ in atoms}
    numbers = {number if relation[0] == ">" else -number for _, relation, number in atoms}
    closed = {len(relation) == 2 for _, relation, _ in atoms}
    complete = len(sides) == 2 * outputs
    if not complete or len(numbers) != 1 or len(closed) != 1 or not min(numbers) > 0:
        raise UnsupportedError(
            "the VNN-LIB file must ask whether some output differs by more than one tolerance "
            "above 0, in either direction, but asks for something else; state it for every output"
        )
    free = len(_flat(whole, "or")) == len(atoms)
    never = not free and _never(reading, whole)
    if not (free or never):
        raise UnsupportedError(
            "the VNN-LIB file asks for several outputs to differ at once, but whether some output "
            "differs is what can be decided; join its assertions by or"
        )
    return numbers.pop(), closed.pop(), never


def _atoms(reading: _Reading, expression: Expr) -> list[Atom]:
    match expression:
        case ["and" | "or", *parts]:
            return [atom for part in parts for atom in _atoms(reading, part)]
        case [str(relation), left, right] if relation in ("<", "<=", ">", ">="):
            return [_atom(reading, relation, left, right)]
    raise UnsupportedError(f"the VNN-LIB file asserts {shown(expression)}, which is unknown")


def _atom(reading: _Reading, relation: str, left: Expr, right: Expr) -> Atom:
    """`left relation right` as d_i relation number, d = second network − first."""
    terms = _sum(_linear(reading, left), _linear(reading, right), -1)
    number = -terms.pop(None, Fraction(0))
    match sorted((key, value) for key, value in terms.items() if value and key is not None):
        case [((0, "output", i), a), ((1, "output", j), b)] if i == j and a == -b and abs(b) == 1:
            return (i, relation, number) if b > 0 else (i, FLIPPED[relation], -number)
        case [((0, "output", j), b)] if not reading.networks and abs(b) == 1:  # the difference
            return (j, relation, number) if b > 0 else (j, FLIPPED[relation], -number)
    raise UnsupportedError(
        f"the VNN-LIB file asserts {shown([relation, left, right])}, but the same output of both "
        f"networks has to be compared"
    )


def _never(reading: _Reading, expression: Expr) -> bool:
    """Whether a conjunction wants an output to be both above and below."""
    if isinstance(expression, list) and expression[:1] == ["or"]:
        return all(_never(reading, part) for part in expression[1:])
    parts = _flat(expression, "and")
    joined = [part for part in parts if isinstance(part, list) and part[0] in ("and", "or")]
    above: dict[int, Fraction] = {}
    below: dict[int, Fraction] = {}
    for i, relation, number in _atoms(reading, ["and", *(p for p in parts if p not in joined)]):
        if relation[0] == ">":
            above[i] = max(number, above.get(i, number))
        else:
            below[i] = min(number, below.get(i, number))
    if any(i in below and above[i] > below[i] for i in above):
        return True
    return any(_never(reading, part) for part in joined)


def _flat(expression: Expr, word: str) -> list[Expr]:
    """The parts of nested conjunctions or disjunctions; one of a single part is both."""
    joined = isinstance(expression, list) and expression[:1] in (["and"], ["or"])
    if joined and (expression[0] == word or len(expression) == 2):
        return [part for inner in expression[1:] for part in _flat(inner, word)]
    return [expression]
