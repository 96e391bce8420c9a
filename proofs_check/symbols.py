"""Generic symbols: matrices of independent unknowns, sums with symbolic sizes, row indices.

With symbolic sizes m, k, n an entry of a product is a sum over an index that runs to n, so an
identity between entries is an identity between summands: that is how a claim about *every* size is
checked by computing once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

from proofs_check.core import Counterexample
from proofs_check.exact import Matrix

a, b, i, j, k, m, n = sympy.symbols("a b i j k m n", integer=True, nonnegative=True)
"""Symbolic sizes and indices; a row of an (m·k)-row matrix is a pair a < m, b < k."""


def unknowns(name: str, rows: int, columns: int | None = None) -> Matrix:
    """A rows × columns matrix (or vector) of independent symbols name_ij."""
    if columns is None:
        return np.array([sympy.Symbol(f"{name}{r}") for r in range(rows)], dtype=object)
    entries = [[sympy.Symbol(f"{name}{r}{c}") for c in range(columns)] for r in range(rows)]
    return np.array(entries, dtype=object).reshape(rows, columns)


def entry(name: str) -> Any:
    """A matrix of symbolic size, indexed as entry[row, column]."""
    return sympy.IndexedBase(name)


def within(expression: Any, low: Any, size: Any) -> Any:
    """Simplify under the hypothesis 0 ≤ low < size: then low // size = 0 and low % size = low."""
    expanded = sympy.sympify(expression)
    return expanded.replace(
        lambda e: isinstance(e, sympy.floor), lambda e: sympy.floor(sympy.expand(e.args[0]))
    ).subs({sympy.floor(low / size): 0, sympy.Mod(low, size): low})


def identical(what: str, left: Any, right: Any) -> None:
    """Raise a counterexample unless left - right expands to zero, entry by entry."""
    x, y = np.asarray(left, dtype=object), np.asarray(right, dtype=object)
    if x.shape != y.shape:
        raise Counterexample(f"{what}: shapes {x.shape} and {y.shape} differ")
    for index in np.ndindex(*x.shape):
        gap = sympy.expand(x[index] - y[index])
        if gap != 0:
            where = f" at entry {index}" if index else ""
            raise Counterexample(f"{what}: left - right = {gap}{where}")
