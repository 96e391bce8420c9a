"""Norms of matrices, never below the true ones."""

from __future__ import annotations

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.rounding import gamma

SQUARINGS = 6  # ‖S‖_F of n × n exceeds ‖S‖₂ by √n at most; after p squarings by its 2^p-th root


def spectral_norm(matrix: Array) -> float:
    """An upper bound of ‖M‖₂, a few percent above it; inf for what is not finite."""
    return float(spectral_norms(matrix[None])[0])


def spectral_norms(stack: Array, squarings: int = SQUARINGS) -> Array:
    """Upper bounds of ‖M‖₂ of every matrix of a stack, (count, m, n).

    ‖M‖₂² = ‖MᵀM‖₂, over and over, down to ‖M‖₂ ≤ ‖M‖_F. A product in floats is off by at most
    γ_n ‖|A||B|‖_F ≤ γ_n ‖A‖_F ‖B‖_F.
    """
    top = np.max(np.abs(stack), axis=(1, 2), initial=0.0)
    usual = np.isfinite(top) & (top > 0)
    if not usual.all():
        stack = np.where(usual[:, None, None], stack, 0.0)
    scale = np.exp2(np.ceil(np.log2(np.where(usual, top, 1.0))))
    tall = stack if stack.shape[1] >= stack.shape[2] else stack.transpose(0, 2, 1)
    found = upward(_largest(tall / scale[:, None, None], squarings + 1) * scale)
    return np.where(usual, found, np.where(top == 0, 0.0, np.inf))


def _largest(stack: Array, squarings: int) -> Array:
    """The bounds for matrices with entries of ordinary size; `stack` is overwritten."""
    lengths, off = [], []
    square, spare = np.empty((2, len(stack), stack.shape[2], stack.shape[2]))
    for _ in range(squarings):
        lengths.append(_frobenius(stack))
        stack /= lengths[-1][:, None, None]
        off.append(2 * gamma(stack.shape[1] + 8) * 1.01)  # the scaling and the product
        np.matmul(stack.transpose(0, 2, 1), stack, out=square)
        stack, square, spare = square, spare, square
    found = _frobenius(stack)
    for length, lost in zip(reversed(lengths), reversed(off), strict=True):
        found = upward(upward(np.sqrt(found + lost)) * length)
    return found


def _frobenius(stack: Array) -> Array:
    return upward(np.sqrt(np.einsum("lij,lij->l", stack, stack)))
