"""`reconstruct demo`: a random frozen network becomes a digits classifier by its norms alone."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from reconstruct.bounds import Crown, Interval
from reconstruct.cli.progress import ProgressDisplay
from reconstruct.cli.verdict import exit_code, say
from reconstruct.constructions import Wide, draw
from reconstruct.demo import digits
from reconstruct.reports.inputs import ShownInputs
from reconstruct.reports.terminal import summary, verdict_line
from reconstruct.runs.job import Job, run


def main(options: Namespace) -> int:
    shipped = digits(cnn=options.cnn)
    frozen = draw(shipped.target, Wide(ratio=1.5), seed=options.seed)
    before = shipped.accuracy(frozen.network)
    job = Job(
        target=shipped.target,
        target_path=shipped.path,
        frozen=frozen,
        domain=shipped.domain,
        output=Path(options.output),
        force=options.force,
        resume=None,
        examples=ShownInputs(shipped.images, shipped.labels, (1, 8, 8)),
        bounds=Interval() if options.cnn else Crown(),
        options={
            "command": "demo",
            "seed": options.seed,
            "output": options.output,
            **({"cnn": True} if options.cnn else {}),
        },
    )
    say("a random frozen network is about to become a digits classifier", options)
    with ProgressDisplay(options.quiet or options.json) as progress:
        outcome = run(job, progress)
    if options.json:
        print(json.dumps(outcome.report, indent=2, allow_nan=False, ensure_ascii=False))
        return exit_code(outcome.certificate.verdict)
    if options.quiet:
        print(verdict_line(outcome.report))
        return exit_code(outcome.certificate.verdict)
    print(summary(outcome.report))
    print()
    count = len(shipped.labels)
    for name, share in (
        ("target", shipped.accuracy(shipped.target)),
        ("frozen network", before),
        ("frozen network, norms set", shipped.accuracy(outcome.network)),
    ):
        print(f"accuracy of the {name:<27} {100 * share:6.2f} % of {count} test images")
    print(f"\nopen {outcome.output / 'report.html'} to see it")
    return exit_code(outcome.certificate.verdict)
