"""The commands, one function each: options become arguments of the library, outcomes become words.

The library's names are loaded when they are used (`rc.run`), so that `--help` is instant and
`check` loads the checker and nothing of the solver.
"""

from __future__ import annotations

import inspect as inspection
import io
import json
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import reconstruct as rc
from reconstruct.cli import process
from reconstruct.cli.process import ProgressDisplay

if TYPE_CHECKING:
    from reconstruct.bounds import Method
    from reconstruct.runs.run import RunOutcome

Made = TypeVar("Made")
EXIT = {"certified": 0, "refuted": 1, "undecided": 3}


def run(options: Namespace) -> int:
    outcome = _call(rc.run, options, page=False)  # drawn when the verdict has been said
    return _report_outcome(outcome, options)


def _refuse(options: Namespace, way: str, names: str) -> None:
    """Refuse options that `way` says itself, or has no use for."""
    told = {name: getattr(options, name) for name in names.split()}
    given = [name for name, value in told.items() if value is not None and value is not False]
    if given:
        flag = given[0].upper() if given[0] == "target" else f"--{given[0].replace('_', '-')}"
        raise rc.InputError(f"{way} goes without {flag}, but both are given; give one or the other")


def _report_outcome(outcome: RunOutcome, options: Namespace) -> int:
    """Says what came out; the exit code."""
    place = f"{'written to':<23}{outcome.output / 'report.html'} and beside it"
    _answer_report(options, outcome.report, place)
    failed = [row for row in outcome.result.layers if not row.solved]
    for row in failed:
        say(f"map {row.index} ({row.name}): {row.message}", options)
    _draw_page(outcome.output)
    code = EXIT[outcome.certificate.verdict.value]
    return 1 if failed and code == EXIT["undecided"] else code


def _draw_page(output: Path) -> None:
    """The page takes a second (matplotlib's): nobody waits for the verdict meanwhile."""
    from reconstruct.reports.page import write_page

    sys.stdout.flush()
    write_page(output)


def verify(options: Namespace) -> int:
    from reconstruct.runs.verify import NEVER

    if options.instances is not None:
        return _verify_instances(options)
    if options.target is None or (options.candidate is None and options.property is None):
        raise rc.InputError(
            "verify needs TARGET and CANDIDATE, with --domain LO,HI or --property FILE.vnnlib, or "
            "--instances FILE.csv; give them"
        )
    if options.property is not None:
        _refuse(options, "--property", "domain tolerance radius split count normalise nnet_header")
    limit = {} if options.timeout is None else {"time_limit": options.timeout}
    outcome = _call(rc.verify, options, **limit)
    if outcome.asked is not None and outcome.asked.never:
        say(NEVER, options)
    answer = [] if outcome.answer is None else [f"{'the property is':<23}{outcome.answer}"]
    _answer_report(options, outcome.report, *answer)
    return EXIT[outcome.certificate.verdict.value]


def _verify_instances(options: Namespace) -> int:
    """Every line of a benchmark; 0 where each is decided, 3 where one is not, 2 for errors."""
    from reconstruct.runs.verify import verify_instances

    others = "target property domain tolerance radius split count normalise bounds bounds_seconds "
    others += "samples nnet_header time_limit"
    _refuse(options, "--instances", others)
    if options.output is None:
        raise rc.InputError("--instances writes into a directory, but none is named; give -o OUT")
    results = []
    with _progress(options) as progress:
        for found in verify_instances(
            options.instances,
            options.output,
            time_limit=100.0 if options.timeout is None else options.timeout,
            force=options.force,
            progress=progress,
        ):
            results.append(found)
            progress.clear()
            if found.note:
                say(f"{found.property}: {found.note}", options)
            if not options.json:
                print(f"{found.result:<8} {found.seconds:7.1f} s  {found.property}", flush=True)
    if options.json:
        print(json.dumps([asdict(found) for found in results], indent=2, ensure_ascii=False))
    words = {found.result for found in results}
    return 2 if "error" in words else EXIT["undecided"] if "unknown" in words else 0


def demo(options: Namespace) -> int:
    """A random frozen network becomes a digits classifier by its norms alone."""
    from reconstruct.demo import digits
    from reconstruct.reports.measurements import ShownInputs

    shipped = digits(cnn=options.cnn)
    say("a random frozen network is about to become a digits classifier", options)
    outcome = _call(
        rc.run,
        options,
        target=shipped.path,
        domain=(0.0, 1.0),
        construction=rc.Wide(ratio=1.5),
        bounds=rc.Interval() if options.cnn else rc.Crown(),
        examples=ShownInputs(shipped.images, shipped.labels, (1, 8, 8)),
        resume=None,
        page=False,
    )
    return _report_outcome(outcome, options)


def check(options: Namespace) -> int:
    """The same as `python -m proofs_check certificate`."""
    from proofs_check.certificates.command import main as prove_again

    words = [f"--{name}" for name in ("json", "trusted", "quiet") if getattr(options, name)]
    for name in ("target", "candidate"):
        place = getattr(options, name)
        words += [] if place is None else [f"--{name}={place}"]
    said = io.StringIO()
    with _progress(options, "proving the certificate again"), redirect_stdout(said):
        code = prove_again([*words, "--", options.path])
    print(said.getvalue(), end="")
    folder = Path(options.path)
    compact = (folder / "norms.npz").exists() and not (folder / "network.onnx").exists()
    if code and options.candidate is None and compact:
        again = shlex.join(["reconstruct", "rebuild", options.path])
        say(f"network.onnx is not there, but can be made again: {again}", options)
    return code


def report(options: Namespace) -> int:
    from reconstruct.reports.reading import read_run

    page = rc.report(options.path)
    _answer(options, read_run(Path(options.path)).report, str(page))
    return 0


def rebuild(options: Namespace) -> int:
    made = _call(rc.rebuild, options, output=options.path)
    files = [str(path) for path in made.files]
    line = f"REBUILT: the bytes are those of the certificate (sha256 {made.sha256})"
    _answer(options, {"files": files, "sha256": made.sha256}, line, *files)
    return 0


def export(options: Namespace) -> int:
    """What other tools read; the paths of the files that were written."""
    words = ("TARGET", "CANDIDATE", "--domain", "--tolerance")
    missing = [word for word in words if getattr(options, word.strip("-").lower()) is None]
    if options.peft is not None and len(missing) < len(words):
        raise rc.InputError("--peft names a run and needs nothing else; leave networks and box out")
    if options.peft is None and missing:
        raise rc.InputError(
            f"export needs {', '.join(words)} (or else --peft OUT, the directory of a run), but "
            f"{' and '.join(missing)} did not come; give what is missing"
        )
    if options.peft is not None:
        from reconstruct.runs.rebuild import write_adapter

        made_files = write_adapter(options.peft, options.output, force=options.force)
        files = {path.stem: str(path) for path in made_files}
    else:  # the question of equality, for verifiers of other people
        from reconstruct.equivalence.export import export as write_question
        from reconstruct.reports.folder import OutputFolder

        pair = rc.load(options.target), rc.load(options.candidate)
        domain, size = rc.load_domain(options.domain, pair[0].size_in), options.tolerance
        if not isinstance(domain, rc.Box):
            raise rc.InputError(
                "a VNN-LIB property speaks of one box, but the domain is made of data; give LO,HI"
            )
        with OutputFolder(options.output, force=options.force) as folder:
            made = write_question(*pair, domain=domain, tolerance=size, folder=folder.staging)
            folder.publish()
        files = {role: str(folder.path / staged.name) for role, staged in asdict(made).items()}
    _answer(options, files, "\n".join(files.values()))
    return 0


def pairs(options: Namespace) -> int:
    """Pairs with known answers; how many of them were proved besides."""
    from reconstruct.runs.pairs import LADDER

    def read(text: str) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(int(size) for size in word.split("-")) for word in text.split(","))

    needed = "networks as whole numbers from inputs to outputs, such as 2-4-1,3-6-6-2"
    sizes = LADDER if options.sizes is None else _read(read, options.sizes, "--sizes", needed)
    made = _call(rc.pairs, options, sizes=sizes)
    proved = sum(bool(answer.certificate) for answer in made)
    others = ", the others are known by construction" if proved < len(made) else ""
    line = (
        f"{len(made)} pairs in {options.output}, answers in answers.csv; {proved} answers have "
        f"a certificate{others}"
    )
    _answer(options, [asdict(answer) for answer in made], line)
    return 0


def reach(options: Namespace) -> int:
    """What no γ, β can do; 0 where something is excluded, 3 where nothing is."""
    found = _call(rc.reach, options)
    more = [f"a fit with all units active reaches {found.fitted:.4g} (numerical)"]
    if found.update is not None:
        more.append(
            f"of the update {100 * found.update:.4g} % cannot be expressed by norms "
            f"(random weights: {100 * (found.random or 0):.4g} %)"
        )
    if found.output is not None:
        place = found.output / "certificate.json"
        more.append(f"written to {place}; reconstruct check proves it")
    _answer(options, found.report, found.sentence, *more)
    return EXIT["certified" if found.bound > 0 else "undecided"]


def inspect(options: Namespace) -> int:
    from reconstruct.cli import inspecting

    return inspecting.main(options)


def prove(options: Namespace) -> int:
    """The same as `python -m proofs_check`."""
    from proofs_check.cli import main as prove_statements

    words = [
        f"--{flag}" for flag in ("json", "thorough", "list", "verbose") if getattr(options, flag)
    ]
    for name in options.only or ():
        words += ["--only", name]
    return prove_statements(words, "reconstruct")


def study(options: Namespace) -> int:
    chosen = rc.studies.STUDIES.get(options.name)
    if chosen is None:
        known = ", ".join(rc.studies.STUDIES)
        raise rc.InputError(f"there is no study {options.name!r}; there are {known}")

    def read(text: str) -> tuple[str, str]:
        name, values = text.split("=", 1)
        return name, values

    needed = "NAME=VALUE, as in d=4,8"
    grid = dict(_read(read, word, "--grid", needed) for word in options.grid or ())
    rows = _call(rc.studies.run_study, options, study=chosen, grid=grid)
    findings = chosen.findings(rows)
    said = "\n".join(f"{finding.sentence} ({finding.evidence.value})" for finding in findings)
    output = Path(options.output)
    place = f"{len(rows)} rows in {output / 'rows.jsonl'}, the page is {output / 'report.html'}"
    _answer(options, [{**vars(f), "evidence": f.evidence.value} for f in findings], said, place)
    return 0


def train(options: Namespace) -> int:
    """Tune only the norms of a random network, or something else to compare."""
    training = rc.training
    schedule = made(training.Schedule, options)  # says what to install where there is no torch
    seeds = _read(
        lambda text: tuple(map(int, text.split(","))),
        options.seeds,
        "--seeds",
        "whole numbers with commas between them, such as 0,1,2",
    )
    from reconstruct.reports.words import named
    from reconstruct.training.page import figures

    found = _call(
        training.train_into,
        options,
        experiment=made(training.Experiment, options, schedule=schedule, seeds=seeds),
        source=options.data,
        words={k: v for k, v in vars(options).items() if k != "command"},
    )
    for remark in found["notes"]:
        say(remark, options)
    said = "\n".join(named(*row) for row in figures(found))
    _answer(options, found, said, named("written to", options.output))
    return 0


def _read(make: Callable[[str], Made], text: str, option: str, needed: str) -> Made:
    """What the word of an option says."""
    try:
        return make(text)
    except ValueError:
        raise rc.InputError(f"{option} takes {needed}, but is {text!r}") from None


def _progress(options: Namespace, task: str = "working") -> ProgressDisplay:
    verbose = getattr(options, "verbose", False)
    return ProgressDisplay(options.quiet or options.json, task=task, verbose=verbose)


def _call(function: Callable[..., Any], options: Namespace, **instead: Any) -> Any:
    """What the library's function gives: an option that has the name of a parameter is that
    parameter, as the object that its word means; `instead` takes the place of words, and progress
    is shown."""
    parameters = inspection.signature(function).parameters
    named = [name for name in vars(options) if name in parameters and name not in instead]
    given = {name: MEANT.get(name, getattr)(options, name) for name in named}
    with _progress(options) as progress:
        heard = {"progress": progress} if "progress" in parameters else {}
        return function(**{**given, **instead, **heard})


# --- what words mean ------------------------------------------------------------------------------


def settings_of(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def made(kind: Callable[..., Made], options: Namespace, **instead: Any) -> Made:
    """It knows its own defaults: only options that were given are passed on."""
    given = {name: getattr(options, name, None) for name in settings_of(kind)}
    return kind(**{key: value for key, value in given.items() if value is not None} | instead)


def _construction(options: Namespace, name: str) -> Any:
    """With its settings; None where the width is the library's to find, for an error."""
    from reconstruct.constructions import CONSTRUCTIONS

    if options.frozen is not None and options.ratio is not None:
        raise rc.InputError(
            "--ratio says how to draw a frozen network, but --frozen brings one; give one of them"
        )
    auto = options.ratio == "auto"
    if auto != (options.float32_error is not None):
        raise rc.InputError(
            "--ratio auto and --float32-error E go together, E being the error to choose the width "
            "for, but only one of them came; give both or neither"
        )
    for setting in ("rank", "block", "layers", "norm"):
        homes = [word for word, kind in CONSTRUCTIONS.items() if setting in settings_of(kind)]
        if getattr(options, setting) is not None and options.construction not in homes:
            raise rc.InputError(
                f"--{setting} goes with --construction {' or '.join(homes)}, but the construction "
                f"is {options.construction}"
            )
    if not auto:
        return made(CONSTRUCTIONS[options.construction], options)
    if options.construction != "wide":
        raise rc.InputError(
            "--ratio auto chooses the width of --construction wide, but the construction is "
            f"{options.construction}; give a number"
        )
    return None


def _solver(options: Namespace, name: str) -> Any:
    from reconstruct.khatri_rao import SOLVERS

    if options.solver not in SOLVERS:
        known = ", ".join(SOLVERS)
        raise rc.InputError(f"--solver must be one of {known}, but is {options.solver}")
    return SOLVERS[options.solver]()


def _activation(options: Namespace, name: str) -> Any:
    from reconstruct.runs.given import ACTIVATIONS

    return ACTIVATIONS.get(options.activation)


def _memory(options: Namespace, name: str) -> int | None:
    from reconstruct.formats.files import memory_size

    return None if options.memory is None else memory_size(options.memory)


def _domain(options: Namespace, name: str) -> Any:
    """The words of `--domain`; a folder of images with what says which of them, and how scaled."""
    said = {name: getattr(options, name, None) for name in ("split", "count", "normalise")}
    words = {name: value for name, value in said.items() if value is not None}
    if not words:
        return options.domain
    if options.domain is None or not Path(options.domain).is_dir():
        raise rc.InputError(
            f"--{next(iter(words))} belongs to a folder of labelled images, but the domain is "
            f"{options.domain}; give the folder to --domain, or leave it out"
        )
    return rc.Images.chosen(options.domain, **words)


def _bounds(options: Namespace, name: str) -> Method | None:
    """The method that `--bounds` and `--bounds-seconds` ask for; None where neither does."""
    word, seconds = options.bounds, options.bounds_seconds
    if word == "adaptive" or (word is None and seconds is not None):
        return rc.Adaptive(seconds)
    if seconds is not None:
        raise rc.InputError(
            f"--bounds-seconds goes with --bounds adaptive, but the bounds are {word}"
        )
    table: dict[str | None, Method] = {"interval": rc.Interval(), "crown": rc.Crown()}
    return table.get(word)


def _time_limit(options: Namespace, name: str) -> float | None:
    """What is left of the time for everything, when the command's own imports are done."""
    limit: float | None = options.time_limit
    if limit is not None and not limit > 0:
        raise rc.InputError(f"--time-limit must be a number of seconds > 0, not {limit}")
    return None if limit is None else max(0.0, limit - (time.perf_counter() - process.started))


MEANT: dict[str, Callable[[Namespace, str], Any]] = {
    "construction": _construction,
    "solver": _solver,
    "activation": _activation,
    "memory": _memory,
    "domain": _domain,
    "bounds": _bounds,
    "time_limit": _time_limit,
}


# --- how commands speak -------------------------------------------------------------------------


def note(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"reconstruct: {message}\n")


def say(message: str, options: Namespace) -> None:
    """One line on stderr, unless it was asked to be quiet."""
    if not options.quiet:
        note(message)


def _answer(options: Namespace, document: Any, line: str, *more: str) -> None:
    """What was found on stdout: as JSON, or its line and, unless quiet, what follows it."""
    if options.json:
        line = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    print("\n".join([line] if options.json or options.quiet else [line, *more]))


def _answer_report(options: Namespace, report: Mapping[str, Any], *more: str) -> None:
    from reconstruct.reports.words import summary, verdict_line

    _answer(options, report, verdict_line(report) if options.quiet else summary(report), *more)
