"""`reconstruct check`: a certificate is accepted or rejected, with the field that decides."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict

from reconstruct.certificates.checker import check
from reconstruct.certificates.checking.report import CheckReport, CheckStatus

EXIT = {CheckStatus.ACCEPTED: 0, CheckStatus.REJECTED: 2, CheckStatus.NOT_CHECKABLE: 3}


def main(options: Namespace) -> int:
    report = check(options.path)
    if options.json:
        plain = {**asdict(report), "status": report.status.value}
        print(json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        print(_text(report))
    return EXIT[report.status]


def _text(report: CheckReport) -> str:
    head = f"{report.status.name.replace('_', ' ')}: "
    if report.status is not CheckStatus.ACCEPTED:
        where = f"{report.field}: " if report.field else ""
        return f"{head}{where}{report.reason}"
    claims = ", ".join(report.verified)
    bound = "" if report.bound is None else f"; |f − g| ≤ {report.bound:.3g} on the domain"
    return f"{head}{report.reason} (verified again: {claims}{bound}; {report.seconds:.1f} s)"
