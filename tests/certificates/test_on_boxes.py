"""Rounding on boxes, and errors of hidden units with their signs: sound, tighter, proved again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates import check
from reconstruct.bounds import Adaptive, reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.on_boxes import OnBoxes
from reconstruct.certificates.propagate import figures
from reconstruct.equivalence.witness import enclose
from reconstruct.networks import Box, Network, in_blocks
from reconstruct.networks.blocks import Tree
from tests.proofs_check.certificates.making import certified, close, edit

from .building import random_target, wide

SIZES = (2, 8, 8, 8, 2)
BOX = Box(-2.0, 2.0).of_size(2)
METHOD = Adaptive(boxes=200)
SHORT = Tree(block=4, together=2)


def rebuilt(seed: int = 7) -> tuple[Network, Network]:
    """A target, and its reconstruction with sums in short blocks."""
    rng = np.random.default_rng(seed)
    target = random_target(rng, SIZES)
    return target, in_blocks(wide(target, BOX, rng, method=METHOD), SHORT)


def facts_of(target: Network, network: Network) -> OnBoxes:
    known = reach(target, BOX, METHOD)
    return OnBoxes(bound_layers(known, network, cuts_of(target)))


def cuts_of(target: Network) -> Alignment:
    return Alignment(tuple((node.name, node.name) for node in target.activation_nodes()))


# --- what is known on boxes -----------------------------------------------------------------------


def test_values_on_a_box_are_within_what_is_known_there() -> None:
    """In rationals: at points of every tenth box, of all values that something is known of."""
    target, network = rebuilt()
    facts, rng = facts_of(target, network), np.random.default_rng(0)
    below, above = facts.layered.known.parts.values[target.source]
    rows = np.arange(0, facts.count, 10)
    here = facts.of_candidate(rows)
    assert len(rows) > 2 and facts.apart
    for place, box in enumerate(rows):
        x = rng.uniform(below[box], above[box])
        for name, size in here.magnitudes.items():
            if name != network.source:
                values = enclose(_until(network, name), x)
                for (low, high), most in zip(values, size[min(place, len(size) - 1)], strict=True):
                    assert max(abs(low), abs(high)) <= Fraction(float(most))
        for name, ends in here.ranges.items():
            (inside,) = network.node(name).inputs
            lo, hi = (end[min(place, len(end) - 1)] for end in ends)
            for (low, high), least, most in zip(
                enclose(_until(network, inside), x), lo, hi, strict=True
            ):
                assert Fraction(float(least)) <= low and high <= Fraction(float(most))


def _until(network: Network, name: str) -> Network:
    """The network up to a value."""
    last = next(i for i, node in enumerate(network.nodes) if node.name == name)
    return Network(network.size_in, network.nodes[: last + 1], name, network.source)


def test_boxes_tell_more_than_the_domain() -> None:
    facts = facts_of(*rebuilt())
    whole, apart = facts.layered.magnitudes, facts.of_candidate(np.arange(facts.count)).magnitudes
    gains = [
        float(np.median(whole[name] / np.maximum(size, 1e-300)))
        for name, size in apart.items()
        if len(size) > 1
    ]
    assert min(gains) >= 1 and max(gains) > 1.5


# --- the figures ----------------------------------------------------------------------------------


def test_boxes_apart_lower_the_figures_and_no_evaluation_exceeds_them() -> None:
    target, network = rebuilt()
    facts = facts_of(target, network)
    found = figures(facts.layered)
    far = replace(facts.layered.known, parts=None, partition=None)
    coarse = figures(bound_layers(far, network, cuts_of(target)))
    assert found.floats[0] < 0.8 * coarse.floats[0]
    x = BOX.sample(3000, np.random.default_rng(1)).astype(np.float32)
    error = np.abs(network(x, np.float32).astype(float) - target(x.astype(float)))
    assert found.floats[1] is not None and float(error.max()) <= found.floats[1]


@pytest.mark.parametrize("field", ["float64_bound", "float32_bound"])
def test_figures_on_boxes_are_proved_again_and_no_less(tmp_path, field) -> None:
    certified(tmp_path, *rebuilt(), BOX, bounds=METHOD, tolerance=1.0)
    report = check(tmp_path)
    assert report.accepted and close(report, tmp_path), report
    edit(tmp_path, field, value=lambda text: (float.fromhex(text) * 0.5).hex())
    assert field in check(tmp_path).unverified
