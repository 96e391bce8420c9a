"""The frozen sub-graph that stands for one map of the target: as planned, and as found.

A *blueprint* is the shape that a construction asks for. Each affine map becomes a *site* of the
frozen network, a few layers

    h_i = act(N_i(M_i h_{i-1} + A_i x[block_i])),      out = N_out(M_out h_last)

where `x` is the site's input. `M_i` carries the previous layer on; `A_i` lets a block of the
input in (through a skip connection when it is not the first). The wide construction is the case
of one entering layer and one carrying layer. Drawing and recognising frozen networks both follow
the blueprint, so a network from a file is treated exactly as a drawn one.

To find the sites, the two graphs are walked together (`find_sites`). The target's activations and
sums must be there in the frozen network too; where the target has an affine map, the frozen network
must have the layers of the blueprint, each with its norm between the linear layer and the
activation.

Rests on proofs_check: width-is-necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from reconstruct import networks
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Activation, Matrix, Mixing, Network, Node, Norm
from reconstruct.networks.normal_form import rebuilt
from reconstruct.numbers.given import number


@dataclass(frozen=True, eq=False)
class Drawn:
    """A frozen layer with a live norm: the norm as drawn, the power of two of its weights, and that
    of its frozen biases beside them (None: no biases)."""

    norm: networks.LiveNorm
    power: int
    bias: int | None


@dataclass(frozen=True)
class LayerPlan:
    """One frozen layer: its width, the input block that enters, and whether it carries on.

    A layer whose units do not see all that is before them says how many entries a row has, `cols`,
    and what is `made` of its kernel. A `live` layer has a norm by live statistics, a `bare` one
    none.
    """

    width: int
    block: tuple[int, int] | None = None
    carry: bool = True
    cols: int | None = None
    made: Callable[[Matrix], Mixing] | None = None
    live: Drawn | None = None
    bare: bool = False


@dataclass(frozen=True)
class Blueprint:
    """The layers that one affine map (m × k) becomes; rows and widths are those of all groups.

    `moved` repeats or reorders what the site takes in, ahead of its layers.
    """

    rows: int
    cols: int
    layers: tuple[LayerPlan, ...]
    groups: int = 1
    moved: networks.Placement | None = None

    @property
    def weights(self) -> int:
        """Frozen weights of the site, those that are zero by design left out."""
        total, before = 0, 0
        for layer in self.layers:
            entering = layer.block[1] - layer.block[0] if layer.block else 0
            carried = before // self.groups if layer.carry else 0
            total += layer.width * (layer.cols or entering + carried)
            before = layer.width
        return total

    @property
    def tunable(self) -> int:
        """Gammas and betas of the site."""
        return sum(2 * layer.width for layer in self.layers if not layer.bare)


def hidden_width(ratio: float, equations: int) -> int:
    """`⌈ratio · equations⌉`, the hidden width that `--ratio` asks for, at least 1."""
    value = ratio * equations
    nearest = round(value)  # 1.1 · 50 is 55.000000000000007: that asks for 55 neurons, not 56
    exact = abs(value - nearest) < 1e-9 * max(1.0, value)
    return max(1, nearest if exact else ceil(value))


def check_ratio(ratio: float) -> None:
    """A ratio below 1 leaves fewer unknowns than equations: refuse it before any work."""
    if not 1.0 <= number(ratio, "the ratio") < 1e6:
        raise InputError(
            f"the ratio must be at least 1, so that every map has as many hidden neurons as "
            f"equations, and less than a million, but is {ratio:g}; 1.5 is a good choice"
        )


# --- nodes as what they must be -----------------------------------------------------------------


def mixing_at(network: Network, name: str | None) -> Mixing:
    """The map at a node that is known to be one."""
    op = network.node(name or "").op
    assert isinstance(op, Mixing)
    return op


def norm_at(network: Network, name: str) -> Norm:
    """The norm at a node that is known to be one."""
    op = network.node(name).op
    assert isinstance(op, Norm)
    return op


def activation_at(network: Network, name: str | None) -> Activation:
    """The activation at a node that is known to be one."""
    op = network.node(name or "").op
    assert isinstance(op, Activation)
    return op


def check_geometry(op: Mixing, site: Site) -> None:
    """Refuse frozen convolutions that do not move over the image as the target's does.

    Those that take in the site's input must have its geometry; those that carry a layer on must
    take pixel by pixel, because a pad would cut off the shift at the border.
    """
    if not isinstance(op, networks.Convolution):
        return
    for layer in site.layers:
        entry = mixing_at(site.frozen, layer.entry) if layer.entry else None
        if entry is not None and (
            not isinstance(entry, networks.Convolution)
            or (entry.geometry, entry.groups) != (op.geometry, op.groups)
        ):
            raise InputError(
                f"{site.where} needs a frozen convolution that moves as the target's does, "
                f"{_moves(op)}, but the frozen network has {_moves(entry)}; give it this geometry"
            )
        carry = mixing_at(site.frozen, layer.carry) if layer.carry else None
        if carry is not None and not (
            isinstance(carry, networks.Convolution) and carry.geometry.plain
        ):
            raise InputError(
                f"{site.where} needs a 1×1 convolution without padding behind the first one: a pad "
                f"would cut off the shift at the border; replace it in the frozen network"
            )


def _moves(op: Mixing) -> str:
    """How the map moves over the image, if it does."""
    geometry, groups = getattr(op, "geometry", None), getattr(op, "groups", 1)
    if geometry is None:
        return f"a {type(op).__name__} map of {op.shape[0]}×{op.shape[1]}"
    return f"{geometry} in {groups} group{'s' if groups > 1 else ''}"


# --- finding the sites --------------------------------------------------------------------------

UNFUSED = (
    "with torch call torch.onnx.export(…, dynamo=False, do_constant_folding=False), or dynamo=True "
    "with optimize=False, or give the module itself to rc.from_torch"
)


@dataclass(frozen=True)
class Layer:
    """One frozen layer by its node names: `carry` M, `entry` A with its block, norm, activation.

    A bare layer ends in its map, which stands for the norm.
    """

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
    number: int
    frozen: Network = field(repr=False)  # the network that they are part of

    @property
    def where(self) -> str:
        """The map as messages name it."""
        return f"map {self.number} ({self.target!r})"

    @property
    def output(self) -> str:
        return self.layers[-1].norm


def find_sites(
    target: Network, frozen: Network, blueprints: Mapping[str, Blueprint]
) -> tuple[Site, ...]:
    """One site for each map of `target` (in normal form), in its order."""
    if target.size_in != frozen.size_in:
        raise InputError(
            f"the frozen network must take as many inputs as the target, {target.size_in}, but "
            f"takes {frozen.size_in}{_batch(frozen, target.size_in)}; bring one that was made for "
            f"this target"
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


def _takes(op: Any, block: tuple[int, int], cols: int) -> bool:
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

    def free(self, source: str) -> list[Node]:
        return [n for n in self.frozen.consumers(source) if n.name not in self.taken]

    def kinds(self, source: str) -> str:
        return ", ".join(type(n.op).__name__ for n in self.free(source)) or "nothing"

    def first(self, source: str, fits: Callable[[Node], bool]) -> str | None:
        """The first free node behind the source that fits; it is taken from then on."""
        for candidate in self.free(source):
            if fits(candidate):
                self.taken.add(candidate.name)
                return candidate.name
        return None

    def only(self, source: str, kind: Any) -> str | None:
        """The free node behind the source, if it is the only one and of this kind."""
        one = len(self.free(source)) == 1
        return self.first(source, lambda node: one and isinstance(node.op, kind))

    def same(self, node: Node, inputs: tuple[str, ...]) -> str:
        """The frozen node with the same activation or sum on the same inputs."""
        wanted = sorted(inputs)
        found = self.first(inputs[0], lambda n: n.op.same(node.op) and sorted(n.inputs) == wanted)
        if found is not None:
            return found
        raise InputError(
            f"the target has {node.op.kind} ({node.name!r}) here, and the frozen network needs the "
            f"same after {inputs[0]!r}, but has {self.kinds(inputs[0])}"
        )

    def site(self, node: Node, source: str, plan: Blueprint, number: int) -> Site:
        where = f"map {number} ({node.name!r}, {plan.rows}×{plan.cols})"
        layers: list[Layer] = []
        last = source
        for i, shape in enumerate(plan.layers, start=1):
            here = f"{where}, frozen layer {i}"
            carry = self.affine(last, here) if shape.carry else None
            entry = self.entry(shape.block, plan.cols, source, here) if shape.block else None
            value = self.sum(carry, entry, here) if carry and entry else carry or entry or last
            wanted = Norm if shape.live is None else type(shape.live.norm)
            norm = value if shape.bare else self.norm(value, here, wanted)
            activation = None if i == len(plan.layers) else self.activation(norm, here)
            layers.append(Layer(carry, entry, shape.block, norm, activation))
            last = activation or norm
        assert isinstance(node.op, Mixing)
        size, outputs = self.frozen.sizes[last], plan.rows * node.op.positions
        if size != outputs:
            raise InputError(f"{where} needs {outputs} outputs, but the frozen site has {size}")
        return Site(node.name, source, tuple(layers), number, self.frozen)

    def affine(self, source: str, where: str) -> str:
        found = self.first(source, rebuilt)
        if found is not None:
            return found
        raise InputError(
            f"{where} needs a linear layer after {source!r}, but the frozen network has "
            f"{self.kinds(source)} there; give each map of the target its own frozen layers"
        )

    def entry(self, block: tuple[int, int], cols: int, source: str, where: str) -> str:
        if block == (0, cols):
            moved = None
            if not any(rebuilt(n) for n in self.free(source)):
                moved = self.first(source, lambda n: isinstance(n.op, networks.Placement))
            return self.affine(moved or source, where)
        part = self.first(source, lambda n: n.op == networks.Select(*block))
        if part is not None:
            return self.affine(part, where)
        found = self.first(source, lambda n: rebuilt(n) and _takes(n.op, block, cols))
        if found is not None:
            return found
        raise InputError(
            f"{where} needs the inputs {block[0]} to {block[1] - 1} through a skip connection from "
            f"{source!r} (a Slice, or a convolution whose kernel is zero at the others), but the "
            f"frozen network has none"
        )

    def sum(self, carry: str, entry: str, where: str) -> str:
        both = sorted((carry, entry))
        found = self.first(
            carry, lambda n: isinstance(n.op, networks.Add) and sorted(n.inputs) == both
        )
        if found is None:
            raise InputError(f"{where} needs an Add of {carry!r} and {entry!r}, but there is none")
        return found

    def norm(self, source: str, where: str, wanted: type[networks.Operation]) -> str:
        found = self.only(source, wanted)
        if found is not None:
            return found
        for node in self.free(source):
            behind = self.frozen.consumers(node.name)
            if isinstance(node.op, Activation) and any(isinstance(n.op, Norm) for n in behind):
                raise UnsupportedError(
                    f"{where} has its norm after the activation ({node.name!r}), but the "
                    f"construction needs it before: only a shift ahead of the ReLU can keep it "
                    f"active, and a norm behind it comes too late; place each norm between its "
                    f"linear layer and the activation"
                )
        fused = ""
        if self.frozen.node(source).op.windowed:
            fused = f"; exporters fuse norms into convolutions: {UNFUSED}"
        had = f"has {self.kinds(source)} there{fused}"
        if not self.frozen.norm_nodes():
            had = (
                f"the frozen network has no norm layers at all; exporters fuse them into the "
                f"linear layers: {UNFUSED}"
            )
        raise InputError(
            f"{where} needs a norm layer right after the linear layer {source!r}, but {had}"
        )

    def activation(self, source: str, where: str) -> str:
        found = self.only(source, Activation)
        if found is not None:
            return found
        raise InputError(
            f"{where} needs one activation right after its norm {source!r}, but has "
            f"{self.kinds(source)} there; give each map of the target two linear layers with "
            f"norms, and an activation between them"
        )
