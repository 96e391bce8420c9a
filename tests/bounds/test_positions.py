"""Kernels that move over images: the bounds of the worst position hold, by either way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.bounds import Reach, reach
from reconstruct.bounds.local import local_bounds, worst_position
from reconstruct.bounds.propagation import Ranges
from reconstruct.networks import Add, Box, Convolution, Geometry, Network, Node, Points, Relu
from reconstruct.numbers.arrays import Array, Range
from tests.constructions.test_images import GEOMETRIES, one_convolution


@pytest.mark.parametrize("width", [0.0, 2.0**-45, 2.0**-22, 0.3])
@pytest.mark.parametrize("power", [0, -160, 150])
def test_the_worst_position_bounds_what_rationals_give(width: float, power: int) -> None:
    """Squares of 10^-160 are no floats any more, and those of 10^150 nearly none."""
    rng = np.random.default_rng(3)
    middle = rng.normal(size=(2, 7)) * 10.0**power
    lo, hi = middle - width * np.abs(middle), middle + width * np.abs(middle)
    index = rng.integers(-1, 7, size=(3, 5))
    kernel = rng.normal(size=(4, 3))
    ranges = Ranges(Network.mlp([np.ones((7, 7))]), {"input": (lo, hi)}, ())
    low, high = worst_position(ranges, "input", kernel, index)
    for row, least, most in zip(kernel, low, high, strict=True):
        for below, above in zip(lo, hi, strict=True):
            for places in index.T:
                seen = [(w, p) for w, p in zip(row, places, strict=True) if p >= 0]
                ends = [
                    sorted((Fraction(w) * Fraction(below[p]), Fraction(w) * Fraction(above[p])))
                    for w, p in seen
                ]
                assert Fraction(least) <= sum(small for small, _ in ends)
                assert Fraction(most) >= sum(large for _, large in ends)
    scale = np.abs(kernel).sum(axis=1) * np.abs(middle).max()
    assert np.all(high - low <= 2.1 * scale)


def test_what_is_not_known_is_not_bounded() -> None:
    ranges = Ranges(
        Network.mlp([np.ones((2, 2))]), {"input": (np.full((1, 2), -np.inf), np.ones((1, 2)))}, ()
    )
    low, high = worst_position(ranges, "input", np.array([[1.0]]), np.array([[0, 1]]))
    assert low == -np.inf and high == np.inf


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("domain", [Box(-0.3, 0.4), "data"], ids=repr)
def test_small_networks_of_what_is_seen_give_the_bounds_of_whole_images(name, domain) -> None:
    network = one_convolution(name)
    rng = np.random.default_rng(0)
    if domain == "data":
        domain = Points(rng.uniform(-0.3, 0.4, (2, network.size_in)), 0.02)
    known = reach(network, domain)
    op = network.node("c").op
    assert isinstance(op, Convolution)
    index = Geometry(*op.out_shape, (2, 2), (1, 1), (1, 0, 0, 1)).windows()
    kernel = rng.normal(size=(6, len(index)))
    ranges = known.whole if known.parts is None else known.parts
    low, high = local_bounds(ranges, "r", kernel, index)
    least, most = by_images(known, "r", kernel, index)
    intervals = worst_position(ranges, "r", kernel, index)
    met = np.maximum(low, intervals[0]), np.minimum(high, intervals[1])
    assert np.allclose(met[0], least, atol=1e-9) and np.allclose(met[1], most, atol=1e-9)
    assert name != "padded" or np.any(low > intervals[0] + 1e-6)
    x = domain.of_size(network.size_in).sample(200, rng)
    h = np.concatenate([network(x), np.zeros((len(x), 1))], axis=1)
    values = np.einsum("rk,nkp->nrp", kernel, h[:, index])
    own = 1e-13
    assert np.all(met[0] <= values.min(axis=(0, 2)) + own)
    assert np.all(values.max(axis=(0, 2)) - own <= met[1])
    windows = known.windows("r", kernel, index)
    assert np.array_equal(windows[0], met[0]) and np.array_equal(windows[1], met[1])


def by_images(known: Reach, name: str, kernel: Array, index: Array) -> Range:
    """Bounds by forms that are whole images: one row for each kernel and position."""
    count, positions = len(kernel), index.shape[1]
    forms = np.zeros((count, positions, known.network.sizes[name] + 1))
    for column, places in enumerate(index):
        forms[:, np.arange(positions), places] += kernel[:, column, None]
    low, high = known.functionals(name, forms[:, :, :-1].reshape(count * positions, -1))
    return low.reshape(count, -1).min(axis=1), high.reshape(count, -1).max(axis=1)


def test_units_that_meet_again_are_counted_once() -> None:
    """A residual block: the sum's branches see different units of one value."""
    conv = one_convolution("padded").node("c").op
    assert isinstance(conv, Convolution)
    geometry = Geometry(4, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1))
    rng = np.random.default_rng(1)
    second = Convolution(rng.normal(size=(4, 4, 3, 3)), geometry)
    nodes = (
        Node("c", conv, ("x",)),
        Node("r", Relu(), ("c",)),
        Node("d", second, ("r",)),
        Node("s", Add(), ("d", "r")),
        Node("t", Relu(), ("s",)),
    )
    known = reach(Network(50, nodes, "t", "x"), Box(-0.1, 0.1))
    index = Geometry(4, 5, 5, (2, 2)).windows()
    kernel = rng.normal(size=(3, len(index)))
    low, high = local_bounds(known.whole, "t", kernel, index)
    least, most = by_images(known, "t", kernel, index)
    quick = worst_position(known.whole, "t", kernel, index)
    assert np.allclose(np.maximum(low, quick[0]), least, atol=1e-9)
    assert np.allclose(np.minimum(high, quick[1]), most, atol=1e-9)


def test_a_window_that_meets_a_unit_twice_is_bounded_by_intervals() -> None:
    network = one_convolution("padded")
    known = reach(network, Box(-0.3, 0.4))
    index = np.zeros((2, 3), dtype=np.int64)
    kernel = np.array([[1.0, -1.0]])
    found, quick = (
        known.windows("r", kernel, index),
        worst_position(known.whole, "r", kernel, index),
    )
    assert np.array_equal(found[0], quick[0]) and np.array_equal(found[1], quick[1])


@pytest.mark.parametrize("tiny", [False, True])
def test_what_a_narrow_window_rounds_is_counted(tiny: bool) -> None:
    """Products that cancel, and products of 3/4 of the least float, each of which becomes one."""
    rng = np.random.default_rng(3)
    kernel, middle = rng.normal(size=(20, 64)), rng.normal(size=(64, 1))
    if tiny:
        kernel, middle = np.full((1, 64), 2.0**-560), np.full((64, 1), 1.5 * 2.0**-515)
    known = Ranges(Network.mlp([np.ones((64, 64))]), {"input": (middle.T, middle.T)}, ())
    low, high = worst_position(known, "input", kernel, np.arange(64)[:, None])
    for row, below, above in zip(kernel.tolist(), low.tolist(), high.tolist(), strict=True):
        pairs = zip(row, middle[:, 0].tolist(), strict=True)
        true = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
        assert Fraction(below) <= true <= Fraction(above)
