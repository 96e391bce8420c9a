"""`reconstruct run`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from reconstruct.bounds import Method
from reconstruct.certificates.verdicts import Verdict
from reconstruct.checkpoint import worth_resuming
from reconstruct.cli import FAILED, choices
from reconstruct.cli.progress import ProgressDisplay
from reconstruct.cli.verdict import exit_code, say, settle_density
from reconstruct.constructions.allowance import check_memory
from reconstruct.constructions.frozen import Frozen, draw
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.formats.domain import load_labels, load_unseen
from reconstruct.formats.limits import memory_size
from reconstruct.networks import Box, Network, Points
from reconstruct.networks.draw import Weights
from reconstruct.networks.inputs import input_shape
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import width_for
from reconstruct.progress import OutOfTime
from reconstruct.reports.folder import PARTIAL
from reconstruct.reports.inputs import ShownInputs
from reconstruct.reports.terminal import accuracies, margins, summary, verdict_line
from reconstruct.runs.job import Job, RunOutcome, run
from reconstruct.runs.room import as_room

IN_TILES = ("wide", "factored")
DRAW_ONLY = ("ratio", "seed", "weights", "density", "activation")


def main(options: Namespace) -> int:
    settle_density(options)
    target = load(options.target, nnet_header=options.nnet_header)
    domain = _domain(options, target)
    method = _settle_ratio(options, target, domain)
    frozen = _frozen(options, target)
    job = Job(
        target=target,
        target_path=Path(options.target),
        frozen=frozen,
        domain=domain,
        slack=_slack(options, domain),
        guard=options.guard,
        folded=options.folded,
        compact=options.compact,
        room=as_room(options.room),
        blocks=None if options.sums is None else options.sums == "blocks",
        output=Path(options.output),
        solver=choices.solver(options.solver),
        bounds=method or choices.bounds(options, frozen.network),
        dtype=options.dtype,
        samples=_samples(options),
        tolerance=_tolerance(options),
        prove_rank=options.prove_rank,
        force=options.force,
        resume=options.resume,
        memory=_memory(options),
        examples=_examples(options, domain, target),
        unseen=_unseen(options, target),
        threads=_threads(options),
        time_limit=choices.time_limit(options),
        options={k: v for k, v in vars(options).items() if k not in ("module", "command")},
    )
    _note_room(options, job)
    try:
        with ProgressDisplay(options.quiet or options.json) as progress:
            outcome = run(job, progress)
    except OutOfTime:
        say(_out_of_time(job), options)
        return exit_code(Verdict.UNDECIDED)
    return _told(outcome, options)


def _out_of_time(job: Job) -> str:
    """What is said when maps are left to solve, and whether there is something to go on with."""
    over = f"the time limit of {job.time_limit:g} s is over before all maps are solved"
    if worth_resuming(job.output / PARTIAL):
        return f"{over}; what was solved so far is kept, use --resume to go on"
    return f"{over}; nothing was solved yet, so nothing is kept: give a longer --time-limit"


def _note_room(options: Namespace, job: Job) -> None:
    """Says that --room changes nothing where float32 is not written in blocks."""
    if options.room == "auto" or (job.dtype == "float32" and job.in_blocks):
        return
    sums = "blocks" if job.in_blocks else "plain sums"
    say(
        f"--room {options.room} changes nothing: it is for --dtype float32 with sums in blocks, "
        f"but the network is written in {job.dtype} with {sums}",
        options,
    )


def _settle_ratio(options: Namespace, target: Network, domain: Box | Points) -> Method | None:
    """The width for a wanted float32 error; the bounds that were found for it are used again."""
    if options.ratio != "auto":
        if options.float32_error is not None:
            raise InputError("--float32-error goes with --ratio auto, which picks the width for it")
        return None
    wanted = options.float32_error
    if wanted is None or not 0 < wanted < float("inf"):
        raise InputError(f"--ratio auto needs --float32-error E with E > 0, but got {wanted}")
    if options.construction != "wide" or options.frozen is not None:
        raise InputError("--ratio auto goes with --construction wide and weights that are drawn")
    options.ratio = None
    method = choices.bounds(options, target)
    options.ratio, kept = width_for(target, domain, method, wanted, merge=options.merge)
    options.float32_error = None  # settled: the command to do it again names the ratio
    say(f"ratio {options.ratio:g} for a float32 error of about {wanted:.3g}", options)
    return kept


def _told(outcome: RunOutcome, options: Namespace) -> int:
    """Says what came out; the exit code."""
    if options.json:
        print(json.dumps(outcome.report, indent=2, allow_nan=False, ensure_ascii=False))
    elif options.quiet:
        print(verdict_line(outcome.report))
    else:
        print(
            "\n".join(
                [summary(outcome.report), *accuracies(outcome.report), *margins(outcome.report)]
            )
        )
        print(f"{'written to':<22} {outcome.output}")
    failed = [row for row in outcome.result.layers if not row.solved]
    for row in failed:
        say(f"map {row.index} ({row.name}): {row.message}", options)
    code = exit_code(outcome.certificate.verdict)
    return FAILED if failed and code == exit_code(Verdict.UNDECIDED) else code


def _examples(options: Namespace, domain: Box | Points, target: Network) -> ShownInputs | None:
    """Data are inputs that a reader knows; labels come with them, or not."""
    if isinstance(domain, Box):
        return None
    try:
        labels = load_labels(options.domain, target.size_out)
    except InputError as error:
        say(f"accuracies are left out: {error}", options)
        labels = None
    return ShownInputs(domain.x, labels)


def _unseen(options: Namespace, target: Network) -> Array | None:
    """Inputs of the domain's file that the claim is not about, for the guard."""
    if options.domain is None:
        return None
    return load_unseen(options.domain, target.size_in, input_shape(target))


def _slack(options: Namespace, domain: Box | Points) -> float:
    if options.slack is None:
        return 1.0
    if isinstance(domain, Box):
        raise InputError("--slack widens the ranges seen on data, but the domain is a box")
    if not 0 <= options.slack < float("inf"):
        raise InputError(f"--slack must be a number of at least 0, but is {options.slack}")
    return float(options.slack)


def _domain(options: Namespace, target: Network) -> Box | Points:
    if options.domain is None:
        say("no --domain given: every claim is made on [-1, 1] for each input", options)
        return Box(-1.0, 1.0).of_size(target.size_in)
    return load_domain(options.domain, target.size_in, options.radius, input_shape(target))


def _frozen(options: Namespace, target: Network) -> Frozen:
    construction = choices.construction(options)
    if options.frozen is None:
        return draw(
            target,
            construction,
            seed=options.seed or 0,
            weights=Weights(options.weights or "gaussian"),
            sparsity=options.density,
            statistics=options.statistics,
            activation=choices.activation(options.activation),
            merge=options.merge,
            memory=_memory(options),
        )
    given = [name for name in DRAW_ONLY if getattr(options, name) is not None]
    if given or options.statistics:
        name = given[0] if given else "statistics"
        raise InputError(
            f"--{name} says how to draw a frozen network, but --frozen brings one; give one of them"
        )
    network = load(options.frozen, memory=_memory(options))
    origin = {"file": network.metadata.get("file"), "file_sha256": network.metadata.get("sha256")}
    return Frozen(network, construction, options.merge, origin)


def _memory(options: Namespace) -> int | None:
    if options.memory is None:
        return None
    if options.construction not in IN_TILES:
        raise InputError(
            f"--memory goes with --construction {' or '.join(IN_TILES)}, which needs its weights a "
            f"tile at a time, but the construction is {options.construction}"
        )
    return check_memory(memory_size(options.memory))


def _threads(options: Namespace) -> int | None:
    if options.threads is not None and options.threads < 1:
        raise InputError(f"--threads must be at least 1, but is {options.threads}")
    return None if options.threads is None else int(options.threads)


def _samples(options: Namespace) -> int | None:
    if options.samples is not None and options.samples < 1:
        raise InputError(f"--samples must be at least 1, but is {options.samples}")
    return None if options.samples is None else int(options.samples)


def _tolerance(options: Namespace) -> float | None:
    if options.tolerance is not None and not 0 <= options.tolerance < float("inf"):
        raise InputError(f"--tolerance must be a number ≥ 0, but is {options.tolerance}")
    return None if options.tolerance is None else float(options.tolerance)
