"""What all parts of the reader share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.generic]  # a tensor of the file, in its own type


class NotPlain(Exception):
    """The file is not one of those that are read here."""
