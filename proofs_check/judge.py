"""Run a statement's checks, decide its outcome, and see that its negatives are refuted."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

from proofs_check.core import (
    Check,
    Counterexample,
    Effort,
    Evidence,
    Method,
    Negative,
    Outcome,
    Refutation,
    Statement,
    Subject,
    Verdict,
    level,
)
from proofs_check.formal import by_coq


def judge(statement: Statement[Any], effort: Effort = Effort.DEFAULT) -> Verdict:
    """All checks on the statement's subject, then all checks on each negative's subject."""
    started = perf_counter()
    checks = (*statement.checks, *by_coq(statement))
    evidence = tuple(examine(check, statement.subject, effort) for check in checks)
    negatives = tuple(refute(statement, negative) for negative in statement.negatives)
    return Verdict(
        name=statement.name,
        outcome=decide(evidence),
        level=level(e.method for e in evidence if e.outcome is Outcome.PASSED),
        evidence=evidence,
        negatives=negatives,
        seconds=perf_counter() - started,
    )


def examine(check: Check[Subject], subject: Subject, effort: Effort) -> Evidence:
    """One check on one subject. A check that breaks down is inconclusive, never a refutation."""
    started = perf_counter()
    sizes, detail, counterexample = "", "", None
    probability: float | None = None
    try:
        finding = check.run(subject, effort)
        outcome = Outcome.PASSED
        sizes, detail = finding.sizes, finding.detail
        probability = finding.error_probability
    except Counterexample as found:
        outcome, counterexample = Outcome.REFUTED, str(found)
    except Exception as error:  # a check that cannot run proves nothing, and must not stop the rest
        outcome, detail = Outcome.INCONCLUSIVE, f"{type(error).__name__}: {error}"
    seconds = perf_counter() - started
    return Evidence(check.method, outcome, sizes, detail, probability, counterexample, seconds)


def decide(evidence: Iterable[Evidence]) -> Outcome:
    """Refuted by any counterexample; passed only if nothing broke down and one check is exact."""
    found = tuple(evidence)
    if any(e.outcome is Outcome.REFUTED for e in found):
        return Outcome.REFUTED
    exact = any(e.method is not Method.NUMERICAL for e in found)
    if not exact or any(e.outcome is not Outcome.PASSED for e in found):
        return Outcome.INCONCLUSIVE
    return Outcome.PASSED


def refute(statement: Statement[Subject], negative: Negative[Subject]) -> Refutation:
    """The statement's own checks, in order, on the changed subject until one refutes it."""
    started = perf_counter()
    troubles = []
    for check in statement.checks:
        evidence = examine(check, negative.subject, Effort.DEFAULT)
        if evidence.counterexample is not None:
            seconds = perf_counter() - started
            text = evidence.counterexample
            return Refutation(negative.change, True, check.method, text, seconds)
        troubles.append(evidence.detail)
    text = "not refuted: " + "; ".join(troubles)
    return Refutation(negative.change, False, None, text, perf_counter() - started)
