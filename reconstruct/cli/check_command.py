"""`reconstruct check`: a certificate is accepted or rejected, with the field that decides."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict

from reconstruct.certificates.checker import check
from reconstruct.certificates.checking.report import CheckStatus

EXIT = {CheckStatus.ACCEPTED: 0, CheckStatus.REJECTED: 2, CheckStatus.NOT_CHECKABLE: 3}


def main(options: Namespace) -> int:
    report = check(options.path)
    if options.json:
        plain = {**asdict(report), "status": report.status.value}
        print(json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        print(report)
    return EXIT[report.status]
