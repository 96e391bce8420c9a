"""Rewriting a network without changing its function.

`normal_form` gives the shape that a construction works on: mixing maps, activations and sums, with
norms, scalings and selections folded and, by default, runs of maps merged into one. Around images
a norm is folded into its convolution, and what cannot be folded (pooling, placements, scalings)
stays: it stands in f where it stands in g. `fold_norms` removes the norm layers alone. Both round
to float64; a certificate therefore always speaks of the network as it was before, and counts this
rounding in.

Rests on proofs_check: norm-is-affine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from reconstruct.networks import maps
from reconstruct.networks.activations import MaxPool
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.operation import Add
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
    pruned = without_casts(network).ending_at(network.output)
    chains: dict[str, tuple[str, ...]] = {}
    made: dict[str, Node] = {}
    for node in pruned.nodes:
        before = made.get(node.inputs[0])
        joined = None
        if before is not None and _alone(pruned, before):
            joined = _joined(pruned, node, before, merge)
        if joined is not None and before is not None:
            chains[node.name] = (*chains.pop(before.name), node.name)
            del made[before.name]
        else:
            joined = _as_mixing(pruned, node)
            if rebuilt(joined):
                chains[node.name] = (node.name,)
        made[node.name] = joined
    for node in pruned.nodes:  # values that are only moved are no map to rebuild
        if merge and isinstance(node.op, maps.Picking) and len(chains.get(node.name, ())) == 1:
            made[node.name] = node
            del chains[node.name]
    form = Network(
        pruned.size_in, tuple(made.values()), pruned.output, pruned.source, pruned.metadata
    )
    return NormalForm(form, chains)


def rebuilt(node: Node) -> bool:
    """Whether a construction rebuilds this node's map, rather than leaving it where it stands."""
    return isinstance(node.op, maps.Mixing) and not node.op.fixed


def rebuilt_nodes(network: Network) -> tuple[Node, ...]:
    """The nodes that a construction rebuilds, in order: sums over windows are not among them."""
    return tuple(node for node in network.nodes if rebuilt(node))


def _alone(network: Network, node: Node) -> bool:
    return rebuilt(node) and len(network.consumers(node.name)) == 1 and node.name != network.output


def _joined(network: Network, node: Node, before: Node, merge: bool) -> Node | None:
    """The node merged into the map before it, or None where the two stay apart."""
    inner, op = before.op, node.op
    assert isinstance(inner, maps.Mixing)
    if isinstance(inner, maps.Convolution):
        folded = _scaled(inner, op) if isinstance(op, maps.Diagonal) else None
        return None if folded is None else Node(node.name, folded, before.inputs)
    outer = _as_mixing(network, node).op
    if not rebuilt(Node(node.name, outer, ())) or isinstance(outer, maps.Convolution):
        return None
    if not (merge or isinstance(op, maps.Diagonal)):
        return None
    assert isinstance(outer, maps.Mixing)
    return Node(node.name, compose(outer, inner), before.inputs)


def _scaled(conv: maps.Convolution, op: maps.Diagonal) -> maps.Convolution | None:
    """The convolution with its channels scaled and shifted; None where the pixels differ."""
    s, t = (part.reshape(conv.channels, conv.positions) for part in op.effective())
    if np.any(s != s[:, :1]) or np.any(t != t[:, :1]):
        return None
    scale, shift = s[:, 0], t[:, 0]
    kernel = scale[:, None, None, None] * conv.kernel.astype(np.float64)
    return maps.Convolution(kernel, conv.geometry, scale * conv.offsets + shift, conv.groups)


def fold_norms(network: Network) -> Network:
    """The same function without norm layers: each is folded into the maps before it."""
    ops = {n.name: n for n in network.nodes}
    alias: dict[str, str] = {}
    for node in network.nodes:
        if not isinstance(node.op, maps.Norm):
            continue
        (before,) = node.inputs
        s, t = node.op.effective()
        if _scale_into(network, ops, before, s, t):
            alias[node.name] = before
            del ops[node.name]
        else:
            ops[node.name] = replace(node, op=maps.Scaling(s, offset=t))
    return _without(network.with_ops({name: node.op for name, node in ops.items()}), alias)


def compose(after: maps.Mixing, before: maps.Mixing) -> maps.Mixing:
    """`h ↦ W2 (W1 h + b1) + b2` as one dense map, in float64: for the small maps of a target."""
    second = dense(after.matrix)
    return maps.Affine(second @ dense(before.matrix), second @ before.bias + after.bias)


def without_casts(network: Network) -> Network:
    """The same function of real numbers without casts to narrower types."""
    return _without(network, {name: network.node(name).inputs[0] for name in network.casts})


def _without(network: Network, alias: Mapping[str, str]) -> Network:
    """The network without the nodes that `alias` names, each value the one that it stands for."""
    if not alias:
        return network

    def known(name: str) -> str:
        return known(alias[name]) if name in alias else name

    kept = tuple(
        replace(node, inputs=tuple(known(name) for name in node.inputs))
        for node in network.nodes
        if node.name not in alias
    )
    return replace(network, nodes=kept, output=known(network.output))


def _as_mixing(network: Network, node: Node) -> Node:
    """Diagonal maps and selections as small dense ones, to be merged into a neighbour.

    Around images they stay as they are: a dense map of all pixels would be far too large.
    """
    op = node.op
    if any(isinstance(n.op, maps.Convolution | MaxPool) for n in network.nodes):
        return node
    if isinstance(op, maps.Diagonal):
        s, t = op.effective()
        return replace(node, op=maps.Affine(np.diag(s), t))
    if isinstance(op, maps.Picking):
        units = np.eye(network.sizes[node.inputs[0]])
        return replace(node, op=maps.Affine(op.taken(units).T))
    return node


def _scale_into(network: Network, ops: dict[str, Node], name: str, s: Vector, t: Vector) -> bool:
    """Scale the maps that make `name` by s and shift one by t; False if that cannot be."""
    if name not in ops or len(network.consumers(name)) != 1:
        return False
    node = ops[name]
    if isinstance(node.op, maps.Convolution):
        scaling = maps.Scaling(s, offset=t)
        folded = None if node.op.fixed else _scaled(node.op, scaling)
        if folded is not None:
            ops[name] = replace(node, op=folded)
        return folded is not None
    if isinstance(node.op, maps.Mixing):
        ops[name] = replace(
            node, op=maps.Affine(_scale_rows(node.op.matrix, s), s * node.op.bias + t)
        )
        return True
    if not isinstance(node.op, Add) or len(set(node.inputs)) != len(node.inputs):
        return False
    branches = [ops[i] for i in node.inputs if i in ops]
    simple = all(
        isinstance(b.op, maps.Mixing) and len(network.consumers(b.name)) == 1 for b in branches
    )
    if len(branches) != len(node.inputs) or not simple:
        return False
    for i, branch in enumerate(branches):
        _scale_into(network, ops, branch.name, s, t if i == 0 else np.zeros_like(t))
    return True


def _scale_rows(weight: Matrix, s: Vector) -> Matrix:
    if sparse.issparse(weight):
        return sparse.csr_array(sparse.diags_array(s) @ weight.astype(np.float64))
    return s[:, None] * dense(weight)
