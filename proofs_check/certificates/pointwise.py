"""For these N inputs: both networks evaluated beyond float64, and their outputs compared.

Every value is a ball (`balls`). What stands between two cuts of the candidate is wide, and rebuilt
there by cancellation: evaluated node by node its radius would explode. So a map behind hidden
activations is composed with what stands before them, exactly (`forms`), after it was shown at each
input that no hidden unit leaves its line, or by how much. Where the candidate is cut is a hint of
the certificate: any choice is sound.

Rests on proofs_check: layerwise-to-network, exact-splitting, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.balls import Applied, Balls
from proofs_check.certificates.claims import Claims, covers
from proofs_check.certificates.columns import columns_of
from proofs_check.certificates.form import Form
from proofs_check.certificates.hidden import At, Lines, hidden
from proofs_check.certificates.reachable import Ranges
from proofs_check.certificates.recursion import needed
from proofs_check.certificates.report import CheckFailed
from proofs_check.certificates.windows import Windows
from reconstruct.networks import Network, Node
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Norm, Placement, Select
from reconstruct.networks.operation import Add

BITS = (192, 640)  # binary digits behind the point; more of them if the first do not decide
BATCH = 32  # inputs whose values are held together


def prove_at_points(claims: Claims, target: Network, candidate: Network) -> None:
    """The claimed bound holds at every input of the domain."""
    if any((box.lo != box.hi).any() for box in claims.domain):
        raise CheckFailed("method", "a proof input by input is for inputs without a box around")
    cuts = {theirs for _, theirs in claims.alignment}
    points = np.stack([box.lo for box in claims.domain])
    for start in range(0, len(points), BATCH):
        part = points[start : start + BATCH]
        for bits in BITS:
            ours = Evaluation(target, set(), part, bits).outputs()
            theirs = Evaluation(candidate, cuts, part, bits).outputs()
            least, most = (
                float(np.max(ends))
                for ends in zip(
                    *(a.apart(b) for a, b in zip(ours, theirs, strict=True)), strict=True
                )
            )
            if claims.bound is None or most <= claims.bound or least > claims.bound:
                break
        covers("bound", claims.bound, most)


class Evaluation:
    """A network at some inputs; without `cuts` no activation is a hidden one."""

    def __init__(self, network: Network, cuts: set[str], points: Floats, bits: int) -> None:
        self.network, self.bits, self.used = network, bits, needed(network)
        acting = [n for n in network.nodes if isinstance(n.op, Unitwise) and n.name in self.used]
        inner = {node.name for node in acting if cuts and node.name not in cuts}
        self.hidden = hidden(network, inner, cuts)
        self.points = [At({}, Ranges(network.source, x, x)) for x in points]
        for at, x in zip(self.points, points, strict=True):
            at.know(network.source, Balls.of(x, 0.0, bits))
        known = {n: n for n in network.sizes if n not in self.hidden}
        self.forms = Lines(network, known, inner, self.points)

    def outputs(self) -> list[Balls]:
        """The output at each input."""
        last = self._last_looks()
        for place, node in enumerate(self.network.nodes):
            if node.name in self.used and node.name not in self.hidden:
                self._know(node)
                for name in [name for name, look in last.items() if look == place]:
                    for at in self.points:
                        at.forget(name)
        output = self.network.output
        if output in self.hidden:
            return self._composed(self.forms.whole(output, self.forms.positions(output)))
        return [at.values[output] for at in self.points]

    def _know(self, node: Node) -> None:
        """The value of a node that is not hidden, at each input."""
        if isinstance(node.op, Unitwise | MaxPool):
            found: Iterable[Balls] = self._behind(node, node.op)
        elif isinstance(node.op, Mixing) or any(name in self.hidden for name in node.inputs):
            assert self.forms.pixels is not None
            found = self._composed(self.forms.own(node, self.forms.pixels.own(node.name)))
        else:
            found = self._moved(node)
        for at, value in zip(self.points, found, strict=True):
            at.know(node.name, value)

    def _composed(self, form: Form) -> list[Balls]:
        applied = Applied.of(form, self.bits)
        return [applied(at.values) for at in self.points]

    def _taken(self, name: str) -> list[Balls]:
        if name in self.hidden:
            return self._composed(self.forms.whole(name, self.forms.positions(name)))
        return [at.values[name] for at in self.points]

    def _behind(self, node: Node, op: Unitwise | MaxPool) -> Iterable[Balls]:
        (name,) = node.inputs
        if isinstance(op, MaxPool):
            windows = Windows(op, self.network.sizes[name])
            return [value.greatest(windows) for value in self._taken(name)]
        bend = self.forms.bend(node)
        return [value.bent(bend) for value in self._taken(name)]

    def _moved(self, node: Node) -> Iterable[Balls]:
        """Sums and maps that take each unit on its own."""
        op, taken = node.op, [self._taken(name) for name in node.inputs]
        if isinstance(op, Add):
            return [_sum(values) for values in zip(*taken, strict=True)]
        if isinstance(op, Diagonal):
            each = op.positions if isinstance(op, Norm) else 1
            scale, shift = (c.repeated(each) for c in columns_of(op, None, self.bits, each))
            return [value.scaled(scale, shift) for value in taken[0]]
        if isinstance(op, Select):
            return [value.placed(np.arange(op.start, op.stop)) for value in taken[0]]
        if isinstance(op, Placement):
            return [value.placed(op.index) for value in taken[0]]
        return self._composed(self.forms.own(node))

    def _last_looks(self) -> dict[str, int]:
        """The place of the last node that looks at a value, through hidden ones too."""
        last: dict[str, int] = {}
        looks: dict[str, set[str]] = {}
        for place, node in enumerate(self.network.nodes):
            seen = {name for i in node.inputs for name in looks.get(i, {i})}
            if node.name in self.hidden:
                looks[node.name] = seen
            else:
                last |= dict.fromkeys(seen, place)
        kept = looks.get(self.network.output, {self.network.output})
        return {name: place for name, place in last.items() if name not in kept}


def _sum(values: tuple[Balls, ...]) -> Balls:
    total = values[0]
    for value in values[1:]:
        total = total.plus(value)
    return total
