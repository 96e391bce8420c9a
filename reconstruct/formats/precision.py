"""Numbers rounded to the precision of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError


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
