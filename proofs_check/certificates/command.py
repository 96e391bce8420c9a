"""`python -m proofs_check certificate OUT`: accepted or not, with the field that decides.

Exit codes: 0 accepted; 2 rejected, or a file is missing; 3 not checkable.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from proofs_check.certificates.checker import check
from proofs_check.certificates.report import CheckReport, CheckStatus

EXIT = {
    CheckStatus.ACCEPTED: 0,
    CheckStatus.REJECTED: 2,
    CheckStatus.MISSING: 2,
    CheckStatus.NOT_CHECKABLE: 3,
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="python -m proofs_check certificate",
        description="Prove a certificate again from its files, trusting nothing of who made it.",
        epilog="exit code: 0 accepted, 2 rejected or a file is missing, 3 not checkable",
    )
    p.add_argument("path", metavar="OUT", help="a folder with certificate.json, or that file")
    p.add_argument("--target", help="where the target is, if not where the certificate says")
    p.add_argument("--candidate", help="where the network is, if not where the certificate says")
    p.add_argument("--json", action="store_true", help="a JSON document on stdout")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = parser().parse_args(argv)
    places = {"target": options.target, "candidate": options.candidate}
    report = check(options.path, **places)
    print(as_json(report) if options.json else as_text(report))
    return EXIT[report.status]


def as_json(report: CheckReport) -> str:
    plain = {**asdict(report), "status": report.status.value}
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def as_text(report: CheckReport) -> str:
    head = f"{report.status.name.replace('_', ' ')}: "
    if not report.accepted:
        where = f"{report.field}: " if report.field else ""
        return f"{head}{where}{report.reason}"
    claims = ", ".join(report.verified) or "nothing"
    left = ", ".join(report.unverified)
    claims += f"; claimed and not verified: {left}" if left else ""
    claims += f"; {' and '.join(report.shared)} read by the shared reader" if report.shared else ""
    bound = "" if report.bound is None else f"; |f − g| ≤ {report.bound:.3g} on the domain"
    return f"{head}{report.reason} (verified again: {claims}{bound}; {report.seconds:.1f} s)"
