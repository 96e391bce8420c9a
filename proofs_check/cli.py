"""`python -m proofs_check`: run the chain, print a table or JSON, and say by exit code if it holds.

Exit codes: 0 every statement passed and every negative caught; 1 otherwise; 2 bad usage.
`python -m proofs_check certificate OUT` goes to the checker of certificates, and
`python -m proofs_check theorems` to Coq.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from shutil import get_terminal_size
from time import perf_counter
from typing import Any

from proofs_check.core import Effort, Level, Statement, Verdict

SCHEMA = "proofs_check/2"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="python -m proofs_check",
        description="Check every statement that reconstruct rests on, and see each one refuted "
        "when a hypothesis is dropped. What a pass is worth: "
        + "; ".join(f"{level.value}: {level.explanation}" for level in Level)
        + ".",
        epilog="exit code: 0 all passed and every changed one refuted, 1 otherwise, 2 bad usage. "
        "'python -m proofs_check certificate OUT' proves a certificate again (see its --help)",
    )
    p.add_argument(
        "--only", metavar="NAME", action="append", help="this statement in full (may be repeated)"
    )
    p.add_argument("--thorough", action="store_true", help="larger sizes (minutes)")
    p.add_argument("--verbose", action="store_true", help="every check of every statement")
    p.add_argument("--json", action="store_true", help="a JSON document on stdout")
    p.add_argument(
        "--list", action="store_true", help="names and claims (with --json: all), nothing is run"
    )
    return p


def main(argv: Sequence[str] | None = None, program: str = "proofs_check") -> int:
    """Run the command; the exit code. `program` is who refuses a wrong word."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["certificate"]:
        from proofs_check.certificates.command import main as certificate

        return certificate(words[1:])
    if words == ["theorems"]:
        from proofs_check.formal import main as theorems

        return theorems()
    options = parser().parse_args(words)
    from proofs_check import chain  # sympy and networkx: not needed for --help

    try:
        chosen = tuple(chain.find(name) for name in options.only or ()) or chain.STATEMENTS
    except chain.UnknownStatement as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    if options.list and options.json:
        print(json.dumps([_claimed(s) for s in chosen], indent=2, ensure_ascii=False))
        return 0
    if options.list:
        for statement in chosen:
            print(f"{statement.name:<26}{statement.claim}")
        return 0
    effort = Effort.THOROUGH if options.thorough else Effort.DEFAULT
    started = perf_counter()
    width = min(max(get_terminal_size((100, 24)).columns, 80), 140)
    verdicts = _judge_all(chosen, effort)
    seconds = perf_counter() - started
    if options.json:
        print(json.dumps(document(chosen, verdicts, effort, seconds), indent=2, ensure_ascii=False))
    else:
        _show(chosen, verdicts, seconds, width, options)
    return 0 if all(v.holds for v in verdicts) else 1


def _judge_all(chosen: tuple[Statement[Any], ...], effort: Effort) -> tuple[Verdict, ...]:
    """One statement after another; on a terminal stderr says which."""
    from proofs_check.judge import judge

    verdicts = []
    speaks = sys.stderr.isatty()
    for index, statement in enumerate(chosen, 1):
        if speaks:
            line = f"{index}/{len(chosen)} {statement.name}"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        verdicts.append(judge(statement, effort))
    if speaks:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return tuple(verdicts)


def _show(
    chosen: tuple[Statement[Any], ...],
    verdicts: tuple[Verdict, ...],
    seconds: float,
    width: int,
    options: argparse.Namespace,
) -> None:
    """One statement in full, the table of all checks, or one screen."""
    from proofs_check.table import header, report, rows, summary

    if options.only:
        print("\n\n\n".join(report(s, v, width) for s, v in zip(chosen, verdicts, strict=True)))
        return
    if options.verbose:
        print(header(width))
        print("\n".join(row for v in verdicts for row in rows(v, width)) + "\n")
    print(summary(verdicts, seconds, width))


def document(
    chosen: tuple[Statement[Any], ...],
    verdicts: tuple[Verdict, ...],
    effort: Effort,
    seconds: float,
) -> dict[str, Any]:
    """The JSON document: statements with their evidence and negatives, and the environment."""
    return {
        "schema": SCHEMA,
        "effort": effort.value,
        "holds": all(v.holds for v in verdicts),
        "seconds": round(seconds, 3),
        "statements": [_entry(s, v) for s, v in zip(chosen, verdicts, strict=True)],
        "environment": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("numpy", "scipy", "sympy", "networkx")},
            "python-flint": _version("python-flint"),
        },
    }


def _claimed(statement: Statement[Any]) -> dict[str, Any]:
    """What a statement says of itself."""
    from proofs_check.chain import relied_on

    formal = statement.formal
    return {
        "name": statement.name,
        "claim": statement.claim,
        "hypotheses": list(statement.hypotheses),
        "paper": statement.paper,
        "relied_on": list(relied_on(statement.name)),
        "depends_on": list(statement.depends_on),
        "theorem": f"{formal.file}.v: {formal.theorem}" if formal else None,
    }


def _entry(statement: Statement[Any], verdict: Verdict) -> dict[str, Any]:
    return _claimed(statement) | {
        "outcome": verdict.outcome.value,
        "level": verdict.level.value,
        "holds": verdict.holds,
        "seconds": round(verdict.seconds, 3),
        "evidence": [_plain(asdict(e)) for e in verdict.evidence],
        "negatives": [_plain(asdict(n)) for n in verdict.negatives],
    }


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Enums as their words, seconds rounded."""
    plain = {key: getattr(value, "value", value) for key, value in fields.items()}
    return plain | {"seconds": round(plain["seconds"], 3)}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
