"""`rc.verify`: two networks from anywhere, one verdict, and a directory if one is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconstruct.bounds import Method
from reconstruct.certificates.conclude import conclude
from reconstruct.certificates.document import Source
from reconstruct.certificates.verdicts import Certificate
from reconstruct.errors import InputError
from reconstruct.networks import Box, Network, Points
from reconstruct.networks.graph import require_same_ends
from reconstruct.progress import Progress, listener, silent
from reconstruct.reports.document import build_comparison
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.page import card
from reconstruct.reports.terminal import verdict_line
from reconstruct.runs import given
from reconstruct.runs.files import (
    CANDIDATE,
    TARGET,
    copies,
    copies_before,
    take_along,
    write_documents,
)
from reconstruct.runs.given import Given, PathLike, Where


@dataclass(frozen=True, eq=False)
class VerifyOutcome:
    """The certificate, and the report as it was written, or would have been."""

    certificate: Certificate
    report: Mapping[str, Any]
    output: Path | None

    def __repr__(self) -> str:
        return f"VerifyOutcome({verdict_line(self.report)})"

    def _repr_html_(self) -> str:
        return card(self.report)


def verify(
    target: Given,
    candidate: Given,
    *,
    domain: Where,
    radius: float | None = None,
    bounds: Method | None = None,
    tolerance: float | None = None,
    samples: int | None = None,
    time_limit: float | None = None,
    nnet_header: bool = False,
    output: PathLike | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> VerifyOutcome:
    """`reconstruct verify`: certify, refute or leave undecided that two networks agree.

    With `output` a certificate, a report and both networks are written into that directory.
    """
    ours, theirs = _pair(target, candidate, nnet_header, given.nearby(domain, radius))
    require_same_ends(ours, theirs)
    given.check_numbers(samples, tolerance, time_limit)
    place, method = given.domain(domain, ours, radius), given.method(bounds, theirs)
    home = None if output is None else given.folder(output)
    options = {
        "target": given.word(target, "TARGET"),
        "candidate": given.word(candidate, "CANDIDATE"),
        **given.domain_words(domain),
        "radius": radius,
        **given.bounds_words(bounds),
        "tolerance": tolerance,
        "samples": samples,
        "nnet_header": nnet_header,
        "output": None if output is None else os.fspath(output),
    }
    with nullcontext() if home is None else OutputFolder(home, force=force) as folder:
        pair = ((ours, given.path(target), TARGET), (theirs, given.path(candidate), CANDIDATE))
        first, second = (
            Source(network, path) if folder is None else take_along(network, path, folder, role)
            for network, path, role in pair
        )
        conclusion = conclude(
            first.network,
            second.network,
            domain=place,
            bounds=method,
            tolerance=tolerance,
            samples=samples,
            time_limit=time_limit,
            progress=listener(progress),
        )
        certificate = conclusion.certificate
        report = build_comparison(
            first.network,
            second.network,
            certificate,
            conclusion.search,
            options=options,
            paths=[None if home is None else source.path_from(home) for source in (first, second)],
        )
        if folder is not None:
            write_documents(folder, certificate, (first, second), report)
            names = (*copies(folder.staging), "certificate.json", "report.json", "report.html")
            stale = tuple(sorted(set(copies_before(folder.path)) - set(names)))
            folder.publish(names, stale=stale)
    return VerifyOutcome(certificate, report, home)


def _pair(
    target: Given, candidate: Given, nnet_header: bool, near: Box | Points | None
) -> tuple[Network, Network]:
    """Both networks; `nnet_header` puts the header of whichever is a .nnet file around it."""
    headed = [nnet_header and str(given.path(v)).endswith(".nnet") for v in (target, candidate)]
    if nnet_header and not any(headed):
        kinds = [given.word(value, "a network").rpartition(".")[2] for value in (target, candidate)]
        raise InputError(
            f"only .nnet files have a header to fold in, but these are {' and '.join(kinds)} files"
        )
    return (
        given.network(target, "the target", headed[0], near=near),
        given.network(candidate, "the candidate", headed[1], near=near),
    )
