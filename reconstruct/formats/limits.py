"""How much memory a file may ask for: small files can unpack to anything.

A zip member, a gzip'd stream or an ONNX node such as ConstantOfShape says in a few bytes that
gigabytes are wanted. Every such size is taken from one `Budget` before the memory is.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from reconstruct.errors import InputError, UnsupportedError

VARIABLE = "RECONSTRUCT_READ_LIMIT"
DEFAULT = 2**32  # bytes: 4 GiB
VALUE = 8  # bytes of one number in float64
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SHARE = 8  # no single tensor may take more than this part of the limit


def read_limit(limit: int | None = None) -> int:
    """The limit in bytes: as given, else from the environment, else 4 GiB."""
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputError(f"the limit must be a positive whole number of bytes, not {limit!r}")
        return limit
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT
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
        largest = max(self.limit // (VALUE * SHARE), 1)
        if math.prod(shape) > largest:
            raise UnsupportedError(
                f"{what} has shape {_short(shape)}, more than the {largest} values that a tensor "
                f"may have; if that is meant, raise {VARIABLE}"
            )
        return shape


def _shown(size: int) -> str:
    if size < 10**6:
        return f"{size} bytes"
    return f"{size / 1e6:.1f} MB" if size < 10**9 else f"{size / 1e9:.1f} GB"


def _short(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 8 else f"{str(shape[:8])[:-1]}, …)"
