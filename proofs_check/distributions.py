"""Random patterns of K: the exact distribution of a column, and of a perfect matching.

Each entry of M1 and M2 is kept with probability p; a column of K's pattern is then u ⊗ v with u,
v of independent Bern(p) entries, and columns are independent.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import lcm

import numpy as np
import scipy.sparse
import scipy.special

from proofs_check import patterns

Weights = dict[int, Fraction]
PROBABILITIES = tuple(Fraction(x, 10) for x in (1, 3, 5, 8))


def outer_columns(m: int, k: int, p: Fraction) -> Weights:
    """Distribution of the column u ⊗ v, as row mask: probability."""
    weights: Weights = defaultdict(Fraction)
    for u, v in product(range(1 << m), range(1 << k)):
        ones = u.bit_count() + v.bit_count()
        weights[patterns.outer(u, v, m, k)] += p**ones * (1 - p) ** (m + k - ones)
    return dict(weights)


def independent_columns(rows: int, q: Fraction) -> Weights:
    """Distribution of a column of independent Bern(q) entries."""
    return {c: q ** c.bit_count() * (1 - q) ** (rows - c.bit_count()) for c in range(1 << rows)}


def entries_as_if_independent(m: int, k: int, p: Fraction) -> Weights:
    """The dependence inside a column ignored: independent Bern(p²) entries."""
    return independent_columns(m * k, p * p)


def nonsingular_probability(columns: list[Weights], rows: int) -> Fraction:
    """Exact probability of a perfect matching: all patterns, those with the same future merged."""
    states, unit = {patterns.EMPTY: 1}, 1  # probabilities are integers over one denominator
    for weights in columns:
        common = lcm(*(weight.denominator for weight in weights.values()))
        whole = {c: int(weight * common) for c, weight in weights.items()}
        after: dict[int, int] = defaultdict(int)
        for state, probability in states.items():
            for column, weight in whole.items():
                after[patterns.add(state, column, rows)] += probability * weight
        states, unit = after, unit * common
    return Fraction(sum(w for s, w in states.items() if patterns.rank(s, rows) == rows), unit)


def sample_nonsingular(rng: np.random.Generator, m: int, k: int, p: float) -> bool:
    """Draw a pattern (n = m·k) and ask scipy for its structural rank."""
    U, V = rng.random((m * k, m)) < p, rng.random((m * k, k)) < p
    support = (U[:, :, None] & V[:, None, :]).reshape(m * k, m * k)
    return bool(scipy.sparse.csgraph.structural_rank(scipy.sparse.csr_matrix(support)) == m * k)
