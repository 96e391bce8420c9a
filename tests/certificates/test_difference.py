"""The difference of two networks that are nearly equal: sound against planted differences, and
enough to decide pairs that errors carried layer by layer leave open."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Interval
from reconstruct.certificates import Verdict, certify
from reconstruct.equivalence.branch_and_bound import GeneralResult, bound_difference
from reconstruct.equivalence.search import Over, Search, search
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
        search=lambda over: search(target, other, BOX, samples=100, restarts=1, over=over),
        time_limit=60,  # far more than it takes
    )
    assert found.verdict is Verdict.CERTIFIED and found.method == "general"
    assert found.bound is not None and most <= found.bound <= 1.5 * most
    assert any(line.startswith("joint bound of the difference") for line in found.tried)
    assert found.float64_bound is not None and found.float64_bound >= most  # of the layered proof


def test_a_proof_ends_the_search_beside_it() -> None:
    rng = np.random.default_rng(2)
    target = random_target(rng, DEEPER)
    other = rounded(target, 1e-4, rng)
    asked = []

    def endless(over: Over) -> Search:
        until = time.monotonic() + 30
        while not over() and time.monotonic() < until:
            time.sleep(0.01)
        asked.append(over())
        return search(target, other, BOX, samples=10, restarts=0, over=over)

    found = certify(target, other, domain=BOX, tolerance=2e-3, search=endless, bounds=Interval())
    assert found.verdict is Verdict.CERTIFIED and found.method == "general"
    assert asked == [True]


def test_a_search_ends_the_proof_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal but for one input; who bounds boxes is told only that the search has found it."""
    target, spike = Network.mlp([np.zeros((1, 1))]), np.array([[1.0], [1.0], [1.0]])
    bias = np.array([-0.3, -0.3 - 1e-3, -0.3 - 2e-3])
    other = Network.mlp([spike, np.array([[1e3, -2e3, 1e3]])], [bias, np.zeros(1)])
    told, near = [], Box(0.3, 0.302).of_size(1)

    def waiting(*given: Any, refuted: Callable[[], bool], **more: Any) -> GeneralResult:
        until = time.monotonic() + 30
        while not refuted() and time.monotonic() < until:
            time.sleep(0.01)
        told.append(refuted())
        return bound_difference(*given, refuted=refuted, **more)

    monkeypatch.setattr(
        sys.modules["reconstruct.certificates.certify"], "bound_difference", waiting
    )
    found = certify(
        target,
        other,
        domain=Box(0.0, 1.0),
        tolerance=0.5,
        search=lambda over: search(target, other, near, samples=100, over=over),
    )
    assert told == [True] and found.verdict is Verdict.REFUTED
    assert "the search met a difference above the tolerance" in " ".join(found.tried)
    assert found.tried[-1].startswith("witness found by search")
