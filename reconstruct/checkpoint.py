"""Solved sites on disk, so that an interrupted run can be resumed.

Each site is one npz file, written whole, in a directory that also holds the key of the run
(`OutputFolder.claim`): a hash of everything that decides its numbers.
"""

from __future__ import annotations

import hashlib
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.constructions.construction import ExactNorm, LayerSolution, LeftOut, SiteSolution
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao import Status
from reconstruct.khatri_rao.ranks import from_first
from reconstruct.networks.operation import KINDS

LEFT = ("left.weight", "left.bias")
FORMAT = "sites/3"  # of the files of sites: what another version kept is not resumed


class SiteStore:
    """Keeps the solutions of sites in `folder`, which belongs to one run."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder  # None on ranks other than 0, which hear from it

    def load(self, site: str) -> SiteSolution | None:
        """What was kept of a site, on every rank."""
        return from_first(lambda: self._load(site))

    def _load(self, site: str) -> SiteSolution | None:
        path = self._path(site)
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as data:
            arrays = dict(data)
        head = json.loads(bytes(arrays["head"]).decode())
        norms = {name: _norm(arrays, *kept) for name, *kept in head["norms"]}
        exact = {
            n: ExactNorm(*(tuple(map(_unhex, v)) for v in p)) for n, p in head["exact"].items()
        }
        rows = tuple(_row(arrays[f"{i}.s"], kept) for i, kept in enumerate(head["systems"]))
        left = [arrays[key] for key in LEFT if key in arrays]
        return SiteSolution(norms, rows, exact or None, LeftOut(*left) if left else None)

    def store(self, site: str, solution: SiteSolution) -> None:
        if self.folder is None:
            return
        arrays = {f"{i}.s": row.s for i, row in enumerate(solution.systems)}
        for i, norm in enumerate(solution.norms.values()):
            arrays |= {f"{i}.{key}": values for key, values in norm.arrays().items()}
        if (left := solution.left_out) is not None:
            arrays |= dict(zip(LEFT, (left.weight, left.bias), strict=True))
        head = {
            "norms": [
                [name, i, norm.kind, norm.settings()]
                for i, (name, norm) in enumerate(solution.norms.items())
            ],
            "systems": [
                # without long numbers; its sentence stands for the obstruction, if it had one
                {name: getattr(row, name) for name in (*KEPT, "shift_max")}
                | {"status": row.status.name, "said": row.message}
                for row in solution.systems
            ],
            "exact": {
                name: [list(map(_hex, norm.gamma)), list(map(_hex, norm.beta))]
                for name, norm in (solution.exact or {}).items()
            },
        }
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_atomically(self._path(site), buffer.getvalue())

    def _path(self, site: str) -> Path:
        assert self.folder is not None
        return self.folder / f"site-{hashlib.sha256(site.encode()).hexdigest()[:16]}.npz"


def run_key(parts: dict[str, Any]) -> str:
    """A hash of everything that decides the numbers of a run, and of how sites are kept."""
    whole = json.dumps({"format": FORMAT, **parts}, sort_keys=True, default=str)
    return hashlib.sha256(whole.encode()).hexdigest()


KEPT = ("solver", "residual", "shape", "rank", "condition", "history", "seconds", "index", "name")


def _norm(arrays: dict[str, Any], i: int, kind: str, settings: dict[str, Any]) -> Any:
    return KINDS[kind](lambda key: arrays[f"{i}.{key}"], settings)


def _row(s: Any, kept: dict[str, Any]) -> LayerSolution:
    whole = {**kept, "shape": tuple(kept["shape"]), "history": tuple(kept["history"])}
    return LayerSolution(**{**whole, "status": Status[kept["status"]], "s": s})


def _hex(value: Fraction) -> str:
    """Exact numbers grow past the 4,300 digits that Python converts; hexadecimal has no limit."""
    return f"{value.numerator:x}/{value.denominator:x}"


def _unhex(text: str) -> Fraction:
    top, bottom = text.split("/")
    return Fraction(int(top, 16), int(bottom, 16))
