"""`python -m proofs_check certificate OUT`: accepted or not, with the field that decides.

Exit codes: 0 accepted; 1 rejected; 2 a file is missing or cannot be read; 3 not checkable.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path

from proofs_check.certificates.checker import check
from proofs_check.certificates.report import CheckReport, CheckStatus

EXIT = {
    CheckStatus.ACCEPTED: 0,
    CheckStatus.REJECTED: 1,
    CheckStatus.MISSING: 2,
    CheckStatus.UNREADABLE: 2,
    CheckStatus.NOT_CHECKABLE: 3,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="python -m proofs_check certificate",
        description="Prove a certificate again from its files, trusting nothing of who made it.",
        epilog="exit code: 0 accepted, 1 rejected, 2 missing or unreadable, 3 not checkable",
    )
    p.add_argument("path", metavar="OUT", help="a folder with certificate.json, or that file")
    p.add_argument("--target", help="where the target is, if not where the certificate says")
    p.add_argument("--candidate", help="where the network is, if not where the certificate says")
    p.add_argument("--json", action="store_true", help="a JSON document on stdout")
    p.add_argument("--trusted", action="store_true", help="say what an ACCEPTED rests on")
    p.add_argument("--quiet", action="store_true", help="the verdict line alone")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = parser().parse_args(argv)
    report = check(options.path, target=options.target, candidate=options.candidate)
    print(as_json(report) if options.json else as_text(report, options.quiet))
    if options.trusted and not options.json:
        print(trusted(report))
    return EXIT[report.status]


def as_json(report: CheckReport) -> str:
    finite = {name: f if isfinite(f) else None for name, f in report.figures.items()}
    plain = {**asdict(report), "status": report.status.value, "figures": finite}
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def as_text(report: CheckReport, quiet: bool = False) -> str:
    """The verdict in a line; unless `quiet`, what was verified in another."""
    head = f"{report.status.name.replace('_', ' ')}: "
    if not report.accepted:
        return head + (f"{report.field}: " if report.field else "") + report.reason
    head += report.reason
    # Half a percent more than is known: rounded to three digits it is no less.
    head += "" if report.bound is None else f"; |f − g| ≤ {1.005 * report.bound:.3g} on the domain"
    claims = ", ".join(report.verified) or "nothing"
    for name in report.unverified:
        figure = report.figures.get(name, inf)
        reached = f"claim not reached, proved up to {1.005 * figure:.3g}"
        claims += f"; {name}: {reached if isfinite(figure) else 'not verified'}"
    claims += f"; {' and '.join(report.shared)} read by the shared reader" if report.shared else ""
    return head if quiet else f"{head}\nverified again: {claims}; {report.seconds:.1f} s"


def trusted(report: CheckReport) -> str:
    """What has to be right for an ACCEPTED: the code that ran, and what it runs on."""
    lines = ["An ACCEPTED holds if the following is right.", "", "Code that this check has loaded:"]
    total = 0
    for name, module in sorted(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if place and name.split(".")[0] in ("proofs_check", "reconstruct"):
            count = Path(place).read_text(encoding="utf-8").count("\n")
            total += count
            lines.append(f"  {count:5d} lines  {name.replace('.', '/')}")
    lines.append(f"  {total:5d} lines in all")
    reader = "the checker's own reader (proofs_check/reader)"
    if report.shared:
        reader = f"the reader that the certifier uses too, for the {' and '.join(report.shared)}"
    libraries = ", ".join(f"{n} {v}" for n, v in _versions())
    lines += [
        "",
        f"Networks were read by {reader}.",
        f"Libraries: {libraries}; their matrix products add up rounded products in any order.",
        "The processor: IEEE 754, rounding to nearest, gradual underflow (tested at the start).",
        'The mathematics: the statements that the files name under "Rests on proofs_check".',
        "Not trusted: the certificate, the certifier, solvers, bounds, the search for cuts.",
    ]
    return "\n".join(lines)


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in ("numpy", "scipy", "onnx"):
        module = sys.modules.get(name)
        if module is not None:
            found.append((name, str(getattr(module, "__version__", "?"))))
    return found
