"""Theorems in Coq: the handful of statements that every certificate rests on.

    python -m proofs_check theorems        what `make proofs` calls

A file of `proofs_check/coq` is compiled by `coqc`, and Coq is asked what each theorem assumes:
nothing but the axioms by which Coq's own library makes the real numbers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import copy, which
from tempfile import TemporaryDirectory
from typing import Any

from proofs_check.core import Check, Effort, Finding, Method, Statement

FOLDER = Path(__file__).parent / "coq"

AXIOMS_OF_THE_REALS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}
"""What `Print Assumptions` names for the real numbers of Coq's standard library."""

MISSING = "coqc is missing: `apt-get install coq` (Debian, Ubuntu) brings the proof assistant."


def available() -> bool:
    """Whether Coq can be run here."""
    return which("coqc") is not None


@cache
def assumptions(file: str, theorems: tuple[str, ...]) -> dict[str, set[str]]:
    """Compile a file in a folder of its own; by theorem the axioms that it assumes."""
    with TemporaryDirectory() as folder:
        source = Path(copy(FOLDER / f"{file}.v", folder))
        asked = "\n".join(f"Print Assumptions {name}." for name in theorems)
        source.write_text(f"{source.read_text('utf-8')}\n{asked}\n", "utf-8")
        run = subprocess.run(
            ["coqc", "-q", source.name], capture_output=True, text=True, cwd=folder, check=False
        )
    if run.returncode:
        raise ArithmeticError(f"coqc refuses {file}.v: {run.stderr.strip()}")
    answers = re.findall(
        r"^(?:Closed under the global context|Axioms:\n(?:.+\n?)+?(?=^Axioms:|^Closed|\Z))",
        run.stdout,
        re.M,
    )
    if len(answers) != len(theorems):
        raise ArithmeticError(f"coqc says nothing of the assumptions of {file}.v")
    named = [set(re.findall(r"^([\w.]+) *(?::|$)", text, re.M)) - {"Axioms"} for text in answers]
    return dict(zip(theorems, named, strict=True))


def theorems(file: str) -> tuple[str, ...]:
    """The theorems of a file, in order."""
    text = (FOLDER / f"{file}.v").read_text("utf-8")
    return tuple(re.findall(r"^Theorem (\w+)", text, re.M))


def examine(file: str, theorem: str) -> Finding:
    """The theorem, if Coq accepts it and it assumes no more than the reals do."""
    beyond = assumptions(file, theorems(file))[theorem] - AXIOMS_OF_THE_REALS
    if beyond:
        raise ArithmeticError(f"{theorem} assumes {', '.join(sorted(beyond))}")
    return Finding("every size", f"theorem {theorem} of proofs_check/coq/{file}.v")


def by_coq(statement: Statement[Any]) -> tuple[Check[Any], ...]:
    """The check by Coq: where it can be run, and for the subject that the theorem speaks of."""
    formal = statement.formal
    if formal is None or statement.subject != formal.subject or not available():
        return ()

    def run(subject: Any, effort: Effort) -> Finding:
        """Compile the theorem, and ask what it assumes."""
        return examine(formal.file, formal.theorem)

    return (Check(Method.COQ, run),)


def main() -> int:
    """Check all theorems; 0 if every one holds, 1 if one does not, 2 where Coq is missing."""
    if not available():
        print(MISSING, file=sys.stderr)
        return 2
    code = 0
    for path in sorted(FOLDER.glob("*.v")):
        for name in theorems(path.stem):
            try:
                examine(path.stem, name)
                print(f"{path.stem}.v: {name} holds")
            except ArithmeticError as error:
                print(error, file=sys.stderr)
                code = 1
    return code
