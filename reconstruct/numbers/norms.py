"""Norms of matrices, never below the true ones."""

from __future__ import annotations

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.rounding import gamma

SQUARINGS = 6  # ‖S‖_F of n × n exceeds ‖S‖₂ by √n at most; after p squarings by its 2^p-th root


def spectral_norm(matrix: Array) -> float:
    """An upper bound of ‖M‖₂, a few percent above it; inf for what is not finite.

    ‖M‖₂² = ‖G‖₂ for the smaller Gram matrix G, and ‖S‖₂² = ‖S²‖₂ for symmetric S, down to
    ‖S‖₂ ≤ ‖S‖_F. A product in floats is off by at most γ_n ‖|A||B|‖_F ≤ γ_n ‖A‖_F ‖B‖_F.
    """
    top = float(np.max(np.abs(matrix), initial=0.0))
    if not top or not np.isfinite(top):
        return 0.0 if top == 0 else float("inf")
    part = matrix / 2.0 ** np.ceil(np.log2(top))  # no overflow; what underflows is counted below
    tall = part if part.shape[0] >= part.shape[1] else part.T
    gram = tall.T @ tall
    lost = 2 * gamma(len(tall) + 4) * _frobenius(tall) ** 2
    square = _largest((gram + gram.T) / 2, SQUARINGS) + lost
    return float(upward(np.sqrt(square) * 2.0 ** np.ceil(np.log2(top))))


def _largest(matrix: Array, squarings: int) -> float:
    """An upper bound of ‖S‖₂ of a symmetric matrix with entries of ordinary size."""
    length = _frobenius(matrix)
    if not squarings or not length:
        return length
    scaled = matrix / length
    square = scaled @ scaled
    off = 4 * gamma(len(matrix) + 8) * 1.01  # the scaling, the product, and its symmetry
    root = float(upward(np.sqrt(_largest((square + square.T) / 2, squarings - 1) + off)))
    return float(upward(root * length))


def _frobenius(matrix: Array) -> float:
    return float(upward(np.sqrt(np.sum(matrix * matrix))))
