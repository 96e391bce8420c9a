"""Outcomes are honest: what proves, what only supports, what a broken check is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs_check import (
    Check,
    Counterexample,
    Effort,
    Finding,
    Formal,
    Level,
    Method,
    Negative,
    Outcome,
    formal,
)
from proofs_check.core import Statement
from proofs_check.judge import judge


def passes(subject: int, effort: Effort) -> Finding:
    if subject < 0:
        raise Counterexample(f"subject {subject} is negative")
    return Finding("all", "fine")


def breaks(subject: int, effort: Effort) -> Finding:
    raise ZeroDivisionError("cannot run")


def statement(*checks: Check[int]) -> Statement[int]:
    return Statement(
        name="example",
        claim="subjects are not negative.",
        hypotheses=(),
        paper="",
        depends_on=(),
        subject=1,
        checks=checks,
        negatives=(Negative("a negative one", -1),),
    )


LEVELS = {Method.COQ: Level.COMPLETE, Method.WHOLE: Level.COMPLETE, Method.STEP: Level.DECISIVE}


@pytest.mark.parametrize("method", [m for m in Method if m is not Method.NUMERICAL])
def test_a_pass_has_the_level_of_its_best_method(method: Method) -> None:
    verdict = judge(statement(Check(Method.RATIONAL, passes), Check(method, passes)))
    assert verdict.outcome is Outcome.PASSED
    assert verdict.holds
    assert verdict.level is LEVELS.get(method, Level.TEXTBOOK)


def test_a_theorem_counts_for_its_own_subject_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formal, "available", lambda: True)
    monkeypatch.setattr(formal, "examine", lambda file, theorem: Finding("every size", theorem))
    proved = replace(statement(Check(Method.STEP, passes)), formal=Formal("file", "theorem", 1))
    assert judge(proved).level is Level.COMPLETE
    assert judge(replace(proved, subject=2)).level is Level.DECISIVE
    monkeypatch.setattr(formal, "available", lambda: False)
    assert judge(proved).level is Level.DECISIVE


def test_numerical_evidence_never_proves() -> None:
    verdict = judge(statement(Check(Method.NUMERICAL, passes)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not verdict.holds


def test_a_check_that_cannot_run_is_inconclusive_and_says_why() -> None:
    verdict = judge(statement(Check(Method.RATIONAL, passes), Check(Method.RATIONAL, breaks)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.evidence[1].detail == "ZeroDivisionError: cannot run"
    assert verdict.evidence[1].counterexample is None


def test_one_counterexample_refutes_whatever_else_passed() -> None:
    broken = replace(statement(Check(Method.STEP, passes)), subject=-3)
    verdict = judge(broken)
    assert verdict.outcome is Outcome.REFUTED
    assert verdict.evidence[0].counterexample == "subject -3 is negative"


def test_a_negative_that_passes_is_not_caught() -> None:
    weak = replace(
        statement(Check(Method.RATIONAL, passes)), negatives=(Negative("nothing changed", 1),)
    )
    verdict = judge(weak)
    assert verdict.outcome is Outcome.PASSED
    assert not verdict.negatives[0].caught
    assert not verdict.holds


def test_a_negative_that_only_crashes_is_not_caught() -> None:
    verdict = judge(statement(Check(Method.RATIONAL, breaks)))
    assert not verdict.negatives[0].caught
    assert "ZeroDivisionError" in verdict.negatives[0].counterexample


def test_every_method_and_outcome_explains_itself() -> None:
    assert all(method.explanation for method in Method)
    assert all(outcome.explanation for outcome in Outcome)
    assert all(level.explanation for level in Level)
    assert "degree / prime" in Method.MODULAR.explanation
