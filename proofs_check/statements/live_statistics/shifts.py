"""Shifts of live norms: how large they have to be for every input, and that they cancel.

Cap. p = P z sums to zero, so p_j = −Σ_{i≠j} p_i, and Lagrange's identity gives
(n − 1) Σ_{i≠j} p_i² − p_j² = Σ_{i<l, i,l≠j} (p_i − p_l)² ≥ 0. Hence n ρ² = Σ p_i² ≥ p_j² n/(n − 1):
|p_j| ≤ √(n − 1)·ρ, attained at z = e_j. With P = I it is √n.

Existence. For columns v_1 … v_n in general position in R^d, t > 0 with Σ t_l v_l = w exists for
every w exactly if no half-space through 0 holds all of them (Gordan): 0 lies inside their convex
hull, which happens as soon as it lies in the hull of some d + 1 of them (Carathéodory). Of the 2^n
ways to give the columns signs, 2·Σ_{i<d} C(n − 1, i) leave them in a half-space: the regions of n
hyperplanes in R^d (Schläfli). If all signs are equally likely, that is Wendel's theorem; d = m − 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np

from proofs_check import exact
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
from proofs_check.statements.live_statistics.exact_layers import centred, mean_square
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class Cap:
    """The largest (P z)_j²/ρ², and what the norm takes away."""

    square: Callable[[int], Any] = lambda n: n - 1
    taken: Callable[[Matrix], Matrix] = centred


@by(Method.RATIONAL)
def no_input_is_beyond(claim: Cap, effort: Effort) -> Finding:
    """(P z)_j² ≤ (n − 1)·ρ² at random z and at the unit vectors, where it is attained."""
    rng = np.random.default_rng(75)
    for n in range(2, effort.choose(7, 12)):
        inputs = np.concatenate([exact.integers(rng, 20, n), exact.matrix(np.eye(n, dtype=int))])
        p = claim.taken(inputs)
        for z, part, square in zip(inputs, p, mean_square(p), strict=True):
            if (part * part > claim.square(n) * square).any():
                raise Counterexample(f"z={exact.show(z)}: P z={exact.show(part)}, rho²={square[0]}")
        if not (p[-1] ** 2 == claim.square(n) * mean_square(p)[-1]).any():
            raise Counterexample(f"n={n}: not attained at a unit vector")
    return Finding("2 to 6 units", "never above, and attained at unit vectors")


@by(Method.STEP)
def lagrange(claim: Cap, effort: Effort) -> Finding:
    """(n − 1)·ρ² − p_j² is a sum of squares, in symbols."""
    for n in range(2, effort.choose(6, 9)):
        p = claim.taken(unknowns("z", 1, n))
        rest = sum((a - b) ** 2 for a, b in combinations(p[0, 1:], 2))
        left = claim.square(n) * mean_square(p)[0, 0] - p[0, 0] ** 2
        identical(f"cap·rho² - p_1² - Σ(p_i - p_l)²/n, n={n}", left, rest / Fraction(n))
    return Finding("2 to 5 units", "Σ_{i<l} (p_i − p_l)²/n")


CAP = Statement(
    name="live-norm-cap",
    claim="|z − mean z|_j ≤ √(n − 1)·ρ for every z: shifts t_j ≥ |s_j| √(n − 1) keep every hidden "
    "unit of a LayerNorm active for every input.",
    hypotheses=("statistics over all n units",),
    paper="not in the paper; the shift of Theorem 1 without a bounded domain",
    depends_on=(),
    subject=Cap(),
    checks=(no_input_is_beyond, lagrange),
    negatives=(
        Negative("√(n − 2)", Cap(square=lambda n: n - 2)),
        Negative("no mean taken away: √n", Cap(taken=lambda z: z)),
    ),
)

# --- shifts that cancel ---------------------------------------------------------------------------


def all_signs(n: int) -> Iterable[tuple[int, ...]]:
    return product((1, -1), repeat=n)


@dataclass(frozen=True)
class Halves:
    """Which share of the signs leaves all columns on one side, and which signs occur."""

    share: Callable[[int, int], Fraction] = lambda n, d: Fraction(
        2 * sum(comb(n - 1, i) for i in range(d)), 2**n
    )
    signs: Callable[[int], Iterable[tuple[int, ...]]] = all_signs


def surrounds(columns: Matrix) -> bool:
    """Whether 0 lies inside the hull: in the simplex of some d + 1 columns in general position."""
    d, n = columns.shape
    for chosen in combinations(range(n), d + 1):
        weights = exact.null_space(columns[:, chosen])
        if weights.shape[1] == 1 and ((weights > 0).all() or (weights < 0).all()):
            return True
    return False


@by(Method.STEP)
def every_pattern_of_signs(claim: Halves, effort: Effort) -> Finding:
    """Columns drawn once, every pattern of signs visited: as many in a half-space as counted."""
    rng = np.random.default_rng(76)
    cases = [(2, 1), (3, 1), (3, 2), (5, 2), (6, 2), (5, 3), *effort.choose((), ((7, 3), (8, 3)))]
    for n, d in cases:
        columns = exact.integers(rng, d, n, bound=999)
        patterns = list(claim.signs(n))
        one_sided = sum(not surrounds(columns * np.array(signs)) for signs in patterns)
        found, said = Fraction(one_sided, len(patterns)), claim.share(n, d)
        if found != said:
            raise Counterexample(
                f"columns {exact.show(columns)}: {one_sided} of {len(patterns)} patterns of signs "
                f"leave them in a half-space, a share of {found}, not {said}"
            )
    return Finding(f"{len(cases)} sets of columns, n ≤ 6, d ≤ 3", "every pattern of signs, by ==")


@by(Method.RATIONAL)
def shifts_cancel(claim: Halves, effort: Effort) -> Finding:
    """Where 0 lies inside the hull, t > 0 with Σ t_l v_l = w is built for any w; from n ≥ 2d + 2 on
    that is more likely than not."""
    rng, built = np.random.default_rng(77), 0
    for n, d in ((6, 2), (8, 3)):
        if claim.share(n, d) >= Fraction(1, 2):
            raise Counterexample(f"n={n}, d={d}: a share of {claim.share(n, d)} fails")
        for _ in range(effort.choose(5, 20)):
            columns, wanted = exact.integers(rng, d, n, bound=99), exact.integers(rng, d)
            if surrounds(columns):
                t = positive(columns, wanted)
                exact.same(f"Σ t_l v_l of {exact.show(columns)}", columns @ t, wanted)
                built += 1
    return Finding(f"{built} systems", "t > 0 with Σ t_l v_l = w, in rationals")


def positive(columns: Matrix, wanted: Matrix) -> Matrix:
    """A simplex around 0 holds minus the sum of all other columns, and w, as its own columns do."""
    d, n = columns.shape
    for chosen in combinations(range(n), d + 1):
        weights = exact.null_space(columns[:, chosen])
        if weights.shape[1] == 1 and ((weights > 0).all() or (weights < 0).all()):
            t = exact.matrix([[1]] * n)[:, 0]
            some = exact.solve(columns[:, chosen], wanted - columns @ t)
            assert some is not None
            around = weights[:, 0] / weights[0, 0]
            t[list(chosen)] += some + around * max(
                -x / a for x, a in zip(some, around, strict=True)
            )
            return t
    raise Counterexample(f"no simplex of {exact.show(columns)} holds 0")


HALVES = Statement(
    name="live-shifts-exist",
    claim="Shifts t > 0 with M2 t = w, modulo what the second norm does not see, exist for every w "
    "with probability 1 − 2^(1−n)·Σ_{i<d} C(n − 1, i), d = m − 1 (Wendel).",
    hypotheses=("M2's columns of a symmetric distribution with a density",),
    paper="not in the paper; Wendel's theorem",
    depends_on=(),
    subject=Halves(),
    checks=(every_pattern_of_signs, shifts_cancel),
    negatives=(
        Negative(
            "C(n, i) in place of C(n − 1, i)",
            Halves(share=lambda n, d: Fraction(2 * sum(comb(n, i) for i in range(d)), 2**n)),
        ),
        Negative(
            "weights that are not symmetric: two columns of one sign",
            Halves(signs=lambda n: (s for s in all_signs(n) if s[0] == s[1])),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (CAP, HALVES)
