"""The difference with its signs, box by box, and by lengths: sound against planted differences,
sharper than absolute values, and enough to decide pairs that these leave open."""

from __future__ import annotations

import time

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Crown, Reach, reach
from reconstruct.certificates import Verdict, certify
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.cutting import applies, cut_until
from reconstruct.certificates.difference import bound_boxes
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.euclidean import euclidean_bound
from reconstruct.certificates.figures import figures
from reconstruct.certificates.gaps import gaps
from reconstruct.networks import (
    Affine,
    Box,
    Clip,
    Dense,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Relu,
)
from reconstruct.networks.sums import Add
from reconstruct.progress import silent
from reconstruct.refutation.search import search

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


def aligned(target: Network) -> Alignment:
    return Alignment(tuple((node.name, node.name) for node in target.activation_nodes()))


def steps_of(known: Reach, other: Network):
    alignment = aligned(known.network)
    layered = bound_layers(known.network, other, known, alignment)
    return gaps(known.network, other, alignment, layered), layered


@pytest.mark.parametrize("activation", [Relu(), LeakyRelu(0.2), Clip(-0.7, 0.9), Elu()])
@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.3])
def test_no_planted_difference_exceeds_its_box_or_its_length(activation, size) -> None:
    rng = np.random.default_rng(5)
    target = random_target(rng, SIZES, activation=activation)
    other = rounded(target, size, rng)
    known = reach(target, BOX, Crown())
    steps, layered = steps_of(known, other)
    ranges = {n.inputs[0]: known.bounds(n.inputs[0]) for n in target.activation_nodes()}
    centre = BOX.sample(24, rng) / 2
    for width in (0.5, 0.1, 0.001):
        lo, hi = centre - width / 2, centre + width / 2
        found = bound_boxes(target, steps, ranges, lo, hi)
        points = rng.uniform(size=(200, *lo.shape))
        points[:40] = np.round(points[:40])
        inside = lo + points * (hi - lo)
        met = np.abs(other(inside.reshape(-1, 3)) - target(inside.reshape(-1, 3))).max(axis=1)
        met = met.reshape(200, -1).max(axis=0)
        assert (met - EVALUATED <= found.bound).all()
        if width == 0.001 and size < 0.1 and not isinstance(activation, Elu):
            assert np.median(found.bound / met) < 1.5  # nothing bends: nearly the difference
    points = np.concatenate([BOX.sample(4000, rng), BOX.corners(8, rng)])
    most = np.abs(other(points) - target(points)).max()
    assert most <= euclidean_bound(known, steps) <= 1.01 * layered.bound


def test_ways_around_an_activation_and_back() -> None:
    rng = np.random.default_rng(8)
    target = skipping(rng)
    other = rounded(target, 1e-4, rng)
    known = reach(target, BOX, Crown())
    steps, _ = steps_of(known, other)
    ranges = {n.inputs[0]: known.bounds(n.inputs[0]) for n in target.activation_nodes()}
    found = bound_boxes(target, steps, ranges, BOX.lo[None], BOX.hi[None])
    points = np.concatenate([BOX.sample(4000, rng), BOX.corners(8, rng)])
    most = np.abs(other(points) - target(points)).max()
    assert most <= found.bound[0] <= 100 * most
    assert most <= euclidean_bound(known, steps) <= 100 * most


def test_cutting_ends_where_every_box_is_within_the_tolerance() -> None:
    rng = np.random.default_rng(2)
    target = random_target(rng, DEEPER)
    other = rounded(target, 1e-4, rng)
    known = reach(target, BOX, Crown())
    steps, layered = steps_of(known, other)
    points = BOX.sample(20_000, rng)
    most = float(np.abs(other(points) - target(points)).max())
    carried = figures(known, other, aligned(target), layered).real
    tolerance = 1.5 * most
    assert carried > tolerance  # absolute sizes do not decide it
    assert applies(known, aligned(target))
    deadline = time.perf_counter() + 60
    found = cut_until(known, steps, tolerance, deadline, silent)
    assert most <= found.bound <= tolerance and found.open_boxes == 0
    stopped = cut_until(known, steps, tolerance, 0.0, silent)
    assert stopped.open_boxes > 0 and stopped.bound > tolerance and "time was over" in stopped.tried


def test_lengths_gain_on_wide_layers() -> None:
    rng = np.random.default_rng(4)
    target = random_target(rng, (64, 96, 96, 96, 3))
    box = Box(0.0, 1.0).of_size(64)
    known = reach(target, box, Crown())
    steps, layered = steps_of(known, rounded(target, 1e-6, rng))
    assert euclidean_bound(known, steps) < layered.bound / 5


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
        search=search(target, other, BOX, samples=100, restarts=1),
        time_limit=15,  # a share of it goes to methods that come before and do not decide
    )
    assert found.verdict is Verdict.CERTIFIED and found.method == "general"
    assert found.bound is not None and most <= found.bound <= 1.5 * most
    assert any(line.startswith("difference with its signs") for line in found.tried)
    assert found.float64_bound is not None and found.float64_bound >= most  # of the layered proof
