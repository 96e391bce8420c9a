"""One default run of the whole chain, shared by the tests that look at it."""

from __future__ import annotations

import pytest

from proofs_check import Verdict, judge
from proofs_check.chain import STATEMENTS
from tests.sharing import made_once


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """Every statement judged at default sizes, by name."""
    return made_once(tmp_path_factory, "verdicts", _verdicts)


def _verdicts() -> dict[str, Verdict]:
    return {statement.name: judge(statement) for statement in STATEMENTS}
