"""`rc.run`: one whole run, target in, directory out. The command line and the demo call it.

A `Job` is the call with every default filled in. The target is copied into the directory, every
map is solved (and kept, so that an interrupted run can go on), the network is written and read
back, and what is certified is the network as it was read back.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reconstruct.bounds import Method
from reconstruct.certificates.conclude import conclude
from reconstruct.certificates.document import Source
from reconstruct.certificates.verdicts import Certificate
from reconstruct.checkpoint import SiteStore, run_key, worth_resuming
from reconstruct.constructions import Construction, Frozen, Wide, draw
from reconstruct.constructions.costs import cost
from reconstruct.constructions.frozen import Layout, as_construction, lay_out
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.onnx.write import require_writable
from reconstruct.khatri_rao import Solver, ranks
from reconstruct.khatri_rao.solve import as_solver
from reconstruct.networks import Activation, Box, LiveNorm, Network, Points
from reconstruct.networks.draw import Weights
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import at_least, number, precision
from reconstruct.numbers.parallel import one_blas_thread, physical_memory
from reconstruct.pipeline import Result, reconstruct, width_for
from reconstruct.progress import Progress, Step, listener, silent, until
from reconstruct.reports.document import build_report
from reconstruct.reports.folder import OutputFolder, as_output
from reconstruct.reports.inputs import ShownInputs, guard_part
from reconstruct.reports.page import card
from reconstruct.reports.words import size, verdict_line
from reconstruct.runs import given
from reconstruct.runs.files import (
    GUARDED,
    TARGET,
    Forms,
    left_behind,
    published,
    take_along,
    with_headroom,
    write_documents,
    write_networks,
)
from reconstruct.runs.given import Given, PathLike, Where
from reconstruct.runs.rebuild import Recipe

logger = logging.getLogger(__name__)

Frozenlike: TypeAlias = "Frozen | Given"
DOMAIN = (-1.0, 1.0)
SETTINGS = ("ratio", "rank", "block", "layers", "norm")  # of constructions that are options, too
NO_DOMAIN = "no domain given: every claim is made on [-1, 1] for each input"
LIVE_ON_A_BOX = (
    "the target normalises values by their own mean and variance, and of that nothing is proved "
    "over a box: the verdict can only be undecided or refuted; give inputs as the domain (an .npz "
    "with x) to have it certified at these"
)


@dataclass(frozen=True, eq=False)
class Job:
    """What to reconstruct, in what, on which domain, and how: a call of `run` with its defaults.

    `options` are the same in the words of the command line, for the report's "do it again".
    """

    target: Network
    target_path: Path | None  # None: a network of no file, which is written to one
    frozen: Frozen
    domain: Box | Points
    output: Path
    slack: float
    guard: bool
    solver: Solver
    bounds: Method
    dtype: str
    samples: int | None  # None: fewer where the certificate says it all
    tolerance: float | None
    force: bool
    resume: bool | None  # None: what calls this cannot go on with an interrupted run
    deadline: float | None  # what is not solved by then is kept
    options: Mapping[str, Any]
    examples: ShownInputs | None
    page: bool  # False: drawn later by `report`, after the verdict has been said
    unseen: Array | None  # inputs (rows) besides the domain at which the guard is tried

    @property
    def guarded(self) -> bool:
        return self.guard or isinstance(self.domain, Points)

    @property
    def forms(self) -> Forms:
        """How the network is written: in float32 long sums are trees of short ones."""
        return Forms(np.dtype(self.dtype), True, self.guarded, self.dtype == "float32")

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

    def __repr__(self) -> str:
        return f"RunOutcome({verdict_line(self.report)}; written to {self.output})"

    def _repr_html_(self) -> str:
        return card(self.report)


def run(
    target: Given,
    output: PathLike,
    *,
    domain: Where | None = None,
    radius: float | None = None,
    slack: float | None = None,
    guard: bool = False,
    frozen: Frozenlike | None = None,
    construction: Construction | None = None,
    float32_error: float | None = None,
    seed: int | None = None,
    weights: Weights | str | None = None,
    density: float | None = None,
    activation: Activation | None = None,
    solver: Solver | None = None,
    bounds: Method | None = None,
    dtype: Any = "float64",
    samples: int | None = None,
    tolerance: float | None = None,
    memory: int | None = None,
    time_limit: float | None = None,
    nnet_header: bool = False,
    unseen: Any = None,
    examples: ShownInputs | None = None,
    force: bool = False,
    resume: bool | None = False,
    page: bool = True,
    progress: Progress = silent,
) -> RunOutcome:
    """`reconstruct run TARGET -o OUT`: reconstruct, certify, write everything into a directory.

    Networks are objects or files; the domain is a box, a pair (lo, hi), points, a file, or the
    words of the command line; methods are objects (`rc.Wide(ratio=2.0)`, `rc.Crown()`). `frozen`
    brings a frozen network; without it one is drawn as `construction`, `seed`, `weights`,
    `density` and `activation` say; with `float32_error` it is wide, and as wide as that error is
    predicted to need. `memory` is in bytes, `time_limit` in seconds; `unseen` are
    inputs besides the domain at which the guard is tried, `examples` those that the page shows (by
    default the data). Without `page` report.html is left to `rc.report`. Nothing is printed:
    `progress` hears each step.
    """
    start, home = time.perf_counter(), as_output(output)
    near = given.nearby(domain, radius)
    ours = given.network(target, "the target", nnet_header, near=near)
    notes = [] if domain is not None else [NO_DOMAIN]
    domain = DOMAIN if domain is None else domain
    place = given.domain(domain, ours, radius)
    given.check_numbers(samples, tolerance, time_limit, memory)
    if slack is not None and isinstance(place, Box):
        raise InputError(
            "the slack widens the ranges seen on data, but the domain is a box; leave it out"
        )
    at_least(slack, "the slack", 0)
    kind = precision(dtype, "norms are written").name
    notify = listener(progress)
    if float32_error is not None:
        method = given.method(bounds, ours, kind)
        construction = _wide_enough(ours, frozen, construction, place, method, float32_error)
    drawing = {"seed": seed, "weights": weights, "density": density, "activation": activation}
    deadline = None if time_limit is None else start + time_limit
    own = frozen if isinstance(frozen, Frozen) else None
    chosen = as_construction(construction) if own is None else own.construction
    layout = lay_out(ours, chosen) if own is None else own.layout_of(ours)
    kept_density = density if own is None else own.origin.get("sparsity")
    _check_cost(layout, chosen, kept_density, memory, notify)
    limited = notify if deadline is None else until(deadline, notify)
    kept = _frozen(layout, frozen, chosen, drawing, limited)
    solving = as_solver(solver)
    job = Job(
        target=ours,
        target_path=given.path(target),
        frozen=kept,
        domain=place,
        output=home,
        slack=1.0 if slack is None else float(slack),
        guard=guard,
        solver=solving,
        bounds=given.method(bounds, kept.network, kind),
        dtype=kind,
        samples=samples,
        tolerance=tolerance,
        force=force,
        resume=resume,
        page=page,
        deadline=deadline,
        examples=examples or given.examples(domain, place, ours),
        unseen=given.unseen(unseen, domain, ours),
        options={
            "target": given.word(target, "TARGET"),
            "output": os.fspath(output),
            **given.domain_words(domain),
            "radius": radius,
            "slack": slack,
            "guard": guard,
            **_drawn_words(kept),
            "solver": given.solver_word(solving),
            **given.bounds_words(bounds),
            "dtype": kind,
            "samples": samples,
            "tolerance": tolerance,
            "memory": memory,
            "time_limit": time_limit,
            "nnet_header": bool(ours.metadata.get("nnet_header_folded")),
        },
    )
    if job.unseen is not None and not job.guarded:
        raise InputError(
            "x_unseen holds inputs at which the guard is tried, but this run writes none; add "
            "--guard (guard=True), or leave x_unseen out"
        )
    require_writable(kept.network, kind)
    if place.kind != "points" and any(isinstance(node.op, LiveNorm) for node in ours.nodes):
        notes.append(LIVE_ON_A_BOX)
    return _run(job, start, notify, notes)


def _wide_enough(
    target: Network, frozen: Any, construction: Any, place: Box | Points, method: Method, error: Any
) -> Wide:
    """The wide construction that is predicted to have this float32 error."""
    if construction is not None or frozen is not None:
        raise InputError(
            "float32_error chooses the width of a wide construction that is drawn, but another "
            "one is given; leave `construction` and `frozen` out"
        )
    if not 0 < number(error, "the float32 error") < inf:
        raise InputError(f"the float32 error must be a number above 0, but is {error}")
    return Wide(width_for(target, place, method, error))


def _frozen(
    layout: Layout,
    brought: Frozenlike | None,
    construction: Construction,
    drawing: Mapping[str, Any],
    progress: Progress,
) -> Frozen:
    """The frozen network: as given, of a file, or drawn."""
    drawn = {name: value for name, value in drawing.items() if value is not None}
    if brought is None:
        return draw(layout.target, construction, progress=progress, layout=layout, **drawn)
    if drawn:
        raise InputError(
            f"{next(iter(drawn))} says how to draw a frozen network, but `frozen` brings one; give "
            f"one of them"
        )
    if isinstance(brought, Frozen):
        return brought
    network = given.network(brought, "the frozen network")
    origin = {"file": network.metadata.get("file"), "file_sha256": network.metadata.get("sha256")}
    return Frozen(network, construction, True, origin, layout)


def _drawn_words(frozen: Frozen) -> dict[str, Any]:
    """How the frozen network was made, as options; what has no words is a name in capitals."""
    origin = frozen.origin
    construction: Any = frozen.construction
    parts = fields(construction) if is_dataclass(construction) else ()
    known = {part.name: getattr(construction, part.name) for part in parts}
    settings = {name: value for name, value in known.items() if name in SETTINGS}
    usual = all(known[part.name] == part.default for part in parts if part.name not in SETTINGS)
    expressible = frozen.merge and usual and not origin.get("statistics")
    file = origin.get("file") if expressible else "FROZEN"
    if file:
        return {"frozen": file, "construction": construction.name}
    return {
        "construction": construction.name,
        **settings,
        "seed": origin.get("seed"),
        "weights": origin.get("weights"),
        "density": origin.get("sparsity"),
        "activation": given.activation_word(origin.get("activation")),
    }


def _check_cost(
    layout: Layout,
    construction: Construction,
    density: float | None,
    memory: int | None,
    progress: Progress,
) -> None:
    """Refuse what is expected to take more memory than the run may take (by default all that there
    is), before anything is drawn; say what takes less."""
    made = layout.form.network, construction, density, layout.plans
    limit = memory or physical_memory()
    told = given.advice(*made, limit)
    if limit is not None and (needed := cost(*made).memory_bytes) > limit:
        whose = "--memory" if memory else "all that this machine has"
        raise InputError(
            f"the run may take {size(limit)} of memory ({whose}), but is expected to take "
            f"{size(needed)}; {'' if told is None else f'{told}; '}lower --ratio, or allow more "
            f"by --memory"
        )
    if told is not None:
        progress(Step(told, 0))


def _run(job: Job, start: float, progress: Progress, notes: Sequence[str]) -> RunOutcome:
    """Reconstruct, write the network, certify the file as written, report.

    `notes` are said when nothing is left that could be refused beforehand. Where the time limit
    ends before the last map is solved, `OutOfTime` leaves what was solved for a resumed run; a
    certificate that it ends is undecided.
    """
    # In small networks BLAS threads wait for each other more than they work.
    one = one_blas_thread() if job.frozen.network.weights <= 2**24 else nullcontext()
    if not ranks.is_first():  # takes its part in the sums; rank 0 writes what comes of them
        with one:
            _solved(job, None, progress)
        raise SystemExit(0)
    place = OutputFolder(job.output, force=job.force, resume=job.resume)
    with one, place as folder:
        try:
            others = "run with another target, frozen network or options"
            folder.claim(job.key().encode(), "key", others)
            source = take_along(job.target, job.target_path, folder, TARGET)
            job = replace(job, target=source.network)
            for note in notes:
                logger.warning(note)
            notify = progress if job.deadline is None else until(job.deadline, progress)
            result = _solved(job, folder.staging, notify)
            result = with_headroom(result, job.forms, progress=progress)
            outcome = _finish(job, source, folder, result, start, progress)
            folder.publish(published(folder.staging), left_behind(job.output))
        except BaseException as error:  # maps that are solved are kept, if they can be of use
            resumable = job.resume is not None and not isinstance(error, UnsupportedError)
            if resumable and worth_resuming(folder.staging):
                folder.keep = True
                error.add_note("what was solved so far is kept, use --resume to go on")
            raise
    return outcome


def _solved(job: Job, place: Path | None, progress: Progress) -> Result:
    """All maps solved; each is kept as soon as it is, by rank 0."""
    return reconstruct(
        job.target,
        job.frozen,
        domain=job.domain,
        slack=job.slack,
        solver=job.solver,
        bounds=job.bounds,
        dtype=np.dtype(job.dtype),
        progress=progress,
        checkpoint=SiteStore(place),
    )


def _finish(
    job: Job,
    source: Source,
    folder: OutputFolder,
    result: Result,
    start: float,
    progress: Progress,
) -> RunOutcome:
    """The network written and read back, certified, reported."""
    progress(Step("writing the network", 0))
    network = write_networks(folder.staging, result, job.forms)
    left = None if job.deadline is None else job.deadline - time.perf_counter()
    conclusion = conclude(
        job.target,
        network,
        domain=result.domain,
        bounds=job.bounds,
        tolerance=job.tolerance,
        samples=job.samples,
        exact_norms=result.exact,
        bound_anyway=True,
        time_limit=None if left is None else max(0.0, left),
        progress=progress,
        known=result.known,
    )
    certificate = conclusion.certificate
    progress(Step("writing the report", 0))
    report = build_report(
        result,
        certificate,
        conclusion.search,
        options=job.options,
        seconds=time.perf_counter() - start,
        guard=_guard(job, result),
        target_path=source.path_from(job.output),
        recipe=asdict(Recipe.of(job.frozen, job.forms)),
        examples=job.examples,
        blocks=job.forms.blocks,
    )
    pair = source, Source(network)
    write_documents(folder, certificate, pair, report, exact_norms=result.exact, page=job.page)
    return RunOutcome(result, network, certificate, report, job.output)


def _guard(job: Job, result: Result) -> dict[str, Any] | None:
    """What the guard says; None where none was written."""
    if not job.guarded:
        return None
    slack = job.slack if isinstance(job.domain, Points) else None
    return guard_part(result, GUARDED, slack, job.unseen)
