"""What a study is, and how it is run: a grid of points, a trial for each point and seed, a page.

Rows are written as they come, killed and resumed without loss, by processes or MPI ranks. OUT holds
`study.json` (what was asked), `rows.jsonl` (one row per trial, in the order of the grid) and
`report.html`. A row depends on its point and seed alone, so a study that was killed and resumed has
the same rows, byte by byte.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao import ranks
from reconstruct.progress import Progress, Step, silent
from reconstruct.reports.markup import element, figure, html_page, table
from reconstruct.reports.page import missing
from reconstruct.reports.plotting import SERIES, WIDE, clipped, drawing
from reconstruct.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]


class Evidence(Enum):
    """How a finding is known; the three are never mixed."""

    PROVED = "proved"
    EXACT = "exact per trial"
    MEASURED = "measured"


@dataclass(frozen=True)
class Parameter:
    """One axis of the grid: its values by default, and what values are allowed.

    A `free` word is no choice among the values: it may name a file.
    """

    name: str
    meaning: str
    values: tuple[Any, ...]
    least: float = 0.0
    most: float = float("inf")
    free: bool = False

    def read(self, text: str) -> tuple[Any, ...]:
        """The values that `text` lists, separated by commas."""
        return tuple(self._value(word.strip()) for word in text.split(","))

    def _value(self, word: str) -> Any:
        kind = type(self.values[0])
        try:
            value = kind(word)
        except ValueError:
            raise InputError(
                f"{self.name} must be {_KINDS[kind]} ({self.meaning}), but is {word!r}"
            ) from None
        if kind is str and not self.free and value not in self.values:
            raise InputError(
                f"{self.name} must be one of {', '.join(self.values)} ({self.meaning}), but is "
                f"{word!r}"
            )
        if kind is not str and not self.least <= value <= self.most:
            raise InputError(
                f"{self.name} must lie between {self.least:g} and {self.most:g} "
                f"({self.meaning}), but is {word}"
            )
        return value


_KINDS = {int: "a whole number", float: "a number", str: "a word"}


@dataclass(frozen=True)
class Finding:
    """One sentence that the rows support, how it is known, and what would refute it."""

    sentence: str
    evidence: Evidence
    refuted_by: str


@dataclass(frozen=True)
class Outcome:
    """What a trial found: a row of JSON values, and arrays worth keeping as a file, if any."""

    row: Row
    keep: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Study:
    """`trial(point, seed)` must be a function of a module, so that other processes can call it.

    `findings` and `draw` take all rows; `draw` puts the plot on an empty figure of matplotlib;
    `columns` are what the page's table averages over seeds.
    """

    name: str
    question: str
    parameters: tuple[Parameter, ...]
    seeds: int
    trial: Callable[[Point, int], Outcome]
    findings: Callable[[Rows], list[Finding]]
    draw: Callable[[Rows, Figure], None]
    columns: tuple[str, ...]
    about: str = ""

    def grid(self, given: Mapping[str, str]) -> dict[str, tuple[Any, ...]]:
        """The values of each parameter: as given, or by default."""
        known = {p.name: p for p in self.parameters}
        unknown = [name for name in given if name not in known]
        if unknown:
            raise InputError(
                f"the study {self.name} has no parameter {unknown[0]!r}; it has {', '.join(known)}"
            )
        return {
            name: parameter.read(given[name]) if name in given else parameter.values
            for name, parameter in known.items()
        }


def trials(grid: Mapping[str, Sequence[Any]], seeds: int) -> list[tuple[dict[str, Any], int]]:
    """Every point of the grid with every seed, in the order in which rows are written."""
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [(point, seed) for point in points for seed in range(seeds)]


def select(rows: Rows, **wanted: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def values_of(rows: Rows, name: str) -> list[Any]:
    """The different values of a column, in order."""
    return sorted({row[name] for row in rows})


def mean(rows: Rows, name: str) -> float:
    """The mean of a column over the rows that have it."""
    found = [float(row[name]) for row in rows if row[name] is not None]
    return sum(found) / len(found) if found else float("nan")


def curves(
    axes: Axes, rows: Rows, x: str, y: str, by: str, label: str = "", statistic: Any = mean
) -> None:
    """Column `y` (its mean) against column `x`, one curve for each value of column `by`."""
    for i, value in enumerate(values_of(rows, by)):
        own = select(rows, **{by: value})
        places = values_of(own, x)
        heights = clipped(statistic(select(own, **{x: place}), y) for place in places)
        style, colour = "o-" if i < len(SERIES) else "o--", SERIES[i % len(SERIES)]
        axes.plot(places, heights, style, color=colour, label=label.format(value))


ROWS = "rows.jsonl"


@dataclass(frozen=True)
class Settings:
    """Which part of a study to run, and how: `grid` overrides values by parameter name."""

    grid: Mapping[str, str] = field(default_factory=dict)
    seeds: int | None = None
    jobs: int = 1
    resume: bool = False
    force: bool = False


def run_study(
    study: Study, output: Path, settings: Settings | None = None, progress: Progress = silent
) -> tuple[Row, ...]:
    """All rows of the study; those that OUT holds already are not computed again."""
    chosen = settings or Settings()
    grid, seeds = study.grid(chosen.grid), _seeds(study, chosen)
    asked = {"grid": {k: list(v) for k, v in grid.items()}, "seeds": seeds}
    wanted = trials(grid, seeds)

    def opened() -> list[Row]:
        _open(output, study, asked, chosen)
        return list(_kept(output / ROWS))[: len(wanted)]

    rows, writes = ranks.from_first(opened), ranks.is_first()
    with (output / ROWS if writes else Path(os.devnull)).open("a", encoding="utf-8") as file:
        for outcome in _outcomes(study, wanted[len(rows) :], chosen.jobs):
            point, seed = wanted[len(rows)]
            row = {**point, "seed": seed, **outcome.row}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            rows.append(row)
            if outcome.keep is not None and writes:
                _keep(output, study.name, len(rows), outcome.keep)
            progress(Step(f"study {study.name}", len(rows), len(wanted)))
    if writes:
        write_atomically(output / "report.html", page(study, rows).encode())
    return tuple(rows)


def _seeds(study: Study, settings: Settings) -> int:
    seeds = study.seeds if settings.seeds is None else settings.seeds
    for name, value in (("--seeds", seeds), ("--jobs", settings.jobs)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, but is {value}")
    return seeds


def _open(output: Path, study: Study, asked: Mapping[str, Any], settings: Settings) -> None:
    """An existing OUT is refused without --force or --resume; --resume needs the same question."""
    document = {"schema": "reconstruct.study/1", "study": study.name, **asked}
    path = output / "study.json"
    if output.exists() and settings.force:
        shutil.rmtree(output)
    if not output.exists():
        output.mkdir(parents=True)
        write_atomically(path, (json.dumps(document, indent=2) + "\n").encode())
        (output / ROWS).touch()
        return
    if not settings.resume:
        raise InputError(
            f"{output} exists already; use --resume to go on, or --force to start anew"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found != document:
        raise InputError(
            f"{output} holds another study, or this one with another grid or other seeds; use the "
            f"same options, or --force to start anew"
        )
    _cut(output / ROWS)


def _cut(path: Path) -> None:
    """Drop a last line that was not written whole."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content or not path.exists():
        write_atomically(path, whole)


def _kept(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _outcomes(
    study: Study, wanted: Sequence[tuple[dict[str, Any], int]], jobs: int
) -> Iterator[Outcome]:
    """In the order of the trials: by the ranks of an MPI job, by processes, or here."""
    comm = ranks.current()
    if comm is not None:  # each rank one of as many trials as there are ranks, in turn
        count = int(comm.Get_size())
        for first in range(0, len(wanted), count):
            own = wanted[first : first + count][comm.Get_rank() :][:1]
            with ranks.alone():
                made = [study.trial(point, seed) for point, seed in own]
            yield from itertools.chain(*comm.allgather(made))
        return
    if jobs == 1 or len(wanted) < 2:
        yield from (study.trial(point, seed) for point, seed in wanted)
        return
    with ProcessPoolExecutor(min(jobs, len(wanted)), initializer=_one_thread) as pool:
        points, seeds = zip(*wanted, strict=True)
        yield from pool.map(study.trial, points, seeds)


def _one_thread() -> None:
    """Processes share the processors already: one BLAS thread each."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def _keep(output: Path, name: str, number: int, arrays: Mapping[str, Any]) -> None:
    """Arrays that a trial thought worth keeping, such as a counterexample."""
    folder = output / "kept"
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{name}-{number}.npz", **arrays)


def read_rows(output: Path) -> tuple[Row, ...]:
    """The rows that a study wrote."""
    return tuple(_kept(output / ROWS))


def page(study: Study, rows: Rows) -> str:
    """The page as HTML text."""
    names = [parameter.name for parameter in study.parameters]
    findings = study.findings(rows)
    picture = drawing(
        study.name,
        findings[0].sentence,
        lambda figure: study.draw(rows, figure),
        (WIDE[0], 3.6),
    )
    return html_page(
        f"study {study.name}",
        __version__,
        element("h1", study.question, class_="alone"),
        element("p", study.about) if study.about else None,
        *(
            element(
                "section",
                element("p", element("strong", finding.sentence)),
                element("p", f"How it is known: {finding.evidence.value}."),
                element("p", f"Refuted by: {finding.refuted_by}."),
            )
            for finding in findings
        ),
        figure(picture, f"{len(rows)} trials.") or missing(),
        table("Means over the seeds", (*names, *study.columns), list(means(study, rows))[:400]),
    )


def means(study: Study, rows: Rows) -> Iterator[tuple[str, ...]]:
    """For each point of the grid that has rows: its values, and the means of the columns."""
    seen = {p.name: values_of(rows, p.name) for p in study.parameters}
    for point, _ in trials(seen, 1):
        own = [row for row in rows if all(row[n] == v for n, v in point.items())]
        if own:
            yield (
                *(str(v) for v in point.values()),
                *(_shown(mean(own, c)) for c in study.columns),
            )


def _shown(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e4 else f"{value:.3g}"  # ranks and counts
