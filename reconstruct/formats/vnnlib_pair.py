"""VNN-LIB 2.0 properties of two networks: equal inputs in a box, and a tolerance on the outputs.

Such a property is satisfiable exactly if some output differs by more than the tolerance. Decimals
are kept as rationals; the box of floats around theirs and the float below the tolerance are what
is proved. VNN-LIB 1.0 says the same of one network that is the difference of two. A text that can
never hold, because it wants an output to be larger and smaller at once, is told apart: what was
meant is the claim with "or" in place of "and".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.text import text_of
from reconstruct.formats.vnnlib import FLIPPED, Expr, parse, shown
from reconstruct.networks import Box

BRACKETS = re.compile(r"\[[^\]\n]*\]")
ENTRY = re.compile(r"([A-Za-z_]\w*)\[([0-9]+(?:,[0-9]+)*)\]", re.ASCII)
SINGLE = re.compile(r"([XY])_([0-9]{1,9})", re.ASCII)  # of VNN-LIB 1.0
NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
LARGEST = 2**1000  # so that floats hold what is read
RELATIONS = {**FLIPPED, "==": "=="}
Atom = tuple[
    int, str, Fraction
]  # output, relation, number: d_i > t or d_i < −t, d = second − first


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


@dataclass
class _Reading:
    """What has been declared and asserted so far."""

    networks: list[str] = field(default_factory=list)
    variables: dict[str, tuple[int, str, tuple[int, ...]]] = field(default_factory=dict)
    lo: dict[int, Fraction] = field(default_factory=dict)
    hi: dict[int, Fraction] = field(default_factory=dict)
    equal: set[int] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)  # X_0, Y_0, … of a single network
    claims: list[Expr] = field(default_factory=list)

    def entry(self, token: Expr) -> tuple[int, str, int] | None:
        """Network, "input" or "output", and place of a token such as X_f[0,3]."""
        if isinstance(token, str) and token in self.constants:
            letter, _, number = token.partition("_")
            return 1, "input" if letter == "X" else "output", int(number)
        found = ENTRY.fullmatch(token) if isinstance(token, str) else None
        if found is None:
            return None
        if found[1] not in self.variables:
            raise InputError(
                f"the VNN-LIB file speaks of {shown(found[0])}, but declares no such input or "
                f"output; declare it in a network"
            )
        network, kind, shape = self.variables[found[1]]
        indices, place = [int(i) for i in found[2].split(",")], 0
        if len(indices) != len(shape) or any(i >= n for i, n in zip(indices, shape, strict=True)):
            raise InputError(
                f"the VNN-LIB file speaks of {shown(found[0])}, but {found[1]} has the shape "
                f"{list(shape)}"
            )
        for i, n in zip(indices, shape, strict=True):
            place = place * n + i
        return network, kind, place


def read_pair(content: bytes) -> PairProperty:
    """The property of two networks in a VNN-LIB 2.0 file."""
    text = BRACKETS.sub(lambda m: m[0].replace(" ", ""), text_of(content, "a VNN-LIB file"))
    reading = _Reading()
    for statement in parse(text):
        match statement:
            case ["vnnlib-version", _]:
                pass
            case ["declare-const", str(name), "Real"] if SINGLE.fullmatch(name):
                reading.constants.add(name)
            case ["declare-network", str(name), *parts]:
                _declare(reading, name, parts)
            case ["assert", expression]:
                _assert(reading, expression)
            case _:
                raise UnsupportedError(
                    f"the VNN-LIB file has the statement {shown(statement)}, but declare-network "
                    f"and assert are what a property of two networks is made of"
                )
    return _property(reading)


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
            case ["declare-input" | "declare-output" as kind, str(variable), str(), str(shape)]:
                sizes = tuple(int(n) for n in re.findall(r"[0-9]{1,9}", shape))
                reading.variables[variable] = number, str(kind).partition("-")[2], sizes
            case _:
                raise UnsupportedError(
                    f"the VNN-LIB file declares {shown(part)} in a network, but inputs and outputs "
                    f"of real numbers are what can be read"
                )


def _assert(reading: _Reading, expression: Expr) -> None:
    """Bounds and equalities of inputs are noted; what speaks of outputs is the claim."""
    if "output" in _kinds(reading, expression):
        reading.claims.append(expression)
        return
    match expression:
        case ["and", *parts]:
            for part in parts:
                _assert(reading, part)
        case [str(relation), left, right] if relation in RELATIONS:
            _input(reading, relation, left, right)
        case _:
            raise UnsupportedError(
                f"the VNN-LIB file asserts {shown(expression)} of inputs, but one box is needed"
            )


def _kinds(reading: _Reading, expression: Expr) -> set[str]:
    if isinstance(expression, str):
        found = reading.entry(expression)
        return set() if found is None else {found[1]}
    return set().union(*(_kinds(reading, part) for part in expression))


def _input(reading: _Reading, relation: str, left: Expr, right: Expr) -> None:
    first, second = reading.entry(left), reading.entry(right)
    if first and second and relation in ("==", "="):
        if first[2] != second[2] or first[0] == second[0]:
            raise UnsupportedError(
                f"the VNN-LIB file asserts {shown([relation, left, right])}, but both networks "
                f"must have the same input, entry by entry"
            )
        reading.equal.add(first[2])
        return
    if first is None:
        first, right, relation = second, left, RELATIONS[relation]
    value = _linear(reading, right)
    if first is None or set(value) - {None}:
        raise UnsupportedError(
            f"the VNN-LIB file asserts {shown([relation, left, right])}, but a box needs an input "
            f"on one side and a number on the other"
        )
    place, number = first[2], value.get(None, Fraction(0))
    if relation in ("<=", "<", "=", "=="):
        reading.hi[place] = min(number, reading.hi.get(place, number))
    if relation in (">=", ">", "=", "=="):
        reading.lo[place] = max(number, reading.lo.get(place, number))


Linear = dict[tuple[int, int] | None, Fraction]  # coefficients by (network, output); None: a number


def _linear(reading: _Reading, expression: Expr) -> Linear:
    """A sum of outputs and numbers."""
    match expression:
        case str(text):
            found = reading.entry(text)
            if found is not None:
                return {(found[0], found[2]): Fraction(1)}
            if NUMBER.fullmatch(text) and abs(Fraction(text)) < LARGEST:
                return {None: Fraction(text)}
        case ["-", inner]:
            return {key: -value for key, value in _linear(reading, inner).items()}
        case ["+" | "-" as sign, first, *others] if others:
            total = dict(_linear(reading, first))
            for other in others:
                for key, value in _linear(reading, other).items():
                    total[key] = total.get(key, Fraction(0)) + (value if sign == "+" else -value)
            return total
    raise UnsupportedError(
        f"the VNN-LIB file has the term {shown(expression)}, but sums of outputs and finite "
        f"numbers are what can be read"
    )


def _atom(reading: _Reading, relation: str, left: Expr, right: Expr) -> Atom:
    """`left relation right` as d_i relation number, d = second network − first."""
    terms = dict(_linear(reading, left))
    for key, value in _linear(reading, right).items():
        terms[key] = terms.get(key, Fraction(0)) - value
    number = -terms.pop(None, Fraction(0))
    match sorted((key, value) for key, value in terms.items() if value and key is not None):
        case [((0, i), a), ((1, j), b)] if i == j and a == -b and abs(b) == 1:
            return (i, relation, number) if b > 0 else (i, FLIPPED[relation], -number)
        case [((_, j), b)] if reading.constants and abs(b) == 1:  # the difference itself
            return (j, relation, number) if b > 0 else (j, FLIPPED[relation], -number)
    raise UnsupportedError(
        f"the VNN-LIB file asserts {shown([relation, left, right])}, but the same output of both "
        f"networks has to be compared"
    )


def _flat(expression: Expr, word: str) -> list[Expr]:
    """The parts of nested conjunctions or disjunctions; one of a single part is both."""
    joined = isinstance(expression, list) and expression[:1] in (["and"], ["or"])
    if joined and (expression[0] == word or len(expression) == 2):
        return [part for inner in expression[1:] for part in _flat(inner, word)]
    return [expression]


def _atoms(reading: _Reading, expression: Expr) -> list[Atom]:
    match expression:
        case ["and" | "or", *parts]:
            return [atom for part in parts for atom in _atoms(reading, part)]
        case [str(relation), left, right] if relation in ("<", "<=", ">", ">="):
            return [_atom(reading, relation, left, right)]
    raise UnsupportedError(f"the VNN-LIB file asserts {shown(expression)}, which is unknown")


def _never(reading: _Reading, expression: Expr) -> bool:
    """Whether a conjunction wants an output to be both above and below."""
    if isinstance(expression, list) and expression[:1] == ["or"]:
        return all(_never(reading, part) for part in expression[1:])
    parts = _flat(expression, "and")
    plain = [
        part for part in parts if isinstance(part, list) and part[0] not in ("and", "or")
    ]  # no empty one: _atoms read them
    above: dict[int, Fraction] = {}
    below: dict[int, Fraction] = {}
    for i, relation, number in (atom for part in plain for atom in _atoms(reading, part)):
        if relation[0] == ">":
            above[i] = max(number, above.get(i, number))
        else:
            below[i] = min(number, below.get(i, number))
    if any(i in below and above[i] > below[i] for i in above):
        return True
    return any(_never(reading, part) for part in parts if part not in plain)


def _property(reading: _Reading) -> PairProperty:
    if len(reading.networks) != (0 if reading.constants else 2):
        raise UnsupportedError(
            f"a property of two networks is needed, but the VNN-LIB file declares "
            f"{len(reading.networks)}"
        )
    sizes = _sizes(reading)
    for i in range(sizes["input"]):
        equal = i in reading.equal or bool(reading.constants)
        if i not in reading.lo or i not in reading.hi or not equal:
            raise InputError(
                f"the VNN-LIB file must bound input {i} from both sides and have it equal in both "
                f"networks, but does not; add what is missing"
            )
    whole: Expr = ["and", *reading.claims]
    atoms = _atoms(reading, whole)
    sides = {(i, relation[0]) for i, relation, _ in atoms}
    numbers = {number if relation[0] == ">" else -number for _, relation, number in atoms}
    closed = {len(relation) == 2 for _, relation, _ in atoms}
    complete = len(sides) == 2 * sizes["output"]
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
    order = range(sizes["input"])
    return PairProperty(
        tuple(reading.networks),
        tuple(reading.lo[i] for i in order),
        tuple(reading.hi[i] for i in order),
        sizes["output"],
        numbers.pop(),
        closed.pop(),
        never,
    )


def _sizes(reading: _Reading) -> dict[str, int]:
    found: dict[str, int] = {}
    if reading.constants:
        places = [reading.entry(name) for name in reading.constants]
        return {
            kind: 1 + max((p[2] for p in places if p and p[1] == kind), default=-1)
            for kind in ("input", "output")
        }
    for kind in ("input", "output"):
        each = [math.prod(shape) for _, what, shape in reading.variables.values() if what == kind]
        if len(each) != 2 or each[0] != each[1]:
            raise InputError(
                f"both networks of the VNN-LIB file need one {kind} of one size, but theirs are "
                f"{each}"
            )
        found[kind] = each[0]
    return found
