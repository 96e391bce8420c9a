"""Verdicts as text: one line per piece of evidence, one per negative, within the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from proofs_check.chain import relied_on
from proofs_check.core import Evidence, Refutation, Statement, Verdict

NAME, OUTCOME, HOW, ERROR, SECONDS = 25, 12, 10, 7, 6
"""Column widths; what is left of the line goes to the sizes."""


def clip(text: str, width: int) -> str:
    """The text in one line of at most `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def probability(value: float | None) -> str:
    """0 for a proof, a bound otherwise, – where none is claimed."""
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.0e}"


def header(width: int) -> str:
    """The column titles."""
    return _line("statement", "outcome", "how", "sizes", "error", "s", width)


def rows(verdict: Verdict, width: int) -> Iterator[str]:
    """The lines of one verdict."""
    name, outcome = verdict.name, verdict.outcome.value
    for evidence in verdict.evidence:
        yield _evidence(name, outcome, evidence, width)
        name, outcome = "", ""
    for negative in verdict.negatives:
        yield _negative(negative, width)


def _evidence(name: str, outcome: str, evidence: Evidence, width: int) -> str:
    sizes = evidence.counterexample or evidence.sizes or evidence.detail
    error, seconds = probability(evidence.error_probability), f"{evidence.seconds:.2f}"
    return _line(name, outcome, evidence.method.value, sizes, error, seconds, width)


def _negative(negative: Refutation, width: int) -> str:
    """The change in one line, its counterexample in the two below at most."""
    mark = "caught" if negative.caught else "NOT CAUGHT"
    indent = " " * 12
    example = fill(
        negative.counterexample,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        max_lines=2,
        placeholder=" …",
    )
    return f"  {mark:<10}{clip(negative.change, width - 12)}\n{example}"


def _line(
    name: str, outcome: str, how: str, sizes: str, error: str, seconds: str, width: int
) -> str:
    room = max(width - NAME - OUTCOME - HOW - ERROR - SECONDS - 3, 12)
    return (
        f"{clip(name, NAME):<{NAME}} {outcome:<{OUTCOME}} {how:<{HOW}} "
        f"{clip(sizes, room):<{room}}{error:>{ERROR}}{seconds:>{SECONDS}}"
    ).rstrip()


def summary(verdicts: tuple[Verdict, ...], seconds: float) -> str:
    """One line: how many hold, how many negatives were caught, how long it took."""
    negatives = [n for v in verdicts for n in v.negatives]
    held = sum(v.outcome.value == "proved" for v in verdicts)
    caught = sum(n.caught for n in negatives)
    return (
        f"{held} of {len(verdicts)} statements proved, {caught} of {len(negatives)} "
        f"negative checks caught, {seconds:.1f} s"
    )


def report(statement: Statement[Any], verdict: Verdict, width: int) -> str:
    """All there is to say about one statement, wrapped."""

    def block(label: str, text: str) -> str:
        return fill(f"{label:<12}{text}", width, subsequent_indent=" " * 12)

    lines = [f"{statement.name}: {verdict.outcome.value} for {statement.scope.value}", ""]
    lines.append(block("claim", statement.claim))
    lines += [block("needs", hypothesis) for hypothesis in statement.hypotheses]
    lines.append(block("paper", statement.paper))
    lines.append(block("rests on", ", ".join(statement.depends_on) or "nothing here"))
    lines.append(block("used by", ", ".join(relied_on(statement.name)) or "no code yet"))
    for evidence in verdict.evidence:
        lines += ["", block(evidence.method.value, _story(evidence))]
        lines.append(block("", evidence.method.explanation))
    for negative in verdict.negatives:
        mark = "caught" if negative.caught else "NOT CAUGHT"
        lines += ["", block(mark, negative.change), block("", negative.counterexample)]
    return "\n".join(lines)


def _story(evidence: Evidence) -> str:
    parts = (evidence.outcome.value, evidence.sizes, evidence.detail, evidence.counterexample)
    error = f"error probability {probability(evidence.error_probability)}"
    return "; ".join([*(p for p in parts if p), error, f"{evidence.seconds:.2f} s"])
