"""0/1 patterns: which sets of rows the columns can be matched to, kept as one integer.

A column is a bit mask of rows. A *state* is an integer whose bit S says that the row set S (itself
a bit mask) is matched by the columns seen so far: the independent sets of a transversal matroid.
Adding a column is a few shifts, so every pattern of a small size can be visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import networkx as nx

EMPTY = 1
"""No column seen: only the empty set of rows is matched."""


@cache
def _lacking(rows: int, row: int) -> int:
    """Bit S set for every row set S without `row`."""
    return sum(1 << s for s in range(1 << rows) if not s >> row & 1)


@cache
def _of_size(rows: int, size: int) -> int:
    """Bit S set for every row set S of this size."""
    return sum(1 << s for s in range(1 << rows) if s.bit_count() == size)


@cache
def add(state: int, column: int, rows: int) -> int:
    """The state after one more column, which may stay unmatched."""
    after = state
    for row in range(rows):
        if column >> row & 1:
            after |= (state & _lacking(rows, row)) << (1 << row)
    return after


@cache
def rank(state: int, rows: int) -> int:
    """Size of the largest matched row set: the structural rank."""
    return max(size for size in range(rows + 1) if state & _of_size(rows, size))


def structural_rank(columns: Sequence[int], rows: int) -> int:
    """Structural rank of a pattern given by its columns."""
    state = EMPTY
    for column in columns:
        state = add(state, column, rows)
    return rank(state, rows)


def matching_rank(columns: Sequence[int], rows: int) -> int:
    """The same by maximum bipartite matching (Hopcroft-Karp), an independent way."""
    graph = nx.Graph()
    top = [("column", j) for j in range(len(columns))]
    graph.add_nodes_from(top)
    for (_, j), column in zip(top, columns, strict=True):
        graph.add_edges_from((("column", j), ("row", r)) for r in range(rows) if column >> r & 1)
    return len(nx.bipartite.hopcroft_karp_matching(graph, top_nodes=top)) // 2


def outer(u: int, v: int, m: int, k: int) -> int:
    """The column u ⊗ v of a Khatri-Rao pattern: row a·k + b is set when u_a = v_b = 1."""
    return sum(v << a * k for a in range(m) if u >> a & 1)


def mask(bits: Iterable[int]) -> int:
    """A 0/1 vector as a bit mask."""
    return sum(int(bit) << i for i, bit in enumerate(bits))


def multisets(types: Sequence[int], size: int, rows: int) -> list[tuple[tuple[int, ...], int]]:
    """Every multiset of `size` column types (as indices) with its state."""
    found: list[tuple[tuple[int, ...], int]] = [((), EMPTY)]
    for _ in range(size):
        found = [
            ((*chosen, t), add(state, types[t], rows))
            for chosen, state in found
            for t in range(chosen[-1] if chosen else 0, len(types))
        ]
    return found


def show(columns: Sequence[int], rows: int) -> str:
    """A pattern in one line, row by row: [1 0; 0 1]."""
    lines = (" ".join(str(c >> r & 1) for c in columns) for r in range(rows))
    return "[" + "; ".join(lines) + "]"
