"""What a study is, and how it is run: a grid of points, a trial for each point and seed, a page.

Rows are written as they come, killed and resumed without loss, by processes or MPI ranks. OUT holds
`study.json` (what was asked), `rows.jsonl` (one row per trial, in the order of the grid) and
`report.html`; until the last row is there, they lie in OUT/.partial, as those of any run do. A row
depends on its point and seed alone, so a study that was killed and resumed has the same rows, byte
by byte.
"""

from __future__ import annotations

import itertools
import json
import os
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
from reconstruct.numbers.processes import ONE_THREAD
from reconstruct.progress import Progress, Step, silent
from reconstruct.reports import plotting as plot
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.markup import element, table
from reconstruct.reports.page import whole_page
from reconstruct.reports.words import number
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
        kind, needed = type(self.values[0]), None
        value: Any = None
        try:
            value = kind(word)
        except ValueError:
            needed = f"be {_KINDS[kind]} ({self.meaning}), but is {word!r}"
        if needed is None and kind is str and not self.free and value not in self.values:
            needed = f"be one of {', '.join(self.values)} ({self.meaning}), but is {word!r}"
        if needed is None and kind is not str and not self.least <= value <= self.most:
            needed = f"lie between {self.least:g} and {self.most:g} ({self.meaning}), but is {word}"
        if needed is not None:
            raise InputError(f"{self.name} must {needed}")
        return value


_KINDS = {int: "a whole number", float: "a number", str: "a word"}


@dataclass(frozen=True)
class Finding:
    """One sentence that the rows support, what would refute it, and how it is known."""

    sentence: str
    refuted_by: str
    evidence: Evidence = Evidence.MEASURED


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


@dataclass(frozen=True)
class Panel:
    """A plot: columns `y` (their means) against column `x`, a curve for each value of column `by`.

    Of the rows only those with the values `only` are shown; `log` names the logarithmic axes;
    `axes` are settings of matplotlib's; `lines` draws what the curves are compared with.
    """

    x: str
    y: str | tuple[str, ...]
    by: str
    label: Callable[[Any], str] = str
    log: str = ""
    only: Mapping[str, Any] = field(default_factory=dict)
    statistic: Callable[[Rows, str], float] = mean
    axes: Mapping[str, Any] = field(default_factory=dict)
    lines: Callable[[Any, Rows], object] | None = None

    def draw(self, axes: Axes, rows: Rows) -> None:
        shown = select(rows, **self.only)
        for y in (self.y,) if isinstance(self.y, str) else self.y:
            self._curves(axes, shown, y)
        if self.lines is not None:
            self.lines(axes, shown)
        axes.set(**{"xlabel": self.x, **self.axes})
        for which in self.log:
            plot.logarithmic(axes, which)

    def _curves(self, axes: Axes, rows: Rows, y: str) -> None:
        first = not axes.get_lines()  # of several columns the curves have one legend
        for i, value in enumerate(values_of(rows, self.by)):
            own = select(rows, **{self.by: value})
            places = values_of(own, self.x)
            heights = plot.clipped(self.statistic(select(own, **{self.x: p}), y) for p in places)
            turn, colour = divmod(i, len(plot.SERIES))
            label = self.label(value) if first else None
            axes.plot(
                places, heights, "o--" if turn else "o-", color=plot.SERIES[colour], label=label
            )


@dataclass(frozen=True, eq=False)
class Study:
    """`trial(point, seed)` must be a function of a module, so that other processes can call it.

    It gives a row of JSON values, whose means over the seeds are the page's table; arrays in it are
    kept as a file. `findings` and `panels` take all rows.
    """

    name: str
    question: str
    parameters: tuple[Parameter, ...]
    trial: Callable[[Point, int], Row]
    findings: Callable[[Rows], list[Finding]]
    panels: Callable[[Rows], Sequence[Panel]]
    seeds: int = 3
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

    def draw(self, rows: Rows, figure: Figure) -> None:
        """The panels side by side on an empty figure of matplotlib; the first names the curves."""
        panels = self.panels(rows)
        places = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, panel in zip(places, panels, strict=True):
            panel.draw(axes, rows)
        places[0].legend()


def trials(grid: Mapping[str, Sequence[Any]], seeds: int) -> list[tuple[dict[str, Any], int]]:
    """Every point of the grid with every seed, in the order in which rows are written."""
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [(point, seed) for point in points for seed in range(seeds)]


ROWS, SCHEMA = "rows.jsonl", "reconstruct.study/1"


def run_study(
    study: Study,
    output: str | Path,
    *,
    grid: Mapping[str, str] | None = None,
    seeds: int | None = None,
    jobs: int = 1,
    resume: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[Row, ...]:
    """All rows of the study; those that OUT holds already are not computed again.

    `grid` overrides values by parameter name, in the words of the command line.
    """
    values, seeds = study.grid(grid or {}), study.seeds if seeds is None else seeds
    for name, count in (("--seeds", seeds), ("--jobs", jobs)):
        if count < 1:
            raise InputError(f"{name} must be at least 1, but is {count}")
    asked = {"schema": SCHEMA, "study": study.name, "grid": values, "seeds": seeds}
    wanted = trials(values, seeds)
    if not ranks.is_first():  # takes its part in the trials; rank 0 writes what comes of them
        done = ranks.from_first(int)
        for _ in _found(study, wanted[done:], jobs):
            pass
        raise SystemExit(0)
    with OutputFolder(output, force=force, resume=resume, solved=ROWS) as folder:
        others = "study, perhaps this one with another grid or other seeds"
        folder.claim((json.dumps(asked, indent=2) + "\n").encode(), others, "study.json")
        path, kept = folder.staging / ROWS, folder.staging / "kept"
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # a last row that was not written whole goes
        write_atomically(path, whole)
        rows: list[Row] = [json.loads(line) for line in whole.splitlines()[: len(wanted)]]
        for found in _found(study, wanted[ranks.from_first(lambda: len(rows)) :], jobs):
            point, seed = wanted[len(rows)]
            arrays: dict[str, Any] = {k: v for k, v in found.items() if isinstance(v, np.ndarray)}
            told = {key: value for key, value in found.items() if key not in arrays}
            rows.append({**point, "seed": seed, **told})
            if arrays:
                kept.mkdir(exist_ok=True)
                np.savez(kept / f"{study.name}-{len(rows)}.npz", **arrays)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")
            progress(Step(f"study {study.name}", len(rows), len(wanted)))
        write_atomically(folder.staging / "report.html", page(study, rows).encode())
        before = folder.path.glob(f"kept/{study.name}-*.npz")
        folder.publish((*folder.made(), ROWS), (f"kept/{old.name}" for old in before))
    return tuple(rows)


def _found(study: Study, wanted: Sequence[tuple[dict[str, Any], int]], jobs: int) -> Iterator[Row]:
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
    os.environ.update(ONE_THREAD)


def read_rows(output: Path) -> tuple[Row, ...]:
    """The rows that a study wrote."""
    return tuple(map(json.loads, (output / ROWS).read_bytes().splitlines()))


def page(study: Study, rows: Rows) -> str:
    """The page as HTML text."""
    findings = study.findings(rows)
    return whole_page(
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
        plot.figure(
            study.name,
            findings[0].sentence,
            f"{len(rows)} trials.",
            lambda figure: study.draw(rows, figure),
            (plot.WIDE[0], 3.6),
        ),
        table("Means over the seeds", *means(study, rows)),
    )


def means(study: Study, rows: Rows, most: int = 400) -> tuple[list[str], list[list[str]]]:
    """Names of all columns, and for each point of the grid that has rows its values and means."""
    seen = {p.name: values_of(rows, p.name) for p in study.parameters}
    measured = [name for name in rows[0] if name not in seen and name != "seed"]
    lines = []
    for point, _ in trials(seen, 1):
        if own := select(rows, **point):
            found = (mean(own, name) for name in measured)
            digits = (number(value, 3 if value < 1000 else 4) for value in found)
            lines.append([*map(str, point.values()), *digits])
    return [name.replace("_", " ") for name in (*seen, *measured)], lines[:most]
