"""Files as bytes and as text: read with clear refusals, written whole or not at all.

How much memory a file may ask for: small files can unpack to anything.

A zip member, a gzip'd stream or an ONNX node such as ConstantOfShape says in a few bytes that
gigabytes are wanted. Every such size is taken from one `Budget` before the memory is.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Box, Network, Points

VARIABLE = "RECONSTRUCT_READ_LIMIT"
VALUE = 8  # bytes of one number in float64
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Limits:
    """How much a file may ask for: beyond, it was written to do harm, or by mistake."""

    memory: int = 2**32  # bytes it may unpack to, unless RECONSTRUCT_READ_LIMIT says otherwise
    share: int = 8  # no single tensor may take more than this part of the memory
    chunk: int = 2**20  # bytes that are read at once from what is no regular file
    name: int = 255  # bytes of a name, as file systems have it, and parts of a path
    decimal: int = 1000  # characters of a decimal number
    sentence: int = 1500  # characters of a refusal: it names parts of the file as that names them
    digits: int = 18  # of whole numbers in JSON: sizes and indices fit, and no more is needed
    index: int = 9  # digits of an input's index: a network with more inputs fits nowhere
    nesting: int = 200  # parentheses: no property that anybody wrote goes deeper
    header: int = 2**16  # bytes of an .npy header, beyond what any array of numbers needs
    message: int = 2**29  # bytes of weights in one ONNX file: protobuf ends at 2 GiB, and holds
    # them several times in memory while it writes and reads them
    beside: int = 2**10  # bytes; smaller tensors stay in the model
    narrow: int = 2**16  # float32 numbers that a float64 file stores as they are, with a Cast
    shown: int = 2**12  # values of a constant that ONNX's shape inference is shown (axes, sizes)
    products: int = 2**16  # of a constant matrix product, which are added up as fractions
    dense: int = 2**18  # entries up to which diagonal and 0/1 matrices are stored dense
    spread: int = 2**22  # entries up to which a flattened product is stored dense


LIMITS = Limits()


def read_limit(limit: int | None = None) -> int:
    """The limit in bytes: as given, else from the environment, else 4 GiB."""
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputError(f"the limit must be a positive whole number of bytes, not {limit!r}")
        return limit
    text = os.environ.get(VARIABLE, "")
    if not text:
        return LIMITS.memory
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) > 0):
        raise InputError(f"{VARIABLE} must be a positive whole number of bytes, not {text[:40]!r}")
    return int(text)


def memory_size(text: str, option: str = "--memory") -> int:
    """Bytes from words such as 2G or 1500M (powers of 1024)."""
    words = r"([0-9]{1,15}(?:\.[0-9]{1,15})?) *([KMGT]?)(?:i?B)?"
    found = re.fullmatch(words, text.strip(), re.IGNORECASE)
    if found is None:
        raise InputError(f"{option} must be a size such as 2G or 1500M, but is {text[:40]!r}")
    return int(float(found[1]) * UNITS[found[2].upper()])


@dataclass(eq=False)
class Budget:
    """Bytes that may be taken while one file is read, and those that have been."""

    limit: int
    taken: int = 0

    def take(self, size: int, what: str) -> None:
        """Counts `size` bytes, or refuses `what` before they are taken."""
        if self.taken + size > self.limit:
            raise InputError(
                f"{what} would bring the memory that the file takes to "
                f"{_shown(self.taken + size)}, more than the limit of {_shown(self.limit)}; if "
                f"that is meant, raise {VARIABLE}"
            )
        self.taken += size

    def tensor(self, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
        """The shape, unless a tensor of it is too large to be worked with as one vector."""
        largest = max(self.limit // (VALUE * LIMITS.share), 1)
        if math.prod(shape) > largest:
            raise UnsupportedError(
                f"{what} has shape {_short(shape)}, more than the {largest} values that a tensor "
                f"may have; if that is meant, raise {VARIABLE}"
            )
        return shape


@dataclass(frozen=True, eq=False)
class Around:
    """What reading a network may need besides the bytes of its file.

    What is read is compared in the domain `near`, or may stand `unchecked`, and large weights that
    the network `held` has are not held twice.
    """

    folder: Path
    budget: Budget
    nnet_header: bool = False
    near: Box | Points | None = None
    unchecked: bool = False
    held: Network | None = None


def _shown(size: int) -> str:
    if size < 10**6:
        return f"{size} bytes"
    return f"{size / 1e6:.1f} MB" if size < 10**9 else f"{size / 1e9:.1f} GB"


def _short(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 8 else f"{str(shape[:8])[:-1]}, …)"


# --- files ---

GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: Path, limit: int = LIMITS.memory) -> bytes:
    """The bytes of the file as they are stored; refusals are meant to be raised in `naming`.

    A regular file may be as large as it is; of a pipe `limit` bytes are read at most. Devices,
    which need not end, are refused.
    """
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
                raise InputError("a file is needed, but this is a device; name a file")
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
    while chunk := file.read(LIMITS.chunk):
        budget.take(len(chunk), what)
        content += chunk
    return bytes(content)


def unpacked(stored: bytes, limit: int = LIMITS.memory) -> bytes:
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


def contents(path: Path) -> tuple[bytes, Budget]:
    """What the file holds, unpacked, and what memory it may ask for besides."""
    most = read_limit()
    content = unpacked(read_bytes(path, most), most)
    return content, Budget(max(most, len(content)))


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
        while chunk := file.read(LIMITS.chunk):
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
    """The message without what a damaged file could smuggle into a terminal, and without the middle
    where the names in it make it long."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    half = LIMITS.sentence // 2
    return text if len(text) <= 2 * half else f"{text[:half]} … {text[-half:]}"


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
        if longest > LIMITS.name or len(parts) > LIMITS.name:
            raise InputError(
                f"{what} has a path of {len(parts)} parts of up to {longest} bytes, but both end "
                f"at {LIMITS.name}; use a shorter one"
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
        raise UnsupportedError(
            f"node {node!r}: its {key} has entries up to {np.abs(values).max():g}, which do not "
            f"fit into {np.dtype(dtype)}; save it in float64"
        )
    return cast


# --- text -----------------------------------------------------------------------------------------
#
# Texts with one meaning: ASCII numbers, lines that end at \n or \r\n, JSON names said once.
# Python's `float` takes "1_0" for ten and digits of other scripts, and `str.splitlines` ends lines
# at form feeds; other programs do not. What two programs would read differently is refused.

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def decimal(text: str) -> float:
    """The float64 nearest to a decimal number in ASCII digits; ValueError for anything else."""
    if len(text) > LIMITS.decimal or not NUMBER.fullmatch(text):
        raise ValueError(f"{text[:24]!r} is not a decimal number")
    return float(text)


def text_of(content: bytes, what: str) -> str:
    """The text in these bytes, without control characters beside tab and the ends of lines."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{what} is text, but this one holds binary data") from None
    strange = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029]|\r(?!\n)", text)
    if strange is not None:
        raise InputError(
            f"{what} has lines that end at \\n or \\r\\n, but this one holds the character "
            f"{strange[0]!r}, which some programs take for the end of a line; remove it"
        )
    return text


def parse_json(text: str, what: str) -> Any:
    """JSON whose names are said once in each object, and whose numbers float64 comes near to."""
    try:
        return json.loads(
            text,
            parse_float=lambda literal: _float(literal, what),
            parse_int=lambda literal: _integer(literal, what),
            parse_constant=lambda literal: _infinite(literal, what),
            object_pairs_hook=lambda pairs: _object(pairs, what),
        )
    except RecursionError:
        raise InputError(f"{what} is malformed (nested too deeply)") from None


def _object(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what} says {twice!r} twice; leave one of them out")
    return found


def _float(literal: str, what: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise InputError(f"the number {_abridged(literal)} of {what} does not fit into float64")
    return value


def _integer(literal: str, what: str) -> int:
    if len(literal) > LIMITS.digits:
        raise InputError(
            f"the number {_abridged(literal)} of {what} has more than {LIMITS.digits} digits"
        )
    return int(literal)


def _infinite(literal: str, what: str) -> float:
    """Infinity and −Infinity, the open ends of a Clip; NaN is no number."""
    if literal == "NaN":
        raise InputError(f"{what} holds NaN, which is no number")
    return float(literal)


def _abridged(literal: str) -> str:
    return literal if len(literal) <= 24 else f"{literal[:20]}…"
