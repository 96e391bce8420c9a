"""What the recursion found at one cut, for whoever carries other errors on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.affine import Form, View
from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.windows import Windows
from reconstruct.networks import Node
from reconstruct.networks.activations import Unitwise

Range = tuple[Floats, Floats]


@dataclass(eq=False)
class Step:
    """What was compared at a cut, or at the output: the target's form, |A| and |A' − A| by parts,
    how far the two forms are apart at the target's values, the name and the range of what the cut
    takes; of a cut also the candidate's node and its meaning."""

    name: str
    form: Form
    parts: list[tuple[View, slice]]
    positions: int
    size: Floats
    difference: Floats
    local: Floats
    value: str = ""
    taken: Range | None = None
    node: Node | None = None
    op: Unitwise | None = None
    bend: Bend | Windows | None = None

    @property
    def largest(self) -> Floats:
        """max|z|, z what the cut takes, or the output."""
        assert self.taken is not None
        return np.maximum(np.abs(self.taken[0]), np.abs(self.taken[1]))
