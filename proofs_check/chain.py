"""The chain: every statement, in order, and the graph of what rests on what."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import networkx as nx

from proofs_check.core import Statement
from proofs_check.statements import (
    boolean_determinant,
    cramer,
    deep,
    error_recursion,
    full_rank,
    kronecker_rank,
    layers,
    linear_algebra,
    measure,
    networks,
    nonzero_entries,
    norm_layers,
    products,
    sparse_choice,
    sparse_exact,
    sparse_matching,
    sparse_pattern,
    sparse_replacement,
    vec_identity,
)

GROUPS: dict[str, tuple[Statement[Any], ...]] = {
    "products": products.STATEMENTS,
    "vec_identity": vec_identity.STATEMENTS,
    "linear_algebra": linear_algebra.STATEMENTS,
    "kronecker_rank": kronecker_rank.STATEMENTS,
    "cramer": cramer.STATEMENTS,
    "measure": measure.STATEMENTS,
    "full_rank": full_rank.STATEMENTS,
    "norm_layers": norm_layers.STATEMENTS,
    "layers": layers.STATEMENTS,
    "networks": networks.STATEMENTS,
    "error_recursion": error_recursion.STATEMENTS,
    "nonzero_entries": nonzero_entries.STATEMENTS,
    "deep": deep.STATEMENTS,
    "sparse_pattern": sparse_pattern.STATEMENTS,
    "boolean_determinant": boolean_determinant.STATEMENTS,
    "sparse_exact": sparse_exact.STATEMENTS,
    "sparse_replacement": sparse_replacement.STATEMENTS,
    "sparse_matching": sparse_matching.STATEMENTS,
    "sparse_choice": sparse_choice.STATEMENTS,
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
