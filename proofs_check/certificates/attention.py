"""Products of two values and Softmax, as the checker evaluates them at a given input.

A product is one of integers, with |A| s + r |B| + r s for radii r and s of the factors. Softmax is
a quotient of exponentials of rationals; where z moves by r, p_i moves by at most
2 p_i (1 − p_i)·max r ≤ max r/2.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from proofs_check.certificates.arithmetic import Whole, above, dot, float_above, largest, plus
from proofs_check.certificates.balls import Balls
from proofs_check.certificates.bends import exponential
from reconstruct.networks import MatrixProduct, Softmax


def multiplied(first: Balls, second: Balls, op: MatrixProduct) -> Balls:
    """The product of each pair of matrices, one below the other."""
    found = []
    for place in range(op.stack):
        left = _matrix(first, place, op.rows, op.inner)
        right = _matrix(second, place, op.inner, op.columns)
        size = [largest(value.whole, 1 << value.bits) for value in (left, right)]
        radius = plus(dot(size[0], right.radius), dot(left.radius, plus(size[1], right.radius)))
        found.append((left.whole @ right.whole, radius.ravel()))
    numbers = [number for whole, _ in found for number in whole.integers()]
    column = Whole.of_integers(numbers, (len(numbers), 1))
    radius = np.concatenate([part for _, part in found])
    return Balls.rounded(column, 1 << 2 * first.bits, radius, first.bits)


def _matrix(value: Balls, place: int, rows: int, columns: int) -> Balls:
    part = slice(place * rows * columns, (place + 1) * rows * columns)
    digits = value.whole.digits[:, part, 0]
    whole = Whole(digits.reshape(len(digits), rows, columns))
    return Balls(whole, value.radius[part].reshape(rows, columns), value.bits)


def softmax(value: Balls, op: Softmax) -> Balls:
    """Quotients of the exponentials of what each unit lacks to the largest of its row."""
    bits, numbers = value.bits, value.whole.integers()
    found: list[int] = []
    own: list[float] = []
    for start in range(0, len(numbers), op.width):
        row = numbers[start : start + op.width]
        powers = [exponential(Fraction(number - max(row), 1 << bits), bits) for number in row]
        least, most = (sum(ends, Fraction(0)) for ends in zip(*powers, strict=True))
        found += [int((low / most) * (1 << bits)) for low, _ in powers]
        wide = max(high / least - low / most for low, high in powers)
        own.append(float_above(wide + Fraction(1, 1 << bits)))
    moved = above(0.5 * value.radius.reshape(op.rows, op.width).max(axis=1))
    radius = np.repeat(plus(moved, np.array(own)), op.width)
    return Balls(Whole.of_integers(found, (len(found), 1)), radius, bits)
