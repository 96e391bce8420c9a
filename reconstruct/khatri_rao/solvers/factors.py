"""Factorisations of a dense `K`: LU, QR, and a complete orthogonal one that finds the rank.

Square systems use LU, wider ones the QR factorisation of `Kᵀ` (minimum-norm solution
`s = Q R⁻ᵀ w`). Both overwrite the `K` that they are given.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from reconstruct.khatri_rao.solution import EPS

Array: TypeAlias = NDArray[np.float64]

SVD_LIMIT = 512  # equations up to which all singular values are cheaper than a second thought
POWER_STEPS = 12  # each is two triangular solves; the estimate is then good to some per cent
BLOCK = 64  # LAPACK's usual block size: workspace per row


class Factor(Protocol):
    """A factored `K`: applies a (pseudo-)inverse."""

    rank: int
    condition: float

    def solve(self, w: Array) -> Array:
        """`K⁺ w` for a vector of length m·k."""
        ...


class SquareLU:
    """LU with partial pivoting of a square `K`."""

    def __init__(self, K: Array) -> None:
        singular = np.linalg.svd(K, compute_uv=False) if len(K) <= SVD_LIMIT else None
        norm = None if singular is not None else _spectral_norm(K)
        # K is row-major, so its transpose is what LAPACK can factor in place
        getrf, self._getrs = _lapack("getrf", "getrs")
        self._lu, self._pivots, info = getrf(K.T, overwrite_a=True)
        if info > 0:
            self.condition = np.inf
        elif singular is not None:
            self.condition = _ratio(singular[0], singular[-1])
        else:
            self.condition = float(norm or 0.0) * self._inverse_norm()
        self.rank = len(K)

    def solve(self, w: Array) -> Array:
        """`K⁻¹ w`."""
        return np.asarray(self._getrs(self._lu, self._pivots, w, trans=1)[0])

    def _inverse_norm(self) -> float:
        def step(v: Array) -> Array:
            return self.solve(np.asarray(self._getrs(self._lu, self._pivots, v, trans=0)[0]))

        return float(np.sqrt(_power(step, len(self._lu))))


class WideQR:
    """QR of `Kᵀ` for `n > m·k`: `K⁺ w = Q R⁻ᵀ w`, the minimum-norm solution."""

    def __init__(self, K: Array) -> None:
        rows, self._width = K.shape
        norm = _spectral_norm(K) if rows > SVD_LIMIT else 0.0
        geqrf, self._ormqr, self._trtrs = _lapack("geqrf", "ormqr", "trtrs")
        self._qr, self._tau, _, _ = geqrf(K.T, lwork=BLOCK * rows, overwrite_a=True)
        self._rows = rows
        if rows <= SVD_LIMIT:
            singular = np.linalg.svd(np.triu(self._qr[:rows]), compute_uv=False)
            self.condition = _ratio(singular[0], singular[-1])
        elif np.any(np.diagonal(self._qr) == 0):
            self.condition = np.inf
        else:
            self.condition = norm * float(np.sqrt(_power(self._solve_normal, rows)))
        self.rank = rows

    def solve(self, w: Array) -> Array:
        """`Q R⁻ᵀ w`."""
        padded = np.zeros((self._width, 1), order="F")
        padded[: self._rows, 0] = self._triangular(w, trans=1)
        out, _, _ = self._ormqr("L", "N", self._qr, self._tau, padded, lwork=BLOCK)
        return np.asarray(out[:, 0])

    def _triangular(self, w: Array, trans: int) -> Array:
        # the whole factor goes in: LAPACK reads its leading triangle, and a slice would be a copy
        return np.asarray(self._trtrs(self._qr, w, lower=0, trans=trans)[0])

    def _solve_normal(self, v: Array) -> Array:
        return self._triangular(self._triangular(v, trans=1), trans=0)


class CompleteOrthogonal:
    """Rank-revealing `Kᵀ P = Q [R11 R12; 0 0]`, then `[R11 R12]ᵀ = U T`: `K⁺ = Q T⁻¹ Uᵀ Pᵀ`.

    The rank is the number of `|r_ii| > max(m·k, n) ε |r_11|` of the pivoted QR factorisation.
    """

    def __init__(self, K: Array) -> None:
        rows, width = K.shape
        q, r, self._pivots = la.qr(K.T, overwrite_a=True, mode="economic", pivoting=True)
        size = np.abs(np.diagonal(r))
        cut = max(rows, width) * EPS * (size[0] if size.size else 0.0)
        self.rank = int(np.count_nonzero(size > cut))
        full = self.rank == min(rows, width)
        self.condition = _ratio(size[0], size[-1]) if full else np.inf
        self._q = q[:, : self.rank]
        self._u, self._t = la.qr(r[: self.rank].T, mode="economic")

    def solve(self, w: Array) -> Array:
        """Minimum-norm least-squares solution."""
        if self.rank == 0:
            return np.zeros(self._q.shape[0])
        z = la.solve_triangular(self._t, self._u.T @ w[self._pivots], check_finite=False)
        return np.asarray(self._q @ z)


def _lapack(*names: str) -> Any:
    return la.get_lapack_funcs(names, dtype=np.float64)


def _ratio(largest: Any, smallest: Any) -> float:
    return float(largest / smallest) if smallest > 0 else float(np.inf)


def _spectral_norm(K: Array) -> float:
    return float(np.sqrt(_power(lambda v: K @ (K.T @ v), len(K))))


def _power(step: Any, size: int) -> float:
    """Largest eigenvalue of a positive semi-definite map by power iteration: a lower estimate."""
    v = np.random.default_rng(0).standard_normal(size)
    value = 0.0
    for _ in range(POWER_STEPS):
        norm = float(np.linalg.norm(v))
        if not 0 < norm < np.inf:
            return norm
        v = step(v / norm)
        value = float(np.linalg.norm(v))
    return value
