"""One whole run: target in, directory out. Command line, demo and library all call it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.bounds import Crown, Method
from reconstruct.certificates.conclude import Conclusion, conclude
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.certificates.verdicts import Certificate
from reconstruct.checkpoint import SiteStore, run_key, worth_resuming
from reconstruct.constructions.frozen import Frozen
from reconstruct.errors import InputError, ReconstructError
from reconstruct.formats import Origin, sha256_file
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao import Auto, FolderCheckpoint, Solver, using
from reconstruct.networks import Box, Network, Points
from reconstruct.networks.inputs import fitting
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.threads import at_most_threads, one_blas_thread
from reconstruct.pipeline import Result, reconstruct
from reconstruct.progress import OutOfTime, Progress, Step, silent, until
from reconstruct.reports.document import build_report, to_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.guard import guard_part
from reconstruct.reports.inputs import ShownInputs
from reconstruct.reports.page import write_page
from reconstruct.runs.bundle import TARGET, take_along
from reconstruct.runs.files import (
    GUARDED,
    NETWORK,
    Forms,
    left_behind,
    published,
    write_networks,
)
from reconstruct.runs.recipe import Recipe
from reconstruct.runs.room import Room, with_room

SMALL = 2**24  # frozen weights up to which BLAS threads wait for each other more than they work


@dataclass(frozen=True, eq=False)
class Job:
    """What to reconstruct, in what, on which domain, and how."""

    target: Network
    target_path: Path | None  # None: a network of no file, which is written to one
    frozen: Frozen
    domain: Box | Points
    output: Path
    slack: float = 1.0
    guard: bool = False
    folded: bool = True
    compact: bool = False
    room: Room = Room.AUTO  # for float32, where float32 is written in blocks
    blocks: bool | None = None  # long sums as trees of short ones; None: where float32 is written
    solver: Solver = field(default_factory=Auto)
    bounds: Method = field(default_factory=Crown)
    dtype: str = "float64"
    samples: int | None = None  # None: fewer where the certificate says it all
    tolerance: float | None = None
    prove_rank: bool = False
    force: bool = False
    resume: bool | None = False  # None: what calls this cannot go on with an interrupted run
    memory: int | None = None  # bytes that the run may take: large weights are never held
    threads: int | None = None  # None: all processors
    time_limit: float | None = None  # seconds: what is not solved by then is kept
    options: Mapping[str, Any] = field(default_factory=dict)
    examples: ShownInputs | None = None
    unseen: Array | None = None  # inputs (rows) besides the domain at which the guard is tried

    @property
    def guarded(self) -> bool:
        return self.guard or isinstance(self.domain, Points)

    @property
    def in_blocks(self) -> bool:
        """Whether long sums are written as trees; weights that are never held are not cut."""
        asked = self.dtype == "float32" if self.blocks is None else self.blocks
        return asked and self.memory is None

    @property
    def forms(self) -> Forms:
        """The forms in which the network is written."""
        folded = self.folded and self.memory is None
        fine = "coarse" if self.dtype == "float32" else "finer"
        tree = fine if self.in_blocks else None
        return Forms(np.dtype(self.dtype), folded, self.guarded, tree, self.memory)

    def key(self) -> str:
        """Names the numbers of this run: a checkpoint with another key is not reused."""
        return run_key(
            {
                "target": self.target.metadata.get("sha256"),
                "frozen": self.frozen.identity,
                "construction": repr(self.frozen.construction),
                "merge": self.frozen.merge,
                "domain": [part.tolist() for part in self.domain.boxes],
                "slack": self.slack,
                "solver": repr(self.solver),
                "bounds": repr(self.bounds),
                "dtype": self.dtype,
            }
        )


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What a run leaves behind: the result, its certificate, and the report as written."""

    result: Result
    network: Network
    certificate: Certificate
    report: Mapping[str, Any]
    output: Path


def run(job: Job, progress: Progress = silent) -> RunOutcome:
    """Reconstruct, write the network, certify the file as written, report.

    Where the time limit ends before the last map is solved, `OutOfTime` leaves what was solved for
    a resumed run; a certificate that it ends is undecided.
    """
    start = time.perf_counter()
    fitting(job.domain, job.target)
    if job.unseen is not None and not job.guarded:
        raise InputError(
            "x_unseen holds inputs at which the guard is tried, but this run writes none; add "
            "--guard (guard=True), or leave x_unseen out"
        )
    one = one_blas_thread() if job.frozen.network.weights <= SMALL else nullcontext()
    place = OutputFolder(job.output, force=job.force, resume=job.resume)
    with at_most_threads(job.threads), one, place as folder:
        source = take_along(job.target, job.target_path, folder, TARGET)
        job = replace(job, target=source.network)
        limit = None if job.time_limit is None else start + job.time_limit
        result = _solved(job, folder, progress if limit is None else until(limit, progress))
        result = with_room(result, job.forms, job.room, progress)
        outcome = _finish(job, source, folder, result, start, progress)
        names = published(folder.staging, job.compact)
        folder.publish(names, lambda: _read_back(job, outcome), left_behind(job.output, names))
    return outcome


def _solved(job: Job, folder: OutputFolder, progress: Progress) -> Result:
    """All maps solved; each is kept as soon as it is."""
    store = SiteStore(folder.staging, job.key(), resume=bool(job.resume))
    try:
        with using(checkpoint=FolderCheckpoint(folder.staging)):
            return reconstruct(
                job.target,
                job.frozen,
                domain=job.domain,
                slack=job.slack,
                solver=job.solver,
                bounds=job.bounds,
                dtype=np.dtype(job.dtype),
                progress=progress,
                checkpoint=store,
            )
    except OutOfTime:
        folder.keep = job.resume is not None and worth_resuming(folder.staging)
        raise


def _read_back(job: Job, outcome: RunOutcome) -> None:
    """The published network is the one that was certified, its data files included."""
    origin = Origin.of(outcome.network)
    if job.compact or origin is None or not origin.data:
        return
    for name, digest in ((NETWORK, origin.sha256), *origin.data.items()):
        if sha256_file(job.output / name) != digest:
            raise ReconstructError(
                f"{job.output}: the published network is not the one that was certified ({name} "
                f"differs); run it again"
            )


def _finish(
    job: Job,
    source: Source,
    folder: OutputFolder,
    result: Result,
    start: float,
    progress: Progress,
) -> RunOutcome:
    progress(Step("writing the network", 0))
    network = _written(job, folder.staging, result)
    if job.memory is not None:  # what is drawn anew each time it is looked at is read from now on
        result = replace(result, network=_read_from(result.network, network))
    left = None if job.time_limit is None else start + job.time_limit - time.perf_counter()
    conclusion = _concluded(job, result, network, left, progress)
    certificate = conclusion.certificate
    write_certificate(
        folder.staging / "certificate.json",
        certificate,
        target=source,
        candidate=Source(network),
        exact_norms=result.exact,
        home=job.output,
    )
    seconds = time.perf_counter() - start
    if job.prove_rank:
        progress(Step("proving full rank", 0))
    progress(Step("writing the report", 0))
    report = build_report(
        result,
        certificate,
        conclusion.search,
        options=job.options,
        seconds=seconds,
        rank_proofs=result.prove_ranks() if job.prove_rank else None,
        guard=_guard(job, result),
        target_path=source.path_from(job.output),
        recipe=Recipe.of(job).as_json(),
        examples=job.examples,
        blocks=job.in_blocks,
    )
    write_atomically(folder.staging / "report.json", to_bytes(report))
    write_page(folder.staging)
    return RunOutcome(result, network, certificate, report, job.output)


def _read_from(solved: Network, written: Network) -> Network:
    """The solved network, its nodes and names, with weights that are not in memory from the file.

    A file has more nodes than that for a convolution, and other names.
    """
    apart = [node.name for node in solved.nodes if not node.op.in_memory]
    return solved.with_ops({name: written.node(name).op for name in apart})


def _written(job: Job, folder: Path, result: Result) -> Network:
    """The network as it is read back from its file."""
    return write_networks(folder, result, job.forms)


def _concluded(
    job: Job, result: Result, network: Network, left: float | None, progress: Progress
) -> Conclusion:
    return conclude(
        job.target,
        network,
        domain=result.domain,
        bounds=_same_leaves(job.bounds, result),
        tolerance=job.tolerance,
        samples=job.samples,
        exact_norms=result.exact,
        bound_anyway=True,
        time_limit=None if left is None else max(0.0, left),
        progress=progress,
        known=result.known,
    )


def _guard(job: Job, result: Result) -> dict[str, Any] | None:
    """What the guard says; None where none was written."""
    if not job.guarded:
        return None
    slack = job.slack if isinstance(job.domain, Points) else None
    return guard_part(result, GUARDED, slack, job.unseen)


def _same_leaves(method: Method, result: Result) -> Method:
    """The same method; a search goes on with what it found."""
    if result.known is not None and result.known.method == method:
        return result.known.again
    return method
