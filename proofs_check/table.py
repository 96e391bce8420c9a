"""Verdicts as text: one line per piece of evidence, one per negative, within the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from proofs_check.chain import relied_on
from proofs_check.core import Evidence, Level, Outcome, Refutation, Statement, Verdict
from proofs_check.formal import MISSING

NAME, OUTCOME, HOW, ERROR, SECONDS = 25, 17, 10, 7, 6
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


def standing(verdict: Verdict) -> str:
    """The level of a statement that passed, the outcome of one that did not."""
    passed = verdict.outcome is Outcome.PASSED
    return verdict.level.value if passed else verdict.outcome.value


def header(width: int) -> str:
    """The column titles."""
    return _line("statement", "level", "how", "sizes", "error", "s", width)


def rows(verdict: Verdict, width: int) -> Iterator[str]:
    """The lines of one verdict."""
    name, outcome = verdict.name, standing(verdict)
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


def summary(verdicts: tuple[Verdict, ...], seconds: float, width: int) -> str:
    """One screen: the statements of each level by name, what failed in full, and the counts."""
    lines = []
    for level in Level:
        names = [v.name for v in verdicts if v.outcome is Outcome.PASSED and v.level is level]
        if names:
            lines.append(fill(f"{level.value} ({len(names)}): {level.explanation}", width))
            text = ", ".join(names)
            indent = "  "
            lines.append(
                fill(
                    text,
                    width,
                    initial_indent=indent,
                    subsequent_indent=indent,
                    break_on_hyphens=False,
                )
            )
    lines += [row for v in verdicts if not v.holds for row in rows(v, width)]
    negatives = [n for v in verdicts for n in v.negatives]
    refuted = sum(v.outcome is Outcome.REFUTED for v in verdicts)
    caught = sum(n.caught for n in negatives)
    held = sum(v.outcome is Outcome.PASSED for v in verdicts)
    counts = (
        f"{held} of {len(verdicts)} statements passed, {refuted} refuted; {caught} of "
        f"{len(negatives)} changed ones refuted, as they must be; {seconds:.1f} s"
    )
    lines.append(fill(counts, width))
    return "\n".join(lines)


def report(statement: Statement[Any], verdict: Verdict, width: int) -> str:
    """All there is to say about one statement, wrapped."""

    def block(label: str, text: str) -> str:
        return fill(f"{label:<12}{text}", width, subsequent_indent=" " * 12)

    lines = [f"{statement.name}: {standing(verdict)}"]
    if verdict.outcome is Outcome.PASSED:
        lines.append(block("", verdict.level.explanation))
    lines.append("")
    lines.append(block("claim", statement.claim))
    lines += [block("needs", hypothesis) for hypothesis in statement.hypotheses]
    lines.append(block("paper", statement.paper))
    lines.append(block("rests on", ", ".join(statement.depends_on) or "nothing here"))
    lines.append(block("used by", ", ".join(relied_on(statement.name)) or "no code yet"))
    if statement.formal and verdict.level is not Level.COMPLETE:
        lines += ["", block("coq", f"not run: {MISSING}")]
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
