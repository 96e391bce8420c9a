"""The domain as a user writes it: `LO,HI`, `lo1,lo2,…:hi1,hi2,…`, or a file with a box."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import format_suffix, naming, read_bytes, unpacked
from reconstruct.formats.limits import Budget, read_limit
from reconstruct.formats.npy import read_arrays
from reconstruct.formats.npz import real_array
from reconstruct.formats.vnnlib import read_vnnlib
from reconstruct.networks import Box

SYNTAX = (
    "write LO,HI for all inputs (as in -0.5,0.5), or lo1,lo2,…:hi1,hi2,… for each, or name a "
    ".vnnlib file or an .npz file with lo and hi"
)


def load_domain(text: str | os.PathLike[str], size: int | None = None) -> Box:
    """The box that `text` says or that the file of that name holds; `size` spreads a cube."""
    path = Path(text)
    suffix = format_suffix(path)
    if suffix in (".vnnlib", ".npz"):
        with naming(path):
            most = read_limit()
            content = unpacked(read_bytes(path, most), most)
            box = read_vnnlib(content) if suffix == ".vnnlib" else _read_npz_box(content, most)
            return box if size is None else box.of_size(size)
    box = parse_box(str(text))
    return box if size is None else box.of_size(size)


def parse_box(text: str) -> Box:
    """The box written as `LO,HI` or `lo1,lo2,…:hi1,hi2,…`."""
    sides = text.split(":")
    if len(sides) == 2:
        lo, hi = (_numbers(side, text) for side in sides)
        return Box(lo[0] if len(lo) == 1 else lo, hi[0] if len(hi) == 1 else hi)
    numbers = _numbers(text, text) if len(sides) == 1 else []
    if len(numbers) != 2:
        raise InputError(f"the domain {text!r} is not two numbers; {SYNTAX}")
    return Box(*numbers)


def _numbers(side: str, text: str) -> list[float]:
    try:
        numbers = [float(field) for field in side.split(",")]
    except ValueError:
        raise InputError(f"the domain {text!r} is not made of numbers; {SYNTAX}") from None
    if any(np.isnan(numbers)):
        raise InputError(f"the domain {text!r} holds NaN, which is no number; {SYNTAX}")
    return numbers


def _read_npz_box(content: bytes, limit: int) -> Box:
    arrays = read_arrays(content, Budget(max(limit, len(content))))
    missing = {"lo", "hi"} - set(arrays)
    if missing:
        shown = ", ".join(sorted(arrays)[:6]) or "no arrays"
        raise InputError(
            f"a domain needs the arrays lo and hi, but this .npz has {shown}; add "
            f"{' and '.join(sorted(missing))}"
        )
    return Box(*(real_array(key, arrays[key]) for key in ("lo", "hi")))
