"""Finding, in a frozen network, the site that belongs to each affine map of the target.

The two graphs are walked together. The target's activations and sums must be there in the frozen
network too; where the target has an affine map, the frozen network must have the layers of the
construction's blueprint, each with its norm between the linear layer and the activation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.constructions.blueprint import Blueprint, LayerPlan
from reconstruct.constructions.nodes import mixing_at
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import (
    Activation,
    Add,
    Mixing,
    Network,
    Node,
    Norm,
    Piece,
    Placement,
    Select,
)
from reconstruct.networks.normal_form import rebuilt
from reconstruct.numbers.arrays import Array, Range

UNFUSED = (
    "with torch call torch.onnx.export(…, dynamo=False, do_constant_folding=False), or dynamo=True "
    "with optimize=False, or give the module itself to rc.from_torch"
)


@dataclass(frozen=True)
class Layer:
    """One frozen layer by its node names: `carry` M, `entry` A with its block, norm, activation."""

    carry: str | None
    entry: str | None
    block: tuple[int, int] | None
    norm: str
    activation: str | None


@dataclass(frozen=True)
class Site:
    """The frozen layers that stand for the target's affine map `target`."""

    target: str
    source: str
    layers: tuple[Layer, ...]

    @property
    def output(self) -> str:
        return self.layers[-1].norm


@dataclass(frozen=True)
class Watched:
    """The input of a hidden activation by its node, and the piece that it has to stay on."""

    node: str
    piece: Piece

    def margin(self, reached: Range) -> Array:
        """The least distance from the ends of the piece, for least and largest values."""
        low, high = reached
        return np.minimum(low - self.piece.lo, self.piece.hi - high)


def find_sites(
    target: Network, frozen: Network, blueprints: Mapping[str, Blueprint]
) -> tuple[Site, ...]:
    """One site for each map of `target` (in normal form), in its order."""
    if target.size_in != frozen.size_in:
        raise InputError(
            f"the frozen network must take as many inputs as the target, {target.size_in}, but "
            f"takes {frozen.size_in}{_batch(frozen, target.size_in)}"
        )
    finder = _Finder(frozen)
    place = {target.source: frozen.source}
    sites: list[Site] = []
    for node in target.nodes:
        if rebuilt(node):
            site = finder.site(node, place[node.inputs[0]], blueprints[node.name], len(sites) + 1)
            sites.append(site)
            place[node.name] = site.output
        else:
            place[node.name] = finder.same(node, tuple(place[i] for i in node.inputs))
    if place[target.output] != frozen.output:
        raise InputError(
            f"the frozen network must end where the target ends, at {place[target.output]!r}, but "
            f"its output is {frozen.output!r}; it has layers that no map of the target needs"
        )
    return tuple(sites)


def _takes(op: Mixing, block: tuple[int, int], cols: int) -> bool:
    """Whether a convolution sees no more of a patch than these entries of its kernel."""
    if op.own_entries or op.kernels[0].shape[1] != cols:
        return False
    others = [np.delete(kernel, slice(*block), axis=1) for kernel in op.kernels]
    return not np.any(others)


def _batch(frozen: Network, size: int) -> str:
    """What to say of a file whose input has a fixed batch: it is read as one long input."""
    shape = [int(n) for n in frozen.metadata.get("input_shape") or ()]
    if not shape or shape[0] < 2 or frozen.size_in != shape[0] * size:
        return ""
    said = "×".join(map(str, shape))
    return f": its input is {said}, a fixed batch of {shape[0]}; export it with a batch of 1"


class _Finder:
    """Walks the frozen graph and remembers which nodes are taken."""

    def __init__(self, frozen: Network) -> None:
        self.frozen = frozen
        self.taken: set[str] = set()

    def take(self, node: Node) -> Node:
        self.taken.add(node.name)
        return node

    def free(self, source: str) -> list[Node]:
        return [n for n in self.frozen.consumers(source) if n.name not in self.taken]

    def same(self, node: Node, inputs: tuple[str, ...]) -> str:
        """The frozen node with the same activation or sum on the same inputs."""
        for candidate in self.free(inputs[0]):
            if candidate.op.same(node.op) and sorted(candidate.inputs) == sorted(inputs):
                return self.take(candidate).name
        found = [type(n.op).__name__ for n in self.free(inputs[0])] or ["nothing"]
        raise InputError(
            f"the target has {node.op.kind} ({node.name!r}) here, and the frozen network needs the "
            f"same after {inputs[0]!r}, but has {', '.join(found)}"
        )

    def site(self, node: Node, source: str, plan: Blueprint, number: int) -> Site:
        where = f"map {number} ({node.name!r}, {plan.rows}×{plan.cols})"
        layers: list[Layer] = []
        last = source
        for i, shape in enumerate(plan.layers):
            final = i + 1 == len(plan.layers)
            layer = self.layer(shape, plan, source, last, final, f"{where}, frozen layer {i + 1}")
            layers.append(layer)
            last = layer.activation or layer.norm
        assert isinstance(node.op, Mixing)
        size, wanted = self.frozen.sizes[last], plan.rows * node.op.positions
        if size != wanted:
            raise InputError(f"{where} needs {wanted} outputs, but the frozen site has {size}")
        return Site(node.name, source, tuple(layers))

    def layer(
        self, shape: LayerPlan, plan: Blueprint, source: str, last: str, final: bool, where: str
    ) -> Layer:
        carry = self.affine(last, where) if shape.carry else None
        entry = self.entry(shape.block, plan.cols, source, where) if shape.block else None
        value = carry or entry
        assert value is not None
        if carry is not None and entry is not None:
            value = self.sum(carry, entry, where)
        norm = self.norm(value, where)
        activation = None if final else self.activation(norm, where)
        return Layer(carry, entry, shape.block, norm, activation)

    def affine(self, source: str, where: str) -> str:
        for candidate in self.free(source):
            if rebuilt(candidate):
                return self.take(candidate).name
        kinds = [type(n.op).__name__ for n in self.free(source)] or ["nothing"]
        raise InputError(
            f"{where} needs a linear layer after {source!r}, but the frozen network has "
            f"{', '.join(kinds)} there; give each map of the target its own frozen layers"
        )

    def entry(self, block: tuple[int, int], cols: int, source: str, where: str) -> str:
        if block == (0, cols):
            moved = [n for n in self.free(source) if isinstance(n.op, Placement)]
            if moved and not any(rebuilt(n) for n in self.free(source)):
                source = self.take(moved[0]).name
            return self.affine(source, where)
        for candidate in self.free(source):
            if candidate.op == Select(*block):
                return self.affine(self.take(candidate).name, where)
            if rebuilt(candidate) and _takes(mixing_at(self.frozen, candidate.name), block, cols):
                return self.take(candidate).name
        raise InputError(
            f"{where} needs the inputs {block[0]} to {block[1] - 1} through a skip connection from "
            f"{source!r} (a Slice, or a convolution whose kernel is zero at the others), but the "
            f"frozen network has none"
        )

    def sum(self, carry: str, entry: str, where: str) -> str:
        for candidate in self.free(carry):
            if isinstance(candidate.op, Add) and sorted(candidate.inputs) == sorted((carry, entry)):
                return self.take(candidate).name
        raise InputError(f"{where} needs an Add of {carry!r} and {entry!r}, but there is none")

    def norm(self, source: str, where: str) -> str:
        followers = self.free(source)
        if len(followers) == 1 and isinstance(followers[0].op, Norm):
            return self.take(followers[0]).name
        if self._norm_comes_late(followers):
            raise UnsupportedError(
                f"{where} has its norm after the activation ({followers[0].name!r}), but the "
                f"construction needs it before: only a shift ahead of the ReLU can keep it active, "
                f"and a norm behind it comes too late; place each norm between its linear layer "
                f"and the activation"
            )
        if not self.frozen.norm_nodes():
            raise InputError(
                f"{where} needs a norm layer right after the linear layer {source!r}, but the "
                f"frozen network has no norm layers at all; exporters fuse them into the linear "
                f"layers: {UNFUSED}"
            )
        fused = ""
        if self.frozen.node(source).op.windowed:
            fused = f"; exporters fuse norms into convolutions: {UNFUSED}"
        raise InputError(
            f"{where} needs a norm layer right after the linear layer {source!r}, but has "
            f"{', '.join(type(n.op).__name__ for n in followers) or 'nothing'} there{fused}"
        )

    def _norm_comes_late(self, followers: list[Node]) -> bool:
        return any(
            isinstance(after.op, Norm)
            for node in followers
            if isinstance(node.op, Activation)
            for after in self.frozen.consumers(node.name)
        )

    def activation(self, source: str, where: str) -> str:
        followers = self.free(source)
        if len(followers) == 1 and isinstance(followers[0].op, Activation):
            return self.take(followers[0]).name
        raise InputError(
            f"{where} needs one activation right after its norm {source!r}, but has "
            f"{', '.join(type(n.op).__name__ for n in followers) or 'nothing'} there"
        )
