"""Rounding terms of evaluations: each has an input on which forgetting it gives a false bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reconstruct.certificates import certify
from reconstruct.certificates.error_recursion import _times
from reconstruct.certificates.forms import View
from reconstruct.certificates.propagate import secants
from reconstruct.certificates.roundoff import Value, _total
from reconstruct.networks import Add, Affine, Box, Clip, LeakyRelu, Network, Node

UNIT = 2.0**-24
DROP = 0.75 * UNIT  # less than half of the distance from 1 to the floats beside it
SMALL = 2.0**-54  # added to 1 it is lost


def in_float32(values) -> float:
    """The sum in float32, from the first to the last."""
    total = np.float32(0)
    for value in values:
        total = np.float32(total + np.float32(value))
    return float(total)


def bound_of(network: Network, x: np.ndarray, target: Network | None = None) -> float:
    found = certify(target or network, network, domain=Box(x, x), tolerance=1.0).float32_bound
    assert found is not None
    return found


def exact_sum(values) -> Fraction:
    return sum(map(Fraction, np.asarray(values, dtype=float).tolist()), Fraction(0))


def test_a_sum_of_many_values_is_rounded_at_each_of_them() -> None:
    count = 200
    parts = [Node("p0", Affine([[1.0, 0.0]]), ("x",))]
    parts += [Node(f"p{i}", Affine([[0.0, 1.0]]), ("x",)) for i in range(1, count)]
    y = Node("y", Add(), tuple(part.name for part in parts))
    x = np.array([1.0, DROP])
    met = exact_sum([1.0] + [DROP] * (count - 1)) - Fraction(
        in_float32([1.0, *[DROP] * (count - 1)])
    )
    assert bound_of(Network(2, (*parts, y), "y", "x"), x) >= met > 0


def test_a_sum_carries_on_what_its_values_were_rounded_by() -> None:
    x = np.array([1.0] + [DROP] * 300)
    long, zero = Affine(np.ones((1, 301))), Affine(np.zeros((1, 301)))
    nodes = Node("p", long, ("x",)), Node("q", zero, ("x",)), Node("y", Add(), ("p", "q"))
    met = exact_sum(x) - Fraction(in_float32(x))
    assert bound_of(Network(301, nodes, "y", "x"), x) >= met > 0


def test_a_negative_bias_is_as_large_as_a_positive_one() -> None:
    x = np.full(300, -DROP)
    network = Network(300, (Node("y", Affine(np.ones((1, 300)), [-1.0]), ("x",)),), "y", "x")
    met = Fraction(in_float32([-1.0, *x])) - exact_sum([-1.0, *x])
    assert bound_of(network, x) >= met > 0


def test_what_rounding_pushes_off_a_line_counts_by_the_other_slope() -> None:
    """An inner unit at 0 on its line of slope 1 is rounded to a negative number, times 5."""
    x = np.array([1.0] + [DROP] * 300)
    total = float(exact_sum(x))
    first = Affine(np.ones((1, 301)), [-total])
    inner = Node("z", first, ("x",)), Node("act", LeakyRelu(5.0), ("z",))
    network = Network(301, (*inner, Node("y", Affine([[1.0]]), ("act",))), "y", "x")
    target = Network(301, (Node("y", first, ("x",)),), "y", "x")
    rounded = in_float32([*x, -total])
    assert rounded < 0
    assert bound_of(network, x, target) >= 5 * -Fraction(rounded)


def test_sums_of_errors_are_rounded_up() -> None:
    one, small = np.array([[1.0]]), np.array([[SMALL]])
    value = Value(one, small, one, one)
    assert Fraction(value.error.item()) >= 1 + Fraction(SMALL)
    assert Fraction(value.computed.item()) >= 2 + Fraction(SMALL)
    assert Value(one, 2 * one, one, one).error.item() >= 3
    assert Fraction(Value(one, 0 * one, small, one).computed.item()) >= 1 + Fraction(SMALL)
    assert Fraction(_total([one, small, small]).item()) >= 1 + 2 * Fraction(SMALL)
    found = _times(((View("h", 2), np.array([[1.0, SMALL]])),), {"h": np.ones((1, 2))})
    assert Fraction(found.item()) >= 1 + Fraction(SMALL)


def test_slopes_of_chords_are_held_in_rational_numbers() -> None:
    """Middle, radius and room of chords, over many slopes and ranges: some are rounded each way."""
    rng = np.random.default_rng(0)
    for slope in rng.uniform(0.0, 0.9, 200).tolist():
        bent = secants(LeakyRelu(slope), np.array([-1.0]), np.array([1.0]))
        middle, radius = Fraction(bent.middle.item()), Fraction(bent.radius.item())
        assert middle - radius <= Fraction(slope) and middle + radius >= 1
        straight = secants(LeakyRelu(slope), np.array([1.0]), np.array([2.0]))
        off, before = 1 - Fraction(slope), float(rng.uniform(2.0, 3.0))
        noise = Fraction(straight.noise(np.array([[[before]]])).item())
        assert noise >= off * (Fraction(before) - 1)
        noise = Fraction(bent.noise(np.array([[[before]]])).item())
        assert noise >= radius * Fraction(before)
        there = rng.uniform(1.4, 100.0, 1)  # on the last piece of a clip, so far from its kink
        margin = Fraction(secants(Clip(-0.3, 0.7), there, there).margin.item())
        assert margin <= Fraction(there.item()) - Fraction(0.7)
