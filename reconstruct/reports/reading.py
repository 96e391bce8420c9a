"""The files of a run, read back: everything that the page is made from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import Budget, read_bytes, read_limit
from reconstruct.formats.npz import read_arrays
from reconstruct.numbers.arrays import Vector
from reconstruct.reports.document import SCHEMA
from reconstruct.reports.markup import elided

REMEDY = "take the file as the run wrote it"


@dataclass(frozen=True, eq=False)
class RunFiles:
    """A run's report and its norm layers' gammas and betas, by the name of the layer."""

    report: Mapping[str, Any]
    gammas: Mapping[str, Vector] = field(default_factory=dict)
    betas: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def measurements(self) -> Mapping[str, Any]:
        """What was measured for the figures; empty in the report of a `verify`."""
        return self.report.get("measurements") or {}


def read_run(folder: Path) -> RunFiles:
    """Read report.json and, where it is there, norms.npz."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: the output directory of a run is needed, but there is none of that name"
        )
    report = read_report(folder / "report.json")
    path = folder / "norms.npz"
    arrays = read_norms(path) if path.exists() else {}
    return RunFiles(report, _ending(arrays, ".weight"), _ending(arrays, ".bias"))


def read_report(path: Path) -> dict[str, Any]:
    """report.json, without a number beyond the floats; `as_written` refuses what is missing."""
    try:
        report = json.loads(path.read_bytes(), parse_constant=_number, parse_float=_number)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; is this the output of a run?") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is not a readable report ({error})") from None
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise InputError(
            f"{path}: a report of schema {SCHEMA!r} is needed, but this one has "
            f"{report.get('schema') if isinstance(report, dict) else type(report).__name__!r}"
        )
    return report


def _number(text: str) -> float:
    """JSON has finite numbers only, but Python reads NaN and 1e999."""
    if not math.isfinite(float(text)):
        raise ValueError(f"{text} is no finite number")
    return float(text)


@contextmanager
def as_written(folder: Path) -> Iterator[None]:
    """What fails inside fails because report.json was altered: said in a sentence.

    Only for files that somebody brings: in a run the same would be a fault of ours.
    """
    try:
        yield
    except InputError:  # says already what is missing
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{folder / 'report.json'}: must be a report as a run writes it, but some part is "
            f"missing or of another kind ({type(error).__name__}: {elided(str(error), 200)}); "
            f"{REMEDY}"
        ) from error


def read_norms(path: Path) -> dict[str, Vector]:
    """Gammas, betas and statistics by name; finite numbers all of them."""
    limit = read_limit()
    try:
        arrays = read_arrays(read_bytes(path, limit), Budget(limit))
    except InputError as error:
        raise InputError(f"{path}: these are not readable norm parameters ({error})") from None
    for name, values in arrays.items():  # no run writes text, complex numbers, NaN or infinity
        came = None
        if values.dtype.kind not in "fiu":
            came = f"they are of type {values.dtype}"
        elif not np.isfinite(values).all():
            strange = int(np.flatnonzero(~np.isfinite(values))[0])
            came = f"entry {strange} is {values.ravel()[strange]}"
        if came is not None:
            raise InputError(f"{path}: {elided(name)} must be finite numbers, but {came}; {REMEDY}")
    return {name: values.astype(np.float64) for name, values in arrays.items()}


def _ending(arrays: Mapping[str, Vector], suffix: str) -> dict[str, Vector]:
    return {n.removesuffix(suffix): a.ravel() for n, a in arrays.items() if n.endswith(suffix)}
