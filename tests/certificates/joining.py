"""Small image networks whose values meet otherwise than channel by channel."""

from __future__ import annotations

import numpy as np

from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Geometry,
    Network,
    Node,
    Placement,
    Relu,
    Scaling,
    SumPool,
)
from reconstruct.networks.operation import Operation

SIDE, PIXELS = 4, 16


class Builder:
    """Nodes one after the other, each on the last one unless it is told otherwise."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.nodes: list[Node] = []

    def add(self, name: str, op: Operation, *inputs: str) -> Builder:
        last = (self.nodes[-1].name,) if self.nodes else ("x",)
        self.nodes.append(Node(name, op, inputs or last))
        return self

    def conv(
        self, name: str, geometry: Geometry, channels: int, *inputs: str, groups: int = 1
    ) -> Builder:
        shape = channels, geometry.channels // groups, *geometry.kernel
        kernel = self.rng.normal(size=shape).astype(np.float32) / 2
        bias = self.rng.uniform(0.1, 0.4, channels).astype(np.float32)
        return self.add(name, Convolution(kernel, geometry, bias, groups), *inputs)

    def pool(self, name: str, geometry: Geometry) -> Builder:
        """The average over windows, pads not counted."""
        op = SumPool(geometry)
        counts = np.tile(op.counts(), geometry.channels)
        self.add(f"{name}/sum", op)
        return self.add(name, Scaling(np.ones(len(counts)), counts))

    def dense(self, size: int) -> Network:
        weight = self.rng.normal(size=(2, size)).astype(np.float32)
        self.add("y", Affine(weight, self.rng.normal(size=2).astype(np.float32)))
        return Network(PIXELS, tuple(self.nodes), "y", "x")

    @classmethod
    def begun(cls) -> Builder:
        """Two channels of 4×4 behind a first convolution."""
        padded = Geometry(1, SIDE, SIDE, (3, 3), (1, 1), (1, 1, 1, 1))
        return cls().conv("c1", padded, 2).add("r1", Relu())


def option_a() -> Network:
    """A shortcut without weights: every second pixel, and zeros for the channels that are new."""
    begun = Builder.begun().conv("c2", Geometry(2, 4, 4, (3, 3), (2, 2), (1, 1, 1, 1)), 4)
    pixels = np.arange(2 * PIXELS).reshape(2, SIDE, SIDE)[:, ::2, ::2].ravel()
    begun.add("sub", Placement(pixels, 2 * PIXELS), "r1")
    begun.add("pad", Placement(np.concatenate([[-1] * 4, np.arange(8), [-1] * 4]), 8))
    begun.add("join", Add(), "c2", "pad").add("r2", Relu())
    return begun.pool("p", Geometry(4, 2, 2, (2, 2))).dense(4)


def linear(kind: str) -> Network:
    """A convolution without an activation, and then a pool or a dense map."""
    begun = Builder.begun().conv("c2", Geometry(2, 4, 4, (2, 2), (1, 1), (0, 1, 1, 0)), 3)
    if kind == "flat":
        return begun.dense(3 * PIXELS)
    if kind == "global":
        return begun.pool("p", Geometry(3, 4, 4, (4, 4))).dense(3)
    if kind == "twice":
        begun.conv("c3", Geometry(3, 4, 4, (3, 3), (1, 1), (1, 0, 0, 1)), 2)
        return begun.dense(2 * 3 * 3)
    return begun.pool("p", Geometry(3, 4, 4, (2, 2), (2, 2))).dense(12)


def concat() -> Network:
    """Two convolutions whose channels are joined."""
    geometry = Geometry(2, 4, 4, (3, 3))
    begun = Builder.begun().conv("a", geometry, 2).conv("b", geometry, 3, "r1")
    spare = np.full(4, -1)
    begun.add("a/part", Placement(np.concatenate([np.arange(8), *[spare] * 3]), 8), "a")
    begun.add("b/part", Placement(np.concatenate([*[spare] * 2, np.arange(12)]), 12), "b")
    begun.add("join", Add(), "a/part", "b/part").add("r2", Relu())
    return begun.pool("p", Geometry(5, 2, 2, (2, 2))).dense(5)


def ceiling() -> Network:
    """Windows that reach beyond the image: their averages are over fewer pixels."""
    begun = Builder.begun()
    return begun.pool("p", Geometry(2, 4, 4, (3, 3), (2, 2), (0, 0, 1, 1))).dense(8)


NETWORKS = {
    "option A": option_a,
    "global": lambda: linear("global"),
    "windows": lambda: linear("windows"),
    "flat": lambda: linear("flat"),
    "twice": lambda: linear("twice"),
    "concat": concat,
    "ceiling": ceiling,
}
