"""Solved sites on disk, so that an interrupted run can be resumed.

Each site is one npz file, written whole, in a directory that also holds the key of the run
(`OutputFolder.claim`): a hash of everything that decides its numbers.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.constructions.construction import ExactNorm, LayerSolution, LeftOut, SiteSolution
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao import Status
from reconstruct.khatri_rao.ranks import from_first
from reconstruct.networks.operation import KINDS

FORMAT = "sites/2"  # of the files of sites: what another version kept is not resumed


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
            head = json.loads(bytes(data["head"]).decode())
            norms = {name: _norm(data, *kept) for name, *kept in head["norms"]}
            rows = tuple(_row(data, i, kept) for i, kept in enumerate(head["systems"]))
            left = [data[key] for key in ("left.weight", "left.bias") if key in data]
        left_out = LeftOut(*left) if left else None
        return SiteSolution(norms, rows, _exact(head["exact"]), left_out)

    def store(self, site: str, solution: SiteSolution) -> None:
        if self.folder is None:
            return
        arrays: dict[str, Any] = {}
        for i, norm in enumerate(solution.norms.values()):
            arrays |= {f"{i}.{key}": values for key, values in norm.arrays().items()}
        for i, row in enumerate(solution.systems):
            arrays[f"{i}.s"] = row.s
        if solution.left_out is not None:
            arrays["left.weight"] = solution.left_out.weight
            arrays["left.bias"] = solution.left_out.bias
        head = {
            "norms": [
                [name, i, norm.kind, norm.settings()]
                for i, (name, norm) in enumerate(solution.norms.items())
            ],
            "systems": [_as_json(row) for row in solution.systems],
            "exact": {
                name: [[_hex(v) for v in norm.gamma], [_hex(v) for v in norm.beta]]
                for name, norm in (solution.exact or {}).items()
            },
        }
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(self._path(site), buffer.getvalue())

    def _path(self, site: str) -> Path:
        assert self.folder is not None
        return self.folder / f"site-{hashlib.sha256(site.encode()).hexdigest()[:16]}.npz"


def _norm(data: Mapping[str, Any], i: int, kind: str, settings: dict[str, Any]) -> Any:
    return KINDS[kind](lambda key: data[f"{i}.{key}"], settings)


def run_key(parts: dict[str, Any]) -> str:
    """A hash of everything that decides the numbers of a run, and of how sites are kept."""
    whole = json.dumps({"format": FORMAT, **parts}, sort_keys=True, default=str)
    return hashlib.sha256(whole.encode()).hexdigest()


SOLVED = ("solver", "residual", "shape", "rank", "condition", "history", "seconds")
PLACED = ("index", "name", "shift_max", "steps")


def _as_json(row: LayerSolution) -> dict[str, Any]:
    """A row without its long numbers: its sentence stands for the obstruction, if it had one."""
    known = {name: getattr(row, name) for name in (*SOLVED, *PLACED)}
    return {**known, "status": row.status.name, "said": row.message}


def _row(data: Mapping[str, Any], i: int, kept: dict[str, Any]) -> LayerSolution:
    whole = {**kept, "shape": tuple(kept["shape"]), "history": tuple(kept["history"])}
    return LayerSolution(**{**whole, "status": Status[kept["status"]], "s": data[f"{i}.s"]})


def _hex(value: Fraction) -> str:
    """Exact numbers grow past the 4,300 digits that Python converts; hexadecimal has no limit."""
    return f"{value.numerator:x}/{value.denominator:x}"


def _unhex(text: str) -> Fraction:
    top, bottom = text.split("/")
    return Fraction(int(top, 16), int(bottom, 16))


def _exact(norms: dict[str, list[list[str]]]) -> dict[str, ExactNorm] | None:
    found = {
        name: ExactNorm(tuple(map(_unhex, gamma)), tuple(map(_unhex, beta)))
        for name, (gamma, beta) in norms.items()
    }
    return found or None
