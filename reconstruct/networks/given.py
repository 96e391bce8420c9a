"""What callers hand over, taken as it is meant or refused with what to do."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.graph import Network


def as_network(value: object, role: str) -> Network:
    """The network, or a sentence that says how to come to one."""
    if isinstance(value, Network):
        return value
    if isinstance(value, str | os.PathLike):
        remedy = f"rc.load({os.fspath(value)!r}) reads a file"
    elif isinstance(getattr(value, "network", None), Network):
        remedy = "give its .network"
    elif hasattr(value, "state_dict"):
        remedy = "rc.from_torch(module, example) reads a torch module"
    else:
        remedy = "rc.load reads one from a file, rc.Network.mlp makes one of weights"
    raise InputError(
        f"{role} must be a Network, but is of the type {type(value).__name__}; {remedy}"
    )


def as_precision(dtype: Any, what: str) -> np.dtype[Any]:
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
    precision: np.dtype[Any] = np.dtype(found)
    return precision
