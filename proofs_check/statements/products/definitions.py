"""Products: the row index, the Kronecker and the Khatri-Rao product, and their rules.

Row r of an (m·k)-row matrix is the pair (a, b), r = a·k + b (row-major, as in numpy's C order).

    (A ⊗ B)[(a,b), (c,d)] = A[a,c] · B[b,d]          Kronecker
    (A ⊙ B)[(a,b), j]     = A[a,j] · B[b,j]          Khatri-Rao: column j is A[:,j] ⊗ B[:,j]

Everything is built on the one index law, so a wrong law is seen by every statement. A sum over rows
is a double sum over pairs because the law is a bijection; the summands then factorise, and that is
checked with symbolic sizes: the proof of the rules at every size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.linalg
import sympy

from proofs_check import exact, symbols
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.symbols import entry, identical, unknowns, within


@dataclass(frozen=True)
class Products:
    """The laws under test; all take integers and sympy symbols alike."""

    row: Callable[[Any, Any, Any], Any] = lambda a, b, k: a * k + b
    pair: Callable[[Any, Any], tuple[Any, Any]] = lambda r, k: (r // k, r % k)
    kronecker_entry: Callable[..., Any] = lambda A, B, a, b, c, d: A[a, c] * B[b, d]
    khatri_rao_entry: Callable[..., Any] = lambda A, B, a, b, j: A[a, j] * B[b, j]
    mixed: Callable[[Matrix, Matrix, Matrix, Matrix], tuple[Matrix, Matrix]] = lambda A, B, C, D: (
        A @ C,
        B @ D,
    )

    def kronecker(self, A: Matrix, B: Matrix) -> Matrix:
        """A ⊗ B, by the index law."""
        rows, columns = A.shape[0] * B.shape[0], A.shape[1] * B.shape[1]
        out = np.empty((rows, columns), dtype=object)
        for r, c in np.ndindex(rows, columns):
            (a, b), (i, j) = self.pair(r, B.shape[0]), self.pair(c, B.shape[1])
            out[r, c] = self.kronecker_entry(A, B, a, b, i, j)
        return out

    def khatri_rao(self, A: Matrix, B: Matrix) -> Matrix:
        """A ⊙ B for A (m × n), B (k × n), by the index law."""
        rows = A.shape[0] * B.shape[0]
        out = np.empty((rows, A.shape[1]), dtype=object)
        for r, j in np.ndindex(rows, A.shape[1]):
            out[r, j] = self.khatri_rao_entry(A, B, *self.pair(r, B.shape[0]), j)
        return out


def khatri_rao(A: Matrix, B: Matrix) -> Matrix:
    """A ⊙ B, for the statements of later files."""
    return Products().khatri_rao(A, B)


def _read_back(laws: Products) -> None:
    """pair(row(a,b)) = (a,b) with symbolic a, b < k."""
    a, b, k = symbols.a, symbols.b, symbols.k
    for name, back, start in zip("ab", laws.pair(laws.row(a, b, k), k), (a, b), strict=True):
        identical(f"{name} of pair(row(a,b)) for symbolic a, b < k", within(back, b, k), start)


@by(Method.WHOLE)
def index_is_a_bijection(laws: Products, effort: Effort) -> Finding:
    """pair(row(a,b)) = (a,b) with symbolic m, k: one-to-one; m·k pairs and m·k rows: onto."""
    top = effort.choose(16, 40)
    for m, k in product(range(1, top + 1), repeat=2):
        for a, b in product(range(m), range(k)):
            r = laws.row(a, b, k)
            if not 0 <= r < m * k or laws.pair(r, k) != (a, b):
                raise Counterexample(
                    f"m={m}, k={k}: (a,b)=({a},{b}) goes to row {r}, which is read back as "
                    f"{laws.pair(r, k)}"
                )
    _read_back(laws)
    return Finding(
        f"every m, k in symbols; run for m, k ≤ {top}", "pair(row(a,b)) = (a,b), symbolically"
    )


ROW_INDEX = Statement(
    name="row-major-index",
    claim="(a, b) ↦ a·k + b is a bijection from pairs a < m, b < k to rows 0 … m·k − 1.",
    hypotheses=("0 ≤ b < k",),
    paper="a convention of this project",
    depends_on=(),
    subject=Products(),
    checks=(index_is_a_bijection,),
    negatives=(
        Negative(
            "column-major index with the row's stride: a + b·k",
            Products(row=lambda a, b, k: a + b * k),
        ),
        Negative("stride k − 1 in place of k", Products(row=lambda a, b, k: a * (k - 1) + b)),
    ),
)


@by(Method.WHOLE)
def columns_of_kronecker(laws: Products, effort: Effort) -> Finding:
    """Column j of A ⊙ B is column (j, j) of A ⊗ B: the same entry, with symbolic sizes."""
    A, B, a, b, j = entry("A"), entry("B"), symbols.a, symbols.b, symbols.j
    identical(
        "entry (a,b) of column j of A⊙B and of column (j,j) of A⊗B",
        laws.khatri_rao_entry(A, B, a, b, j),
        laws.kronecker_entry(A, B, a, b, j, j),
    )
    _read_back(laws)
    identical("entry of A⊗B", laws.kronecker_entry(A, B, a, b, j, j), A[a, j] * B[b, j])
    top = effort.choose(3, 4)
    for m, k, n in product(range(1, top), range(1, top), range(1, 4)):
        X, Y = unknowns("A", m, n), unknowns("B", k, n)
        whole, columns = laws.kronecker(X, Y), laws.khatri_rao(X, Y)
        for j in range(n):
            identical(f"column {j} at {m}x{k}x{n}", columns[:, j], whole[:, j * n + j])
            for a in range(m):
                block = whole[a * k : (a + 1) * k, j * n : (j + 1) * n]
                identical(f"block ({a},{j}) of A⊗B", block, X[a, j] * Y)
    return Finding(
        f"every size in symbols; run for m, k < {top}, n < 4", "entries agree symbolically"
    )


@by(Method.RATIONAL)
def against_numpy_and_scipy(laws: Products, effort: Effort) -> Finding:
    """Two independent implementations: numpy.kron and scipy.linalg.khatri_rao, in integers."""
    rng = np.random.default_rng(1)
    for m, k, n in product(range(1, 5), range(1, 5), (1, 3)):
        A, B = rng.integers(-9, 10, (m, n)), rng.integers(-9, 10, (k, n))
        exact.same(
            f"A⊗B, A={exact.show(A)}, B={exact.show(B)}", laws.kronecker(A, B), np.kron(A, B)
        )
        exact.same(
            f"A⊙B, A={exact.show(A)}, B={exact.show(B)}",
            laws.khatri_rao(A, B),
            scipy.linalg.khatri_rao(A, B),
        )
    return Finding("m, k ≤ 4, n ≤ 3", "equal to numpy.kron and scipy.linalg.khatri_rao")


DEFINITIONS = Statement(
    name="kronecker-khatri-rao",
    claim="Column j of A ⊙ B is A[:,j] ⊗ B[:,j], which is column (j, j) of A ⊗ B.",
    hypotheses=("A and B have the same number of columns",),
    paper="definitions behind Theorem 1",
    depends_on=("row-major-index",),
    subject=Products(),
    checks=(columns_of_kronecker, against_numpy_and_scipy),
    negatives=(
        Negative(
            "factors swapped: B[:,j] ⊗ A[:,j]",
            Products(khatri_rao_entry=lambda A, B, a, b, j: A[b, j] * B[a, j]),
        ),
        Negative("rows paired the other way", Products(pair=lambda r, k: (r % k, r // k))),
    ),
)


def _factorised(laws: Products, kind: str) -> None:
    """Σ_r (A⊗B)[row, r] X[r, j] with r = (c,d): the summand is (A·C summand)·(B·D summand)."""
    A, B, C, D = (entry(name) for name in "ABCD")
    a, b, j, i = symbols.a, symbols.b, symbols.j, symbols.i
    c, d = sympy.symbols("c d", integer=True, nonnegative=True)
    left = laws.kronecker_entry(A, B, a, b, c, d)
    if kind == "Khatri-Rao":
        right, first, second = laws.khatri_rao_entry(C, D, c, d, j), C[c, j], D[d, j]
    else:
        right, first, second = laws.kronecker_entry(C, D, c, d, i, j), C[c, i], D[d, j]
    identical(
        f"summand (c,d) of the mixed product ({kind})",
        left * right,
        A[a, c] * first * B[b, d] * second,
    )


@by(Method.STEP)
def mixed_product_at_every_size(laws: Products, effort: Effort) -> Finding:
    """The double sum over pairs (c,d) splits into a product of two single sums."""
    for kind in ("Khatri-Rao", "Kronecker"):
        _factorised(laws, kind)
    top = effort.choose(3, 4)
    for m, k, p, q, n in product((1, top - 1), (1, 2), (1, 2), (1, 2), (1, 2)):
        A, B = unknowns("A", m, p), unknowns("B", k, q)
        C, D = unknowns("C", p, n), unknowns("D", q, n)
        left, right = laws.mixed(A, B, C, D)
        identical(
            "(A⊗B)(C⊙D) - AC⊙BD",
            laws.kronecker(A, B) @ laws.khatri_rao(C, D),
            laws.khatri_rao(left, right),
        )
        identical(
            "(A⊗B)(C⊗D) - AC⊗BD",
            laws.kronecker(A, B) @ laws.kronecker(C, D),
            laws.kronecker(left, right),
        )
    return Finding(f"symbols m < {top}, others ≤ 2", "the summands factorise")


@by(Method.RATIONAL)
def mixed_product_on_integers(laws: Products, effort: Effort) -> Finding:
    """Square factors of one size, where a transposed factor still has the right shape."""
    rng = np.random.default_rng(2)
    for size in range(2, effort.choose(5, 7)):
        A, B, C, D = (exact.integers(rng, size, size) for _ in range(4))
        left, right = laws.mixed(A, B, C, D)
        exact.same(
            f"(A⊗B)(C⊙D) with A={exact.show(A)}, C={exact.show(C)}",
            laws.kronecker(A, B) @ laws.khatri_rao(C, D),
            laws.khatri_rao(left, right),
        )
    return Finding(f"square, 2 … {effort.choose(5, 7) - 1}", "equal on random integers")


MIXED_PRODUCT = Statement(
    name="mixed-product",
    claim="(A ⊗ B)(C ⊙ D) = AC ⊙ BD, and (A ⊗ B)(C ⊗ D) = AC ⊗ BD.",
    hypotheses=("the inner sizes match",),
    paper="standard rule of both products",
    depends_on=("row-major-index", "kronecker-khatri-rao"),
    subject=Products(),
    checks=(mixed_product_at_every_size, mixed_product_on_integers),
    negatives=(
        Negative(
            "a transposed factor: A Cᵀ in place of A C",
            Products(mixed=lambda A, B, C, D: (A @ C.T, B @ D)),
        ),
        Negative("factors crossed: AD ⊙ BC", Products(mixed=lambda A, B, C, D: (A @ D, B @ C))),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (
    ROW_INDEX,
    DEFINITIONS,
    MIXED_PRODUCT,
)
