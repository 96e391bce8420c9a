"""What a study is: a grid of points, a trial for each point and seed, and what the rows say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from reconstruct.errors import InputError
from reconstruct.reports.plotting import SERIES, clipped

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
