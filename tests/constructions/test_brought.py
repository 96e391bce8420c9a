"""Frozen networks that users bring: what their exporters did to them is recognised and said."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.networks import Affine, Network, Node, Relu
from reconstruct.networks.normal_form import fold_norms
from tests.constructions.targets import mlp
from tests.networks.test_images import small_network


def test_fused_norms_are_recognised():
    """An exporter that folds BatchNorm into Linear leaves maps and activations alone."""
    target = mlp([3, 4, 2], 0)
    fused = fold_norms(rc.draw(target).network)
    needle = r"no norm layers at all; .* dynamo=False, do_constant_folding=False\).*from_torch"
    with pytest.raises(rc.InputError, match=needle):
        rc.reconstruct(target, fused, domain=(-1, 1))


def test_one_missing_norm_is_not_taken_for_fusion():
    target = mlp([3, 4, 2], 0)
    drawn = rc.draw(target).network
    kept = [n for n in drawn.nodes if n.name != "layer1.norm1"]
    nodes = tuple(
        Node(n.name, n.op, tuple("layer1.M1" if i == "layer1.norm1" else i for i in n.inputs))
        for n in kept
    )
    with pytest.raises(rc.InputError, match=r"right after the linear layer 'layer1.M1', but has R"):
        rc.reconstruct(target, Network(3, nodes, drawn.output), domain=(-1, 1))


def test_a_norm_that_was_fused_into_a_convolution_is_recognised_beside_others():
    """Exporters fuse norms into convolutions and may leave those behind linear layers."""
    network = small_network()
    drawn = rc.draw(network).network
    gone = next(n for n in drawn.norm_nodes() if drawn.node(n.inputs[0]).op.windowed)
    nodes = tuple(
        Node(n.name, n.op, tuple(gone.inputs[0] if i == gone.name else i for i in n.inputs))
        for n in drawn.nodes
        if n.name != gone.name
    )
    needle = r"but has Relu there; exporters fuse norms into convolutions: .*do_constant_folding"
    with pytest.raises(rc.InputError, match=needle):
        rc.reconstruct(network, Network(72, nodes, drawn.output, drawn.source), domain=(0, 0.5))


def test_a_fixed_batch_is_recognised():
    rng = np.random.default_rng(0)
    nodes = (Node("a", Affine(rng.normal(size=(4, 6))), ("input",)), Node("b", Relu(), ("a",)))
    wide = Network(6, nodes, "b", metadata={"input_shape": [2, 3]})
    needle = r"target, 3, but takes 6: its input is 2×3, a fixed batch of 2; export it with a batch"
    with pytest.raises(rc.InputError, match=needle):
        rc.reconstruct(mlp([3, 4, 2], 0), wide, domain=(-1, 1))
    plain = Network(6, nodes, "b", metadata={"input_shape": [1, 6]})
    with pytest.raises(rc.InputError, match=r"target, 3, but takes 6; bring one"):
        rc.reconstruct(mlp([3, 4, 2], 0), plain, domain=(-1, 1))


@pytest.mark.parametrize("sizes", [[3, 6, 5, 2], [4, 5, 5, 5, 3]], ids=str)
def test_names_of_somebody_else_do_not_hide_scaled_units(sizes):
    """Units are scaled by powers of two; the proof finds them in a network with other names."""
    target = mlp(sizes, 3)
    drawn = rc.draw(target).network
    names = {n.name: f"node_{i}" for i, n in enumerate(drawn.nodes)} | {"input": "input"}
    nodes = [Node(names[n.name], n.op, tuple(names[i] for i in n.inputs)) for n in drawn.nodes]
    theirs = Network(drawn.size_in, tuple(nodes), names[drawn.output])
    result = rc.reconstruct(target, theirs, domain=(-1, 1))
    certificate = rc.certify(target, result.network, domain=(-1, 1))
    assert certificate.scales, "nothing was scaled: the test shows nothing"
    assert certificate.method == "layered" and certificate.bound < 1e-12
    assert len(certificate.alignment) == len(sizes) - 2
