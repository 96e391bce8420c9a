"""One default run of the whole chain, shared by the tests that look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proofs_check import Verdict, formal, judge
from proofs_check.chain import STATEMENTS
from tests.sharing import made_once


@pytest.fixture(scope="session", autouse=True)
def coq_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Coq reads each file of the package once, whichever worker asks first."""
    folder, compiled = formal.FOLDER, formal.assumptions

    def once(file: str, theorems: tuple[str, ...]) -> dict[str, set[str]]:
        if folder != formal.FOLDER:  # a test's own files
            return compiled(file, theorems)
        return made_once(tmp_path_factory, f"coq-{file}", lambda: compiled(file, theorems))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formal, "assumptions", once)
        yield


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """Every statement judged at default sizes, by name."""
    return made_once(tmp_path_factory, "verdicts", _verdicts)


def _verdicts() -> dict[str, Verdict]:
    return {statement.name: judge(statement) for statement in STATEMENTS}
