"""Rewriting a network without changing its function.

`normal_form` gives the shape that a construction works on: mixing maps, activations and sums, with
norms, scalings and selections folded and, by default, runs of maps merged into one. `fold_norms`
removes the norm layers alone. Both round to float64; a certificate therefore always speaks of the
network as it was before, and counts this rounding in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Affine, Diagonal, Mixing, Norm, Select
from reconstruct.networks.sums import Add
from reconstruct.numbers.arrays import Matrix, Vector, dense


@dataclass(frozen=True, eq=False)
class NormalForm:
    """A network of mixing maps, activations and sums; `chains` tells what each map came from.

    `chains[name]` lists, first to last, the nodes of the original network whose composition the
    map `name` is; a chain longer than one was merged.
    """

    network: Network
    chains: Mapping[str, tuple[str, ...]]

    @property
    def merged(self) -> dict[str, tuple[str, ...]]:
        """Only the maps that were made from several nodes."""
        return {name: chain for name, chain in self.chains.items() if len(chain) > 1}


def normal_form(network: Network, *, merge: bool = True) -> NormalForm:
    """Mixing maps, activations and sums only; runs of maps become one when `merge`.

    A map is merged into the next one only when nothing else uses its value, so that no weight is
    ever duplicated. With `merge=False` runs stay, and only norms are folded.
    """
    pruned = prune(network)
    chains: dict[str, tuple[str, ...]] = {}
    made: dict[str, Node] = {}
    for original in pruned.nodes:
        node = _as_mixing(pruned, original)
        if isinstance(node.op, Mixing):
            chains[node.name] = (node.name,)
            before = made.get(node.inputs[0])
            if before is not None and isinstance(before.op, Mixing):
                alone = len(pruned.consumers(before.name)) == 1 and before.name != pruned.output
                if alone and (merge or isinstance(original.op, Diagonal)):
                    node = Node(node.name, compose(node.op, before.op), before.inputs)
                    chains[node.name] = (*chains.pop(before.name), node.name)
                    del made[before.name]
        made[node.name] = node
    form = Network(
        pruned.size_in, tuple(made.values()), pruned.output, pruned.source, pruned.metadata
    )
    return NormalForm(form, chains)


def fold_norms(network: Network) -> Network:
    """The same function without norm layers: each is folded into the maps before it."""
    ops = {n.name: n for n in network.nodes}
    alias: dict[str, str] = {}
    for node in network.nodes:
        if not isinstance(node.op, Norm):
            continue
        (before,) = node.inputs
        s, t = node.op.effective()
        if _scale_into(network, ops, before, s, t):
            alias[node.name] = before
            del ops[node.name]
        else:
            ops[node.name] = replace(node, op=Affine(sparse.diags_array(s).tocsr(), t))
    nodes = tuple(
        replace(ops[n.name], inputs=tuple(alias.get(i, i) for i in n.inputs))
        for n in network.nodes
        if n.name in ops
    )
    output = alias.get(network.output, network.output)
    return Network(network.size_in, nodes, output, network.source, network.metadata)


def compose(after: Mixing, before: Mixing) -> Mixing:
    """`h ↦ W2 (W1 h + b1) + b2` as one dense map, in float64: for the small maps of a target."""
    second = dense(after.matrix)
    return Affine(second @ dense(before.matrix), second @ before.bias + after.bias)


def prune(network: Network) -> Network:
    """The network without the nodes that its output does not need."""
    needed = network.needed()
    kept = tuple(n for n in network.nodes if n.name in needed)
    return Network(network.size_in, kept, network.output, network.source, network.metadata)


def _as_mixing(network: Network, node: Node) -> Node:
    """Diagonal maps and selections as small dense ones, to be merged into a neighbour."""
    op = node.op
    if isinstance(op, Diagonal):
        s, t = op.effective()
        return replace(node, op=Affine(np.diag(s), t))
    if isinstance(op, Select):
        return replace(node, op=Affine(np.eye(network.sizes[node.inputs[0]])[op.block]))
    return node


def _scale_into(network: Network, ops: dict[str, Node], name: str, s: Vector, t: Vector) -> bool:
    """Scale the maps that make `name` by s and shift one by t; False if that cannot be."""
    if name not in ops or len(network.consumers(name)) != 1:
        return False
    node = ops[name]
    if isinstance(node.op, Mixing):
        ops[name] = replace(node, op=Affine(_scale_rows(node.op.matrix, s), s * node.op.bias + t))
        return True
    if not isinstance(node.op, Add) or len(set(node.inputs)) != len(node.inputs):
        return False
    branches = [ops[i] for i in node.inputs if i in ops]
    simple = all(isinstance(b.op, Mixing) and len(network.consumers(b.name)) == 1 for b in branches)
    if len(branches) != len(node.inputs) or not simple:
        return False
    for i, branch in enumerate(branches):
        _scale_into(network, ops, branch.name, s, t if i == 0 else np.zeros_like(t))
    return True


def _scale_rows(weight: Matrix, s: Vector) -> Matrix:
    if sparse.issparse(weight):
        return sparse.csr_array(sparse.diags_array(s) @ weight.astype(np.float64))
    return s[:, None] * dense(weight)
