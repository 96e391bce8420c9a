"""The difference of two networks that are nearly equal: sound against planted differences, and
enough to decide pairs that errors carried layer by layer leave open."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.bounds import Adaptive
from reconstruct.certificates import Verdict, certify
from reconstruct.equivalence.branch_and_bound import bound_difference
from reconstruct.equivalence.search import search
from reconstruct.networks import Affine, Box, Dense, Elu, LeakyRelu, Network, Node, Relu
from reconstruct.networks.operation import Add

from .building import random_target

SIZES = (3, 8, 8, 8, 2)
DEEPER = (3, 16, 16, 16, 16, 2)
BOX = Box(-0.5, 0.5).of_size(3)
EVALUATED = 2.0**-46  # what values near 1 may be off by when they are evaluated in floats


def rounded(target: Network, size: float, rng: np.random.Generator) -> Network:
    """The target with every weight and bias moved by up to `size`."""
    ops = {}
    for node in target.mixing_nodes():
        assert isinstance(node.op, Dense)
        weight, bias = node.op.matrix, node.op.bias
        ops[node.name] = Affine(
            weight + size * rng.uniform(-1, 1, weight.shape),
            bias + size * rng.uniform(-1, 1, bias.shape),
        )
    return target.with_ops(ops)


def skipping(rng: np.random.Generator) -> Network:
    """A sum of two ways, one of them straight, and an activation behind it."""
    return Network(
        3,
        (
            Node("first", Affine(rng.standard_normal((6, 3)), rng.standard_normal(6)), ("input",)),
            Node("bent", Relu(), ("first",)),
            Node("inner", Affine(rng.standard_normal((6, 6)) / 2), ("bent",)),
            Node("sum", Add(), ("inner", "first")),
            Node("last", Relu(), ("sum",)),
            Node("end", Affine(rng.standard_normal((2, 6)), rng.standard_normal(2)), ("last",)),
        ),
        "end",
        "input",
    )


@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("activation", [Relu(), LeakyRelu(0.1), Elu()], ids=repr)
def test_no_planted_difference_exceeds_the_bound(activation, size) -> None:
    rng = np.random.default_rng(7)
    target = random_target(rng, SIZES)
    ops = {node.name: activation for node in target.activation_nodes()}
    for network in (target.with_ops(ops), skipping(rng)):
        other = rounded(network, size, rng)
        points = np.concatenate([BOX.sample(2000, rng), BOX.corners(8, rng)])
        most = float(np.abs(other(points) - network(points)).max())
        found = bound_difference(network, other, BOX, time_limit=0.2)
        assert most - EVALUATED <= found.bound


def test_a_pair_between_the_found_and_the_absolute_is_decided() -> None:
    rng = np.random.default_rng(2)
    target = random_target(rng, DEEPER)
    other = rounded(target, 1e-4, rng)
    points = BOX.sample(20_000, rng)
    most = float(np.abs(other(points) - target(points)).max())
    found = certify(
        target,
        other,
        domain=BOX,
        bounds=Adaptive(boxes=32),
        tolerance=1.5 * most,
        search=lambda: search(target, other, BOX, samples=100, restarts=1),
        time_limit=60,  # far more than it takes
    )
    assert found.verdict is Verdict.CERTIFIED and found.method == "general"
    assert found.bound is not None and most <= found.bound <= 1.5 * most
    assert any(line.startswith("joint bound of the difference") for line in found.tried)
    assert found.float64_bound is not None and found.float64_bound >= most  # of the layered proof
