"""The certificate as the checker reads it: every field named, every number a hex float."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats import load
from reconstruct.networks import Box, Network

SCHEMA = "reconstruct.certificate/1"


WORDS = {
    "verdict": ("certified", "refuted", "undecided"),
    "rigor": ("exact", "rigorous", "numerical"),
    "method": ("layered", "general", "witness", "none"),
}
CELLS = 2**16  # a grid of more cells than this is refused


class CheckFailed(Exception):
    """A claim does not hold; `field` names it (None: it cannot be checked at all)."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field


class Claims:
    """A certificate's document with the two networks that it speaks of."""

    def __init__(self, document: dict[str, Any], target: Network, candidate: Network) -> None:
        self.document, self.target, self.candidate = document, target, candidate
        lo, hi = (self._vector("domain", side) for side in ("lo", "hi"))
        try:
            self.domain = Box(lo, hi).of_size(target.size_in)
        except InputError as error:
            raise CheckFailed("domain", str(error)) from None
        for size in ("size_in", "size_out"):
            if getattr(target, size) != getattr(candidate, size):
                raise CheckFailed("candidate", f"the two networks differ in {size}")

    def _vector(self, field: str, side: str) -> Any:
        try:
            row = self.document[field][side]
            if not isinstance(row, list):
                raise TypeError
            return np.array([float.fromhex(x) for x in row])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CheckFailed(f"{field}.{side}", "hex floats are needed") from None

    def text(self, field: str) -> str:
        value = self.document.get(field)
        if not isinstance(value, str):
            raise CheckFailed(field, f"a word is needed, but there is {value!r}")
        return value

    def words(self) -> str:
        """The verdict; it, the rigor and the method have to be words that are known."""
        for field, known in WORDS.items():
            if self.text(field) not in known:
                raise CheckFailed(field, f"one of {', '.join(known)} is needed")
        if not isinstance(self.document.get("exact_identity", False), bool):
            raise CheckFailed("exact_identity", "true or false is needed")
        return self.text("verdict")

    def check_rigor(self) -> None:
        """The rigor is what the verdict and its proof give, and no more."""
        verdict, rigor = self.text("verdict"), self.text("rigor")
        wanted = {
            "certified": ("exact",) if self.document.get("exact_identity") else ("rigorous",),
            "refuted": ("exact", "rigorous"),
            "undecided": ("numerical",),
        }[verdict]
        if rigor not in wanted:
            raise CheckFailed("rigor", f"{verdict!r} is {wanted[-1]} here, but {rigor} is claimed")

    def figures(self) -> None:
        """The floating-point figures, as far as the bound says: each holds it and more."""
        bound = self.number("bound")
        for field in ("float64_bound", "float32_bound"):
            figure = self.number(field)
            if figure is not None and (bound is None or figure < bound):
                raise CheckFailed(field, f"{figure} is claimed, which is below the bound {bound}")

    def number(self, field: str, holder: dict[str, Any] | None = None, path: str = "") -> Any:
        """A hex float, finite and not negative, or None where the certificate has null."""
        value = (self.document if holder is None else holder).get(field)
        if value is None:
            return None
        try:
            number = float.fromhex(value)
        except (TypeError, ValueError, OverflowError):
            raise CheckFailed(path + field, f"a hex float is needed, not {value!r}") from None
        if not (np.isfinite(number) and number >= 0):
            raise CheckFailed(path + field, f"a finite number ≥ 0 is needed, not {number}")
        return number

    def at_least(self, field: str, derived: float, holder: Any = None, path: str = "") -> None:
        """The claimed upper bound has to be at least what was derived."""
        claimed = self.number(field, holder, path)
        if claimed is None or not claimed >= derived:
            raise CheckFailed(path + field, f"{claimed} is claimed, but only {derived} follows")

    def check_segment(self, index: int, names: tuple[str, str], *derived: float) -> None:
        segments = self.document.get("segments")
        path = f"segments[{index}]."
        if not isinstance(segments, list) or index >= len(segments):
            raise CheckFailed("segments", f"there is no segment {index}")
        row = segments[index]
        if (row.get("target_node"), row.get("candidate_node")) != names:
            raise CheckFailed(path + "target_node", f"the cut here is at {names}")
        fields = ("residual_bound", "constant_bound", "error_in", "error_out")
        for field, value in zip(fields, derived, strict=True):
            self.at_least(field, value, row, path)

    def pairs(self) -> list[tuple[str, str]]:
        pairs = self.document.get("alignment")
        if not isinstance(pairs, list) or any(len(pair) != 2 for pair in pairs):
            raise CheckFailed("alignment", "a list of pairs of names is needed")
        return [(str(t), str(c)) for t, c in pairs]

    def lines(self, name: str, size: int) -> Any:
        """Which units of a cut take slope 1 for the line below (a hint; None without one)."""
        marks = self.document.get("lines", {}).get(name)
        if not isinstance(marks, str) or len(marks) != size:
            return None
        return np.array([mark == "1" for mark in marks])

    def grid(self) -> tuple[int, ...] | None:
        grid = self.document.get("grid")
        if grid is None:
            return None
        good = isinstance(grid, list) and all(type(n) is int and n > 0 for n in grid)
        if not good or len(grid) != self.domain.size:
            raise CheckFailed("grid", "one whole number > 0 per input is needed")
        if prod(grid) > CELLS:
            raise CheckFailed("grid", f"at most {CELLS} cells are checked, but it has more")
        return tuple(grid)

    def fraction(self, value: Any, field: str) -> Fraction:
        """A rational "p/q", both in hexadecimal (decimal text is limited to 4,300 digits)."""
        try:
            above, below = str(value).split("/")
            return Fraction(int(above, 16), int(below, 16))
        except (ValueError, ZeroDivisionError):
            raise CheckFailed(field, f"a rational p/q is needed, not {str(value)[:40]!r}") from None

    def norms(self) -> dict[str, tuple[list[Fraction], list[Fraction]]]:
        """The rational gammas and betas of an exact certificate, by norm."""
        norms = self.document.get("exact_norms")
        if not isinstance(norms, dict):
            raise CheckFailed("exact_norms", "an exact identity needs rational norms")
        found = {}
        for name, row in norms.items():
            size = self.candidate.sizes.get(name)
            parts = [
                [self.fraction(v, f"exact_norms.{name}.{part}") for v in row.get(part, [])]
                for part in ("gamma", "beta")
            ]
            if any(len(part) != size for part in parts):
                raise CheckFailed(f"exact_norms.{name}", "one gamma and beta per unit is needed")
            found[name] = (parts[0], parts[1])
        return found

    def check_digest(self) -> None:
        """The rest of the document (what no proof is about) is as it was written."""
        if self.document.get("digest") != digest(self.document):
            raise CheckFailed("digest", "the certificate was changed after it was written")


def digest(document: dict[str, Any]) -> str:
    """SHA-256 of the document without its digest, as sorted compact JSON."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_claims(path: Path, target: Any, candidate: Any) -> Claims:
    """The document and both networks, their hashes checked before anything is read from them."""
    place = path / "certificate.json" if path.is_dir() else path
    try:
        document = json.loads(place.read_bytes(), object_pairs_hook=_unique)
    except OSError as error:
        raise CheckFailed("certificate", f"{place}: {error.strerror or error}") from None
    except ValueError as error:
        raise CheckFailed("certificate", f"{place}: this is not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise CheckFailed("schema", f"a certificate of schema {SCHEMA!r} is needed")
    networks = [
        _network(document, field, given, place.parent)
        for field, given in (("target", target), ("candidate", candidate))
    ]
    return Claims(document, *networks)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names occur once: another reader might take the other value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice in one object")
    return found


def _network(document: dict[str, Any], field: str, given: Any, folder: Path) -> Network:
    entry = document.get(field)
    if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
        raise CheckFailed(field, "a file with its sha256 is needed")
    places = [folder / Path(entry["file"]).name, Path(str(entry.get("path", entry["file"])))]
    found = [Path(given)] if given is not None else [p for p in places if p.is_file()]
    if not found or not found[0].is_file():
        raise CheckFailed(f"{field}.file", f"{entry['file']} was not found; say where it is")
    hashes = [hashlib.sha256(p.read_bytes()).hexdigest() for p in found]
    if entry.get("sha256") not in hashes:
        raise CheckFailed(f"{field}.sha256", f"{found[0].name} is not the file that was certified")
    try:
        header = bool(entry.get("nnet_header", False))
        return load(found[hashes.index(entry["sha256"])], nnet_header=header)
    except InputError as error:
        raise CheckFailed(f"{field}.file", str(error)) from None
