"""Integers over a power of two with a radius: every operation holds the rational truth."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check.certificates.affine import Form, View, windows
from proofs_check.certificates.arithmetic import Whole, exact
from proofs_check.certificates.balls import Applied, Balls, rescaled
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.columns import Column
from proofs_check.certificates.pointwise import Channels, Seen
from proofs_check.certificates.windows import Windows
from reconstruct.networks import Convolution, Elu, LeakyRelu, MaxPool, Relu
from reconstruct.networks.activations import Clip
from reconstruct.networks.maps.convolution import Geometry

BITS = 90
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


def intervals(balls: Balls) -> list[tuple[Fraction, Fraction]]:
    """What the balls say, as rationals."""
    pairs = zip(balls.whole.integers(), balls.radius.tolist(), strict=True)
    return [
        (Fraction(n, 1 << balls.bits) - Fraction(r), Fraction(n, 1 << balls.bits) + Fraction(r))
        for n, r in pairs
    ]


def holds(balls: Balls, truth: list[Fraction]) -> bool:
    return all(lo <= t <= hi for (lo, hi), t in zip(intervals(balls), truth, strict=True))


numbers = st.lists(
    st.integers(-(2**130), 2**130) | st.sampled_from([0, -1, 1, 2**60, -(2**60), -(2**20)]),
    min_size=1,
    max_size=5,
)


@EXAMPLES
@given(numbers, st.integers(0, 200), st.sampled_from([0, 1, 20, 61, 100]), st.sampled_from([1, 3]))
def test_rounding_down_is_that_of_integers(given_, power, bits, odd) -> None:
    unit = odd << power
    whole, lost = rescaled(Whole.of_integers(given_, (len(given_), 1)), unit, bits)
    exactly = [Fraction(n << bits, unit) for n in given_]
    assert whole.integers() == [floor(value) for value in exactly]
    assert lost[:, 0].tolist() == [value.denominator != 1 for value in exactly]


def drawn(rng: np.random.Generator, size: int) -> tuple[Balls, list[Fraction]]:
    """Balls with a truth somewhere in each, at an end of it half of the time."""
    middle = rng.normal(size=size) * 2.0 ** rng.integers(-60, 10, size)
    radius = np.where(rng.random(size) < 0.3, 0.0, 2.0 ** rng.uniform(-80, -2, size))
    part = [Fraction(int(p), 4) for p in rng.choice([-4, -3, 0, 1, 4], size)]
    truth = [
        Fraction(float(m)) + p * Fraction(float(r))
        for m, p, r in zip(middle, part, radius, strict=True)
    ]
    return Balls.of(middle, radius, BITS), truth


@pytest.mark.parametrize("op", [Relu(), LeakyRelu(0.1), Clip(-0.25, 0.5), Elu(1.0)])
def test_activations_hold_the_truth(op) -> None:
    rng, bend = np.random.default_rng(0), Bend(op)
    for _ in range(20):
        balls, truth = drawn(rng, 12)
        for (lo, hi), z in zip(intervals(balls.bent(bend)), truth, strict=True):
            least, most = bend.at(z, z, 200)
            assert lo <= most and least <= hi


def test_a_unit_on_a_line_loses_nothing_and_one_of_unknown_sign_is_between() -> None:
    balls = Balls.of([1 / 3, -2.0, 0.0, 2.0**-70], np.array([2.0**-80, 0.5, 0.0, 2.0**-60]), BITS)
    found = balls.bent(Bend(Relu()))
    assert found.radius[:3].tolist() == [2.0**-80, 0.0, 0.0]
    lo, hi = intervals(found)[3]
    assert lo <= 0 and hi >= Fraction(2.0**-60) and hi - lo <= Fraction(2.0**-59)


def test_a_maximum_holds_the_truth_and_is_as_sharp_as_its_window() -> None:
    geometry = Geometry(2, 4, 5, (2, 3), (1, 2), (1, 1, 0, 1))
    found = Windows(MaxPool(geometry), geometry.size)
    rng = np.random.default_rng(3)
    for _ in range(10):
        balls, truth = drawn(rng, geometry.size)
        best = balls.greatest(found)
        for out, (lo, hi) in enumerate(intervals(best)):
            inside = found.places[found.there[:, out], out]
            assert lo <= max(truth[i] for i in inside) <= hi
            assert best.radius[out] == balls.radius[inside].max()


def test_scaling_sums_and_places_hold_the_truth() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        (balls, truth), (other, more) = drawn(rng, 6), drawn(rng, 6)
        scale, shift = rng.normal(size=6), rng.normal(size=6)
        slip = rng.choice([0.0, 1e-9], 6)
        columns = Column.of_floats(scale), Column.of_floats(shift)
        doubtful = Column(columns[0].whole, columns[0].unit, slip)
        ends = [
            Fraction(s) + Fraction(d) for s, d in zip(scale.tolist(), slip.tolist(), strict=True)
        ]
        values = [a * z + Fraction(b) for a, z, b in zip(ends, truth, shift.tolist(), strict=True)]
        assert holds(balls.scaled(doubtful, columns[1]), values)
        assert holds(balls.plus(other), [a + b for a, b in zip(truth, more, strict=True)])
        index = np.array([5, -1, 0, 0])
        assert holds(balls.placed(index), [truth[5], Fraction(0), truth[0], truth[0]])


@pytest.mark.parametrize("on_images", [False, True])
def test_a_form_at_a_value_holds_the_truth(on_images: bool) -> None:
    rng = np.random.default_rng(5)
    geometry = Geometry(2, 3, 4, (2, 2), (1, 2), (1, 0, 0, 0))
    balls, truth = drawn(rng, geometry.size)
    op = Convolution(np.ones((1, 2, 2, 2)), geometry)
    places = windows(op) if on_images else np.arange(geometry.size)[:, None]
    view = View.of("h", places)
    rows = rng.normal(size=(3, view.columns + 1)) * 2.0 ** rng.integers(
        -90, 3, (3, view.columns + 1)
    )
    positions = places.shape[1]
    radius = rng.choice([0.0, 1e-12], rows.shape)
    form = Form((view,), *exact(rows), radius, positions)
    found = Applied.of(form, BITS)({"h": balls})
    expected = [
        Fraction(row[-1])
        + Fraction(doubt[-1])
        + sum(
            (Fraction(a) + Fraction(d)) * truth[i]
            for a, d, i in zip(row, doubt, places[:, p].tolist(), strict=False)
            if i >= 0
        )
        for row, doubt in zip(rows.tolist(), radius.tolist(), strict=True)
        for p in range(positions)
    ]
    assert len(expected) == len(found) and holds(found, expected)
    near = {"h": balls.ends()}
    for row, (low, high) in enumerate(zip(*Channels.of(form).at(Seen(near)), strict=True)):
        part = expected[row * positions : (row + 1) * positions]
        assert Fraction(low) <= min(part) and max(part) <= Fraction(high)
        assert high - low <= 4 * float(max(map(abs, part))) + 1.0


def test_floats_around_a_ball_hold_it_and_distances_do() -> None:
    rng = np.random.default_rng(6)
    (balls, truth), (other, more) = drawn(rng, 20), drawn(rng, 20)
    lo, hi = balls.ends()
    least, most = balls.apart(other)
    for i, (t, m) in enumerate(zip(truth, more, strict=True)):
        assert Fraction(lo[i]) <= t <= Fraction(hi[i])
        assert Fraction(least[i]) <= abs(t - m) <= Fraction(most[i])
    unknown = Balls.of([1.0], np.inf, BITS)
    assert unknown.ends() == (-np.inf, np.inf) and np.isinf(unknown.bent(Bend(Relu())).radius[0])
