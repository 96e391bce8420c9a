"""`rc.verify`: two networks from anywhere, one verdict, and a directory if one is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconstruct.bounds import Method
from reconstruct.certificates.conclude import conclude
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.certificates.verdicts import Certificate
from reconstruct.errors import InputError
from reconstruct.formats import load
from reconstruct.formats.files import write_atomically
from reconstruct.networks import Box, Domain, Network, Points
from reconstruct.numbers.given import at_least
from reconstruct.progress import Progress, listener, silent
from reconstruct.reports.document import build_comparison, to_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.page import write_page
from reconstruct.runs import given
from reconstruct.runs.defaults import comparing_bounds
from reconstruct.runs.files import CANDIDATE, TARGET, copies, copies_before, take_along
from reconstruct.runs.given import Given, PathLike, Where

FILES = ("certificate.json", "report.json", "report.html")


@dataclass(frozen=True, eq=False)
class PairOfFiles:
    """Two networks and the files that they were read from (None: of no file)."""

    target: Network
    candidate: Network
    paths: tuple[Path | None, Path | None] = (None, None)

    @classmethod
    def read(
        cls,
        target: PathLike,
        candidate: PathLike,
        *,
        nnet_header: bool = False,
        near: Box | Points | None = None,
    ) -> PairOfFiles:
        """Both files; `nnet_header` puts the header of whichever is a .nnet file around it."""
        paths = Path(target), Path(candidate)
        networks = [_with_header(path, nnet_header, near) for path in paths]
        if nnet_header and all(n.metadata["format"] != "nnet" for n in networks):
            kinds = " and ".join(str(n.metadata["format"]) for n in networks)
            raise InputError(
                f"only .nnet files have a header to fold in, but these are {kinds} files"
            )
        return cls(networks[0], networks[1], paths)


def _with_header(path: Path, nnet_header: bool, near: Box | Points | None) -> Network:
    network = load(path, near=near)
    folded = nnet_header and network.metadata["format"] == "nnet"
    return load(path, nnet_header=True) if folded else network


@dataclass(frozen=True, eq=False)
class Verification:
    """Which pair, where, and how hard to try."""

    pair: PairOfFiles
    domain: Domain
    bounds: Method | None = None
    tolerance: float | None = None
    samples: int | None = None
    time_limit: float | None = None
    output: Path | None = None
    force: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class VerifyOutcome:
    """The certificate, and the report as it was written, or would have been."""

    certificate: Certificate
    report: Mapping[str, Any]
    output: Path | None


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
    pair = _pair(target, candidate, nnet_header, given.nearby(domain, radius))
    at_least(tolerance, "the tolerance", 0)
    at_least(time_limit, "the time limit", 0)
    job = Verification(
        pair,
        given.domain(domain, pair.target, radius),
        bounds=comparing_bounds(bounds, pair.candidate),
        tolerance=tolerance,
        samples=given.count(samples),
        time_limit=time_limit,
        output=None if output is None else given.folder(output),
        force=force,
        options={
            "target": given.word(target, "TARGET"),
            "candidate": given.word(candidate, "CANDIDATE"),
            "domain": given.domain_word(domain),
            "radius": radius,
            **given.bounds_words(bounds),
            "tolerance": tolerance,
            "samples": samples,
            "nnet_header": nnet_header,
            "output": None if output is None else os.fspath(output),
        },
    )
    return compare(job, listener(progress))


def _pair(
    target: Given, candidate: Given, nnet_header: bool, near: Box | Points | None
) -> PairOfFiles:
    if isinstance(target, str | os.PathLike) and isinstance(candidate, str | os.PathLike):
        return PairOfFiles.read(target, candidate, nnet_header=nnet_header, near=near)
    ours = given.network(target, "the target", nnet_header, near=near)
    theirs = given.network(candidate, "the candidate", nnet_header, near=near)
    return PairOfFiles(ours, theirs, (given.path(target), given.path(candidate)))


def compare(job: Verification, progress: Progress = silent) -> VerifyOutcome:
    """Certify, refute or leave undecided; write certificate, report and both networks if asked."""
    with _folder(job) as folder:
        sources = _sources(job, folder)
        target, candidate = (source.network for source in sources)
        conclusion = conclude(
            target,
            candidate,
            domain=job.domain,
            bounds=job.bounds,
            tolerance=job.tolerance,
            samples=job.samples,
            time_limit=job.time_limit,
            progress=progress,
        )
        certificate = conclusion.certificate
        paths = [None if job.output is None else s.path_from(job.output) for s in sources]
        report = build_comparison(
            target, candidate, certificate, conclusion.search, options=job.options, paths=paths
        )
        if folder is not None:
            _write(folder, certificate, sources, report)
    return VerifyOutcome(certificate, report, job.output)


def _write(
    folder: OutputFolder,
    certificate: Certificate,
    sources: tuple[Source, Source],
    report: Mapping[str, Any],
) -> None:
    write_certificate(
        folder.staging / "certificate.json",
        certificate,
        target=sources[0],
        candidate=sources[1],
        home=folder.path,
    )
    write_atomically(folder.staging / "report.json", to_bytes(report))
    write_page(folder.staging)
    names = (*copies(folder.staging), *FILES)
    stale = tuple(sorted(set(copies_before(folder.path)) - set(names)))
    folder.publish(names, stale=stale)


def _folder(job: Verification) -> AbstractContextManager[OutputFolder | None]:
    """Where to write, made ready before the work begins; None where nothing is written."""
    if job.output is None:
        return nullcontext()
    return OutputFolder(job.output, force=job.force)


def _sources(job: Verification, folder: OutputFolder | None) -> tuple[Source, Source]:
    pair = job.pair
    if folder is None:
        return Source(pair.target, pair.paths[0]), Source(pair.candidate, pair.paths[1])
    return (
        take_along(pair.target, pair.paths[0], folder, TARGET),
        take_along(pair.candidate, pair.paths[1], folder, CANDIDATE),
    )
