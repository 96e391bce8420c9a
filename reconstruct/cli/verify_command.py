"""`reconstruct verify`: any two networks, certified, refuted or undecided on a box."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from reconstruct.cli import choices
from reconstruct.cli.progress import ProgressDisplay
from reconstruct.cli.verdict import exit_code
from reconstruct.errors import InputError
from reconstruct.formats import load_domain
from reconstruct.networks.inputs import input_shape
from reconstruct.reports.numbers import in_words
from reconstruct.reports.terminal import summary, verdict_line, wrapped
from reconstruct.runs.comparison import PairOfFiles, Verification, compare


def main(options: Namespace) -> int:
    pair = PairOfFiles.read(options.target, options.candidate, nnet_header=options.nnet_header)
    domain = load_domain(
        options.domain, pair.target.size_in, options.radius, input_shape(pair.target)
    )
    if options.time_limit is not None and not options.time_limit > 0:
        raise InputError(f"--time-limit must be a number of seconds > 0, not {options.time_limit}")
    job = Verification(
        pair,
        domain,
        bounds=choices.bounds(options, pair.candidate),
        tolerance=options.tolerance,
        samples=options.samples,
        time_limit=options.time_limit,
        output=None if options.output is None else Path(options.output),
        force=options.force,
        options={k: v for k, v in vars(options).items() if k not in ("module", "command")},
    )
    with ProgressDisplay(options.quiet or options.json) as progress:
        outcome = compare(job, progress)
    if options.json:
        print(json.dumps(outcome.report, indent=2, allow_nan=False, ensure_ascii=False))
    elif options.quiet:
        print(verdict_line(outcome.report))
    else:
        print(summary(outcome.report))
        for line in outcome.certificate.tried:
            print(wrapped(f"tried: {in_words(line)}", indent="       "))
    return exit_code(outcome.certificate.verdict)
