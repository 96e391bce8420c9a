"""What float16 and bfloat16 would do to a network: measured, and nothing promised.

Weights, norms and values are numbers of the short format; a map adds its products in float32, as
hardware for these formats does, and rounds what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import Row
from reconstruct.networks import Box, Network
from reconstruct.networks.operation import KINDS, Operation

Array = NDArray[Any]
SAMPLES = 200


def float16(values: Array) -> Array:
    """The nearest numbers of 11 binary digits, up to 65,504; infinite beyond."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def bfloat16(values: Array) -> Array:
    """The nearest numbers of 8 binary digits, as many exponents as float32 has."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(values), kept.view(np.float32), values.astype(np.float32))


FORMATS: Mapping[str, Callable[[Array], Array]] = {"float16": float16, "bfloat16": bfloat16}


def half_errors(target: Network, network: Network, box: Box) -> Row:
    """The largest |f − g| and |g − g| at some inputs, f and g evaluated in each short format."""
    x = box.sample(SAMPLES, np.random.default_rng(0))
    found: Row = {}
    for name, short in FORMATS.items():
        exact = target(short(x).astype(np.float64))
        for word, one in ((f"{name}_error", network), (f"target_{name}_error", target)):
            gap = float(np.max(np.abs(_evaluated(one, x, short) - exact)))
            found[word] = gap if np.isfinite(gap) else None
    return found


def _evaluated(network: Network, x: Array, short: Callable[[Array], Array]) -> Array:
    values = {network.source: short(x)}
    with np.errstate(all="ignore"):
        for node in network.nodes:
            inputs = (values[name] for name in node.inputs)
            values[node.name] = short(_rounded(node.op, short)(*inputs))
    return values[network.output].astype(np.float64)


def _rounded(op: Operation, short: Callable[[Array], Array]) -> Operation:
    """The operation with its numbers in the short format."""
    arrays = op.arrays()
    return KINDS[op.kind](partial(_part, arrays, short), op.settings()) if arrays else op


def _part(arrays: Mapping[str, Array], short: Callable[[Array], Array], key: str) -> Array:
    part = arrays[key]
    return short(part).astype(np.float64) if part.dtype.kind == "f" else part  # indices stay
