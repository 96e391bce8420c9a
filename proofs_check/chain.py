"""The chain: every statement, in order, and the graph of what rests on what."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import networkx as nx

from proofs_check.core import Statement
from proofs_check.statements import (
    deep,
    full_rank,
    layers,
    linear_algebra,
    measure,
    networks,
    products,
    sparse_pattern,
    sparse_probability,
    vec_identity,
)

GROUPS: dict[str, tuple[Statement[Any], ...]] = {
    "products": products.STATEMENTS,
    "vec_identity": vec_identity.STATEMENTS,
    "linear_algebra": linear_algebra.STATEMENTS,
    "measure": measure.STATEMENTS,
    "full_rank": full_rank.STATEMENTS,
    "layers": layers.STATEMENTS,
    "networks": networks.STATEMENTS,
    "deep": deep.STATEMENTS,
    "sparse_pattern": sparse_pattern.STATEMENTS,
    "sparse_probability": sparse_probability.STATEMENTS,
}
"""File of `proofs_check/statements` (without .py) to the statements in it."""

STATEMENTS: tuple[Statement[Any], ...] = tuple(s for group in GROUPS.values() for s in group)


class UnknownStatement(LookupError):
    """No statement of that name; the message lists close ones."""


def find(name: str) -> Statement[Any]:
    """The statement of this name."""
    names = [s.name for s in STATEMENTS]
    if name in names:
        return STATEMENTS[names.index(name)]
    close = get_close_matches(name, names, n=3, cutoff=0.4) or [n for n in names if name in n][:3]
    hint = f"did you mean {', '.join(close)}?" if close else "see --list"
    raise UnknownStatement(f"--only needs the name of a statement, but got '{name}'; {hint}")


def graph() -> nx.DiGraph[str]:
    """An edge from each statement to those whose proofs use it."""
    chain: nx.DiGraph[str] = nx.DiGraph()
    chain.add_nodes_from(s.name for s in STATEMENTS)
    chain.add_edges_from((used, s.name) for s in STATEMENTS for used in s.depends_on)
    return chain
