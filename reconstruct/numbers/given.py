"""Numbers and arrays that callers hand over: taken as they are, or refused in one sentence."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.numbers.arrays import Array

LARGEST_WHOLE = 2**53  # up to here float64 holds every whole number


def number(value: Any, what: str) -> float:
    """The number (NaN and infinity included); words, lists and truth values are refused."""
    if type(value) not in (bool, np.bool_) and isinstance(value, Real):
        return float(value)
    raise InputError(f"{what} must be a number, but is {_shown(value)}{_unquoted(value)}")


def whole(value: Any, what: str) -> int:
    """The whole number, also where it is written as a float without a fraction."""
    found = number(value, what)
    if found != np.floor(found) or not np.isfinite(found):  # NaN is not even itself
        raise InputError(f"{what} must be a whole number, but is {value!r}")
    return int(value)


def at_least(value: Any, what: str, least: float) -> None:
    """Refuses what is no finite number of at least `least`; None stands for "not given"."""
    if value is None:
        return
    found = number(value, what)
    if not (np.isfinite(found) and found >= least):
        raise InputError(f"{what} must be a finite number of at least {least:g}, but is {value}")


def numbers(values: Any, what: str, dtype: Any = np.float64) -> Array:
    """An array of these numbers, the caller's own where it is one."""
    try:
        if not np.iscomplexobj(values):  # numpy would drop the imaginary parts
            return np.asarray(values, dtype)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers, but are {_shown(values)}") from None
    raise InputError(f"{what} must be real numbers, but are complex; give their real part")


def representable(values: Array, what: str) -> Array:
    """The array, refused where float64 would round it: longer floats, and large whole numbers."""
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        raise InputError(f"{what} has {values.dtype}, which float64 cannot hold; save float64")
    if values.dtype.kind in "iu":
        beyond = values[(values > LARGEST_WHOLE) | (values < -LARGEST_WHOLE)]
        if beyond.size:
            raise InputError(
                f"{what} needs whole numbers of at most 2^53, which float64 holds, but has "
                f"{beyond[0]}; save float64"
            )
    return values


def precision(dtype: Any, what: str) -> np.dtype[Any]:
    """float32 or float64: no claim is made for other precisions."""
    try:
        found = np.dtype(dtype).name
    except TypeError:
        found = ""
    if dtype is None or found not in ("float32", "float64"):
        name = getattr(dtype, "__name__", dtype)
        raise InputError(
            f"{what} in float32 or float64, but the dtype is {name}: no claim is made for other "
            f"precisions"
        )
    chosen: np.dtype[Any] = np.dtype(found)
    return chosen


def _shown(value: Any) -> str:
    """The value as one would type it, shortened, and its type."""
    text = repr(value)
    text = text if len(text) <= 40 and "\n" not in text else f"{text.splitlines()[0][:37]}…"
    return f"{text} of the type {type(value).__name__}"


def _unquoted(value: Any) -> str:
    """The advice for a number between quotes."""
    try:
        float(value) if isinstance(value, str) else float("")
    except ValueError:
        return ""
    return f"; write {value.strip()} without quotes"
