"""Networks between their cuts: ranges node by node hold every value, and what errors make of it;
rows of grouped maps are mixed as those of the map written out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates.affine import Forms
from proofs_check.certificates.arithmetic import above, below
from proofs_check.certificates.between import Between
from proofs_check.certificates.ranges import added, needed, stretched
from proofs_check.certificates.rationals import Rationals
from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Geometry,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Placement,
    Relu,
    Select,
)
from reconstruct.networks.maps import Scaling


def many(rng: np.random.Generator) -> Network:
    """All operations that may stand between two cuts, and an inner activation behind each."""
    geometry = Geometry(2, 3, 3, (2, 2), (1, 1), (1, 0, 0, 1), (1, 1))
    norm = Norm(*rng.normal(size=(3, 3)), rng.uniform(0.5, 2.0, size=3), 1e-3, 9)
    scaling = Scaling(rng.normal(size=6), rng.uniform(0.5, 2.0, size=6), rng.normal(size=6))
    nodes = (
        Node(
            "conv", Convolution(rng.normal(size=(3, 2, 2, 2)), geometry, rng.normal(size=3)), ("x",)
        ),
        Node("norm", norm, ("conv",)),
        Node("a", LeakyRelu(0.25), ("norm",)),
        Node("move", Placement(rng.integers(-1, 27, size=6), 27), ("a",)),
        Node("scale", scaling, ("move",)),
        Node("b", Relu(), ("scale",)),
        Node("some", Select(3, 9), ("a",)),
        Node("sum", Add(), ("some", "b")),
        Node("c", Relu(), ("sum",)),
        Node("dense", Affine(rng.normal(size=(4, 6)), rng.normal(size=4)), ("c",)),
        Node("d", Relu(), ("dense",)),
        Node("y", Affine(rng.normal(size=(1, 4))), ("d",)),
    )
    return Network(18, nodes, "y", "x")


@pytest.mark.parametrize("seed", range(6))
def test_ranges_node_by_node_hold_what_is_sampled_and_moved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = many(rng)
    between = Between(Forms(network, {"x": "x"}), needed(network), [None, None], {})
    lo = rng.normal(size=(2, 18))
    hi, by = lo + rng.choice([0.0, 0.1, 1.0], lo.shape), rng.uniform(0, 0.1, size=(4, 18))
    between.settle("x", lo, hi, by.reshape(2, 2, 18))
    for name in "abcd":
        node = network.node(name)
        value = between.until(node)
        low, high, most = value.lo, value.hi, value.by.reshape(4, -1)
        upto = replace(network, output=node.inputs[0])
        for box in range(2):
            for corner in range(40):
                part = rng.uniform(size=18) if corner else rng.integers(0, 2, size=18)
                x = lo[box] + part * (hi[box] - lo[box])
                value, slack = upto(x), 1e-12
                assert (low[box] <= value + slack).all() and (value <= high[box] + slack).all()
                for row in (box, box + 2):  # two sets of errors for each box
                    moved = np.abs(upto(x + by[row] * rng.choice([-1, 1], size=18)) - value)
                    assert (moved <= most[row] + slack).all()


@pytest.mark.parametrize("irrational", [False, True])
def test_grouped_rows_are_mixed_as_those_written_out(irrational: bool) -> None:
    """Four groups that see two channels each, some of them the same and some nothing."""
    rng = np.random.default_rng(1)
    plain = Geometry(8, 1, 2, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    index = np.stack([rng.integers(-1, 3, size=8), np.arange(8) + 3], axis=1).ravel()
    index[4:6] = -1
    hidden = Convolution(rng.normal(size=(12, 2, 1, 1)), plain, rng.normal(size=12), 4)
    variance = np.full(12, 3.0 if irrational else 1.0)
    norm = Norm(rng.normal(size=12), rng.normal(size=12), np.zeros(12), variance, 0.0, 2)
    nodes = (
        Node("move", Placement(index, 11), ("x",)),
        Node("hidden", hidden, ("move",)),
        Node("norm", norm, ("hidden",)),
        Node("act", Relu(), ("norm",)),
    )
    forms = Forms(Network(11, nodes, "act", "x"), {"x": "x"})
    forms.doubts["act"] = rng.choice([0.0, 1e-9], size=24)
    grouped, written = (forms.rows("act", 0, 12, 2, chosen) for chosen in (True, False))
    assert grouped.groups == 4 and written.groups == 1
    weight = Rationals.of(rng.normal(size=(3, 12)))
    mine, other = grouped.mixed(weight), written.mixed(weight)
    assert mine.groups == 1 and mine.layout == other.layout
    assert not mine.minus(other).whole.nonzero().any()
    assert np.all(mine.radius >= other.radius * (1 - 1e-12))
    assert np.allclose(mine.radius, other.radius, rtol=1e-9, atol=0)


def drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    """Floats of all sizes, subnormal ones, powers of two and zeros among them."""
    exponent = rng.choice([rng.integers(-1074, 1000, count), rng.integers(-5, 5, count)], axis=0)
    x = np.ldexp(rng.uniform(1, 2, count), exponent) * rng.choice([-1, 1], count)
    power = np.ldexp(1.0, rng.integers(-1074, 1000, count))
    return np.where(rng.random(count) < 0.1, 0.0, np.where(rng.random(count) < 0.1, power, x))


@pytest.mark.parametrize("seed", range(10))
def test_ends_are_rounded_outward_at_all_sizes(seed: int) -> None:
    rng, count = np.random.default_rng(seed), 100
    lo, scale, shift, more = (drawn(rng, count) for _ in range(4))
    hi = lo + np.abs(drawn(rng, count))
    off, doubt = (np.abs(drawn(rng, count)) * rng.choice([0, 1], count) for _ in range(2))
    with np.errstate(all="ignore"):
        ends = stretched(lo, hi, scale, off, shift, doubt), added((lo, hi), (more, more))
        up, down = above(lo), below(lo)
        assert (up >= np.nextafter(lo, np.inf)).all() and (down <= np.nextafter(lo, -np.inf)).all()
    known = np.isfinite(hi) & np.all([np.isfinite(end) for pair in ends for end in pair], axis=0)
    assert known.sum() > 20
    for i in np.flatnonzero(known).tolist():
        s, e, t, d = (Fraction(part[i]) for part in (scale, off, shift, doubt))
        a, b, c = (Fraction(part[i]) for part in (lo, hi, more))
        wanted = [(s + p * e) * x + t + q * d for x in (a, b) for p in (-1, 1) for q in (-1, 1)]
        found = [[Fraction(end[i]) for end in pair] for pair in ends]
        assert found[0][0] <= min(wanted) and max(wanted) <= found[0][1]
        assert found[1][0] <= a + c and b + c <= found[1][1]
