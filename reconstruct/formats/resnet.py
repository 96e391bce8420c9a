"""State dicts of CIFAR ResNets as .npz archives: `conv1`, `bn1`, `layer1.0.conv1` … `linear`.

The names and shapes of the arrays say all of the architecture but three things, which are those of
the networks that people train: images of 32 × 32 pixels, norms with torch's eps of 1e-5, and blocks
that change the number of channels halve the image (stride 2). A block without shortcut arrays has
the identity, or, where the sizes change, every other pixel with zero channels on either side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Geometry,
    Network,
    Node,
    Norm,
    Operation,
    Placement,
    Relu,
    Scaling,
    SumPool,
)
from reconstruct.networks.maps.norm import KEYS

Arrays = Mapping[str, NDArray[Any]]


def looks_like(arrays: Arrays) -> bool:
    """Whether the arrays have the names of a ResNet's state dict."""
    keys = {key.removeprefix("module.") for key in arrays}
    return "conv1.weight" in keys and any(
        re.match(r"layer\d+\.\d+\.conv1\.weight", k) for k in keys
    )


def read_resnet(arrays: Arrays) -> Network:
    """The network of the arrays."""
    state = {key.removeprefix("module."): value for key, value in arrays.items()}
    return _Builder(state).network()


def blocks(state: Arrays) -> list[str]:
    """The prefixes of the residual blocks, in order."""
    found = {m.group(1) for key in state if (m := re.match(r"(layer\d+\.\d+)\.", key))}
    return sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])


class _Builder:
    side = 32  # pixels
    eps = 1e-5  # torch's BatchNorm

    def __init__(self, state: Arrays) -> None:
        self.state = state
        self.nodes: list[Node] = []
        self.used: set[str] = set()
        self.colours = int(self.array("conv1.weight").shape[1])
        self.image = (self.colours, self.side, self.side)

    def array(self, key: str) -> NDArray[Any]:
        if key not in self.state:
            raise InputError(f"the state dict of a ResNet lacks the array {key!r}")
        self.used.add(key)
        return self.state[key]

    def emit(self, name: str, op: Operation, *inputs: str) -> str:
        self.nodes.append(Node(name, op, inputs))
        return name

    def network(self) -> Network:
        size = int(np.prod(self.image))
        last = self.emit("relu1", Relu(), self.convolved("conv1", "bn1", "input", 1))
        for block in blocks(self.state):
            last = self.block(block, last)
        channels, height, width = self.image
        pool = SumPool(Geometry(channels, height, width, (height, width)))
        total = self.emit("mean/sum", pool, last)
        mean = Scaling(np.ones(channels), np.full(channels, float(height * width)))
        last = self.emit("mean", mean, total)
        head = "linear" if "linear.weight" in self.state else "fc"
        linear = Affine(self.array(f"{head}.weight"), self.array(f"{head}.bias"))
        self.emit(head, linear, last)
        unused = set(self.state) - self.used - {k for k in self.state if "num_batches" in k}
        if unused:
            raise UnsupportedError(f"a ResNet has no array {sorted(unused)[0]!r}")
        metadata = {"input_shape": [1, self.colours, self.side, self.side]}
        return Network(size, tuple(self.nodes), head, "input", metadata)

    def block(self, name: str, source: str) -> str:
        before = self.image
        stride = 1 if self.array(f"{name}.conv1.weight").shape[0] == before[0] else 2
        first = self.convolved(f"{name}.conv1", f"{name}.bn1", source, stride)
        inner = self.emit(f"{name}.relu1", Relu(), first)
        second = self.convolved(f"{name}.conv2", f"{name}.bn2", inner, 1)
        around = self.shortcut(name, source, before, stride)
        total = self.emit(f"{name}.add", Add(), second, around)
        return self.emit(f"{name}.relu2", Relu(), total)

    def shortcut(self, name: str, source: str, before: tuple[int, int, int], stride: int) -> str:
        for key in (f"{name}.shortcut", f"{name}.downsample"):
            if f"{key}.0.weight" in self.state:
                after, self.image = self.image, before
                made = self.convolved(f"{key}.0", f"{key}.1", source, stride)
                assert self.image == after
                return made
        if self.image == before:
            return source
        index = _subsampled(before, self.image[0])
        return self.emit(f"{name}.shortcut", Placement(index.ravel(), int(np.prod(before))), source)

    def convolved(self, conv: str, norm: str, source: str, stride: int) -> str:
        kernel = self.array(f"{conv}.weight")
        if kernel.ndim != 4 or kernel.shape[1] != self.image[0]:
            raise InputError(
                f"array '{conv}.weight' must be a kernel with {self.image[0]} input channels, but "
                f"has shape {kernel.shape}"
            )
        pad = kernel.shape[2] // 2
        window = (int(kernel.shape[2]), int(kernel.shape[3]))
        geometry = Geometry(*self.image, window, (stride, stride), (pad,) * 4)
        offsets = self.state.get(f"{conv}.bias")
        if offsets is not None:
            self.used.add(f"{conv}.bias")
        op = Convolution(kernel, geometry, offsets)
        self.image = op.out_shape
        gamma, beta, mean, var = (self.array(f"{norm}.{key}") for key in KEYS)
        made = self.emit(conv, op, source)
        return self.emit(norm, Norm(gamma, beta, mean, var, self.eps, op.positions), made)


def _subsampled(before: tuple[int, int, int], channels: int) -> NDArray[Any]:
    """Every other pixel, and zero channels before and after, as places (−1 for none)."""
    places = np.arange(int(np.prod(before))).reshape(before)[:, ::2, ::2]
    extra = channels - before[0]
    return np.pad(places, ((extra // 2, extra - extra // 2), (0, 0), (0, 0)), constant_values=-1)
