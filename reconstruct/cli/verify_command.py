"""`reconstruct verify`: any two networks, certified, refuted or undecided on a box."""

from __future__ import annotations

import json
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext

from reconstruct.certificates.conclude import conclude
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.cli import choices
from reconstruct.cli.progress import ProgressDisplay
from reconstruct.cli.verdict import exit_code
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.formats.files import write_atomically
from reconstruct.reports.document import build_comparison, to_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.page import write_page
from reconstruct.reports.terminal import summary, verdict_line, wrapped

FILES = ("certificate.json", "report.json", "report.html")


def main(options: Namespace) -> int:
    target = load(options.target, nnet_header=options.nnet_header)
    candidate = load(options.candidate, nnet_header=options.nnet_header)
    domain = load_domain(options.domain, target.size_in, options.radius)
    if options.time_limit is not None and not options.time_limit > 0:
        raise InputError(f"--time-limit must be a number of seconds > 0, not {options.time_limit}")
    with _folder(options) as folder:
        with ProgressDisplay(options.quiet or options.json) as progress:
            conclusion = conclude(
                target,
                candidate,
                domain=domain,
                bounds=choices.bounds(options, candidate),
                tolerance=options.tolerance,
                samples=options.samples,
                time_limit=options.time_limit,
                progress=progress,
            )
        plain = {k: v for k, v in vars(options).items() if k not in ("module", "command")}
        certificate = conclusion.certificate
        report = build_comparison(target, candidate, certificate, conclusion.search, options=plain)
        if folder is not None:
            write_certificate(
                folder.staging / "certificate.json",
                certificate,
                target=Source(target, options.target),
                candidate=Source(candidate, options.candidate),
                home=options.output,
            )
            write_atomically(folder.staging / "report.json", to_bytes(report))
            write_page(folder.staging)
            folder.publish(FILES)
    if options.json:
        print(json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False))
    elif options.quiet:
        print(verdict_line(report))
    else:
        print(summary(report))
        for line in certificate.tried:
            print(wrapped(f"tried: {line}", indent="       "))
    return exit_code(certificate.verdict)


def _folder(options: Namespace) -> AbstractContextManager[OutputFolder | None]:
    """Where -o says to write, made ready before the work begins; None where it says nothing."""
    if options.output is None:
        return nullcontext()
    return OutputFolder(options.output, force=options.force)
