"""What the columns of a form look at: all of a source, or a window of it that moves over an image.

The rows of a form on images are channels, the same at each of P positions, and its columns look at
a window of a source: so a composed convolution is one small matrix, however many pixels there are.
Where a window lies is derived here from the plain numbers of a convolution: output (y, x) of kernel
entry (c, i, j) meets the pixel (y·stride + i·dilation − pad, …) of channel c, or a zero outside.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import Floats
from reconstruct.networks import Convolution

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """`index` (columns × positions) says where each column looks, −1 for a zero; None stands for
    the source itself, unit by unit. Two views are equal if they look alike."""

    source: str
    columns: int
    token: bytes = b""
    index: Places | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, source: str, index: Places) -> View:
        places = np.ascontiguousarray(index, dtype=np.int64)
        token = hashlib.sha256(repr(places.shape).encode() + places.tobytes()).digest()
        return cls(source, len(places), token, places)

    def met(self, values: Floats) -> Floats:
        """What the columns meet of numbers of the source's units: (columns, positions), and one
        number for each column where there is one position."""
        if self.index is None:
            return values
        index = self.index[:, 0] if self.index.shape[1] == 1 else self.index
        return np.where(index >= 0, values[index], 0.0)

    @property
    def injective(self) -> bool:
        """Whether no column looks twice at a unit, and no two columns at one from one place."""
        return self.index is None or (_apart(self.index) and _apart(self.index.T))

    def forms(self, rows: Floats, size: int) -> Floats:
        """Rows over the columns as forms over the units, position after position of each row."""
        if self.index is None:
            return rows
        columns, positions = self.index.shape
        whole = np.zeros((len(rows), positions, size + 1))
        where = np.where(self.index >= 0, self.index, size)
        for column in range(columns):
            whole[:, np.arange(positions), where[column]] = rows[:, column, None]
        return whole[:, :, :size].reshape(len(rows) * positions, size)

    def collected(self, coefficients: Floats, size: int) -> Floats:
        """Coefficients (columns × positions × forms) added up at the units that they belong to:
        forms × units."""
        assert self.index is not None
        total = np.zeros((size + 1, coefficients.shape[2]))
        where = np.where(self.index >= 0, self.index, size)
        for column, places in enumerate(where):
            total[places] += coefficients[column]
        return total[:size].T


def _apart(index: Places) -> bool:
    """Whether the places in each column differ, pads aside."""
    order = np.sort(index, axis=0)
    return not ((order[1:] == order[:-1]) & (order[1:] >= 0)).any()


def windows(op: Convolution) -> Places:
    """Where each entry of a kernel looks, (c_in·kh·kw) × positions."""
    g = op.geometry
    rows = _along(g.height, g.kernel[0], g.strides[0], g.dilations[0], g.pads[0], g.pads[2])
    columns = _along(g.width, g.kernel[1], g.strides[1], g.dilations[1], g.pads[1], g.pads[3])
    y, x = rows[:, None, :, None], columns[None, :, None, :]
    flat = np.where((y >= 0) & (x >= 0), y * g.width + x, -1).reshape(
        -1, rows.shape[1] * x.shape[3]
    )
    channels = np.arange(g.channels)[:, None, None] * (g.height * g.width)
    return np.where(flat >= 0, flat + channels, -1).reshape(-1, flat.shape[1])


def _along(size: int, kernel: int, stride: int, dilation: int, first: int, last: int) -> Places:
    """Along one axis: where kernel entry i looks at output p, −1 for a pad."""
    outputs = (size + first + last - dilation * (kernel - 1) - 1) // stride + 1
    place = np.arange(outputs) * stride + np.arange(kernel)[:, None] * dilation - first
    return np.where((place >= 0) & (place < size), place, -1)


def kernel_of(op: Convolution, start: int = 0, stop: int | None = None) -> Floats:
    """One row per output channel over all input channels: zeros between the groups."""
    rows = np.asarray(op.kernel[start:stop], dtype=np.float64)
    rows = rows.reshape(len(rows), -1)
    if op.groups == 1:
        return rows
    each, width = op.channels // op.groups, rows.shape[1]
    whole = np.zeros((len(rows), op.groups * width))
    for number, row in enumerate(rows):
        group = (start + number) // each
        whole[number, group * width : (group + 1) * width] = row
    return whole
