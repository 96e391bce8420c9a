"""The chain is complete, acyclic, independent of the package it checks, and points at its code."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

import proofs_check
from proofs_check import Level, Outcome, Statement, Verdict, formal
from proofs_check.chain import GROUPS, STATEMENTS, UnknownStatement, find, graph, named, relied_on

PACKAGE = Path(proofs_check.__file__).parent
ROOT = PACKAGE.parent

REQUIRED = {
    "Kronecker and Khatri-Rao definitions": ["row-major-index", "kronecker-khatri-rao"],
    "rank product rule for Kronecker": ["kronecker-rank"],
    "vec identity": ["vec-identity"],
    "its adjoint": ["adjoint"],
    "Khatri-Rao and Hadamard": ["gram-hadamard"],
    "mixed product": ["mixed-product"],
    "rank of a product, null space and column space": ["rank-of-a-product"],
    "solvable iff rank equals augmented rank": ["solvable-iff-rank"],
    "zero set of a polynomial": ["polynomial-zero-set"],
    "full rank with probability 1": ["khatri-rao-full-rank"],
    "one target layer is two frozen layers": ["two-frozen-layers"],
    "linear network is the ReLU network": ["norm-is-affine", "active-relu-is-identity"],
    "non-zero solution entries": ["nonzero-entries"],
    "Cramer, inverse from cofactors": ["cramer-cofactors"],
    "backward induction of the deep construction": ["deep-backward-induction"],
    "pattern decides singularity": ["sparse-pattern-rank", "sparse-exact-probability"],
    "Boolean determinant": ["boolean-determinant"],
    "column replacement and the choice of p": [
        "column-replacement",
        "random-matching",
        "sparse-choice-of-p",
        "sparse-threshold",
    ],
    "layer-wise equality gives network equality": ["layerwise-to-network", "error-recursion"],
    "width m·k is necessary": ["width-is-necessary", "stacked-width"],
    "low rank": ["low-rank-factors"],
    "errors with their signs": ["carried-errors"],
    "accumulated rounding": ["accumulated-rounding"],
    "norms in floats": ["norm-rounding"],
    "exact splitting": ["exact-splitting"],
    "CROWN's duality": ["back-substitution"],
    "branch and bound": ["partition-covers"],
    "max pooling": ["window-maximum"],
    "attention": ["product-errors", "softmax-errors"],
    "pairing of equal units": ["equal-units"],
    "the guard": ["guard"],
    "grouped layers": ["block-systems"],
    "weights without a density": ["finite-precision"],
    "below m·k": ["exact-loss", "averaged-derivatives"],
    "live statistics, exactly": ["live-scale-invariance", "live-layers-exact"],
    "live statistics, count and shifts": ["live-width", "live-norm-cap", "live-shifts-exist"],
    "live statistics, in floats": ["live-norm-rounding"],
    "live statistics, limits": ["live-eps", "live-directions-alone", "live-norm-never-affine"],
}
"""What has to be covered, and by which statements."""

DROPPED = {
    "khatri-rao-full-rank": ["±1", "equal rows", "one column too few", "repeated"],
    "active-relu-is-identity": ["unbounded", "after the ReLU"],
    "two-frozen-layers": ["unbounded", "after the ReLU", "too few"],
    "solvable-iff-rank": ["augmented rank"],
    "sparse-pattern-rank": ["perfect matching", "tied"],
    "deep-backward-induction": ["zero"],
    "accumulated-rounding": ["underflow", "flushed"],
    "norm-rounding": ["added last", "last sum"],
    "exact-splitting": ["21 bits", "one term more"],
    "guard": ["first site alone", "left out"],
    "stacked-width": ["skip"],
    "live-layers-exact": ["groups", "statistics of the batch", "no second norm", "eps", "a sum"],
    "live-norm-never-affine": ["constants"],
}
"""Hypotheses that must be seen to matter, by a word of the negative."""

NAMES = [s.name for s in STATEMENTS]

COMPLETE = {"row-major-index", "kronecker-khatri-rao", "norm-is-affine", "sparse-exact-probability"}
"""Complete without Coq."""

TEXTBOOK = {"rank-of-a-product", "solvable-iff-rank", "polynomial-zero-set", "cramer-cofactors"}
"""Standard facts, sampled."""


def test_every_required_statement_is_there_and_no_other() -> None:
    assert sorted(n for names in REQUIRED.values() for n in names) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_statement_holds_and_its_negatives_are_caught(
    name: str, verdicts: dict[str, Verdict]
) -> None:
    verdict = verdicts[name]
    assert verdict.outcome is Outcome.PASSED, verdict.evidence
    assert verdict.negatives
    for negative in verdict.negatives:
        assert negative.caught, negative
        assert negative.counterexample
    assert verdict.holds


def test_levels_are_what_the_page_says(verdicts: dict[str, Verdict]) -> None:
    for name, verdict in verdicts.items():
        if name in TEXTBOOK:
            expected = Level.TEXTBOOK
        elif name in COMPLETE or (find(name).formal and formal.available()):
            expected = Level.COMPLETE
        else:
            expected = Level.DECISIVE
        assert verdict.level is expected, name


@pytest.mark.parametrize("statement", STATEMENTS, ids=NAMES)
def test_statement_says_all_it_should(statement: Statement[object]) -> None:
    assert statement.claim.endswith(".")
    assert statement.paper
    assert relied_on(statement.name)
    assert all(check.run.__doc__ for check in statement.checks)


@pytest.mark.parametrize(("name", "words"), DROPPED.items())
def test_named_hypotheses_are_dropped(name: str, words: list[str]) -> None:
    changes = " | ".join(negative.change for negative in find(name).negatives)
    assert all(word in changes for word in words), changes


def test_graph_is_acyclic_and_speaks_of_known_statements() -> None:
    chain = graph()
    assert nx.is_directed_acyclic_graph(chain)
    assert sorted(chain) == sorted(NAMES)
    assert len(set(NAMES)) == len(NAMES)


def test_theorems_rest_on_the_index_law_and_on_measure_zero() -> None:
    for theorem in ("two-frozen-layers", "deep-backward-induction", "sparse-choice-of-p"):
        below = nx.ancestors(graph(), theorem)
        assert {"row-major-index", "polynomial-zero-set"} <= below


def test_code_rests_on_statements_that_exist() -> None:
    unknown = {(path, n) for path, names in named().items() for n in names if n not in NAMES}
    assert not unknown
    assert len(named()) >= 30


def test_groups_are_the_files_and_each_has_its_proof_idea() -> None:
    folder = PACKAGE / "statements"
    files = {p.relative_to(folder).with_suffix("").as_posix() for p in folder.glob("*/*.py")}
    files = {name for name in files if not name.endswith("/__init__")}
    assert set(GROUPS) == files
    for name in files:
        tree = ast.parse((folder / f"{name}.py").read_text("utf-8"))
        assert len((ast.get_docstring(tree) or "").splitlines()) >= 4, name


def test_statements_stand_behind_what_they_rest_on() -> None:
    order = {name: i for i, name in enumerate(NAMES)}
    assert all(order[used] < order[s.name] for s in STATEMENTS for used in s.depends_on)


def test_nothing_imports_reconstruct() -> None:
    checker = (PACKAGE / "certificates", PACKAGE / "reader")
    files = [p for p in PACKAGE.rglob("*.py") if p.parent not in checker]
    assert len(files) > 30
    for path in files:  # the checker of certificates has a test of its own
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(n.split(".")[0] == "reconstruct" for n in names), path
    code = (
        "import sys, proofs_check.cli, proofs_check.chain, proofs_check.page;"
        "print(*[m for m in sys.modules if m.split('.')[0] == 'reconstruct'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.strip() == ""


def test_unknown_name_lists_close_ones() -> None:
    with pytest.raises(UnknownStatement, match="vec-identity"):
        find("vec-idnetity")
    with pytest.raises(UnknownStatement, match="see --list"):
        find("qqqqqqqq")
