"""Random small networks of every kind of node, and awkward boxes, from a seed."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Clip,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
    Select,
)

SCALES = (1.0, 1.0, 1.0, 1e-8, 1e8, 1e-160, 1e150, 1e-300, 1e300)


def random_network(rng: np.random.Generator) -> Network:
    """A few layers with skips, selections and norms; sometimes of wild scale, sparse or dead."""
    size = int(rng.integers(1, 5))
    nodes: list[Node] = []
    sizes = {"input": size}
    scale = SCALES[int(rng.integers(len(SCALES)))] if rng.random() < 0.3 else 1.0
    for i in range(int(rng.integers(1, 8))):
        inputs = list(sizes)
        last = inputs[-1] if rng.random() < 0.7 else inputs[int(rng.integers(len(inputs)))]
        op, feeds = _random_op(rng, last, sizes, scale)
        node = Node(f"n{i}", op, feeds)
        nodes.append(node)
        sizes[node.name] = Network(size, tuple(nodes), node.name).sizes[node.name]
    return Network(size, tuple(nodes), nodes[-1].name)


def _random_op(rng, last, sizes, scale):
    size = sizes[last]
    kind = rng.choice(
        ["affine", "affine", "relu", "relu", "leaky", "clip", "norm", "add", "select"]
    )
    if kind == "affine":
        return _affine(rng, size, scale), (last,)
    if kind == "relu":
        return Relu(), (last,)
    if kind == "leaky":
        return LeakyRelu(float(rng.choice([0.01, 0.5, 1.0, 2.5, -0.25]))), (last,)
    if kind == "clip":
        return Clip(*np.sort(rng.normal(size=2)).tolist()), (last,)
    if kind == "norm":
        return _norm(rng, size), (last,)
    if kind == "select":
        start = int(rng.integers(size))
        return Select(start, int(rng.integers(start + 1, size + 1))), (last,)
    same = [name for name, other in sizes.items() if other == size]
    return Add(), (last, str(rng.choice(same)))


def _affine(rng, size, scale):
    rows = int(rng.integers(1, 6))
    weight = rng.normal(size=(rows, size)) * scale
    weight[rng.random(weight.shape) < 0.2] = 0.0
    weight[rng.random(weight.shape) < 0.05] = -0.0
    if rng.random() < 0.2:
        weight *= (
            np.array(SCALES)[rng.integers(len(SCALES), size=(rows, 1))] / 10
            if scale < 1e100
            else 1.0
        )
    if rng.random() < 0.2:
        weight = weight.astype(np.float32) if np.abs(weight).max() < 1e30 else weight
    bias = rng.normal(size=rows) * rng.choice([0.0, 1.0, 1.0, -20.0])
    return Affine(sparse.csr_array(weight) if rng.random() < 0.2 else weight, bias)


def _norm(rng, size):
    """`var + eps` is the square of a small dyadic number, so that its root is rational."""
    eps = float(rng.choice([2.0**-17, 2.0**-10]))
    roots = rng.choice([1.0, 1.0, 1.5, 3.0, 0.75, 0.109375], size=size)
    mean = rng.normal(size=size) * rng.choice([0.0, 1.0, 1e6])
    return Norm(rng.normal(size=size), rng.normal(size=size), mean, roots**2 - eps, eps)


def random_box(rng: np.random.Generator, size: int) -> Box:
    """Usual boxes, points, boxes with some flat sides, boxes that start at a signed zero."""
    centre = rng.normal(size=size) * rng.choice([0.0, 1.0, 100.0])
    radius = rng.random(size) * rng.choice([0.0, 1e-12, 0.5, 3.0])
    radius[rng.random(size) < 0.2] = 0.0
    if rng.random() < 0.2:
        return Box(np.full(size, -0.0), radius)
    return Box(centre - radius, centre + radius)


def points_of(box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([box.corners(16, rng), box.sample(count, rng)])
