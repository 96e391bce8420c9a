"""How to do it again: command, seeds, hashes, versions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from reconstruct.reports.markup import Child, Markup, element, facts
from reconstruct.reports.numbers import DASH, duration, size
from reconstruct.reports.reading import RunFiles

POSITIONAL = ("target", "candidate")
NEGATED = ("merge", "folded")  # on unless --no-… says otherwise
UNSAID = ("command", "module", "json", "quiet", "force", "resume", "time_limit", *POSITIONAL)


def section(run: RunFiles) -> Markup:
    report = run.report
    return element(
        "section",
        element("h2", "Do it again"),
        element(
            "p",
            "The same numbers come out of this command, and the second one re-checks the "
            "certificate without trusting anything of the solver.",
        ),
        element("pre", f"{command(report)}\n{check_command(report)}"),
        facts(_known(report)),
        _domain(report),
        id="reproduce",
    )


def command(report: Mapping[str, Any]) -> str:
    """The command line that gives this report, every option spelled out."""
    options = dict(report.get("options") or {})
    verb = "verify" if "candidate" in options else "run" if "target" in options else "demo"
    words = ["reconstruct", verb, *(str(options[key]) for key in POSITIONAL if key in options)]
    for key, value in options.items():
        words += _flag(key, value)
    return shlex.join([*words, "--force"])  # what is there is what it makes again


def check_command(report: Mapping[str, Any]) -> str:
    options = report.get("options") or {}
    return shlex.join(["reconstruct", "check", str(options.get("output") or "OUT")])


def _flag(key: str, value: Any) -> list[str]:
    if key in UNSAID or value is None:
        return []
    if key in NEGATED:
        return [] if value else [f"--no-{key}"]
    flag = f"--{key.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag] if value else []
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _known(report: Mapping[str, Any]) -> list[tuple[str, Child]]:
    target, frozen = report["target"], report.get("frozen") or {}
    machine, cost = report["environment"], report["cost"]
    known: list[tuple[str, Child]] = [
        ("target", str(target["file"] or "not from a file")),
        ("target sha256", _code(target["sha256"])),
    ]
    if frozen:
        drawn = f"{frozen.get('weights')}, seed {frozen.get('seed')}"
        known += [
            ("frozen weights", str(frozen.get("file") or drawn)),
            ("frozen weights sha256", _code(frozen.get("sha256"))),
        ]
    return [
        *known,
        ("seed of the samples", _known_as(report["error"]["seed"])),
        ("reconstruct", str(machine["reconstruct"])),
        ("Python, numpy, scipy", f"{machine['python']}, {machine['numpy']}, {machine['scipy']}"),
        ("BLAS", str(machine["blas"] or DASH)),
        ("processor", f"{machine['cpu'] or DASH}, {_known_as(machine['threads'])} threads"),
        ("time and memory", f"{duration(cost['seconds'])}, {size(cost['peak_bytes'])}"),
    ]


def _known_as(value: int | None) -> str:
    return DASH if value is None else str(value)


def _code(value: str | None) -> Child:
    return DASH if value is None else element("code", value)


def _domain(report: Mapping[str, Any]) -> Markup:
    lo, hi = report["domain"]["lo"], report["domain"]["hi"]
    lines = "\n".join(f"{i:>4}  {a!r} … {b!r}" for i, (a, b) in enumerate(zip(lo, hi, strict=True)))
    summary = element("summary", f"The domain, coordinate by coordinate ({len(lo)})")
    return element("details", summary, element("pre", lines))
