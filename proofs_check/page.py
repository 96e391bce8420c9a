"""`python -m proofs_check.page`: write docs/proofs.md from a run of the chain.

Timings are left out, so that the page changes only when the mathematics does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import networkx as nx

from proofs_check import chain
from proofs_check.core import Evidence, Method, Outcome, Refutation, Statement, Verdict
from proofs_check.formal import MISSING, available
from proofs_check.judge import judge
from proofs_check.table import probability, standing

PAGE = Path(__file__).parents[1] / "docs" / "proofs.md"

INTRODUCTION = """\
# The proofs, checked

`python -m proofs_check` checks every statement that `reconstruct` rests on, and sees each one
refuted when a hypothesis is dropped; `python -m proofs_check --only NAME` shows one in full. This
page is made from such a run by `python -m proofs_check.page`. The theorem is that of Giannou,
Rajput and Papailiopoulos (COLT 2023, arXiv 2302.07937). How to add a statement:
[adding-a-statement.md](adding-a-statement.md).

What a pass is worth, its **level** says: *complete*, the run itself is a proof of the whole claim,
for all sizes, by symbols that stand for sizes or as a theorem of the proof assistant Coq (`make
proofs`); *decisive step run*, a written proof (the docstring of its file), whose decisive step the
run executes at small sizes; *textbook*, a written proof of a standard fact, which the run samples.
A theorem in Coq and the Python beside it are two transcriptions of one claim: that they say the
same, a reader has to see.
"""


def render(verdicts: Sequence[Verdict]) -> str:
    """The whole page, from the verdicts of all statements in order."""
    parts = [INTRODUCTION, _methods(), _chain(), _overview(verdicts)]
    by_name = {v.name: v for v in verdicts}
    folder = None
    for group, statements in chain.GROUPS.items():
        if folder != (folder := group.split("/")[0]):
            parts.append(_folder(folder))
        parts += [_statement(s, by_name[s.name], group) for s in statements]
    return "\n".join(parts)


def _folder(name: str) -> str:
    """A folder of statements, by the sentence that its package says of itself."""
    package = import_module(f"proofs_check.statements.{name}")
    return f"## {name}\n\n{package.__doc__}\n"


def _methods() -> str:
    rows = [f"| {m.value} | {m.explanation} |" for m in Method]
    return "\n".join(["| how | what it shows |", "|---|---|", *rows, ""])


def _chain() -> str:
    """The dependency graph in topological layers: a statement rests on those above it."""
    graph = chain.graph()
    lines = ["## The chain", "", "Each statement rests on those named after `<-`.", "", "```text"]
    for depth, layer in enumerate(nx.topological_generations(graph)):
        lines += ([""] if depth else []) + [f"depth {depth}"]
        for name in sorted(layer):
            used = ", ".join(chain.find(name).depends_on)
            lines.append(f"  {name}" + (f"  <-  {used}" if used else ""))
    return "\n".join([*lines, "```", ""])


def _overview(verdicts: Sequence[Verdict]) -> str:
    lines = ["## All statements", "", "| statement | level | how | negatives caught |"]
    lines.append("|---|---|---|---|")
    for verdict in verdicts:
        how = ", ".join(dict.fromkeys(e.method.value for e in verdict.evidence))
        caught = f"{sum(n.caught for n in verdict.negatives)} of {len(verdict.negatives)}"
        link = f"[{verdict.name}](#{verdict.name})"
        lines.append(f"| {link} | {standing(verdict)} | {how} | {caught} |")
    return "\n".join([*lines, ""])


def _statement(statement: Statement[Any], verdict: Verdict, group: str) -> str:
    uses = ", ".join(f"[{n}](#{n})" for n in statement.depends_on) or "nothing on this page"
    code = (
        ", ".join(f"[`{path}`](../{path})" for path in chain.relied_on(statement.name))
        or "no code yet"
    )
    file = f"proofs_check/statements/{group}.py"
    lines = [
        f"### {statement.name}",
        "",
        f"{_plain(statement.claim)}",
        "",
        f"- **{standing(verdict)}**, in [`{file}`](../{file})",
        *(f"- needs: {_plain(hypothesis)}" for hypothesis in statement.hypotheses),
        f"- paper: {statement.paper}",
        f"- rests on: {uses}",
        f"- relied on by: {code}",
        *(_evidence(e) for e in verdict.evidence),
        *(_negative(n) for n in verdict.negatives),
        "",
    ]
    return "\n".join(lines)


def _evidence(evidence: Evidence) -> str:
    if evidence.outcome is not Outcome.PASSED:
        return f"- {evidence.method.value}: {evidence.outcome.value}"
    error = probability(evidence.error_probability)
    note = {"0": "no error", "–": "no bound claimed"}.get(error, f"error ≤ {error}")
    story = f"{evidence.sizes}: {evidence.detail} ({note})"
    return f"- {evidence.method.value}: {_plain(story)}"


def _negative(negative: Refutation) -> str:
    word = "refuted by" if negative.caught else "NOT REFUTED:"
    return f"- changed: *{_plain(negative.change)}*, {word} {_code(negative.counterexample)}"


def _code(text: str) -> str:
    return "`" + " ".join(text.split()) + "`"


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return "".join("\\" + c if c in "*_|<>[]" else c for c in " ".join(text.split()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chain and write the page (or compare with `--check`)."""
    parser = argparse.ArgumentParser(prog="python -m proofs_check.page", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is out of date")
    options = parser.parse_args(argv)
    if not available():  # without Coq the page would say less than is true
        print(MISSING, file=sys.stderr)
        return 2
    text = render([judge(s) for s in chain.STATEMENTS])
    if options.check:
        current = options.output.exists() and options.output.read_text("utf-8") == text
        if not current:
            print(
                f"{options.output} is out of date; run python -m proofs_check.page", file=sys.stderr
            )
        return 0 if current else 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
