"""Files as bytes: read with clear refusals, written whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.limits import DEFAULT, Budget

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 2**20
LONGEST_NAME = 255  # bytes, as file systems have it; deeper paths are nobody's


def read_bytes(path: Path, limit: int = DEFAULT) -> bytes:
    """The bytes of the file as they are stored; refusals are meant to be raised in `naming`.

    A regular file may be as large as it is; of anything else (a pipe, a device) `limit` bytes
    are read at most.
    """
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode):  # holes of a sparse file cost their maker nothing
                Budget(limit).take(max(found.st_size - 512 * found.st_blocks, 0), "the file")
                stored = file.read()
            else:
                stored = _some(file, limit, "the input")
    except FileNotFoundError:
        raise InputError("there is no such file; check the path") from None
    except IsADirectoryError:
        raise InputError("a file is needed, but this is a directory; name a file in it") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the file cannot be read ({reason})") from None
    if not stored:
        raise InputError("the file is empty; was it written completely?")
    return stored


def _some(file: BinaryIO | gzip.GzipFile, limit: int, what: str) -> bytes:
    """All that the stream gives, refused as soon as it is more than the limit."""
    content, budget = bytearray(), Budget(limit)
    while chunk := file.read(CHUNK):
        budget.take(len(chunk), what)
        content += chunk
    return bytes(content)


def unpacked(stored: bytes, limit: int = DEFAULT) -> bytes:
    """The content of a gzip'd file (known by its first two bytes), anything else as it is."""
    if not stored.startswith(GZIP_MAGIC):
        return stored
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(stored)) as file:
            content = _some(file, limit, "the gzip'd data")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"the gzip'd data is damaged ({error}); was the file cut short? fetch it again"
        ) from None
    if not content:
        raise InputError("the gzip'd file holds nothing")
    return content


def format_suffix(path: Path) -> str:
    """The suffix that names the format, in lower case: `.onnx` for both a.onnx and a.onnx.gz."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix


def sha256_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of the file's bytes as stored, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the name of the file ahead of every refusal raised inside."""
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {_one_line(error)}") from None
    except InputError as error:
        raise InputError(f"{path}: {_one_line(error)}") from None


def _one_line(error: InputError) -> str:
    """The message without what a damaged file could smuggle into a terminal."""
    return "".join(c if c.isprintable() else " " for c in str(error))


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of `path` at the end, and only if nothing failed.

    The bytes go to a temporary file beside it, are flushed to the disk and renamed.
    """
    goal = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{goal.name[:80]}.", dir=goal.parent)
    except OSError as error:
        raise InputError(
            f"{goal}: cannot write into {goal.parent} ({error.strerror}); "
            "make the directory writable, or write elsewhere"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, goal)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise InputError(f"{goal}: the file cannot be written ({error.strerror})") from None
        raise


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes `content` to `path`: afterwards the file is the old one or all of the new one."""
    with written_whole(path) as file:
        file.write(content)


def _umask() -> int:
    """The permissions that new files must not have (mkstemp makes private files)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def as_path(value: Any, what: str) -> Path:
    """The path, given as text or as an object; a sentence for anything else.

    Reports and certificates are UTF-8, so that files must have names that it can write.
    """
    if isinstance(value, str | os.PathLike) and not isinstance(os.fspath(value), bytes):
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{what} has the name {os.fspath(value)!r}, which is not UTF-8; rename it"
            ) from None
        parts = Path(value).parts
        longest = max((len(part.encode()) for part in parts), default=0)
        if longest > LONGEST_NAME or len(parts) > LONGEST_NAME:
            raise InputError(
                f"{what} has a path of {len(parts)} parts of up to {longest} bytes, but both end "
                f"at {LONGEST_NAME}; use a shorter one"
            )
        return Path(value)
    raise InputError(
        f"{what} must be a path, text or pathlib.Path, but is of the type {type(value).__name__}"
    )


def rounded(node: str, key: str, values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The values in `dtype` (None: as they are), refused where they leave its range."""
    if dtype is None:
        return values
    with np.errstate(over="ignore"):
        cast = values.astype(dtype)
    if not np.all(np.isfinite(cast)):
        raise InputError(
            f"node {node!r}: its {key} has entries up to {np.abs(values).max():g}, which do not "
            f"fit into {np.dtype(dtype)}; save it in float64"
        )
    return cast
