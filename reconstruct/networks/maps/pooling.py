"""Sums over windows: average pooling is one, followed by a division that a `Scaling` keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.networks.maps.convolution import Convolution, Geometry
from reconstruct.networks.operation import register
from reconstruct.numbers.arrays import Array


class SumPool(Convolution):
    """The sum over each window of each channel: a convolution with ones, each channel alone.

    Inside a frozen network it stands where it stands in the target: there is nothing to rebuild.
    """

    kind = "SumPool"
    fixed = True

    def __init__(self, geometry: Geometry) -> None:
        kernel = np.ones((geometry.channels, 1, *geometry.kernel), dtype=np.float32)
        super().__init__(kernel, geometry, None, geometry.channels)

    @property
    def weights(self) -> int:
        return 0

    @property
    def nonzeros(self) -> int:
        return 0

    @property
    def parameters(self) -> int:
        return 0

    def counts(self) -> Array:
        """How many pixels of the image, pads apart, each window sums: (positions,)."""
        ones = np.ones((1, self.geometry.size))
        return np.asarray(self.linear(ones)[0][: self.positions])

    def arrays(self) -> dict[str, Array]:
        return {}

    def settings(self) -> dict[str, Any]:
        return self.geometry.settings()


register("SumPool", lambda part, settings: SumPool(Geometry.of(settings)))
