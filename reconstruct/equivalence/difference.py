"""Two networks with one input as a single network: their difference."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Affine
from reconstruct.networks.operation import Add

OUTPUT, NEGATED = "difference", "negated"  # no dot: names of nodes have one behind their prefix


def difference_network(target: Network, candidate: Network) -> Network:
    """`x ↦ f(x) − g(x)`, g the target and f the candidate, with the input shared.

    Nodes keep their names behind "target." and "candidate."; the subtraction is a map with −1 on
    the diagonal and a sum, both exact in real arithmetic.
    """
    for what, ours, theirs in (
        ("inputs", target.size_in, candidate.size_in),
        ("outputs", target.size_out, candidate.size_out),
    ):
        if ours != theirs:
            raise InputError(
                f"a difference needs two networks with equally many {what}, but the target has "
                f"{ours} and the other one {theirs}; check that they belong together"
            )
    first, second = _prefixed(target, "target"), _prefixed(candidate, "candidate")
    negated = Affine(sparse.csr_array(-sparse.eye_array(target.size_out, dtype=np.float64)))
    nodes = (
        *first,
        *second,
        Node(NEGATED, negated, (_rename(target, "target", target.output),)),
        Node(OUTPUT, Add(), (_rename(candidate, "candidate", candidate.output), NEGATED)),
    )
    return Network(target.size_in, nodes, OUTPUT)


def _prefixed(network: Network, prefix: str) -> list[Node]:
    return [
        Node(
            _rename(network, prefix, node.name),
            node.op,
            tuple(_rename(network, prefix, name) for name in node.inputs),
        )
        for node in network.nodes
    ]


def _rename(network: Network, prefix: str, name: str) -> str:
    return "input" if name == network.source else f"{prefix}.{name}"
