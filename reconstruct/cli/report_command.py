"""`reconstruct report`: make report.html again from the other files of a run."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from reconstruct.reports.page import write_page
from reconstruct.reports.run_files import read_run


def main(options: Namespace) -> int:
    folder = Path(options.path)
    report = read_run(folder).report
    write_page(folder)
    if options.json:
        print(json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        print(folder / "report.html")
    return 0
