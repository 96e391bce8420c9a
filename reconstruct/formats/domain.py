"""The domain as a user writes it: `LO,HI`, `lo1,lo2,…:hi1,hi2,…`, or a file with a box."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.files import LIMITS, as_path, contents, decimal, format_suffix, naming
from reconstruct.formats.labelled import Images, read_labelled
from reconstruct.formats.npz import Arrays, read_arrays, real_array
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
    # A box that is spelled out, for fifty inputs say, is longer than any file's name.
    spelled = isinstance(text, str) and "," in text and len(Path(text).name) > LIMITS.name
    place = text.folder if isinstance(text, Images) else text
    path = Path() if spelled else as_path(place, "a domain")
    at_least(size, "the number of inputs", 1)
    suffix = format_suffix(path)
    found: Box | Points
    if suffix in FILES or (not spelled and _folder(text)):
        with naming(path) if suffix in FILES else nullcontext():
            found = read_vnnlib(contents(path)[0]) if suffix == ".vnnlib" else _read(_arrays(text))
    elif path.is_file() or suffix == ".npy":
        name = path.stem + ".npz"
        remedy = f", one array: np.savez({name!r}, x=np.load({path.name!r})) makes data"
        raise InputError(
            f"{path}: a domain is read from {' or '.join(FILES)}, but this file is of another kind"
            f"{remedy if suffix == '.npy' else ''}; {SYNTAX}"
        )
    else:
        found = parse_box(str(text))
    found = with_radius(found, radius)
    if size is None:
        return found
    with naming(path) if suffix in FILES else nullcontext():
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
    with naming(Path(source.folder if isinstance(source, Images) else source)):
        found = _arrays(source).get("y")
        if found is None:
            return None
        if found.ndim != 1 or found.dtype.kind not in "iu" or found.min(initial=0) < 0:
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
        found = _arrays(place).get(UNSEEN)
        return None if found is None else as_unseen(real_array(UNSEEN, found), size, shape)


def as_unseen(x: Any, size: int, shape: tuple[int, ...] = ()) -> NDArray[np.float64]:
    """Inputs for the guard as rows, of the shape that the network takes."""
    try:
        return Points(x).of_size(size, shape).x
    except InputError as error:
        raise InputError(f"{UNSEEN}: {error}") from None


def _folder(source: Any) -> bool:
    """Whether these are labelled images."""
    return isinstance(source, Images) or (bool(os.fspath(source)) and Path(source).is_dir())


def _arrays(source: str | os.PathLike[str] | Images) -> Arrays:
    """What an .npz holds, or a folder of labelled images."""
    if not _folder(source):
        assert not isinstance(source, Images)
        return read_arrays(*contents(Path(source)))
    images = read_labelled(source if isinstance(source, Images) else Images(source))
    return {"x": images.x, "y": images.y}


def parse_box(text: str) -> Box:
    """The box written as `LO,HI` or `lo1,lo2,…:hi1,hi2,…`."""
    try:
        sides = [[decimal(f.strip(" ")) for f in side.split(",")] for side in text.split(":")]
    except ValueError:
        raise InputError(f"the domain {text!r} is not made of numbers; {SYNTAX}") from None
    if any(np.isnan(number) for side in sides for number in side):
        raise InputError(f"the domain {text!r} holds NaN, which is no number; {SYNTAX}")
    if len(sides) == 2:
        lo, hi = (side[0] if len(side) == 1 else side for side in sides)
        return Box(lo, hi)
    if len(sides) != 1 or len(sides[0]) != 2:
        raise InputError(f"the domain {text!r} is not two numbers; {SYNTAX}")
    return Box(*sides[0])


def _read(arrays: Arrays) -> Box | Points:
    """A box by its ends, or data."""
    ends = sorted({"lo", "hi"} & set(arrays))
    if "x" in arrays and ends:
        raise InputError(
            f"a domain is a box (lo and hi) or data (x), but this .npz has x and "
            f"{' and '.join(ends)}; leave one of them out"
        )
    if "x" in arrays:
        points, labels = Points(real_array("x", arrays["x"])), arrays.get("y")
        if labels is not None and labels.shape[:1] != (len(points),):
            raise InputError(
                f"the data need one label for each of the {len(points)} inputs in x, but y "
                f"has {labels.size}"
            )
        return points
    if len(ends) < 2:
        shown = ", ".join(sorted(arrays)[:6]) or "no arrays"
        missing = " and ".join(sorted({"lo", "hi"} - set(ends)))
        raise InputError(
            f"a domain needs the arrays lo and hi (a box) or x (data), but this .npz has {shown}; "
            f"add {missing}, or x"
        )
    lo, hi = (real_array(key, arrays[key]) for key in ("lo", "hi"))
    if lo.shape == hi.shape:  # the corners of a box of images, or of plain inputs
        lo, hi = (end.ravel() if end.ndim else end for end in (lo, hi))
    return Box(lo, hi)
