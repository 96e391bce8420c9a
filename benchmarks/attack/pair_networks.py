"""Random networks as graphs, and relatives of them: equal, nearly equal, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from reconstruct.networks import (
    Activation,
    Add,
    Affine,
    Box,
    Cast,
    Clip,
    Convolution,
    Dense,
    Elu,
    Geometry,
    LeakyRelu,
    MaxPool,
    Network,
    Node,
    Norm,
    Operation,
    Relu,
    Scaling,
    Select,
    Selu,
    SumPool,
)
from reconstruct.networks.normal_form import fold_norms

Generator = np.random.Generator

ACTIVATIONS: tuple[Activation, ...] = (
    *[Relu()] * 8,
    *(LeakyRelu(slope) for slope in (0.1, 2.5, -1.0)),
    *(Clip(*ends) for ends in ((-1.0, 1.0), (0.0, 6.0), (1.0, 2.0), (-np.inf, 0.5))),
    *(Elu(), Elu(-0.5), Selu()),
)
SCALES = (1.0, 1.0, 1.0, 1e-3, 30.0, 1e6, 1e-30)


def draw_network(rng: Generator) -> Network:
    """A small graph: maps, norms, factors, selections and sums in any order, one output."""
    size = int(rng.integers(1, 4))
    sizes, nodes = {"input": size}, list[Node]()
    for step in range(int(rng.integers(2, 9))):
        source = str(rng.choice(list(sizes)[-3:]))
        op = _operation(rng, sizes[source])
        same = [name for name in sizes if sizes[name] == sizes[source]]
        inputs: tuple[str, ...] = (source,)
        if rng.random() < 0.15 and len(same) > 1:
            op, inputs = Add(), (source, str(rng.choice(same)))
        name = f"n{step}"
        nodes.append(Node(name, op, inputs))
        sizes[name] = op.size(*(sizes[i] for i in inputs))
    last = Node("end", _map(rng, sizes[nodes[-1].name]), (nodes[-1].name,))
    return Network(size, (*nodes, last), "end")


def draw_image_network(rng: Generator) -> Network:
    """Two convolutions or pools with activations between them, and a map to the end."""
    image = (int(rng.integers(1, 3)), int(rng.integers(2, 5)), int(rng.integers(2, 5)))
    nodes, last, shape = list[Node](), "input", image
    for step in range(2):
        op = _windows(rng, *shape)
        shape = op.out_shape
        bend = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
        for name, made in ((f"w{step}", op), (f"a{step}", bend)):
            nodes.append(Node(name, made, (last,)))
            last = name
    end = Node("end", _map(rng, int(np.prod(shape))), (last,))
    return Network(int(np.prod(image)), (*nodes, end), "end")


def _windows(rng: Generator, channels: int, height: int, width: int) -> Convolution | MaxPool:
    kernel = (int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1)))
    pads = tuple(int(n) for n in rng.integers(0, 2, 4)) if rng.random() < 0.5 else (0, 0, 0, 0)
    strides = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    place = Geometry(channels, height, width, kernel, strides, pads)  # type: ignore[arg-type]
    word = rng.choice(["map", "sum", "largest"], p=[0.7, 0.15, 0.15])
    if word == "sum":
        return SumPool(place)
    if word == "largest" and not any(pads):
        return MaxPool(place)
    count = int(rng.integers(1, 4))
    weight = rng.standard_normal((count, channels, *kernel))
    return Convolution(weight, place, rng.standard_normal(count))


def _operation(rng: Generator, k: int) -> Operation:
    words = ["map", "bend", "norm", "factor", "pick", "cast"]
    word = rng.choice(words, p=[0.38, 0.38, 0.1, 0.06, 0.04, 0.04])
    if word == "cast":
        return Cast(k, int(rng.choice([8, 11, 24])))
    if word == "bend":
        return ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
    if word == "norm":
        mean, var = rng.standard_normal(k), rng.random(k) + rng.choice([1e-9, 0.1, 3.0])
        return Norm(rng.standard_normal(k), rng.standard_normal(k), mean, var, 1e-5)
    if word == "factor":
        return Scaling(rng.standard_normal(k), rng.integers(1, 9, k), rng.standard_normal(k))
    if word == "pick" and k > 1:
        start = int(rng.integers(0, k - 1))
        return Select(start, int(rng.integers(start + 1, k + 1)))
    return _map(rng, k)


def _map(rng: Generator, k: int) -> Operation:
    m = int(rng.integers(1, 6))
    scale = SCALES[int(rng.integers(len(SCALES)))]
    weight = scale * rng.standard_normal((m, k)) * (rng.random((m, k)) < 0.9)
    return Affine(weight, scale * rng.standard_normal(m) * rng.choice([0.0, 1.0]))


def draw_box(rng: Generator, size: int) -> Box:
    """Wide or narrow, off centre, and sometimes without width in a coordinate."""
    centre = rng.choice([0.0, 0.0, 1.0, -50.0]) + rng.standard_normal(size)
    radius = rng.choice([1e-6, 0.1, 1.0, 10.0]) * rng.random(size) * (rng.random(size) > 0.1)
    return Box((centre - radius).astype(np.float32), (centre + radius).astype(np.float32))


# --- relatives ------------------------------------------------------------------------------------


def renamed(network: Network, rng: Generator) -> Network:
    """The same under other names."""
    names = {node.name: f"{node.name}.other" for node in network.nodes}
    nodes = tuple(
        Node(names[n.name], n.op, tuple(names.get(i, i) for i in n.inputs)) for n in network.nodes
    )
    return Network(network.size_in, nodes, names[network.output], network.source)


def folded(network: Network, rng: Generator) -> Network:
    """Norms folded into maps, with the rounding that this costs."""
    return fold_norms(network)


def _inner(network: Network) -> list[tuple[Node, Node, Node]]:
    """Maps, an activation behind, and a map behind that, with nothing else between them."""
    found = []
    for node in network.activation_nodes():
        users = network.consumers(node.name)
        if node.inputs[0] == network.source or len(users) != 1:
            continue
        before = network.node(node.inputs[0])
        alone = len(network.consumers(before.name)) == 1 and node.name != network.output
        if alone and isinstance(before.op, Dense) and isinstance(users[0].op, Dense):
            found.append((before, node, users[0]))
    return found


def permuted(network: Network, rng: Generator) -> Network:
    """Hidden units in another order."""
    ops: dict[str, Operation] = {}
    for before, _, after in _inner(network):
        if before.name in ops or after.name in ops:
            continue
        assert isinstance(before.op, Dense) and isinstance(after.op, Dense)
        order = rng.permutation(len(before.op.bias))
        ops[before.name] = Affine(before.op.weight[order], before.op.bias[order])
        ops[after.name] = Affine(after.op.weight[:, order], after.op.bias)
    return network.with_ops(ops)


def doubled(network: Network, rng: Generator) -> Network:
    """ReLU units twice at half their weight; or with their mirror images, which is a line."""
    parts = [part for part in _inner(network) if part[1].op == Relu()]
    if not parts:
        return renamed(network, rng)
    before, _, after = parts[int(rng.integers(len(parts)))]
    assert isinstance(before.op, Dense) and isinstance(after.op, Dense)
    sign = float(rng.choice([-1.0, 1.0]))
    rows = np.concatenate([before.op.weight, sign * before.op.weight])
    offsets = np.concatenate([before.op.bias, sign * before.op.bias])
    half = 0.5 * after.op.weight
    behind = np.concatenate([half, sign * half], axis=1)
    return network.with_ops(
        {before.name: Affine(rows, offsets), after.name: Affine(behind, after.op.bias)}
    )


def changed(network: Network, rng: Generator) -> Network:
    """One number of a map, a kernel, a norm or a factor moved, by little or much."""
    kinds = (Dense, Convolution, Norm, Scaling)
    nodes = [n for n in network.nodes if isinstance(n.op, kinds) and n.op.kind != "SumPool"]
    node = nodes[int(rng.integers(len(nodes)))]
    by = float(rng.choice([1e-14, 1e-9, 1e-4, 0.3]))
    if isinstance(node.op, Dense):
        weight = np.array(node.op.weight, dtype=np.float64)
        weight.flat[int(rng.integers(weight.size))] += by * max(1.0, float(np.abs(weight).max()))
        return network.with_ops({node.name: Affine(weight, node.op.bias)})
    if isinstance(node.op, Convolution):
        kernel = np.array(node.op.kernel, dtype=np.float64)
        kernel.flat[int(rng.integers(kernel.size))] += by * max(1.0, float(np.abs(kernel).max()))
        op = node.op
        moved = Convolution(kernel, op.geometry, op.offsets, op.groups)
        return network.with_ops({node.name: moved})
    if isinstance(node.op, Norm):
        return network.with_ops({node.name: node.op.tuned(node.op.gamma, node.op.beta + by)})
    assert isinstance(node.op, Scaling)
    factors = Scaling(node.op.factor, node.op.divisor, node.op.offset + by)
    return network.with_ops({node.name: factors})


def rebent(network: Network, rng: Generator) -> Network:
    """One activation replaced by another; a pool, which takes several units, stays."""
    nodes = [n for n in network.activation_nodes() if not isinstance(n.op, MaxPool)]
    if not nodes:
        return renamed(network, rng)
    node = nodes[int(rng.integers(len(nodes)))]
    other = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
    kept = tuple(replace(n, op=other) if n is node else n for n in network.nodes)
    return Network(network.size_in, kept, network.output, network.source)


RELATIVES: tuple[Callable[[Network, Generator], Network], ...] = (
    renamed,
    folded,
    permuted,
    doubled,
    changed,
    changed,
    rebent,
)


def draw_pair(rng: Generator) -> tuple[Network, Network, Box, str]:
    """Two networks, a box, and what the second one is to the first."""
    network = draw_image_network(rng) if rng.random() < 0.25 else draw_network(rng)
    kind = RELATIVES[int(rng.integers(len(RELATIVES)))]
    return network, kind(network, rng), draw_box(rng, network.size_in), kind.__name__
