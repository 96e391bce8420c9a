"""Solved sites on disk, so that an interrupted run can be resumed.

Each site is one npz file, written whole, in a directory that also holds the key of the run: a
hash of everything that decides its numbers. A directory with another key is not used.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.constructions.construction import ExactNorm, SiteSolution, System
from reconstruct.errors import InputError
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao import Status
from reconstruct.networks import Norm

KEY_FILE = "key.json"


class SiteStore:
    """Keeps the solutions of sites in `folder`; `key` names the run that they belong to."""

    def __init__(self, folder: Path, key: str, *, resume: bool) -> None:
        self.folder = folder
        self.reused = 0
        folder.mkdir(parents=True, exist_ok=True)
        found = self._found_key()
        if resume and found is not None and found != key:
            raise InputError(
                f"{folder.parent} holds an interrupted run with another target, frozen network or "
                f"options, so it cannot be resumed with these; use the same options, or --force "
                f"to start anew"
            )
        if found != key or not resume:
            self._clear()
            write_atomically(folder / KEY_FILE, json.dumps({"key": key}).encode())

    def load(self, site: str) -> SiteSolution | None:
        path = self._path(site)
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as data:
            head = json.loads(bytes(data["head"]).decode())
            norms = {name: _norm(data, i, head["eps"][i]) for i, name in enumerate(head["norms"])}
        self.reused += 1
        return SiteSolution(norms, _systems(head["systems"]), _exact(head["exact"]))

    def store(self, site: str, solution: SiteSolution) -> None:
        names = list(solution.norms)
        arrays: dict[str, Any] = {}
        for i, name in enumerate(names):
            norm = solution.norms[name]
            arrays |= {f"{i}.{part}": getattr(norm, part) for part in PARTS}
        head = {
            "norms": names,
            "eps": [solution.norms[name].eps for name in names],
            "systems": [{**asdict(s), "status": s.status.name} for s in solution.systems],
            "exact": {
                name: [[str(v) for v in norm.gamma], [str(v) for v in norm.beta]]
                for name, norm in (solution.exact or {}).items()
            },
        }
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_atomically(self._path(site), buffer.getvalue())

    def _path(self, site: str) -> Path:
        return self.folder / f"site-{hashlib.sha256(site.encode()).hexdigest()[:16]}.npz"

    def _found_key(self) -> str | None:
        try:
            return str(json.loads((self.folder / KEY_FILE).read_text())["key"])
        except (OSError, ValueError, KeyError):
            return None

    def _clear(self) -> None:
        for path in self.folder.glob("site-*.npz"):
            path.unlink()


PARTS = ("gamma", "beta", "mean", "var")


def _norm(data: Mapping[str, Any], i: int, eps: float) -> Norm:
    gamma, beta, mean, var = (data[f"{i}.{part}"] for part in PARTS)
    return Norm(gamma, beta, mean, var, eps)


def run_key(parts: dict[str, Any]) -> str:
    """A hash of everything that decides the numbers of a run."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _systems(rows: list[dict[str, Any]]) -> tuple[System, ...]:
    return tuple(
        System(**{**row, "status": Status[row["status"]], "history": tuple(row["history"])})
        for row in rows
    )


def _exact(norms: dict[str, list[list[str]]]) -> dict[str, ExactNorm] | None:
    found = {
        name: ExactNorm(tuple(map(Fraction, gamma)), tuple(map(Fraction, beta)))
        for name, (gamma, beta) in norms.items()
    }
    return found or None
