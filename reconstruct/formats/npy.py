"""Arrays of an .npz archive, read by hand: sizes first, no pickle, every byte accounted for.

NumPy's own reader takes the memory that a header announces before it looks at the data. Here the
archive's directory is read first, each member is unpacked up to the size it announces, and the
shape in its header must fit the bytes that follow.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.limits import Budget

Arrays: TypeAlias = dict[str, NDArray[Any]]
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # the second one: an archive of nothing
HEADER = 2**16  # bytes of an .npy header, beyond what any array of numbers needs


def read_arrays(content: bytes, budget: Budget) -> Arrays:
    """All arrays of an archive; pickled objects are refused and never loaded."""
    if not content.startswith(ZIP_MAGIC):
        raise InputError("this is not an .npz archive (a zip file that numpy.savez writes)")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _members(archive, budget)
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise InputError(
            f"the .npz archive is damaged ({error}); was the file cut short? fetch it again"
        ) from None
    except (NotImplementedError, RuntimeError, KeyError, ValueError) as error:
        raise InputError(f"the .npz archive cannot be read ({error})") from None


def _members(archive: zipfile.ZipFile, budget: Budget) -> Arrays:
    arrays: Arrays = {}
    for member in archive.infolist():
        key = member.filename.removesuffix(".npy")
        if key in arrays:
            raise InputError(f"the .npz archive holds {key!r} twice; remove one of them")
        budget.take(member.file_size, f"entry {key!r} of the .npz archive")
        arrays[key] = _array(key, archive.read(member))
    return arrays


def _array(key: str, content: bytes) -> NDArray[Any]:
    """The array in the bytes of one .npy file."""
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        raise InputError(f"entry {key!r} of the .npz archive is not an array")
    try:
        shape, fortran, dtype, end = _header(content[: _announced(content)])
    except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError) as e:
        raise InputError(
            f"array {key!r} of the .npz archive is damaged ({e}): its header cannot be read"
        ) from None
    except tokenize.TokenError as e:
        raise InputError(
            f"array {key!r} of the .npz archive is damaged ({e}): its header cannot be read"
        ) from None
    if dtype.hasobject:
        raise InputError(
            f"array {key!r} of the .npz archive holds pickled Python objects, which could run "
            "code when loaded and are never read; save plain arrays of numbers instead"
        )
    data = memoryview(content)[end:]
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise InputError(
            f"array {key!r} of the .npz archive is damaged: its header states shape {shape} of "
            f"{dtype}, but {len(data)} bytes follow"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _announced(content: bytes) -> int:
    """Where the header ends by the length that it states, in two bytes or, since 2.0, in four."""
    start = 10 if content[6:7] == b"\x01" else 12
    return start + int.from_bytes(content[8:start], "little")


@lru_cache(256)  # the arrays of a network have the same few shapes
def _header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version} of the .npy format")
    shape, fortran, dtype = readers[version](file, max_header_size=HEADER)
    return tuple(int(n) for n in shape), bool(fortran), dtype, file.tell()
