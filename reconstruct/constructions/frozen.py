"""Frozen networks: what becomes of each map of a target, and layers drawn for it from a seed.

A `Layout` is the target in normal form with the plan of each of its maps, made once and carried
along. `draw` makes the layers of the plans' blueprints; a network that the user brings is taken as
it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from reconstruct import networks
from reconstruct.constructions.construction import Construction, SitePlan
from reconstruct.constructions.sites import Blueprint, Drawn, mixing_at, norm_at
from reconstruct.constructions.wide import Wide
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Activation, Map, Matrix, Mixing, Network, Node, Norm, dense
from reconstruct.networks.blocks import joined
from reconstruct.networks.draw import Sampler, Weights
from reconstruct.networks.graph import as_network
from reconstruct.networks.normal_form import NormalForm, normal_form, rebuilt, rebuilt_nodes
from reconstruct.notebook import table
from reconstruct.numbers.arrays import to_dense
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True, eq=False)
class Layout:
    """The target in normal form, and the plan of each of its maps by name.

    Sums and activations stand in the frozen network where they stand in the target. `scaled` is the
    target with units scaled as in the form: bounds are of it, because a certificate speaks of the
    target's own maps, and bounds of merged ones need not be within them.
    """

    target: Network
    scaled: Network
    form: NormalForm
    plans: Mapping[str, SitePlan]

    @property
    def blueprints(self) -> dict[str, Blueprint]:
        return {name: plan.blueprint for name, plan in self.plans.items()}


def lay_out(target: Network, construction: Construction, *, merge: bool = True) -> Layout:
    """Refuse a target that cannot be rebuilt, and plan each of its maps."""
    form = normal_form(target, merge=merge)
    check_target(form.network)
    return Layout(target, target, form, plans_of(form.network, construction))


def plans_of(form: Network, construction: Construction) -> dict[str, SitePlan]:
    """The plan of each map of a network in normal form."""
    live = getattr(construction, "live_plan", None)
    found = {} if live is None else {n.name: live(form, n) for n in rebuilt_nodes(form)}
    return {
        node.name: found.get(node.name) or construction.plan(mixing_at(form, node.name))
        for node in rebuilt_nodes(form)
    }


def check_target(network: Network) -> None:
    """Refuse what no error bound passes: activations that are not Lipschitz, unknown operations."""
    for node in network.nodes:
        live = isinstance(node.op, networks.LiveNorm)  # bounded by its range where it has no slope
        if isinstance(node.op, Activation) and not (live or isfinite(node.op.lipschitz)):
            raise UnsupportedError(
                f"node {node.name!r} of the target is a {type(node.op).__name__}, whose slope has "
                f"no bound; an activation that stands in the frozen network as in the target needs "
                f"one, so that errors before it stay bounded behind it"
            )
        if not isinstance(node.op, Map | Activation | networks.Add | networks.MatrixProduct):
            raise UnsupportedError(
                f"node {node.name!r} of the target is a {type(node.op).__name__}, but only maps, "
                f"sums and activations can be rebuilt"
            )


@dataclass(frozen=True, eq=False)
class Frozen:
    """A network whose weights never change, and how it is meant to be used.

    `origin` records where it came from: the draw's seed, distribution and density, or a file.
    """

    network: Network
    construction: Construction
    merge: bool = True
    origin: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout | None = field(default=None, repr=False)

    def layout_of(self, target: Network) -> Layout:
        """What each map of the target becomes: as it was when this was drawn for it, or anew."""
        if self.layout is not None and self.layout.target is target:
            return self.layout
        return lay_out(target, self.construction, merge=self.merge)

    @property
    def identity(self) -> str:
        """Names the weights: what they were drawn by, which says all of them, or their hash."""
        if "seed" in self.origin:
            return repr(sorted(self.origin.items()))
        return weights_hash(self.network)

    def describe(self) -> dict[str, Any]:
        """Construction and origin as reports tell them; a ratio belongs to a drawn network."""
        settings = dict(self.construction.describe())
        if "seed" not in self.origin:
            settings.pop("ratio", None)
        named = {"construction": self.construction.name, "summary": self.construction.summary}
        return {**named, **settings, **self.origin}

    def _repr_html_(self) -> str:
        """In a notebook: how it was made, above its nodes."""
        rows = [(key, value) for key, value in self.describe().items() if value is not None]
        return table("Frozen network", ("", ""), rows) + self.network._repr_html_()


def draw(
    target: Network,
    construction: Construction | None = None,
    *,
    seed: int = 0,
    weights: Weights | str = Weights.GAUSSIAN,
    density: float | None = None,
    statistics: bool = False,
    activation: Activation | None = None,
    merge: bool = True,
    progress: Progress = silent,
    layout: Layout | None = None,
) -> Frozen:
    """A random frozen network with a site for each affine map of the target.

    Activations and sums of the target stay where they are; `activation` is used inside the sites
    (ReLU unless given). `density` keeps each weight with that probability. `layout` is that of the
    target, where it was made already.
    """
    as_network(target, "the target")
    chosen = as_construction(construction)
    layout = layout or lay_out(target, chosen, merge=merge)
    form = layout.form
    total, drawn = sum(plan.blueprint.weights for plan in layout.plans.values()), 0

    def beat(count: int) -> None:
        nonlocal drawn
        drawn += count
        progress(Step("drawing the frozen network", drawn, total))

    sampler = Sampler(seed, Weights.named(weights), density, statistics, beat)
    given = networks.Relu() if activation is None else activation
    inner: Activation = _meant(given, "piece", "the activation", "rc.Relu() or rc.LeakyRelu(0.01)")
    nodes: list[Node] = []
    outputs = {form.network.source: form.network.source}
    layer = 0
    for node in form.network.nodes:
        inputs = tuple(outputs[i] for i in node.inputs)
        if rebuilt(node):
            nodes += _draw_site(sampler, layer, replace(node, inputs=inputs), layout, inner)
            layer += 1
        else:
            nodes.append(replace(node, inputs=inputs))
        outputs[node.name] = nodes[-1].name
    kept = {k: target.metadata[k] for k in ("input_shape",) if k in target.metadata}
    ends = (outputs[form.network.output], form.network.source)
    network = Network(target.size_in, tuple(nodes), *ends, kept)
    origin = {
        "seed": int(sampler.seed),
        "weights": sampler.weights.value,
        "sparsity": density,
        "statistics": statistics,
        "activation": inner,
    }
    return Frozen(network, chosen, merge, origin, layout)


def as_construction(construction: Any) -> Construction:
    """The construction that is meant; None is `Wide()`."""
    given = Wide() if construction is None else construction
    found: Construction = _meant(given, "plan", "the construction", "rc.Wide(ratio=1.5)")
    return found


def _meant(value: Any, verb: str, what: str, example: str) -> Any:
    """The value, refused where it is a word or a class in place of an object with this verb."""
    if isinstance(value, str | type):
        word = "the word " if isinstance(value, str) else "the class "
        raise InputError(
            f"{what} must be an object with its settings, such as {example}, but is {word}"
            f"{value!r}; words are for the command line"
        )
    if not hasattr(value, verb):
        raise InputError(
            f"{what} must be an object such as {example}, but is of the type {type(value).__name__}"
        )
    return value


def _draw_site(
    sampler: Sampler, layer: int, node: Node, layout: Layout, activation: Activation
) -> list[Node]:
    """The frozen nodes for the target's map at `node`, whose input is the site's."""
    op, (source,), blueprint = node.op, node.inputs, layout.plans[node.name].blueprint
    assert isinstance(op, Mixing)
    nodes: list[Node] = []

    def add(label: str, operation: networks.Operation, *inputs: str) -> str:
        nodes.append(Node(f"{node.name}.{label}", operation, inputs))
        return nodes[-1].name

    if blueprint.moved is not None:
        source = add("repeat", blueprint.moved, source)
    last, width = source, 0
    for i, shape in enumerate(blueprint.layers, start=1):
        label, parts = 4 * i, []
        if shape.carry:
            across = shape.cols or width // len(op.kernels)
            weight = sampler.matrix(layer, label, shape.width, across, hidden=1)
            parts.append(add(f"M{i}", (shape.made or op.behind)(weight), last))
        if shape.block is not None:
            (start, stop), entering = shape.block, source
            weight = sampler.matrix(layer, label + 1, shape.width, stop - start, hidden=0)
            if shape.made is None and not op.own_entries:
                weight = _elsewhere_zero(weight, start, blueprint.cols)
            elif (start, stop) != (0, blueprint.cols):
                entering = add(f"x{i}", networks.Select(start, stop), source)
            if shape.live is None:
                drawn = (shape.made or op.with_kernel)(weight)
            else:
                drawn = _live(sampler, layer, label, weight, shape.live)
            parts.append(add(f"A{i}" if shape.carry else f"M{i}", drawn, entering))
        last = add(f"sum{i}", networks.Add(), *parts) if len(parts) == 2 else parts[0]
        width = shape.width
        if not shape.bare:
            norm = sampler.norm(layer, label + 2, shape.width, op.positions)
            last = add(f"norm{i}", shape.live.norm if shape.live else norm, last)
        if i < len(blueprint.layers):
            last = add(f"act{i}", activation, last)
    return nodes


def _live(sampler: Sampler, layer: int, label: int, weight: Matrix, drawn: Drawn) -> Mixing:
    """The map ahead of a live norm, with frozen biases where it needs them."""
    if drawn.bias is None:
        return networks.Affine(np.ldexp(weight, drawn.power))
    column = to_dense(sampler.matrix(layer, label + 3, weight.shape[0], 1, hidden=0))[:, 0]
    return networks.Affine(
        np.ldexp(weight, drawn.power), np.ldexp(column, drawn.bias).astype(np.float64)
    )


def _elsewhere_zero(weight: Matrix, start: int, cols: int) -> Matrix:
    """The columns of a kernel that enter, at their place among all: no slice of an image is a part
    of every patch, so that the others are there and zero."""
    if weight.shape[1] == cols:
        return weight
    kernel = np.zeros((weight.shape[0], cols), dtype=weight.dtype)
    kernel[:, start : start + weight.shape[1]] = to_dense(weight)
    return kernel


def weights_hash(network: Network) -> str:
    """sha256 over the frozen part: weights, biases and the norms' statistics, in order."""
    digest = hashlib.sha256()
    for node in network.nodes:
        if rebuilt(node) and isinstance(node.op, Mixing):
            parts = [*node.op.kernels, node.op.channel_bias]
        elif isinstance(node.op, Norm):
            parts = [node.op.mean, node.op.var, np.array([node.op.eps])]
        else:
            continue
        digest.update(node.name.encode())
        for part in parts:  # along the longer side, some at a time: a copy would not be held
            tall = part if part.ndim == 1 or part.shape[0] > part.shape[1] else part.T
            for start in range(0, tall.shape[0], 2**11):
                digest.update(dense(tall[start : start + 2**11]).tobytes())
    return digest.hexdigest()


def as_stored(network: Network) -> Network:
    """The network with each norm's eps as ONNX keeps it, in float32, and its long sums in one.

    Gammas that were solved for with any other eps would be off by 1e-6 once exported.
    """
    network = joined(network)
    norms = {n.name: norm_at(network, n.name) for n in network.norm_nodes()}
    rounded = {name: replace(norm, eps=float(np.float32(norm.eps))) for name, norm in norms.items()}
    return network.with_ops(rounded)
