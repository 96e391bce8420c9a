"""Hidden units at given inputs: shown to be on their line, or how far they may be off it.

What a map makes of hidden units is composed with what stands before them, a block of units at a
time. While a block is there, its units are bounded at every input, and what may leave the line is a
doubt of the form (`forms`). So no wide value is ever held.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.balls import Balls
from proofs_check.certificates.columns import Column
from proofs_check.certificates.extremes import Channels, Seen
from proofs_check.certificates.form import Form
from proofs_check.certificates.forms import Forms
from proofs_check.certificates.reachable import Range, Ranges, meet
from proofs_check.certificates.recursion import EDGE, deviation
from reconstruct.networks import Network, Node
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Mixing

BLOCK = 2**8


@dataclass(eq=False)
class At:
    """What is known at one input: values as balls, and floats around them."""

    values: dict[str, Balls]
    near: Ranges
    seen: Seen = field(init=False)

    def __post_init__(self) -> None:
        self.seen = Seen(self.near)

    def know(self, name: str, value: Balls) -> None:
        self.values[name] = value
        self.near.ranges[name] = value.ends()

    def forget(self, name: str) -> None:
        self.values.pop(name, None)
        self.near.ranges.pop(name, None)
        self.seen.forget(name)


def hidden(network: Network, inner: set[str], cuts: set[str]) -> set[str]:
    """Inner activations, and what stands before them back to the first map."""
    nodes = {node.name: node for node in network.nodes}
    found, todo = set[str](), list(inner)
    while todo:
        name = todo.pop()
        if name in found or name not in nodes or (name in cuts and name not in inner):
            continue
        if name not in inner and isinstance(nodes[name].op, Unitwise | MaxPool):
            continue
        found.add(name)
        if not isinstance(nodes[name].op, Mixing):
            todo.extend(nodes[name].inputs)
    return found


class Lines(Forms):
    """Forms in which inner activations are lines, with doubts found when they are asked for."""

    chunk = BLOCK

    def __init__(
        self, network: Network, sources: dict[str, str], inner: set[str], points: list[At]
    ) -> None:
        super().__init__(network, sources)
        self.inner, self.points = inner, points

    def block(self, name: str, start: int, stop: int, positions: int) -> Form:
        """Block by block as forms: doubts are found with them."""
        return self.rows(name, start, stop, positions)

    def rows(self, name: str, start: int, stop: int, positions: int = 1) -> Form:
        if name not in self.inner:
            return super().rows(name, start, stop, positions)
        node = self.nodes[name]
        assert isinstance(node.op, Unitwise)
        form = self.rows(node.inputs[0], start, stop, positions)
        doubt, slope = self._doubt(node, form), node.op.piece.slope
        if slope != 1:
            form = form.scaled(Column.of_floats(np.full(form.rows, slope)))
        return form.shifted(Column.doubt(doubt)) if doubt.any() else form

    def _doubt(self, node: Node, form: Form) -> Floats:
        """How far the rows of a block may be from their line, anywhere at any of the inputs."""
        channels, most = Channels.of(form), np.zeros(form.rows)
        for at in self.points:
            rows = np.flatnonzero(deviation(self, node, channels.at(at.seen)))
            if len(rows):
                part = channels.middle[rows], channels.error[rows]
                doubt = self._closely(node, form.take(rows), part, at.near)
                most[rows] = np.maximum(most[rows], doubt)
        return most

    def _closely(self, node: Node, form: Form, floats: Range, near: Ranges) -> Floats:
        """The same unit by unit, and for some of them by integers: perhaps it was rounding."""
        reached = near.of_form(form, floats)
        doubt = deviation(self, node, reached)
        rows = np.unique(np.flatnonzero(doubt)[:EDGE] // form.positions)
        if len(rows):
            every = (rows[:, None] * form.positions + np.arange(form.positions)).ravel()
            edge = meet([(reached[0][every], reached[1][every]), near.exactly(form.take(rows))], 1)
            doubt[every] = deviation(self, node, edge)
        return np.asarray(doubt.reshape(-1, form.positions).max(axis=1))
