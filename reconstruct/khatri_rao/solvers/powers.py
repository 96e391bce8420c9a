"""The powers of two by which a system is scaled before it is solved in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solvers.whitening import inverse_root, second_moment
from reconstruct.khatri_rao.storage import Powers, Stored, is_sparse, largest, of_chunks, to_dense

Vector = NDArray[np.float64]

SAFE_EXPONENT = 30  # weights within 2^±30 need no rescaling, in float32 either
UNEVEN = 2.0  # times what Gaussian units have: from here on an iteration takes half as long evened
CORRELATED = 10.0  # unevenness that no correlation explains
# Sums of squares between this and its inverse have all the digits that are asked for.
ORDINARY = {np.dtype(np.float32): 1e25, np.dtype(np.float64): 1e250}


def powers_for(operator: KhatriRao) -> tuple[Powers, Powers]:
    """Powers of two that bring M1 and M2 near 1: 0 unless they are far from it, and one for each
    unit where these are of very different size."""
    plain = plain_powers(operator)
    return even_powers(operator) or plain


def plain_powers(operator: KhatriRao) -> tuple[int, int]:
    """One power of two for all of M1 and one for M2."""
    return -_exponent(operator, "M1"), -_exponent(operator, "M2T")


def even_powers(operator: KhatriRao) -> tuple[Powers, Powers] | None:
    """Powers of two by which units of very different size become equally large; else None.

    The solution of least norm puts `σ_l²` on a unit, `σ_l = ‖M1[l, :]‖ ‖M2[:, l]‖`. If few units
    carry it, K is ill-conditioned whatever the width. Then the least `Σ (σ_l s_l)²` is taken, which
    is what shifts and rounding errors grow with. Units of correlated weights may differ as much;
    whitening helps these, so that their sizes are asked for behind it.
    """
    m, k = operator.map_shape
    first, second = log_sizes(operator.M1), log_sizes(operator.M2T)
    usual, found = (1 + 2 / m) * (1 + 2 / k), unevenness(operator, first + second)
    if found <= UNEVEN * usual:
        return None
    if found <= CORRELATED:
        near = operator.scaled(*plain_powers(operator))  # second moments are to be floats
        white = whitened_log_sizes(near, near.M1) + whitened_log_sizes(near, near.M2T)
        if unevenness(operator, white) <= UNEVEN * usual:
            return None
    return _halved(first), _halved(second)


def unevenness(operator: KhatriRao, logs: Vector) -> float:
    """`n Σσ⁴ / (Σσ²)²` from `log2 σ²`: the n units over how many of them carry the solution.

    For Gaussian units it is `(1 + 2/m)(1 + 2/k)`, for correlated ones at most 9.
    """
    top = operator.engine.largest(float(np.max(logs, initial=-np.inf)))
    if not np.isfinite(top):
        return 1.0
    share = np.exp2(logs - top)
    squares = np.square(share)  # not by BLAS, whose threads would spin on when others begin to work
    moments = np.array([np.count_nonzero(np.isfinite(logs)), share.sum(), squares.sum()])
    count, one, two = operator.engine.add(moments)
    return float(count * two / one**2)


def whitened_log_sizes(operator: KhatriRao, rows: Stored) -> Vector:
    """`log2` of the squared length of every row, in the metric in which all rows together have
    the same length in all directions."""
    root, _ = inverse_root(second_moment(operator, rows))

    def logs(part: Stored) -> Vector:
        return _logs(np.asarray(to_dense(part), dtype=np.float64) @ root.T)

    return np.concatenate(list(of_chunks(logs, rows)))


def _halved(logs: Vector) -> Powers:
    """Minus half of each, as whole numbers; 0 for rows without weight."""
    return np.asarray(np.rint(np.where(np.isfinite(logs), -logs / 2, 0.0)), np.intc)


def log_sizes(matrix: Stored) -> Vector:
    """`log2 Σ_j entry²` of every row, whatever the size of entries; −inf for rows of zeros."""
    parts = list(of_chunks(_logs, matrix))
    return np.concatenate(parts) if parts else np.zeros(0)


def _logs(rows: Stored) -> Vector:
    """In the precision of the entries, which takes no memory, where their squares are ordinary."""
    with np.errstate(over="ignore", under="ignore"):
        squares = _squares(rows)
    found = np.full(len(squares), -np.inf)
    limit = ORDINARY[squares.dtype]
    ordinary = (squares > 1 / limit) & (squares < limit)
    np.log2(squares, out=found, where=ordinary)
    rest = np.flatnonzero(~ordinary & _has_entries(rows))
    if len(rest):
        found[rest] = _logs_of_any(np.asarray(to_dense(rows[rest]), dtype=np.float64))
    return found


def _squares(rows: Any) -> NDArray[Any]:
    if is_sparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _has_entries(rows: Any) -> NDArray[np.bool_]:
    """Which rows may hold a number that is not 0."""
    if is_sparse(rows):
        return np.asarray(np.diff(rows.indptr) > 0)
    return np.ones(len(rows), dtype=np.bool_)


def _logs_of_any(rows: NDArray[np.float64]) -> Vector:
    """The same by way of the largest entry, whose square need not be a float."""
    exponent = np.frexp(np.max(np.abs(rows), axis=1, initial=0.0))[1]
    squares = _squares(np.ldexp(rows, -exponent[:, None]))
    found = np.full(len(squares), -np.inf)
    np.log2(squares, out=found, where=squares > 0)
    return np.asarray(found + 2.0 * exponent)


def _exponent(operator: KhatriRao, name: str) -> int:
    """The power of two to scale weights down by: 0 unless they are far from 1."""
    size = operator.engine.largest(largest(getattr(operator, name)))
    if not np.isfinite(size):
        raise InputError(
            f"{name.rstrip('T')} drew an entry of size {size}, but weights must be finite; "
            "repair the source that draws it"
        )
    power = int(np.frexp(size)[1])
    return power if abs(power) > SAFE_EXPONENT else 0
