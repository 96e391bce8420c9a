"""Whole commands as calls: `rc.run`, `rc.verify` and `rc.report` mean what the commands mean.

Methods are objects (`rc.Wide(ratio=2.0)`, `rc.Crown()`), never words; what the command line leaves
out has the same default here. Nothing is printed: `progress` hears each step.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

from reconstruct.bounds import Method
from reconstruct.constructions import Construction, Frozen, Wide, draw
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.formats.domain import as_unseen, load_labels, load_unseen
from reconstruct.formats.paths import as_path
from reconstruct.khatri_rao import Solver
from reconstruct.khatri_rao.solve import as_solver
from reconstruct.networks import Activation, Box, DomainLike, Network, Points, as_domain
from reconstruct.networks.draw import Weights
from reconstruct.networks.given import as_network, as_precision
from reconstruct.networks.inputs import fitting, input_shape
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import at_least, whole
from reconstruct.progress import Progress, listener, silent
from reconstruct.reports.inputs import ShownInputs
from reconstruct.reports.page import write_page
from reconstruct.reports.run_files import read_run
from reconstruct.runs.comparison import PairOfFiles, Verification, VerifyOutcome, compare
from reconstruct.runs.defaults import DOMAIN, comparing_bounds, default_bounds
from reconstruct.runs.job import Job, RunOutcome
from reconstruct.runs.job import run as run_job
from reconstruct.runs.room import Room, as_room

PathLike: TypeAlias = "str | os.PathLike[str]"
UNTOLD = ("solver", "bounds", "dtype", "examples", "unseen")  # objects, or told otherwise
HOW = {field.name for field in fields(Job)} - {
    *("target", "target_path", "frozen", "domain", "output", "options"),
}  # what else a call of `run` may say
Given: TypeAlias = "Network | PathLike"
Where: TypeAlias = "DomainLike | PathLike"


def run(
    target: Given,
    output: PathLike,
    *,
    domain: Where = DOMAIN,
    radius: float | None = None,
    frozen: Frozen | Given | None = None,
    construction: Construction | None = None,
    seed: int = 0,
    weights: Weights | str = Weights.GAUSSIAN,
    density: float | None = None,
    statistics: bool = False,
    activation: Activation | None = None,
    merge: bool = True,
    nnet_header: bool = False,
    progress: Progress = silent,
    **how: Any,
) -> RunOutcome:
    """`reconstruct run TARGET -o OUT`: reconstruct, certify, write everything into a directory.

    Networks are objects or files, the domain a box, a pair (lo, hi), points, a file, or the words
    of the command line. `how` are the fields of a job: slack, guard, folded, compact, blocks,
    room, solver, bounds, dtype, samples, tolerance, prove_rank, force, resume, memory (bytes),
    threads, time_limit (seconds), examples (inputs for the page), unseen (inputs for the guard).
    """
    ours = _network(target, "the target", nnet_header)
    drawing = (seed, weights, density, statistics, activation)
    kept = _frozen(ours, frozen, construction, drawing, merge, how.get("memory"))
    place = _domain(domain, ours, radius)
    settings = {"examples": _examples(domain, place, ours), **_settings(how, kept.network)}
    settings["unseen"] = _unseen(how.get("unseen"), domain, ours)
    job = Job(
        target=ours,
        target_path=_path(target),
        frozen=kept,
        domain=place,
        output=_place(output),
        options=_told(target, output, domain, radius, kept, how, nnet_header),
        **settings,
    )
    return run_job(job, listener(progress))


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
    pair = _pair(target, candidate, nnet_header)
    options = {"tolerance": tolerance, "samples": samples, "nnet_header": nnet_header}
    job = Verification(
        pair,
        _domain(domain, pair.target, radius),
        bounds=bounds or comparing_bounds(pair.candidate),
        tolerance=tolerance,
        samples=_count(samples),
        time_limit=time_limit,
        output=None if output is None else _place(output),
        force=force,
        options={
            "target": _word(target, "TARGET"),
            "candidate": _word(candidate, "CANDIDATE"),
            "domain": _domain_word(domain),
            "radius": radius,
            **options,
            "output": None if output is None else os.fspath(output),
        },
    )
    return compare(job, listener(progress))


def report(output: PathLike) -> Path:
    """`reconstruct report OUT`: make report.html again from the other files; its path."""
    folder = as_path(output, "the directory of a run")
    read_run(folder)
    write_page(folder)
    return folder / "report.html"


def _network(given: Given, role: str, nnet_header: bool = False) -> Network:
    if isinstance(given, str | os.PathLike):
        return load(given, nnet_header=nnet_header)
    if nnet_header:
        raise InputError("nnet_header belongs to a .nnet file, but a network is given")
    return as_network(given, role)


def _pair(target: Given, candidate: Given, nnet_header: bool) -> PairOfFiles:
    if isinstance(target, str | os.PathLike) and isinstance(candidate, str | os.PathLike):
        return PairOfFiles.read(target, candidate, nnet_header=nnet_header)
    ours = _network(target, "the target", nnet_header)
    theirs = _network(candidate, "the candidate", nnet_header)
    return PairOfFiles(ours, theirs, (_path(target), _path(candidate)))


def _path(given: Given) -> Path | None:
    return Path(given) if isinstance(given, str | os.PathLike) else None


def _frozen(
    target: Network,
    given: Frozen | Given | None,
    construction: Construction | None,
    drawing: tuple[Any, ...],
    merge: bool,
    memory: int | None,
) -> Frozen:
    """The frozen network: as given, of a file, or drawn."""
    if given is None:
        seed, weights, density, statistics, activation = drawing
        return draw(
            target,
            construction,
            seed=seed,
            weights=weights,
            sparsity=density,
            statistics=statistics,
            activation=activation,
            merge=merge,
            memory=memory,
        )
    if drawing != (0, Weights.GAUSSIAN, None, False, None):
        raise InputError(
            "seed, weights, density, statistics and activation say how to draw a frozen network, "
            "but `frozen` brings one; give one of them"
        )
    if isinstance(given, Frozen):
        return given
    network = _network(given, "the frozen network")
    origin = {"file": network.metadata.get("file"), "file_sha256": network.metadata.get("sha256")}
    return Frozen(network, construction or Wide(), merge, origin)


def _domain(given: Where, target: Network, radius: float | None) -> Box | Points:
    if isinstance(given, str | os.PathLike):
        return load_domain(given, target.size_in, radius, input_shape(target))
    found = fitting(given, target)
    if radius is None:
        return found
    if not isinstance(found, Points):
        raise InputError("a radius belongs to a domain made of data, but this one is a box")
    return Points(found.x, radius)


def _examples(given: Where, domain: Box | Points, target: Network) -> ShownInputs | None:
    """Data are inputs that a reader knows; a file may hold their labels, too."""
    if not isinstance(domain, Points):
        return None
    labels = None
    if isinstance(given, str | os.PathLike):
        with suppress(InputError):  # values, and no labels: they are no mistake here
            labels = load_labels(given, target.size_out)
    return ShownInputs(domain.x, labels)


def _place(output: PathLike) -> Path:
    """The directory to write; an empty name would be the current one."""
    if isinstance(output, str) and not output.strip():
        raise InputError("the output must name a directory, but is empty; write . for the current")
    return as_path(output, "the output")


def _unseen(x: Any, given: Where, target: Network) -> Array | None:
    """Inputs besides the domain at which the guard is tried: given, or those of the file."""
    if x is not None:
        return as_unseen(x, target.size_in, input_shape(target))
    if isinstance(given, str | os.PathLike):
        return load_unseen(given, target.size_in, input_shape(target))
    return None


def _settings(how: Mapping[str, Any], frozen: Network) -> dict[str, Any]:
    """The fields of a job by their names, checked where a mistake would be silent."""
    unknown = sorted(set(how) - HOW)
    if unknown:
        raise TypeError(f"run has no option {unknown[0]!r}; it has {', '.join(sorted(HOW))}")
    at_least(how.get("tolerance"), "the tolerance", 0)
    at_least(how.get("time_limit"), "the time limit", 0)
    at_least(how.get("memory"), "the memory", 1)
    at_least(how.get("threads"), "threads", 1)
    solver: Solver | None = how.get("solver")
    dtype = as_precision(how.get("dtype", "float64"), "norms are written")
    return {
        **how,
        "solver": as_solver(solver),
        "bounds": how.get("bounds") or default_bounds(frozen, dtype.name),
        "dtype": dtype.name,
        "samples": _count(how.get("samples")),
        "room": as_room(how.get("room", Room.AUTO)),
    }


def _count(samples: int | None) -> int | None:
    if samples is not None and whole(samples, "samples") < 1:
        raise InputError(f"samples must be at least 1, but is {samples}")
    return samples


def _told(
    target: Given,
    output: PathLike,
    domain: Where,
    radius: float | None,
    frozen: Frozen,
    how: Mapping[str, Any],
    nnet_header: bool,
) -> dict[str, Any]:
    """The call in the words of the command line, as far as it has words for it."""
    origin, construction = frozen.origin, frozen.construction
    settings: dict[str, Any] = asdict(construction) if is_dataclass(construction) else {}
    drawn = {key: origin.get(key) for key in ("seed", "weights", "statistics", "file")}
    words = {key: how[key] for key in how if key not in UNTOLD}
    named = {key: type(how[key]).__name__.lower() for key in ("bounds",) if how.get(key)}
    return {
        "target": _word(target, "TARGET"),
        "output": os.fspath(output),
        "domain": _domain_word(domain),
        "radius": radius,
        "construction": construction.name,
        **{key: value for key, value in settings.items() if value is not None},
        **{("frozen" if key == "file" else key): v for key, v in drawn.items() if v is not None},
        "density": origin.get("sparsity"),
        "merge": frozen.merge,
        "nnet_header": nnet_header,
        **({"solver": how["solver"].name} if hasattr(how.get("solver"), "name") else {}),
        **named,
        "dtype": as_precision(how.get("dtype", "float64"), "norms are written").name,
        **words,
    }


def _word(given: Given, otherwise: str) -> str:
    return os.fspath(given) if isinstance(given, str | os.PathLike) else otherwise


def _domain_word(given: Where) -> str:
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    found = as_domain(given)
    if isinstance(found, Box) and found.lo.ndim == 0:
        return f"{float(found.lo)!r},{float(found.hi)!r}"
    return "DOMAIN.npz"
