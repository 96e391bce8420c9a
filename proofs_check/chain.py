"""The chain: every statement, in order, and the graph of what rests on what."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx

from proofs_check.core import Statement
from proofs_check.statements.certificates import (
    accumulated_rounding,
    attention,
    back_substitution,
    carried_errors,
    equal_units,
    error_recursion,
    exact_splitting,
    guard,
    live_norm_rounding,
    norm_rounding,
    partition_covers,
    window_maximum,
)
from proofs_check.statements.factored import low_rank
from proofs_check.statements.grouped import block_systems
from proofs_check.statements.live_statistics import count, exact_layers, limits, shifts
from proofs_check.statements.products import (
    definitions,
    kronecker_rank,
    linear_algebra,
    vec_identity,
)
from proofs_check.statements.theorem_1_wide import (
    finite_precision,
    full_rank,
    layers,
    layerwise,
    measure,
    narrow,
    norm_layers,
    width,
)
from proofs_check.statements.theorem_2_deep import backward_induction, cramer, nonzero_entries
from proofs_check.statements.theorem_3_sparse import (
    boolean_determinant,
    choice_of_p,
    column_replacement,
    exact_probability,
    pattern_rank,
    random_matching,
    threshold,
)

_FILES = (
    definitions,
    vec_identity,
    linear_algebra,
    kronecker_rank,
    measure,
    full_rank,
    finite_precision,
    width,
    narrow,
    norm_layers,
    layers,
    layerwise,
    low_rank,
    block_systems,
    shifts,
    exact_layers,
    count,
    limits,
    cramer,
    nonzero_entries,
    backward_induction,
    pattern_rank,
    boolean_determinant,
    exact_probability,
    column_replacement,
    random_matching,
    choice_of_p,
    threshold,
    error_recursion,
    carried_errors,
    accumulated_rounding,
    norm_rounding,
    live_norm_rounding,
    exact_splitting,
    back_substitution,
    partition_covers,
    window_maximum,
    attention,
    equal_units,
    guard,
)
"""Folder by folder, in the order in which the proof uses them."""

GROUPS: dict[str, tuple[Statement[Any], ...]] = {
    "/".join(file.__name__.split(".")[2:]): file.STATEMENTS for file in _FILES
}
"""File of `proofs_check/statements` (folder and name, without .py) to the statements in it."""

STATEMENTS: tuple[Statement[Any], ...] = tuple(s for group in GROUPS.values() for s in group)


ROOT = Path(__file__).parents[1]
CODE = ("reconstruct/**/*.py", "proofs_check/certificates/*.py")
NAMING = re.compile(r"proofs_check: ([a-z0-9-]+(?:,\s+[a-z0-9-]+)*)")


@cache
def named() -> dict[str, tuple[str, ...]]:
    """Each file of the package that rests on statements, and their names as it gives them."""
    found = {}
    for pattern in CODE:
        for path in sorted(ROOT.glob(pattern)):
            texts = NAMING.findall(path.read_text("utf-8"))
            names = [name for text in texts for name in re.split(r",\s+", text)]
            if names:
                found[path.relative_to(ROOT).as_posix()] = tuple(names)
    return found


def relied_on(name: str) -> tuple[str, ...]:
    """The files that say that they rest on a statement."""
    return tuple(path for path, names in named().items() if name in names)


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
