"""The files of a run, read back: everything that the page is made from."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.reports.consistency import contradictions
from reconstruct.reports.document import read_report
from reconstruct.reports.names import elided
from reconstruct.reports.schemas import schema
from reconstruct.reports.schemas.faults import faults

Vector = NDArray[np.float64]

LONGEST = 400  # characters of what is said of a fault: places are named as the file names them
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,  # an array alone is no archive
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


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
    require_whole(folder / "report.json", report)
    path = folder / "norms.npz"
    arrays = read_norms(path) if path.exists() else {}
    return RunFiles(report, _ending(arrays, ".weight"), _ending(arrays, ".bias"))


def require_whole(path: Path, report: Mapping[str, Any]) -> None:
    """Refuse a report that no run writes: a page of it would say what nobody found."""
    fault = next(map(str, faults(report, schema("report"))), None)
    fault = fault or next(contradictions(report), None)
    if fault is not None:
        raise InputError(f"{path}: {elided(fault, LONGEST)}; take the file as the run wrote it")


def read_norms(path: Path) -> dict[str, Vector]:
    """Gammas, betas and statistics by name; finite numbers all of them."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except UNREADABLE as error:
        raise InputError(f"{path}: these are not readable norm parameters ({error})") from None
    for name, values in arrays.items():
        _require_numbers(f"{path}: {elided(name)}", values)
    return {name: values.astype(np.float64) for name, values in arrays.items()}


def _require_numbers(what: str, values: NDArray[Any]) -> None:
    """Refuse what no run writes: text, complex numbers, and entries that are not finite."""
    came = None
    if values.dtype.kind not in "fiu":
        came = f"they are of type {values.dtype}"
    elif not np.isfinite(values).all():
        strange = int(np.flatnonzero(~np.isfinite(values))[0])
        came = f"entry {strange} is {values.ravel()[strange]}"
    if came is not None:
        raise InputError(
            f"{what} must be finite numbers, but {came}; take the file as the run wrote it"
        )


def _ending(arrays: Mapping[str, Vector], suffix: str) -> dict[str, Vector]:
    return {n.removesuffix(suffix): a.ravel() for n, a in arrays.items() if n.endswith(suffix)}
