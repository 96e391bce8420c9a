"""The checker's arithmetic, all of it: exact integers, and floats that are rounded outward.

*Exact.* `Whole` is a matrix of integers of any length, kept as digits to the base 2^20. Sums of up
to 2^13 products of digits are integers below 2^53, which float64 holds whatever the order of the
sum, so that products of matrices go through BLAS without rounding.

*Outward.* With u = 2^-53, η = 2^-1074 and n products, |fl(Σ x y) − Σ x y| ≤ γ_n Σ|x y| + n·η.
`plus`, `times` and `dot` bound sums and products of non-negative floats from above; they give 0
only where every term is zero, and infinity where nothing is known. Infinities and NaN are values
here: the checker runs with numpy's warnings switched off.

Rests on proofs_check: exact-splitting, accumulated-rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf, nextafter
from sys import float_info
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from threadpoolctl import threadpool_limits

Floats = npt.NDArray[np.float64]
Digits = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
Item = TypeVar("Item")
Found = TypeVar("Found")
Matrix: TypeAlias = "sparse.csr_array"  # or an array of floats

UNIT, TINY = 2.0**-53, 2.0**-1074
BITS, CHUNK = 20, 2**11  # CHUNK ≤ 2^13 products to a sum
BASE = 1 << BITS
LONG = 64  # digits beyond which Python's own integers multiply faster
MOST_DIGITS = 2**16  # longer numbers than that are refused


# --- integers -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Whole:
    """A matrix of integers, `Σ_p digits[p]·2^(20p)`: digits of shape (length, rows, columns).

    All but the last digit lie in [0, 2^20), the last one in [−2^20, 2^20): a number is zero
    exactly if all its digits are.
    """

    digits: Digits

    @classmethod
    def zeros(cls, rows: int, columns: int) -> Whole:
        return cls(np.zeros((1, rows, columns), dtype=np.int64))

    @classmethod
    def of_integers(cls, numbers: Sequence[int], shape: tuple[int, int]) -> Whole:
        """Python's integers, row after row."""
        width = max((abs(n).bit_length() for n in numbers), default=0) // BITS + 1
        if width > MOST_DIGITS:
            raise OverflowError(f"numbers of {width * BITS} bits are more than the checker holds")
        rows = [[n >> BITS * place & (BASE - 1) for n in numbers] for place in range(width - 1)]
        rows.append([n >> BITS * (width - 1) for n in numbers])
        return cls(carried(np.array(rows, dtype=np.int64).reshape(width, *shape)))

    def integers(self) -> list[int]:
        """Python's integers, row after row."""
        total = [0] * (self.digits.shape[1] * self.digits.shape[2])
        for place in reversed(range(len(self.digits))):
            row = self.digits[place].ravel().tolist()
            total = [(high << BITS) + low for high, low in zip(total, row, strict=True)]
        return total

    @property
    def shape(self) -> tuple[int, int]:
        return self.digits.shape[1], self.digits.shape[2]

    def part(self, rows: slice, columns: slice = slice(None)) -> Whole:
        return Whole(self.digits[:, rows, columns])

    def nonzero(self) -> Marks:
        return np.asarray((self.digits != 0).any(axis=0))

    def __add__(self, other: Whole) -> Whole:
        length = max(len(self.digits), len(other.digits))
        total = np.zeros((length, *self.shape), dtype=np.int64)
        for one in (self.digits, other.digits):
            total[: len(one)] += one
        return Whole(carried(total))

    def __neg__(self) -> Whole:
        return Whole(carried(-self.digits))

    def times(self, other: Whole) -> Whole:
        """Entry by entry; rows or columns of length 1 are repeated."""
        if max(len(self.digits), len(other.digits)) > LONG:
            left, right = _objects(self), _objects(other)
            product = np.asarray(left * right)
            return Whole.of_integers(product.ravel().tolist(), product.shape)
        length = len(self.digits) + len(other.digits)
        shape = np.broadcast_shapes(self.shape, other.shape)
        total = np.zeros((length, *shape), dtype=np.int64)
        for i, one in enumerate(self.digits):
            for j, two in enumerate(other.digits):
                total[i + j] += one * two
        return Whole(carried(total))

    def scaled(self, factor: int) -> Whole:
        """Times one integer."""
        if factor == 1:
            return self
        if factor > 0 and factor & (factor - 1) == 0:
            places, bits = divmod(factor.bit_length() - 1, BITS)
            low = np.zeros((places, *self.shape), dtype=np.int64)
            return Whole(carried(np.concatenate([low, self.digits << bits])))
        return self.times(Whole.of_integers([factor], (1, 1)))

    def __matmul__(self, other: Whole) -> Whole:
        """The product of two matrices: all pairs of digits in one float64 product per chunk."""
        (m, n), k = self.shape, other.shape[1]
        if max(len(self.digits), len(other.digits)) > LONG:
            product = np.asarray(_objects(self) @ _objects(other))
            return Whole.of_integers(product.ravel().tolist(), (m, k))
        total = Whole.zeros(m, k)
        for start in range(0, n, CHUNK):
            rows = slice(start, start + CHUNK)
            product = short_product(self.digits[:, :, rows], other.digits[:, rows])
            total = total + Whole(carried(product))
        return total


def short_product(left: Digits, right: Digits) -> Digits:
    """The digits of a product of matrices, or of one product for each group, (length, …, m, n)
    times (length, …, n, k), whose sums have no more than CHUNK terms."""
    *groups, m, n = left.shape[1:]
    p, q, k = len(left), len(right), right.shape[-1]
    above = np.moveaxis(left, 0, -3).reshape(*groups, p * m, n).astype(np.float64)
    beside = np.moveaxis(right, 0, -2).astype(np.float64, order="C").reshape(*groups, n, q * k)
    pairs = (above @ beside).astype(np.int64).reshape(*groups, p, m, q, k)
    total = np.zeros((p + q, *groups, m, k), dtype=np.int64)
    for i in range(p):
        for j in range(q):
            part = pairs[..., i, :, j, :]
            total[i + j] += part & (BASE - 1)  # in two parts, so that no sum overflows
            total[i + j + 1] += part >> BITS
    return total


def carried(digits: Digits) -> Digits:
    """The same numbers with every digit in its range, and no more digits than they need, in the
    memory of those that came: a copy of those of a wide map would be as large as a network."""
    for low, high in pairwise(digits):
        high += low >> BITS
        low &= BASE - 1
    least, most = _ends(digits[-1])
    while least < -BASE or most >= BASE:
        digits = np.concatenate([digits, digits[-1:] >> BITS])
        digits[-2] &= BASE - 1
        least, most = least >> BITS, most >> BITS
    while len(digits) > 1 and least >= -1 and most <= 0:
        digits[-2] += digits[-1] << BITS
        digits = digits[:-1]
        least, most = _ends(digits[-1])
    return digits


def _ends(digits: Digits) -> tuple[int, int]:
    return int(digits.min(initial=0)), int(digits.max(initial=0))


def _objects(whole: Whole) -> npt.NDArray[np.object_]:
    array = np.empty(whole.digits[0].size, dtype=object)
    array[:] = whole.integers()
    return array.reshape(whole.shape)


def exact(values: npt.ArrayLike) -> tuple[Whole, int]:
    """`(N, D)` with values = N/D exactly for a matrix of floats, D the least power of two.

    Digits are taken off from the largest on: of a float, so that what is left is a float too.
    """
    matrix = np.asarray(values, dtype=np.float64)
    fraction, exponent = np.frexp(matrix)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    ends = (whole & -whole).astype(np.float64)  # the lowest bit that is set
    lowest = exponent + np.frexp(ends)[1] - 54
    shift = max(0, -int(np.min(lowest, initial=0, where=whole != 0)))
    length = max(0, int(exponent.max(initial=0)) + shift) // BITS + 1
    digits = np.empty((length, *matrix.shape), dtype=np.int64)
    for place in reversed(range(length)):
        digit = np.trunc(_moved(matrix, shift - BITS * place))
        digits[place] = digit
        matrix = matrix - _moved(digit, BITS * place - shift)
    return Whole(carried(digits)), 1 << shift


def _moved(values: Floats, power: int) -> Floats:
    """values·2^power, exact where that is a float."""
    return values * 2.0**power if abs(power) < 1000 else np.asarray(np.ldexp(values, power))


def nearest(whole: Whole, unit: int) -> tuple[Floats, Floats]:
    """`(middle, error)` with |N/D − middle| ≤ error, entry by entry; no error where N = 0.

    Digits are added from the largest on, and what each sum loses is kept (Knuth's TwoSum): at most
    u|S|, and at most the digit itself, since S is a float. So `lost` is known to 2^-100 of S. What
    lies below the smallest float loses η a digit; a D that is no power of two costs two roundings.
    Where no sum loses anything the outcome is exact, and is said to be: the ranges of units that
    are only handed on would otherwise move by 2^-96, and what is never negative would be.
    """
    length, scale = len(whole.digits), unit.bit_length() - 1
    middle = lost = np.zeros(whole.shape)
    clean = np.full(whole.shape, unit == 1 << scale and scale <= 1000)
    for place in reversed(range(length)):
        digit = np.ldexp(whole.digits[place].astype(np.float64), BITS * place - scale)
        total = middle + digit
        part = total - middle
        gone = (middle - (total - part)) + (digit - part)
        clean &= gone == 0
        lost = lost + gone
        middle = total
    error = np.abs(lost) * (1 + 2.0**-40) + np.abs(middle) * 2.0**-96
    if unit != 1 << scale:
        divisor = float(Fraction(unit, 1 << scale))
        middle = middle / divisor
        error = error / divisor * (1 + 2.0**-50) + np.abs(middle) * (3 * UNIT)
    error = above(above(error) + 2 * (length + 2) * TINY)
    known, zero = np.isfinite(middle) & np.isfinite(error), ~whole.nonzero()
    error = np.where(zero | (clean & known), 0.0, np.where(known, error, np.inf))
    return np.where(zero | ~known, 0.0, middle), error


def largest(whole: Whole, unit: int) -> Floats:
    """|N/D| from above; 0 only where N = 0."""
    middle, error = nearest(whole, unit)
    return plus(np.abs(middle), error)


def float_above(value: Fraction) -> float:
    """A float that is no less than a rational; of those ≥ 0 it is 0 for 0 alone."""
    try:
        near = float(value)
    except OverflowError:
        return inf if value > 0 else -float_info.max
    return near if Fraction(near) >= value else nextafter(near, inf)


# --- floats, rounded outward ----------------------------------------------------------------------


def gradual_underflow() -> bool:
    """Whether numbers below 2^-1022 are kept: outward rounding rests on it, and a library that was
    compiled with -ffast-math may have switched it off for the whole process."""
    for kind in (np.float64, np.float32):
        least = np.full((8, 9), np.finfo(kind).tiny)
        halves = least * kind(0.5), least @ np.diag(np.full(9, kind(0.5)))
        single = least[0, 0] * kind(0.5)
        kept = all((half != 0).all() and (half + half == least).all() for half in halves)
        if not (kept and single != 0 and single + single == least[0, 0]):
            return False
    return 2.0**-1022 * 0.5 > 0


def above(x: npt.ArrayLike) -> Floats:
    """The next float above or the one behind it: x + y ≤ above(fl(x + y)), infinity for what is no
    number. A sum that is −∞ may be any beyond the floats.

    2u|x| + η is at least one unit in the last place of x; `np.nextafter` gives the next float
    itself and takes seven times as long.
    """
    value = np.maximum(np.asarray(x, dtype=np.float64), -float_info.max)
    up = np.asarray(np.abs(value))
    up *= 2 * UNIT  # in place: memory for large arrays costs more than the sums
    up += TINY
    up += value
    np.fmin(up, np.inf, out=up)  # of a number and a NaN, the number
    return up


def below(x: npt.ArrayLike) -> Floats:
    """The next float below, minus infinity for what is no number."""
    up = above(-np.asarray(x, dtype=np.float64))
    return np.negative(up, out=up)


def upper(x: Floats) -> Floats:
    """A non-negative expression of fewer than 2^20 roundings, from above."""
    return above(x * (1 + 2.0**-30) + 2.0**-1050)


def plus(first: Floats, *others: Floats) -> Floats:
    """The sum of non-negative floats, from above; 0 only where all are.

    n sums and the product take off at most (n + 1)·u of it, and nothing where they are subnormal:
    there sums are exact, and no product by more than 1 is below its factor. What is added to
    nothing stays as it is.
    """
    total, sums = np.asarray(first, dtype=np.float64), 0
    for other in others:
        sums += bool(np.any(total)) and bool(np.any(other))
        total = total + other
    if sums:
        total = total * (1 + (sums + 2) * 2.0**-52)
    return np.asarray(np.fmin(total, np.inf))


def times(x: Floats, y: Floats) -> Floats:
    """The product of non-negative floats, from above; zero times infinity is zero."""
    product = np.fmin(x * y * (1 + 2.0**-51) + TINY, np.inf)
    return np.where((x == 0) | (y == 0), 0.0, product)


def dot(matrix: Matrix, other: Floats) -> Floats:
    """`matrix @ other` of numbers that are not negative, from above, the matrix dense, one of many
    or sparse; 0 only where all terms are 0, infinity where nothing is known.

    true ≤ (fl + n·η/2)/(1 − γ_n) ≤ (fl + n·η)(1 + n·2^-51): the last factor is 1 + 4n·u, of which
    γ_n takes n·u, and the sum and the product here 2u.
    """
    n = matrix.shape[-1]
    value = np.asarray(matrix @ other)
    bound = np.asarray(np.fmin((value + n * TINY) * (1 + n * 2.0**-51), np.inf))
    if not (value > 0).all():
        left, right = ((part != 0).astype(np.float32) for part in (matrix, other))
        bound = np.where(np.asarray(left @ right) == 0, 0.0, bound)
    return bound


def gamma(n: int) -> float:
    """γ_n = nu/(1 − nu) from above, for n < 2^40."""
    if n >= 2**40:
        raise OverflowError(f"sums of {n} terms are outside of what the checker covers")
    return n * UNIT * (1 + 2.0**-11)


def product_error(sizes: Floats, terms: int, floor: Floats | float = 0.0) -> Floats:
    """What rounding does to sums of `terms` products whose magnitudes add up to `sizes`.

    `floor` is what one lost η is multiplied with afterwards (1 if with nothing).
    """
    lost = above(np.asarray(floor, dtype=np.float64) * (terms * TINY))
    return plus(times(sizes, np.full(np.shape(sizes), gamma(terms))), lost)


@dataclass(frozen=True, eq=False)
class Tally:
    """A sum that grows, with what its terms and its own rounding may be wrong by."""

    value: Floats
    slack: Floats

    @classmethod
    def start(cls, value: Floats, error: Floats) -> Tally:
        return cls(value, error)

    def add(self, term: Floats, *errors: Floats) -> Tally:
        """What the sum itself loses is known exactly (Knuth's TwoSum)."""
        value = self.value + term
        part = value - self.value
        lost = np.abs((self.value - (value - part)) + (term - part))
        lost = np.where(np.isfinite(lost), lost, np.inf)
        return Tally(value, plus(self.slack, lost, *errors))

    def lowest(self) -> Floats:
        """A lower bound of the true sum; minus infinity where nothing is known."""
        low = np.where(self.slack == 0, self.value, below(self.value - self.slack))
        return np.where(np.isnan(low), -np.inf, low)

    def ends(self) -> tuple[Floats, Floats]:
        """Bounds of the true sum, from below and from above."""
        return self.lowest(), -Tally(-self.value, self.slack).lowest()


# --- blocks side by side --------------------------------------------------------------------------


def side_by_side(function: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    """`function(item)` for every item, in their order, as many at a time as there are processors:
    each is a proof of its own.

    The first is done alone and fills what is kept for the others. Matrix products take one thread
    each; no more is under way, or waits, than there are threads.
    """
    count = processors()
    if len(items) < 3 or count == 1:
        yield from map(function, items)
        return

    def quietly(item: Item) -> Found:
        with np.errstate(all="ignore"):  # threads do not take it over from who started them
            return function(item)

    yield function(items[0])
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(count) as pool:
        for start in range(1, len(items), count):
            yield from pool.map(quietly, items[start : start + count])


def processors() -> int:
    """How many processors this process may use; not every platform tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
