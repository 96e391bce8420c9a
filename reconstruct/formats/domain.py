"""The domain as a user writes it: `LO,HI`, `lo1,lo2,…:hi1,hi2,…`, or a file with a box."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.files import Budget, as_path, contents, format_suffix, naming
from reconstruct.formats.labelled import Images, read_labelled
from reconstruct.formats.npz import read_arrays, real_array
from reconstruct.formats.text import decimal
from reconstruct.formats.vnnlib import read_vnnlib
from reconstruct.networks import Box, Points
from reconstruct.numbers.given import at_least

SYNTAX = (
    "write LO,HI for all inputs (as in -0.5,0.5), or lo1,lo2,…:hi1,hi2,… for each, or name a "
    ".vnnlib file, an .npz file with lo and hi, one with x (data), or a folder of labelled images"
)

FILES = (".vnnlib", ".npz")
UNSEEN = "x_unseen"


def load_domain(
    text: str | os.PathLike[str] | Images,
    size: int | None = None,
    radius: float | None = None,
    shape: tuple[int, ...] = (),
) -> Box | Points:
    """The domain that `text` says or that the file of that name holds; `size` spreads a cube.

    An .npz with an array x is data: these inputs, or with a radius the boxes around them; so is a
    folder of labelled images (`Images` says which of them). Images must have the `shape` that the
    network takes, where it is given.
    """
    place = text.folder if isinstance(text, Images) else text
    path = as_path(place, "a domain")
    at_least(size, "the number of inputs", 1)
    if (os.fspath(place) and path.is_dir()) or isinstance(text, Images):
        chosen = text if isinstance(text, Images) else Images(text)
        found: Box | Points = Points(read_labelled(chosen).x)
    else:
        found = _load(path, text)
    found = with_radius(found, radius)
    if size is None:
        return found
    with naming(path) if format_suffix(path) in FILES else nullcontext():
        return found.of_size(size, shape)


def with_radius(domain: Box | Points, radius: float | None) -> Box | Points:
    """Boxes of that radius around data; None changes nothing."""
    if radius is None:
        return domain
    if not isinstance(domain, Points):
        raise InputError(
            "a radius belongs to a domain made of data, an .npz with an array x, but this one is a "
            "box; give data, or leave the radius out"
        )
    return Points(domain.x, radius)


def load_labels(
    source: str | os.PathLike[str] | Images, classes: int | None = None
) -> NDArray[np.int64] | None:
    """The labels y beside the data x of an .npz, or of the images of a folder; None without any.

    With `classes`, the number of the network's outputs, each must be one of them.
    """
    path = Path(source.folder if isinstance(source, Images) else source)
    with naming(path):
        if path.is_dir():
            chosen = source if isinstance(source, Images) else Images(path)
            found: NDArray[Any] | None = read_labelled(chosen).y
        else:
            found = _array(path, "y")
        if found is None:
            return None
        whole = (
            found.ndim == 1 and found.dtype.kind in "iu" and (found.size == 0 or found.min() >= 0)
        )
        if not whole:
            raise InputError(
                f"labels are whole numbers from 0 on, one for each input, but y has the type "
                f"{found.dtype} and the shape {found.shape}"
            )
        if classes is not None and classes > 1 and found.max(initial=0) >= classes:
            raise InputError(
                f"labels are whole numbers from 0 to {classes - 1}, because the network has "
                f"{classes} outputs, but y has {found.max()}; bring the labels that it was made for"
            )
        return found.astype(np.int64)


def load_unseen(
    path: str | os.PathLike[str], size: int, shape: tuple[int, ...] = ()
) -> NDArray[np.float64] | None:
    """The inputs x_unseen of an .npz as rows: no part of the domain, but the guard is tried there.

    None where the file has none, or is no .npz.
    """
    place = Path(path)
    if format_suffix(place) != ".npz":
        return None
    with naming(place):
        found = _array(place, UNSEEN)
        return None if found is None else as_unseen(real_array(UNSEEN, found), size, shape)


def as_unseen(x: Any, size: int, shape: tuple[int, ...] = ()) -> NDArray[np.float64]:
    """Inputs for the guard as rows, of the shape that the network takes."""
    try:
        return Points(x).of_size(size, shape).x
    except InputError as error:
        raise InputError(f"{UNSEEN}: {error}") from None


def _array(path: Path, key: str) -> NDArray[Any] | None:
    """One array of an .npz; None where it has none of that name."""
    return read_arrays(*contents(path)).get(key)


def _load(path: Path, text: str | os.PathLike[str]) -> Box | Points:
    suffix = format_suffix(path)
    if suffix in FILES:
        with naming(path):
            content, budget = contents(path)
            return read_vnnlib(content) if suffix == ".vnnlib" else _read_npz(content, budget)
    if path.is_file() or suffix == ".npy":
        raise InputError(
            f"{path}: a domain is read from {' or '.join(FILES)}, but this file is of another kind"
            f"{_npy_remedy(path, suffix)}; {SYNTAX}"
        )
    return parse_box(str(text))


def _npy_remedy(path: Path, suffix: str) -> str:
    """How one array becomes data."""
    if suffix != ".npy":
        return ""
    return f", one array: np.savez({path.stem + '.npz'!r}, x=np.load({path.name!r})) makes data"


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
        numbers = [decimal(field.strip(" ")) for field in side.split(",")]
    except ValueError:
        raise InputError(f"the domain {text!r} is not made of numbers; {SYNTAX}") from None
    if any(np.isnan(numbers)):
        raise InputError(f"the domain {text!r} holds NaN, which is no number; {SYNTAX}")
    return numbers


def _read_npz(content: bytes, budget: Budget) -> Box | Points:
    arrays = read_arrays(content, budget)
    ends = sorted({"lo", "hi"} & set(arrays))
    if "x" in arrays and ends:
        raise InputError(
            f"a domain is a box (lo and hi) or data (x), but this .npz has x and "
            f"{' and '.join(ends)}; leave one of them out"
        )
    if "x" in arrays:
        labels = arrays.get("y")
        points = Points(real_array("x", arrays["x"]))
        if labels is not None and labels.shape[:1] != (len(points),):
            raise InputError(
                f"the data need one label for each of the {len(points)} inputs in x, but y "
                f"has {labels.size}"
            )
        return points
    missing = {"lo", "hi"} - set(arrays)
    if missing:
        shown = ", ".join(sorted(arrays)[:6]) or "no arrays"
        raise InputError(
            f"a domain needs the arrays lo and hi (a box) or x (data), but this .npz has {shown}; "
            f"add {' and '.join(sorted(missing))}, or x"
        )
    lo, hi = (real_array(key, arrays[key]) for key in ("lo", "hi"))
    if lo.shape == hi.shape:  # the corners of a box of images, or of plain inputs
        lo, hi = (end.ravel() if end.ndim else end for end in (lo, hi))
    return Box(lo, hi)
