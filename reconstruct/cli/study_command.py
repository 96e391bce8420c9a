"""`reconstruct study NAME`: rows, a plot and a page that answer one question."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from reconstruct.cli.progress import ProgressDisplay
from reconstruct.errors import InputError
from reconstruct.studies import STUDIES, Settings, run_study


def main(options: Namespace) -> int:
    study = STUDIES.get(options.name)
    if study is None:
        raise InputError(f"there is no study {options.name!r}; there are {', '.join(STUDIES)}")
    settings = Settings(
        grid=_grid(options.grid or ()),
        seeds=options.seeds,
        jobs=options.jobs,
        resume=options.resume,
        force=options.force,
    )
    output = Path(options.output)
    with ProgressDisplay(options.quiet or options.json) as progress:
        rows = run_study(study, output, settings, progress)
    findings = study.findings(rows)
    if options.json:
        print(json.dumps([{**vars(f), "evidence": f.evidence.value} for f in findings], indent=2))
        return 0
    for finding in findings:
        print(f"{finding.sentence} ({finding.evidence.value})")
    print(f"{len(rows)} rows in {output / 'rows.jsonl'}, the page is {output / 'report.html'}")
    return 0


def _grid(words: list[str] | tuple[()]) -> dict[str, str]:
    """`--grid d=4,8` as a name and its values."""
    found = {}
    for word in words:
        name, sign, values = word.partition("=")
        if not sign or not values:
            raise InputError(f"--grid takes NAME=VALUE,VALUE,… as in d=4,8, but is {word!r}")
        found[name] = values
    return found
