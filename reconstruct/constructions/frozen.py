"""Frozen networks: drawn from a seed after a blueprint, or brought by the user."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.constructions.blueprint import Blueprint
from reconstruct.constructions.construction import Construction
from reconstruct.constructions.wide import Wide
from reconstruct.errors import UnsupportedError
from reconstruct.networks import (
    Activation,
    Add,
    Affine,
    LeakyRelu,
    Mixing,
    Network,
    Node,
    Norm,
    Relu,
    Select,
)
from reconstruct.networks.draw import Pencil, Weights
from reconstruct.networks.normal_form import NormalForm, normal_form


@dataclass(frozen=True, eq=False)
class Frozen:
    """A network whose weights never change, and how it is meant to be used.

    `origin` records where it came from: the draw's seed, distribution and sparsity, or a file.
    """

    network: Network
    construction: Construction
    merge: bool = True
    origin: Mapping[str, Any] | None = None


def draw(
    target: Network,
    construction: Construction | None = None,
    *,
    seed: int = 0,
    weights: Weights = Weights.GAUSSIAN,
    sparsity: float | None = None,
    statistics: bool = False,
    activation: Activation | None = None,
    merge: bool = True,
) -> Frozen:
    """A random frozen network with a site for each affine map of the target.

    Activations and sums of the target stay where they are; `activation` is used inside the sites
    (ReLU unless given). `sparsity` keeps each weight with that probability.
    """
    chosen = construction or Wide()
    form = normal_form(target, merge=merge)
    check_target(form.network)
    pencil = Pencil(seed, weights, sparsity, statistics)
    nodes: list[Node] = []
    outputs = {form.network.source: form.network.source}
    layer = 0
    for node in form.network.nodes:
        inputs = tuple(outputs[i] for i in node.inputs)
        if isinstance(node.op, Mixing):
            plan = chosen.blueprint(node.op)
            site = _draw_site(pencil, layer, node.name, inputs[0], plan, activation or Relu())
            nodes.extend(site)
            outputs[node.name] = site[-1].name
            layer += 1
        else:
            nodes.append(Node(node.name, node.op, inputs))
            outputs[node.name] = node.name
    network = Network(
        target.size_in, tuple(nodes), outputs[form.network.output], form.network.source
    )
    origin = {"seed": seed, "weights": weights.value, "sparsity": sparsity}
    return Frozen(network, chosen, merge, origin)


def _draw_site(
    pencil: Pencil, layer: int, name: str, source: str, plan: Blueprint, activation: Activation
) -> list[Node]:
    nodes: list[Node] = []
    last, width = source, 0
    for i, shape in enumerate(plan.layers, start=1):
        label = 4 * i
        parts: list[str] = []
        if shape.carry:
            weight = pencil.matrix(layer, label, shape.width, width, hidden=1)
            nodes.append(Node(f"{name}.M{i}", Affine(weight), (last,)))
            parts.append(f"{name}.M{i}")
        if shape.block is not None:
            start, stop = shape.block
            entering = source
            if (start, stop) != (0, plan.cols):
                entering = f"{name}.x{i}"
                nodes.append(Node(entering, Select(start, stop), (source,)))
            weight = pencil.matrix(layer, label + 1, shape.width, stop - start, hidden=0)
            label_in = f"{name}.A{i}" if shape.carry else f"{name}.M{i}"
            nodes.append(Node(label_in, Affine(weight), (entering,)))
            parts.append(label_in)
        if len(parts) == 2:
            nodes.append(Node(f"{name}.sum{i}", Add(), tuple(parts)))
            parts = [f"{name}.sum{i}"]
        nodes.append(
            Node(f"{name}.norm{i}", pencil.norm(layer, label + 2, shape.width), (parts[0],))
        )
        last, width = f"{name}.norm{i}", shape.width
        if i < len(plan.layers):
            nodes.append(Node(f"{name}.act{i}", activation, (last,)))
            last = f"{name}.act{i}"
    return nodes


def check_target(network: Network) -> None:
    """A target may hold ReLU and LeakyReLU only; anything else is refused by name."""
    for node in network.activation_nodes():
        if not isinstance(node.op, (Relu, LeakyRelu)):
            raise UnsupportedError(
                f"node {node.name!r} of the target is a {type(node.op).__name__}, but only ReLU "
                f"and LeakyReLU targets can be rebuilt; other activations may be used inside the "
                f"frozen network"
            )


def weights_hash(network: Network) -> str:
    """sha256 over the frozen part: weights, biases and the norms' statistics, in order."""
    digest = hashlib.sha256()
    for node in network.nodes:
        if isinstance(node.op, Mixing):
            weight = node.op.matrix
            array = weight.toarray() if sparse.issparse(weight) else weight
            parts = [np.asarray(array, np.float64), node.op.bias]
        elif isinstance(node.op, Norm):
            parts = [node.op.mean, node.op.var, np.array([node.op.eps])]
        else:
            continue
        digest.update(node.name.encode())
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def as_stored(network: Network) -> Network:
    """The network with each norm's eps as ONNX keeps it, in float32.

    Gammas that were solved for with any other eps would be off by 1e-6 once exported.
    """
    norms = {n.name: n.op for n in network.norm_nodes() if isinstance(n.op, Norm)}
    rounded = {name: norm.with_eps(float(np.float32(norm.eps))) for name, norm in norms.items()}
    return network.with_ops(rounded)


def normal_target(target: Network, frozen: Frozen) -> NormalForm:
    """The target in the form that `frozen` was made for."""
    return normal_form(target, merge=frozen.merge)
