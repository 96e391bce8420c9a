"""Rationals with a radius: every operation holds the rational truth."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check.certificates.activations import Bend, Windows
from proofs_check.certificates.affine import Form, View, windows
from proofs_check.certificates.arithmetic import Whole, exact
from proofs_check.certificates.points import bent, greatest
from proofs_check.certificates.ranges import over_boxes
from proofs_check.certificates.rationals import Rationals
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks import Convolution, Elu, LeakyRelu, MaxPool, Relu
from reconstruct.networks.activations import Clip
from reconstruct.networks.maps.convolution import Geometry

BITS = 90
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


def holds(found: Rationals, truth: list[Fraction]) -> bool:
    return all(lo <= t <= hi for (lo, hi), t in zip(found.intervals(), truth, strict=True))


numbers = st.lists(
    st.integers(-(2**130), 2**130) | st.sampled_from([0, -1, 1, 2**60, -(2**60), -(2**20)]),
    min_size=1,
    max_size=5,
)


@EXAMPLES
@given(numbers, st.integers(0, 200), st.sampled_from([0, 1, 20, 61, 100]), st.sampled_from([1, 3]))
def test_rounding_down_is_that_of_integers(given_, power, bits, odd) -> None:
    unit = odd << power
    given_whole = Whole.of_integers(given_, (len(given_), 1))
    found = Rationals(given_whole, unit, np.zeros((len(given_), 1))).rounded(bits)
    if found.unit == unit:
        assert unit <= 1 << bits and found.whole is given_whole
        return
    exactly = [Fraction(n << bits, unit) for n in given_]
    assert found.unit == 1 << bits
    assert found.whole.integers() == [floor(value) for value in exactly]
    lost = [value.denominator != 1 for value in exactly]
    assert (found.radius[:, 0] >= np.where(lost, 2.0**-bits, 0.0)).all()
    assert (found.radius[:, 0] <= 2.0**-bits).all()


def drawn(rng: np.random.Generator, size: int) -> tuple[Rationals, list[Fraction]]:
    """Numbers with a truth somewhere in each, at an end of it half of the time."""
    middle = rng.normal(size=size) * 2.0 ** rng.integers(-60, 10, size)
    radius = np.where(rng.random(size) < 0.3, 0.0, 2.0 ** rng.uniform(-80, -2, size))
    part = [Fraction(int(p), 4) for p in rng.choice([-4, -3, 0, 1, 4], size)]
    truth = [
        Fraction(float(m)) + p * Fraction(float(r))
        for m, p, r in zip(middle, part, radius, strict=True)
    ]
    return Rationals.of(middle, radius), truth


@pytest.mark.parametrize("op", [Relu(), LeakyRelu(0.1), Clip(-0.25, 0.5), Elu(1.0)])
def test_activations_hold_the_truth(op) -> None:
    rng, bend = np.random.default_rng(0), Bend(op)
    for _ in range(20):
        balls, truth = drawn(rng, 12)
        for (lo, hi), z in zip(bent(balls, bend, BITS).intervals(), truth, strict=True):
            least, most = bend.at(z, z, 200)
            assert lo <= most and least <= hi


def test_a_unit_on_a_line_loses_nothing_and_one_of_unknown_sign_is_between() -> None:
    balls = Rationals.of([1 / 3, -2.0, 0.0, 2.0**-70], np.array([2.0**-80, 0.5, 0.0, 2.0**-60]))
    found = bent(balls, Bend(Relu()), BITS)
    assert found.radius[:3, 0] == pytest.approx([2.0**-80, 0.0, 0.0], rel=1e-12, abs=0)
    lo, hi = found.intervals()[3]
    assert lo <= 0 and hi >= Fraction(2.0**-60) and hi - lo <= Fraction(2.0**-59)


def test_a_maximum_holds_the_truth_and_is_as_sharp_as_its_window() -> None:
    geometry = Geometry(2, 4, 5, (2, 3), (1, 2), (1, 1, 0, 1))
    found = Windows(MaxPool(geometry), geometry.size)
    rng = np.random.default_rng(3)
    for _ in range(10):
        balls, truth = drawn(rng, geometry.size)
        best = greatest(balls, found)
        for out, (lo, hi) in enumerate(best.intervals()):
            inside = found.places[found.there[:, out], out]
            assert lo <= max(truth[i] for i in inside) <= hi
            assert best.radius[out] == balls.radius[inside].max()


def test_scaling_sums_and_places_hold_the_truth() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        (balls, truth), (other, more) = drawn(rng, 6), drawn(rng, 6)
        scale, shift = rng.normal(size=6), rng.normal(size=6)
        slip = rng.choice([0.0, 1e-9], 6)
        doubtful = Rationals.of(scale, slip)
        ends = [
            Fraction(s) + Fraction(d) for s, d in zip(scale.tolist(), slip.tolist(), strict=True)
        ]
        values = [a * z + Fraction(b) for a, z, b in zip(ends, truth, shift.tolist(), strict=True)]
        assert holds(balls.scaled(doubtful).plus(Rationals.of(shift)), values)
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
    form = Form(*exact(rows), radius, (view,), positions)
    found = form.rounded(BITS).at({"h": balls}).rounded(BITS)
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
    assert len(expected) == found.rows and holds(found, expected)
    near = {"h": tuple(end[None] for end in balls.ends())}
    low, high = over_boxes(form, form.floats(), near)
    for least, most, truth_ in zip(low[0], high[0], expected, strict=True):
        assert Fraction(least) <= truth_ <= Fraction(most)
        assert most - least <= 4 * float(abs(truth_)) + 1.0


def test_floats_around_a_ball_hold_it_and_distances_do() -> None:
    rng = np.random.default_rng(6)
    (balls, truth), (other, more) = drawn(rng, 20), drawn(rng, 20)
    lo, hi = balls.ends()
    least, most = balls.minus(other).ends()
    for i, (t, m) in enumerate(zip(truth, more, strict=True)):
        assert Fraction(lo[i]) <= t <= Fraction(hi[i])
        assert Fraction(least[i]) <= t - m <= Fraction(most[i])
    unknown = Rationals.of([1.0], np.inf)
    assert unknown.ends() == (-np.inf, np.inf)
    with pytest.raises(NotCheckable, match="beyond what the checker can enclose"):
        bent(unknown, Bend(Relu()), BITS)


@pytest.mark.parametrize("seed", range(30))
def test_forms_over_boxes_hold_their_rational_ends(seed: int) -> None:
    """Wide boxes, narrow ones far from 0, single points, ends without a number; both are attained
    but for roundings."""
    rng = np.random.default_rng(seed)
    columns, boxes = int(rng.integers(1, 7)), 3
    rows = rng.normal(size=(2, columns + 1)) * 2.0 ** rng.integers(-40, 40, (2, columns + 1))
    rows[0, 0] = 0.0
    radius = rng.choice([0.0, 1e-9], rows.shape)
    lo = rng.normal(size=(boxes, columns)) * 2.0 ** rng.integers(-30, 60, (boxes, columns))
    hi = lo + np.abs(lo) * rng.choice([0.0, 2.0**-50, 1.0, 9.0], lo.shape)
    view = View.of("h", np.arange(columns)[:, None])
    form = Form(*exact(rows), radius, (view,), 1)
    low, high = over_boxes(form, form.floats(), {"h": (lo, hi)})
    for box, (least, most) in enumerate(zip(low, high, strict=True)):
        for row, doubt, found in zip(rows, radius, zip(least, most, strict=True), strict=True):
            ends, size, unknown = [Fraction(row[-1])] * 2, abs(Fraction(row[-1])), Fraction(0)
            for a, d, *reach in zip(row, doubt, lo[box], hi[box], strict=False):
                met = [
                    (Fraction(a) + s * Fraction(d)) * Fraction(x) for x in reach for s in (1, -1)
                ]
                ends = [ends[0] + min(met), ends[1] + max(met)]
                size += max(map(abs, met))
                unknown += 2 * Fraction(d) * max(abs(Fraction(x)) for x in reach)
            ends = [ends[0] - Fraction(doubt[-1]), ends[1] + Fraction(doubt[-1])]
            assert Fraction(found[0]) <= ends[0] and ends[1] <= Fraction(found[1])
            loose = max(ends[0] - Fraction(found[0]), Fraction(found[1]) - ends[1])
            assert loose <= size / 10**14 + unknown
    hi[1, 0] = np.inf
    low, high = over_boxes(form, form.floats(), {"h": (lo, hi)})
    assert low[1, 1] == -np.inf and high[1, 1] == np.inf and np.isfinite(low[0]).all()
