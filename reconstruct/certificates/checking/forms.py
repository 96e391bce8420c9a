"""Exact affine forms for the checker: `v = Σ_j A_j h_j + c` with integers in place of floats.

Every float is an integer over a power of two, so [A_1 … A_J | c] is kept as a matrix of Python
integers N over one denominator D. Nothing is rounded. Two things are not rational, a norm's scale
γ/√(v+ε) in general and the doubt about an activation that may leave its line; both go into
`radius`, a matrix of floats rounded up, and into nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, lcm
from typing import Any

import numpy as np

from reconstruct.networks import Activation, Add, Mixing, Network, Norm, Select

LIMB = 20  # products of two limbs, summed over 2^13 terms, stay below 2^53: float64 is exact
TERMS = 2**13
ROOT_BITS = 256
LONG = 512


def up(x: Any) -> Any:
    """Above any sum of up to 2^20 non-negative floats evaluated as x, in whatever order."""
    return np.asarray(x, dtype=np.float64) * (1 + 2.0**-30) + 2.0**-1000


def to_integers(values: Any) -> tuple[Any, int]:
    """(N, D) with values = N/D exactly, D a power of two."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.ldexp(fraction, 53).astype(np.int64)
    power = exponent.astype(np.int64) - 53
    shift = max(0, -int(np.min(np.where(whole == 0, 0, power), initial=0)))
    left = np.where(whole == 0, 0, power + shift)
    integers = whole.astype(object) << left.astype(object)
    common = int(np.bitwise_or.reduce(np.ravel(integers), initial=0)) | (1 << shift)
    spare = (common & -common).bit_length() - 1  # zeros that all of them end in
    return integers >> spare, 1 << (shift - spare)


def to_floats(integers: Any, denominator: int) -> Any:
    """N/D, each number correctly rounded (Python divides integers so)."""
    return np.asarray(integers / denominator).astype(np.float64)


def grown(x: Any) -> Any:
    """`up`, but a sum of zeros stays zero; for sums only, because products may underflow."""
    return np.where(x == 0, 0.0, up(x))


def multiply(left: Any, right: Any) -> Any:
    """The exact product of two matrices of integers: all pairs of limbs in one float64 product."""
    m, k = left.shape[0], right.shape[1]
    if int(np.max(np.abs(right), initial=0)).bit_length() > LONG:
        return left @ right  # the long integers of rational norms: Python multiplies them faster
    total = np.zeros((m, k), dtype=np.int64).astype(object)
    for start in range(0, left.shape[1], TERMS):
        a, b = _limbs(left[:, start : start + TERMS]), _limbs(right[start : start + TERMS])
        if not a or not b:
            continue
        pairs = np.concatenate(a) @ np.concatenate(b, axis=1)  # exact: |sum| ≤ TERMS·2^(2·LIMB)
        for i in range(len(a)):
            for j in range(len(b)):
                part = pairs[i * m : (i + 1) * m, j * k : (j + 1) * k]
                total = total + (part.astype(np.int64).astype(object) << LIMB * (i + j))
    return total


def _limbs(matrix: Any) -> list[Any]:
    """Digits in base 2^LIMB, lowest first, all in [0, 2^LIMB) but a last one of −1 or 0."""
    limbs = []
    while matrix.any():
        if (matrix * (matrix + 1) == 0).all():
            limbs.append(matrix.astype(np.float64))
            break
        limbs.append((matrix & (2**LIMB - 1)).astype(np.float64))
        matrix = matrix >> LIMB
    return limbs


@dataclass(frozen=True, eq=False)
class Form:
    """Rows of [A_1 … A_J | c]: `layout` names the sources with their sizes, in column order."""

    layout: tuple[tuple[str, int], ...]
    integers: Any
    denominator: int
    radius: Any

    def over(self, layout: tuple[tuple[str, int], ...], denominator: int) -> Form:
        """The same rows with more columns (zeros) and a multiple of the denominator."""
        if (layout, denominator) == (self.layout, self.denominator):
            return self
        columns = sum(size for _, size in layout) + 1
        integers = np.zeros((len(self.integers), columns), dtype=np.int64).astype(object)
        radius = np.zeros(integers.shape)
        where = dict(_places(layout))
        for name, part in (*self.parts(), ("", slice(-1, None))):
            to = where.get(name, slice(-1, None))
            integers[:, to] = self.integers[:, part] * (denominator // self.denominator)
            radius[:, to] = self.radius[:, part]
        return Form(layout, integers, denominator, radius)

    def plus(self, other: Form, sign: int = 1) -> Form:
        layout = tuple(dict.fromkeys(self.layout + other.layout))
        denominator = lcm(self.denominator, other.denominator)
        a, b = self.over(layout, denominator), other.over(layout, denominator)
        total = a.integers + sign * b.integers
        return Form(layout, total, denominator, grown(a.radius + b.radius))

    def parts(self) -> list[tuple[str, slice]]:
        """The columns of each source; the constant is the last column."""
        return _places(self.layout)

    def rows(self, start: int, stop: int) -> Form:
        part = slice(start, stop)
        return Form(self.layout, self.integers[part], self.denominator, self.radius[part])

    def floats(self) -> tuple[Any, Any]:
        """(F, E) with |exact − F| ≤ E entry by entry."""
        middle = to_floats(self.integers, self.denominator)
        return middle, up(np.abs(middle) * 2.0**-50 + self.radius)


def _places(layout: tuple[tuple[str, int], ...]) -> list[tuple[str, slice]]:
    places, start = [], 0
    for name, size in layout:
        places.append((name, slice(start, start + size)))
        start += size
    return places


def scale_of(norm: Norm) -> tuple[Any, int, Any]:
    """(N, D, radius) of s = γ/√(v+ε): exact where v + ε = 1, else by integer square roots.

    D = v + ε is p·2^−k exactly. With R = isqrt(p·2^(2B−k)), R ≤ √D·2^B < R + 1, and γ/√D is within
    |γ|·2^B/(R(R+1)) + 2^−B of ⌊γ·2^B·2^B/R⌋·2^−B.
    """
    spread, unit = to_integers(np.append(norm.var, norm.eps))
    gammas, g = to_integers(norm.gamma)
    squares = (spread[:-1] + spread[-1]).tolist()
    if all(p == unit for p in squares):
        return gammas, g, np.zeros(len(gammas))
    numbers, slips = [], []
    for p, gamma in zip(squares, gammas.tolist(), strict=True):
        root = isqrt((p << 2 * ROOT_BITS) // unit)
        if root < 2 ** (ROOT_BITS // 2):
            raise ValueError(f"a variance of {p}/{unit} is too small for the checker")
        numbers.append((gamma << 2 * ROOT_BITS) // root)
        slips.append(2 + (abs(gamma) << 2 * ROOT_BITS) // root**2)
    denominator = g << ROOT_BITS
    radius = up(to_floats(np.array(slips, dtype=object), denominator))
    return np.array(numbers, dtype=object), denominator, radius


def rational_scale(norm: Norm, gammas: list[Fraction]) -> tuple[Any, int, Any]:
    """The same for rational gammas, where √(v+ε) has to be rational; ValueError where it is not."""
    scales = []
    for gamma, var in zip(gammas, norm.var.tolist(), strict=True):
        square = Fraction(var) + Fraction(norm.eps)
        root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
        if root * root != square:
            raise ValueError(f"the square root of {square} is not rational")
        scales.append(gamma / root)
    return *over_one(scales), np.zeros(len(scales))


def over_one(values: list[Fraction]) -> tuple[Any, int]:
    """(N, D) with values = N/D exactly."""
    denominator = lcm(*(value.denominator for value in values))
    whole = [value.numerator * (denominator // value.denominator) for value in values]
    return np.array(whole, dtype=object), denominator


class Forms:
    """The forms of a network's nodes over its sources (`sources`: node name → shared name)."""

    def __init__(
        self,
        network: Network,
        sources: dict[str, str],
        norms: dict[str, tuple[list[Fraction], list[Fraction]]] | None = None,
    ) -> None:
        self.network, self.sources = network, sources
        self.norms = norms or {}  # rational gammas and betas in place of the file's
        self.nodes = {node.name: node for node in network.nodes}
        self.doubts: dict[str, Any] = {}  # per inner activation: how far it may be from its line
        self._cache: dict[str, Form] = {}
        self._scales: dict[str, Any] = {}

    def blocks(self, name: str) -> list[tuple[int, int]]:
        size = self.network.sizes[name]
        return [(start, min(size, start + TERMS)) for start in range(0, size, TERMS)]

    def whole(self, name: str) -> Form:
        return self.rows(name, 0, self.network.sizes[name])

    def sum_of(self, name: str) -> Form:
        """The form of a sum of branches over the sources before it, though it is a cut itself."""
        first, *others = (self.whole(i) for i in self.nodes[name].inputs)
        for other in others:
            first = first.plus(other)
        return first

    def rows(self, name: str, start: int, stop: int) -> Form:
        """Rows of a node's form; a source is itself."""
        if name in self.sources:
            size = self.network.sizes[name]
            eye = np.eye(stop - start, size + 1, k=start)
            return Form(((self.sources[name], size),), *to_integers(eye), np.zeros_like(eye))
        node, op = self.nodes[name], self.nodes[name].op
        if isinstance(op, Mixing):
            return self._affine(name, op, start, stop)
        if isinstance(op, Select):
            return self.rows(node.inputs[0], op.start + start, op.start + stop)
        form = self.rows(node.inputs[0], start, stop)
        if isinstance(op, Add):
            for other in node.inputs[1:]:
                form = form.plus(self.rows(other, start, stop))
            return form
        if isinstance(op, Norm):
            return self._norm(name, op, form, slice(start, stop))
        assert isinstance(op, Activation)
        slope, unit = to_integers(op.piece.slope)
        steep = abs(op.piece.slope)
        radius = up(form.radius * steep) if form.radius.any() else form.radius.copy()
        radius[:, -1] = grown(radius[:, -1] + self.doubts[name][start:stop])
        return Form(form.layout, form.integers * int(slope), form.denominator * unit, radius)

    def _norm(self, name: str, op: Norm, form: Form, rows: slice) -> Form:
        """s·form + t with t = β − s·μ: the constant column is s·(c − μ) + β."""
        if name not in self._scales:
            if name in self.norms:
                gammas, betas = self.norms[name]
                self._scales[name] = rational_scale(op, gammas), over_one(betas)
            else:
                self._scales[name] = scale_of(op), to_integers(op.beta)
        (numbers, unit, slip), (betas, beta_unit) = self._scales[name]
        numbers, slip = numbers[rows], slip[rows]
        centred = form.plus(constant_form(*to_integers(op.mean[rows])), sign=-1)
        radius = np.zeros(centred.radius.shape)
        if slip.any() or centred.radius.any():
            size = np.abs(to_floats(centred.integers, centred.denominator)) + centred.radius
            steep = up(np.abs(to_floats(numbers, unit)) + slip)
            radius = up(steep[:, None] * centred.radius + up(size) * slip[:, None])
        product = centred.integers * numbers[:, None]
        scaled = Form(centred.layout, product, centred.denominator * unit, radius)
        return scaled.plus(constant_form(betas[rows], beta_unit))

    def _affine(self, name: str, op: Mixing, start: int, stop: int) -> Form:
        (inside,) = self.nodes[name].inputs
        if inside in self.sources:
            rows = np.column_stack([op.tile(start, stop), op.bias[start:stop]])
            layout = ((self.sources[inside], rows.shape[1] - 1),)
            return Form(layout, *to_integers(rows), np.zeros(rows.shape))
        if name not in self._cache:
            total = constant_form(*to_integers(op.bias))
            weight = op.tile(0, op.shape[0])
            for first, last in self.blocks(inside):
                block = self.rows(inside, first, last)
                whole, unit = to_integers(weight[:, first:last])
                radius = up(np.abs(weight[:, first:last]) @ block.radius)
                radius = radius if block.radius.any() else np.zeros(radius.shape)
                product = multiply(whole, block.integers)
                total = total.plus(Form(block.layout, product, block.denominator * unit, radius))
            self._cache[name] = total
        return self._cache[name].rows(start, stop)


def constant_form(integers: Any, denominator: int) -> Form:
    """The form of a constant vector: no sources, one column."""
    return Form((), integers[:, None], denominator, np.zeros((len(integers), 1)))
