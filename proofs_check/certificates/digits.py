"""Digits of long integers moved and compared: what values at a given input need beside products.

A number Σ_p d_p 2^(20p) has digits in [0, 2^20) but for the last, which has the sign; so dropping
digits from the lower end rounds down, and numbers compare by their digits from the upper end.
"""

from __future__ import annotations

import numpy as np

from proofs_check.certificates.arithmetic import BASE, BITS, Digits, Marks, Whole


def rescaled(whole: Whole, unit: int, bits: int) -> tuple[Whole, Marks]:
    """⌊N·2^bits/D⌋, and where it is not exact (then it is less by less than 1)."""
    shift = unit.bit_length() - 1 - bits
    if unit != 1 << unit.bit_length() - 1:
        pairs = [divmod(number << bits, unit) for number in whole.integers()]
        lost = np.array([rest != 0 for _, rest in pairs]).reshape(whole.shape)
        return Whole.of_integers([number for number, _ in pairs], whole.shape), lost
    if shift <= 0:
        return whole.scaled(1 << -shift), np.zeros(whole.shape, dtype=bool)
    return _shifted(whole, shift)


def _shifted(whole: Whole, shift: int) -> tuple[Whole, Marks]:
    """⌊N/2^shift⌋: digits but the last are not negative, so that dropping them rounds down."""
    places, small = divmod(shift, BITS)
    digits = _longer(whole.digits, max(len(whole.digits), places + 1))
    lost = (digits[:places] != 0).any(axis=0) | (digits[places] & ((1 << small) - 1) != 0)
    kept = digits[places:]
    low = kept >> small
    low[:-1] |= (kept[1:] & ((1 << small) - 1)) << (BITS - small)
    return Whole(low) + Whole.zeros(*whole.shape), np.asarray(lost)


def alike(first: Digits, second: Digits) -> tuple[Digits, Digits]:
    """The digits of two arrays of numbers, equally many."""
    length = max(len(first), len(second))
    return _longer(first, length), _longer(second, length)


def _longer(digits: Digits, length: int) -> Digits:
    """The same numbers with more digits: the last one alone has a sign."""
    more = length - len(digits)
    if more == 0:
        return digits
    low = np.concatenate([digits[:-1], digits[-1:] & (BASE - 1)])
    zeros = np.zeros((more - 1, *digits.shape[1:]), dtype=np.int64)
    sign = digits[-1:] >> BITS
    filled = np.where(sign < 0, BASE - 1, zeros) if more > 1 else zeros
    return np.concatenate([low, filled, sign])


def exceeds(first: Digits, second: Digits) -> Marks:
    """Which numbers are larger, by their digits from the last one on."""
    sign = np.zeros(first.shape[1:], dtype=np.int64)
    for one, other in zip(first[::-1], second[::-1], strict=True):
        sign = np.where(sign == 0, np.sign(one - other), sign)
    return np.asarray(sign > 0)
