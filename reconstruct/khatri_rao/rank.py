"""A proof of full rank for given float weights: exact rank modulo a prime.

A minor of `K` that is not zero modulo p is not zero: **full rank modulo p proves full rank of K.
Rank lost modulo p proves nothing**, since p may divide a minor that is not zero (for unrelated
weights with probability of about `m·k / p`).

Rests on proofs_check: polynomial-zero-set, khatri-rao-full-rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.khatri_rao.matrices import Stored, checked_pair, to_dense
from reconstruct.numbers.residues import PRIMES, Integers, rank_modulo, residues


@dataclass(frozen=True)
class RankProof:
    """Rank of `K` modulo `prime`; `proved` says that K has full row rank, over the reals.

    When `proved` is False nothing is proved, neither that K is singular nor that it is not.
    """

    prime: int
    rank: int
    needed: int
    proved: bool

    @property
    def message(self) -> str:
        """One sentence with the numbers."""
        if self.proved:
            return (
                f"K has full row rank {self.needed}: proved, its rank modulo {self.prime} is full"
            )
        return (
            f"the rank of K modulo {self.prime} is {self.rank} of {self.needed}; "
            "this proves nothing about K itself"
        )


def prove_full_rank(M1: Stored, M2: Stored) -> RankProof:
    """Try to prove that K of `M1` (`n × k`) and `M2` (`m × n`) has full row rank m·k.

    Uses python-flint when it is installed, else block elimination in NumPy. A second prime is
    tried when the first shows a loss.
    """
    first, second = checked_pair(M1, M2)
    m, k, n = second.shape[0], first.shape[1], first.shape[0]
    best = RankProof(PRIMES[0], 0, m * k, False)
    for prime in PRIMES:
        K = khatri_rao_residues(residues(to_dense(first), prime), residues(to_dense(second), prime))
        K %= prime
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


def khatri_rao_residues(M1: Integers, M2: Integers) -> Integers:
    """Entries of K as products of residues, not yet reduced (below 2^46: exact)."""
    m, n = M2.shape
    return np.asarray((M2[:, None, :] * M1.T[None, :, :]).reshape(m * M1.shape[1], n))
