"""The rank of `K`: what the zero pattern alone forbids, and a proof of full rank for given weights.

The rank is at most the size of a maximum matching between equations `(i, j)` and hidden units `l`,
where `l` can serve `(i, j)` if `M2[i, l] ≠ 0` and `M1[l, j] ≠ 0` (structural rank). By Hall's
theorem a matching misses an equation only if some set of equations has fewer units to serve it than
members: that set is shown to the user, before any numerical work.

For given float weights the rank modulo a prime p is computed exactly. A minor of `K` that is not
zero modulo p is not zero: **full rank modulo p proves full rank of K. Rank lost modulo p proves
nothing**, since p may divide a minor that is not zero (for unrelated weights with probability of
about `m·k / p`).

Rests on proofs_check: row-major-index, sparse-pattern-rank, boolean-determinant,
sparse-exact-probability, column-replacement, random-matching, polynomial-zero-set,
khatri-rao-full-rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from reconstruct.khatri_rao.operator import Stored, checked_pair
from reconstruct.numbers.arrays import to_dense
from reconstruct.numbers.residues import PRIMES, rank_modulo, residues

Indices = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class PatternLimits:
    """Sizes of patterns that are examined, and what is expected of a density that is suggested."""

    entries: int = 1 << 26  # of a sparse K: 12 bytes each
    misses: float = 0.05  # expected zero rows or columns that a suggestion may leave
    tried: int = 64  # unmatched equations from which a small violator is looked for


LIMITS = PatternLimits()


@dataclass(frozen=True)
class StructuralObstruction:
    """A proof that no values on this zero pattern make every W reachable.

    - `rank`: structural rank, an upper bound of the rank of K; `needed` = m·k; `width` = n.
    - `equations`: a Hall violator, equations `(i, j)` that cannot all be matched;
      `units`: the hidden units that can serve any of them, fewer than there are equations.
    - `dead_units`: hidden units that serve no equation, for want of an input or an output weight.
    - `density`: fraction of non-zero frozen weights found.
    - `enough_density`: density at which, with this width, neither zero rows nor zero columns of K
      are to be expected: a first-moment estimate (measured to be the only obstruction for random
      patterns), None where nothing suffices.
    """

    rank: int
    needed: int
    width: int
    equations: tuple[tuple[int, int], ...]
    units: tuple[int, ...]
    dead_units: int
    density: float
    enough_density: float | None

    @property
    def message(self) -> str:
        """One sentence: what is missing, which equations show it, what would be enough."""
        listed = ", ".join(f"({i}, {j})" for i, j in self.equations[:6])
        more = ", …" if len(self.equations) > 6 else ""
        return (
            f"the zero pattern allows rank {self.rank} at most and {self.needed} is needed: "
            f"only {len(self.units)} of {self.width} hidden units serve the equations at "
            f"(row, column) {listed}{more}, and {self.dead_units} serve none; {self._remedy()}"
        )

    def _remedy(self) -> str:
        found = f"at the density {self.density:.2g} and the ratio {self.width / self.needed:.3g}"
        if self.enough_density is None:
            return f"{found} there are too few hidden units, whatever the density"
        if self.enough_density <= self.density:
            return f"{found} another draw is likely to do"
        enough = f"a density of about p = {self.enough_density:.2g}"
        return f"{found} it cannot do; {enough} would be enough, or a larger width"


def structural_obstruction(M1: Stored, M2: Stored) -> StructuralObstruction | None:
    """The obstruction in the zero pattern of `M1` (`n × k`) and `M2` (`m × n`), if there is one.

    None does not prove full rank: equal values can still be dependent.
    """
    first, second = checked_pair(M1, M2)
    n, k = first.shape
    m = second.shape[0]
    if (
        not sparse.issparse(first)
        and not sparse.issparse(second)
        and n >= m * k
        and first.all()
        and second.all()
    ):
        return None
    pattern1, pattern2 = _pattern(first), _pattern(second)
    pattern = sparse.csr_array(transposed_matrix(pattern1, sparse.csr_array(pattern2.T), np.int8).T)
    matched = csgraph.maximum_bipartite_matching(pattern, perm_type="column")
    rank = int(np.count_nonzero(matched >= 0))
    if rank == m * k:
        return None
    owner, rows = np.full(n, -1), np.flatnonzero(matched >= 0)
    owner[matched[rows]] = rows
    # the smallest Hall violator found from the first unmatched equations
    tried = np.flatnonzero(matched < 0)[: LIMITS.tried]
    found = [_reachable(pattern, owner, row) for row in tried]
    equations, units = min(found, key=lambda pair: len(pair[0]))
    density = (pattern1.nnz + pattern2.nnz) / (n * (m + k))
    return StructuralObstruction(
        rank=rank,
        needed=m * k,
        width=n,
        equations=tuple((int(row) // k, int(row) % k) for row in equations),
        units=tuple(int(unit) for unit in units),
        dead_units=n - len(np.unique(pattern.indices)),
        density=density,
        enough_density=enough_density(m, k, n),
    )


def transposed_matrix(M1: Any, M2T: Any, dtype: DTypeLike, units: int = 1024) -> Any:
    """Sparse `Kᵀ` (`n × m·k`, csr, row-major equations) of csr `M1` and `M2ᵀ`, some `units`
    at a time.

    Row `l` is the outer product of column `l` of M2 and row `l` of M1:
    `nnz = Σ_l nnz(M2[:, l]) nnz(M1[l, :])`.
    """
    counts = np.diff(M2T.indptr).astype(np.int64) * np.diff(M1.indptr)
    start = np.concatenate([[0], np.cumsum(counts)])
    shape = (M1.shape[0], M2T.shape[1] * M1.shape[1])
    kind = np.int32 if max(int(start[-1]), *shape) < 2**31 else np.int64
    data, indices = np.empty(start[-1], dtype), np.empty(start[-1], kind)
    for low in range(0, len(counts), units):
        high = min(low + units, len(counts))
        part = slice(start[low], start[high])
        unit = low + np.repeat(np.arange(high - low), counts[low:high])
        # the entries of each unit's outer product, row-major
        offset, width = np.arange(part.start, part.stop) - start[unit], np.diff(M1.indptr)[unit]
        i, j = M2T.indptr[unit] + offset // width, M1.indptr[unit] + offset % width
        indices[part] = M2T.indices[i].astype(np.int64) * M1.shape[1] + M1.indices[j]
        np.multiply(M2T.data[i], M1.data[j], out=data[part], dtype=dtype)
    return sparse.csr_array((data, indices, start.astype(kind)), shape=shape)


def _pattern(matrix: Any) -> Any:
    """Ones where the matrix is not zero; stored zeros do not count."""
    pattern = sparse.csr_array(matrix).copy()
    pattern.eliminate_zeros()
    pattern.data = np.ones(len(pattern.data), dtype=np.int8)
    return pattern


def _reachable(pattern: Any, owner: Indices, start: int) -> tuple[Indices, Indices]:
    """Equations and units on alternating paths from one unmatched equation.

    All units met are matched (else the matching could grow), each to an equation in the set, so
    there is one unit fewer than there are equations.
    """
    seen_rows = np.zeros(pattern.shape[0], dtype=bool)
    seen_units = np.zeros(pattern.shape[1], dtype=bool)
    frontier = np.array([start])
    seen_rows[frontier] = True
    while frontier.size:
        units = np.unique(pattern[frontier].indices)
        units = units[~seen_units[units]]
        seen_units[units] = True
        frontier = owner[units]
        frontier = frontier[~seen_rows[frontier]]
        seen_rows[frontier] = True
    return np.flatnonzero(seen_rows), np.flatnonzero(seen_units)


def enough_density(m: int, k: int, n: int) -> float | None:
    """Smallest density p at which `n` random units are expected to reach every equation.

    Zero rows of K: `mk (1 − p²)ⁿ` expected. Zero columns: `n ((1−p)^m + (1−p)^k)` expected, of
    which `n − mk` may be spared. None if `n < m·k`.
    """
    if n < m * k:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        zero_rows = m * k * (1 - middle**2) ** n
        dead = n * min(1.0, (1 - middle) ** m + (1 - middle) ** k)
        slack = dead + 3 * math.sqrt(dead) if dead > LIMITS.misses else 0.0  # standard deviations
        suffices = zero_rows <= LIMITS.misses and slack <= n - m * k
        low, high = (low, middle) if suffices else (middle, high)
    return high


# --- a proof of full rank ------------------------------------------------------------------------


@dataclass(frozen=True)
class RankProof:
    """Rank of `K` modulo `prime`; `proved` says that K has full row rank, over the reals.

    When `proved` is False nothing is proved, neither that K is singular nor that it is not.
    """

    prime: int
    rank: int
    needed: int
    proved: bool


def prove_full_rank(M1: Stored, M2: Stored) -> RankProof:
    """Try to prove that K of `M1` (`n × k`) and `M2` (`m × n`) has full row rank m·k.

    Uses python-flint when it is installed, else block elimination in NumPy. A second prime is
    tried when the first shows a loss.
    """
    first, second = checked_pair(M1, M2)
    m, k, n = second.shape[0], first.shape[1], first.shape[0]
    best = RankProof(PRIMES[0], 0, m * k, False)
    for prime in PRIMES:
        A, B = (residues(to_dense(part), prime) for part in (first, second))
        K = (B[:, None, :] * A.T[None, :, :]).reshape(m * k, n) % prime  # products: below 2^46
        rank = 0
        for columns in sorted({min(n, m * k), n}):  # a square part usually does
            rank = rank_modulo(K[:, :columns], prime)
            if rank == m * k:
                return RankProof(prime, rank, m * k, True)
        if rank > best.rank or best.rank == 0:
            best = RankProof(prime, rank, m * k, False)
        if n < m * k:
            break
    return best
