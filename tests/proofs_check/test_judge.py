"""Outcomes are honest: what proves, what only supports, what a broken check is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs_check import Check, Counterexample, Effort, Finding, Method, Negative, Outcome, Scope
from proofs_check.core import Statement
from proofs_check.judge import judge


def passes(subject: int, effort: Effort) -> Finding:
    if subject < 0:
        raise Counterexample(f"subject {subject} is negative")
    return Finding("all", "fine")


def breaks(subject: int, effort: Effort) -> Finding:
    raise ZeroDivisionError("cannot run")


def statement(*checks: Check[int], scope: Scope = Scope.THESE_SIZES) -> Statement[int]:
    return Statement(
        name="example",
        claim="subjects are not negative.",
        hypotheses=(),
        scope=scope,
        paper="",
        depends_on=(),
        subject=1,
        checks=checks,
        negatives=(Negative("a negative one", -1),),
    )


EXACT = [m for m in Method if m is not Method.NUMERICAL]


@pytest.mark.parametrize("method", EXACT)
def test_an_exact_method_proves_the_sizes_listed(method: Method) -> None:
    verdict = judge(statement(Check(method, passes)))
    assert verdict.outcome is Outcome.PROVED
    assert verdict.holds


@pytest.mark.parametrize("method", [m for m in Method if m is not Method.GENERAL])
def test_only_a_general_argument_proves_every_size(method: Method) -> None:
    alone = statement(Check(method, passes), scope=Scope.EVERY_SIZE)
    assert judge(alone).outcome is Outcome.INCONCLUSIVE
    both = replace(alone, checks=(*alone.checks, Check(Method.GENERAL, passes)))
    assert judge(both).outcome is Outcome.PROVED


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
    broken = replace(statement(Check(Method.GENERAL, passes)), subject=-3)
    verdict = judge(broken)
    assert verdict.outcome is Outcome.REFUTED
    assert verdict.evidence[0].counterexample == "subject -3 is negative"


def test_a_negative_that_passes_is_not_caught() -> None:
    weak = replace(
        statement(Check(Method.RATIONAL, passes)), negatives=(Negative("nothing changed", 1),)
    )
    verdict = judge(weak)
    assert verdict.outcome is Outcome.PROVED
    assert not verdict.negatives[0].caught
    assert not verdict.holds


def test_a_negative_that_only_crashes_is_not_caught() -> None:
    verdict = judge(statement(Check(Method.RATIONAL, breaks)))
    assert not verdict.negatives[0].caught
    assert "ZeroDivisionError" in verdict.negatives[0].counterexample


def test_every_method_and_outcome_explains_itself() -> None:
    assert all(method.explanation for method in Method)
    assert all(outcome.explanation for outcome in Outcome)
    assert "degree / prime" in Method.MODULAR.explanation
