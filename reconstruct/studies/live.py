"""Norms by live statistics: how their errors fall with eps, and with the size of what they see.

A d-d-d network is rebuilt three times. With LayerNorm behind its maps, in frozen layers with live
norms: exact but for eps, which alone is not invariant. As a ReLU network, in live norms that see
frozen weights of size δ: R²/(2·n·eps), R = O(δ). And in norms with constant statistics, as anybody
converts a BatchNorm network: what live norms cost beside these, in width and in float32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reconstruct.constructions.frozen import draw as drawn
from reconstruct.constructions.wide import Wide
from reconstruct.networks import Network, Node, Points, activations, dense, maps
from reconstruct.networks.operation import Operation
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import reconstruct
from reconstruct.studies import study
from reconstruct.studies.study import Panel, Point, Row, Rows, mean, select, values_of

EXAMPLES = 50


def trial(point: Point, seed: int) -> Row:
    d, eps = point["d"], point["eps"]
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(d, d)) / np.sqrt(d) for _ in range(2)]
    biases = [np.asarray(rng.normal(size=d)) for _ in weights]
    x = rng.uniform(-1, 1, size=(EXAMPLES, d))
    plain = Network.mlp(weights, biases)
    row = {}
    for name, target, norm in (
        ("exact", _normed(weights, biases, eps), None),
        ("approximate", plain, "layer"),
        ("constant", plain, "batch"),
    ):
        way = Wide(point["ratio"], norm, live_error=min(eps, 0.5) / 2**6)  # always 6 bits lost
        frozen = drawn(target, way, seed=seed)
        if name == "approximate":
            frozen = replace(frozen, network=_changed(frozen.network, eps, point["delta"]))
        network = reconstruct(target, frozen, domain=Points(x)).network
        wanted = target(x)
        size = np.abs(wanted).max()
        row[f"{name}_error"] = float(np.abs(network(x) - wanted).max() / size)
        row[f"{name}_float32"] = float(np.abs(network(x, dtype=np.float32) - wanted).max() / size)
        row[f"{name}_width"] = max(network.sizes.values())
    return row


def _normed(weights: list[Array], biases: list[Array], eps: float) -> Network:
    """The maps with LayerNorm behind each, and ReLU between them."""
    nodes: list[Node] = []
    last, d = "input", len(weights[0])
    for i, (W, b) in enumerate(zip(weights, biases, strict=True)):
        norm = activations.LayerNorm(np.ones(d), np.zeros(d), eps)
        for step in (maps.Affine(W, b), norm, activations.Relu()):
            nodes.append(Node(f"{step.kind}{i}", step, (last,)))
            last = nodes[-1].name
    return Network(d, tuple(nodes[:-1]), nodes[-2].name)


def _changed(frozen: Network, eps: float, delta: float) -> Network:
    """Hidden norms with this eps, and the weights ahead of them of size δ."""
    ops: dict[str, Operation] = {}
    for node in frozen.nodes:
        if isinstance(node.op, activations.LiveNorm):
            ops[node.name] = replace(node.op, eps=eps)
            (source,) = node.inputs
            first = frozen.node(source).op
            assert isinstance(first, maps.Dense)
            held = dense(first.kernels[0])
            # A power of two, for δ as nearly as that goes.
            power = 2.0 ** np.round(np.log2(delta / np.abs(held).max()))
            ops[source] = maps.Affine(np.asarray(held * power), first.channel_bias)
    return frozen.with_ops(ops)


def findings(rows: Rows) -> list[study.Finding]:
    said = []
    for eps in values_of(rows, "eps"):
        own = select(rows, eps=eps)
        said.append(f"{mean(own, 'exact_error'):.1e} (eps = {eps:g})")
    least = min(values_of(rows, "delta"))
    near = select(rows, delta=least)
    ratio = mean(near, "approximate_float32") / mean(near, "constant_float32")
    return [
        study.Finding(
            f"Live norms for live norms: the error falls with eps, {', '.join(said)}; without "
            f"eps it is rounding.",
            "draws whose error does not fall with eps",
        ),
        study.Finding(
            f"Live norms for a ReLU network: the error falls with δ², to "
            f"{mean(near, 'approximate_error'):.1e} at δ = {least:g} and as far as rounding; in "
            f"float32 it is {ratio:.1f} times that of constant statistics at the same width.",
            "draws whose error falls otherwise",
        ),
        study.Finding(
            "The relative error of the second way is at most R²/(2·n·eps), R the size of what a "
            "norm sees.",
            "nothing: it is the statement live-eps",
            study.Evidence.PROVED,
        ),
    ]


def panels(rows: Rows) -> list[Panel]:
    """Both errors on their scales."""
    exact = {"title": "LayerNorm targets", "ylabel": "relative error"}
    near = {"title": "ReLU targets, live norms", "xlabel": "δ, size of the frozen weights"}
    return [
        Panel("eps", "exact_error", "d", "d = {}".format, "xy", axes=exact),
        Panel("delta", "approximate_error", "eps", "eps = {:g}".format, "xy", axes=near),
    ]


LIVE = study.Study(
    name="live",
    question="What do norms by live statistics cost?",
    parameters=(
        study.Parameter("d", "units of each layer", (4, 8), 2, 64),
        study.Parameter("eps", "eps of the live norms", (1e-3, 1e-5, 1e-8), 1e-30, 1),
        study.Parameter("delta", "size of frozen weights", (1e-3, 1e-6, 1e-9, 1e-12), 1e-15, 1),
        study.Parameter("ratio", "hidden units per equation", (1.5,), 1.0, 100),
    ),
    trial=trial,
    findings=findings,
    panels=panels,
    about=(
        "A d-d-d network with LayerNorm, and the same with ReLU alone, rebuilt in live norms and "
        "in norms with constant statistics; errors at 50 inputs, relative to the largest output."
    ),
)
