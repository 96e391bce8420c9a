"""The example of docs/adding-a-statement.md works as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

from proofs_check import Effort, Finding, Method, Negative, Outcome, Statement, judge
from proofs_check.core import by
from proofs_check.exact import Matrix
from proofs_check.symbols import identical, unknowns

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-statement.md"


def test_the_example_statement_passes_and_its_negative_caught() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.S)
    subject, check, negative = (dedent(block) for block in blocks)
    names: dict[str, Any] = {
        "Callable": Callable,
        "dataclass": dataclass,
        "np": np,
        "Matrix": Matrix,
        "by": by,
        "Effort": Effort,
        "Finding": Finding,
        "Method": Method,
        "Negative": Negative,
        "identical": identical,
        "unknowns": unknowns,
        "__name__": __name__,
    }
    exec(subject + check, names)
    statement = Statement(
        name="trace",
        claim="tr(AB) = tr(BA).",
        hypotheses=(),
        paper="",
        depends_on=(),
        subject=names["Trace"](),
        checks=(names["trace_commutes"],),
        negatives=(eval(negative, names),),
    )
    verdict = judge(statement)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.holds
