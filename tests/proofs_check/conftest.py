"""One default run of the whole chain, shared by the tests that look at it."""

from __future__ import annotations

import pytest

from proofs_check import Verdict, judge
from proofs_check.chain import STATEMENTS


@pytest.fixture(scope="session")
def verdicts() -> dict[str, Verdict]:
    """Every statement judged at default sizes, by name."""
    return {statement.name: judge(statement) for statement in STATEMENTS}
