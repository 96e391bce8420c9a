"""Small valid reconstructions made by a dense solve: the certificates' tests stand on their own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from reconstruct.bounds import Crown, Method, reach
from reconstruct.networks import (
    Activation,
    Affine,
    Box,
    Mixing,
    Network,
    Node,
    Norm,
    Relu,
    dense,
)


def random_target(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    *,
    activation: Activation | None = None,
    final_activation: bool = False,
    scale: float = 1.0,
) -> Network:
    """An MLP of these sizes with Gaussian weights in float32."""
    weights = [
        (scale * rng.standard_normal((m, k)) / np.sqrt(k)).astype(np.float32)
        for k, m in pairwise(sizes)
    ]
    biases = [rng.standard_normal(m).astype(np.float32) * scale for m in sizes[1:]]
    return Network.mlp(weights, biases, activation=activation, final_activation=final_activation)


def wide(
    target: Network,
    box: Box,
    rng: np.random.Generator,
    *,
    ratio: float = 1.5,
    method: Method | None = None,
    statistics: bool = False,
    slack: float = 2.0**-10,
    hidden: Activation | None = None,
) -> Network:
    """The wide construction: each affine node becomes M1, norm, activation, M2, norm."""
    known = reach(target, box, method or Crown())
    nodes: list[Node] = []
    place = {target.source: target.source}
    for node in target.nodes:
        inputs = tuple(place[i] for i in node.inputs)
        if isinstance(node.op, Mixing):
            nodes += _map(node, inputs[0], known, rng, ratio, statistics, slack, hidden or Relu())
        else:
            nodes.append(Node(node.name, node.op, inputs))
        place[node.name] = nodes[-1].name
    return Network(target.size_in, tuple(nodes), place[target.output], target.source)


def _map(node, source, known, rng, ratio, statistics, slack, hidden):
    W, b = dense(node.op.weight), node.op.bias
    m, k = W.shape
    n = int(np.ceil(ratio * m * k))
    M1 = rng.standard_normal((n, k)).astype(np.float32)
    M2 = (rng.standard_normal((m, n)) / np.sqrt(n)).astype(np.float32)
    K = (M2.astype(float)[:, None, :] * M1.astype(float).T[None, :, :]).reshape(m * k, n)
    slope = hidden.piece.slope
    s = np.linalg.lstsq(K, W.ravel() / slope, rcond=None)[0]
    lo, _ = known.functionals(node.inputs[0], s[:, None] * M1.astype(float))
    t = -lo + slack * np.abs(lo) + 1e-9
    first = _norm(n, s, t, rng, statistics)
    t2 = b - slope * M2.astype(float) @ t
    second = _norm(m, np.ones(m), t2, rng, statistics)
    name = node.name
    return [
        Node(f"{name}.M1", Affine(M1), (source,)),
        Node(f"{name}.N1", first, (f"{name}.M1",)),
        Node(f"{name}.act", hidden, (f"{name}.N1",)),
        Node(f"{name}.M2", Affine(M2), (f"{name}.act",)),
        Node(f"{name}.N2", second, (f"{name}.M2",)),
    ]


def _norm(n, s, t, rng, statistics):
    if statistics:
        plain = Norm(np.ones(n), np.zeros(n), rng.standard_normal(n), rng.random(n) + 0.1, 1e-5)
    else:
        plain = Norm(np.ones(n), np.zeros(n), np.zeros(n), np.full(n, 1 - 2.0**-17), 2.0**-17)
    return plain.with_effective(s, t)


def inner_activations(network: Network) -> list[Node]:
    """The activations inside the wide blocks."""
    return [n for n in network.activation_nodes() if n.name.endswith(".act")]


def long_values(network: Network, points: np.ndarray) -> dict[str, np.ndarray]:
    """Every value at some points in long doubles, node by node: an oracle beyond float64."""
    values = {network.source: np.asarray(points).astype(np.longdouble)}
    for node in network.nodes:
        values[node.name] = node.op(*(values[name] for name in node.inputs))
    return values


def long_gap(target: Network, network: Network, points: np.ndarray) -> float:
    """The largest difference of the outputs at some points, in long doubles."""
    ours, theirs = (long_values(net, points)[net.output] for net in (target, network))
    return float(np.abs(theirs - ours).max())
