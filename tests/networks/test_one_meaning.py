"""One meaning per operation: value, enclosure, exact value, float error and lines agree.

Each operation says the same function several times: in floats, between floats, in exact numbers,
as lines above and below, and as what evaluation may lose. Here they are held against each other,
and against an oracle of a few lines, at zeros, kinks, denormals and the largest floats. Exact
rationals decide; the slack is zero.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import inf, isfinite, nextafter

import mpmath
import numpy as np
import pytest

from reconstruct.networks import (
    Affine,
    Clip,
    Convolution,
    Elu,
    Geometry,
    LeakyRelu,
    Norm,
    Placement,
    Relu,
    Scaling,
    Select,
    Selu,
    SumPool,
    Unitwise,
)
from reconstruct.networks.activations import Exponential, Line, Support
from reconstruct.networks.maps.map import InputBounds
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.precision import Precision

BITS = 256
TOP, LEAST, NORMAL = float(np.finfo(float).max), 5e-324, float(np.finfo(float).tiny)
SPECIAL = [
    *(s * v for v in (0.0, LEAST, NORMAL, 1e-300, 1e-8, 0.3, 0.5, 1.0, 6.0) for s in (1, -1)),
    *(s * v for v in (37.7, 745.2, 800.0, 1e30, 1e154, TOP / 8, TOP) for s in (1, -1)),
    *(1.0 + 2.0**-52, -1.0 - 2.0**-52, 1.0 - 2.0**-53),
]
SINGLE = [float(np.float32(v)) for v in SPECIAL if abs(v) < 1e38 and (v == 0 or abs(v) > 1e-45)]

ACTIVATIONS = [
    Relu(),
    *(LeakyRelu(slope) for slope in (0.01, 0.3, 1.0, 0.0, 5.0, -3.0, 1e-310, 1e300)),
    *(Clip(*ends) for ends in ((-1.0, 1.0), (0.0, 6.0), (1.0, 2.0), (-2.0, -1.0), (1.0, 1.0))),
    *(Clip(*ends) for ends in ((-np.inf, 0.0), (0.0, np.inf), (-np.inf, np.inf), (-LEAST, TOP))),
    *(Elu(alpha) for alpha in (1.0, 0.3, 0.0, -2.0, 1e-310)),
    *(Selu(), Selu(-1.0, 2.0), Selu(2.0, -1.0), Selu(1.0, 0.0), Selu(0.1, 1e-300)),
]


def kinks(op: Unitwise) -> list[float]:
    """The breakpoints and the floats next to them."""
    ends = [float(b) for b in op.breakpoints if np.isfinite(b)]
    near = [v for b in ends for v in (b, nextafter(b, -inf), nextafter(b, inf))]
    return [v for v in near if isfinite(v)]


def oracle(op: Unitwise, z: float) -> tuple[Fraction, Fraction]:
    """f(z) between two rationals, from the declared pieces alone."""
    for piece in sorted(op.pieces, key=lambda piece: isinstance(piece, Exponential)):
        if not piece.lo <= z <= piece.hi:
            continue
        if isinstance(piece, Line):
            value = Fraction(piece.slope) * Fraction(z) + Fraction(piece.intercept)
            return value, value
        assert isinstance(piece, Exponential)
        factor = Fraction(piece.gain) * Fraction(piece.alpha)
        if z < -2000:
            ends = (-factor, -factor * (1 - Fraction(1, 2**2800)))
        else:
            middle = exponential(z)
            ends = (
                factor * (middle - Fraction(1, 2**3400)),
                factor * (middle + Fraction(1, 2**3400)),
            )
        return min(ends), max(ends)
    raise AssertionError(f"no piece of {op} holds {z}")


@cache
def exponential(z: float) -> Fraction:
    """exp(z) − 1 to 3500 bits: at the same places for every activation."""
    with mpmath.workprec(4000):
        near = mpmath.expm1(mpmath.mpf(z))
        return Fraction(int(mpmath.floor(near * mpmath.mpf(2) ** 3500)), 2**3500)


def rational(value: float) -> Fraction | float:
    return Fraction(value) if np.isfinite(value) else value


def inside(found: tuple[Fraction, Fraction], low: float, high: float) -> bool:
    """Whether a value that is known to lie in `found` may lie in [low, high]."""
    assert not np.isnan(low) and not np.isnan(high)
    return found[1] >= rational(low) and found[0] <= rational(high)


# --- activations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_exact_value_enclosure_and_magnitude_hold_what_the_pieces_say(op) -> None:
    for z in [*SPECIAL, *kinks(op)]:
        truth = oracle(op, z)
        ((low, high),) = op.exact(Dyadic.exact(np.array([z])), BITS).fractions()
        assert low <= truth[1] and truth[0] <= high, z
        with np.errstate(all="ignore"):
            below, above = (float(end[0]) for end in op.enclose(np.array([z])))
            size = float(op.magnitude(np.array([abs(z)]))[0])
        assert inside(truth, below, above), z
        assert max(-truth[1], truth[0]) <= rational(size), z


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_evaluation_in_floats_errs_by_no_more_than_its_rounding(op, kind) -> None:
    precision = Precision(kind)
    places = SPECIAL if kind is np.float64 else SINGLE
    for z in [*places, *kinks(op)]:
        with np.errstate(all="ignore"):
            near = kind(z)
            if not np.isfinite(near) or float(near) != z:
                continue
            room = float(op.rounding(np.array([abs(z)]), precision)[0])
            size = float(op.magnitude(np.array([abs(z)]))[0])
            value = float(op(np.array([near], dtype=kind))[0])
        if not max(size, abs(z)) < precision.largest / 4 or not np.isfinite(room):
            continue  # what may overflow has no float bound at all
        truth = oracle(op, z)
        gap = max(truth[0] - Fraction(value), Fraction(value) - truth[1])
        assert gap <= Fraction(room), (z, value)


def intervals(op: Unitwise) -> list[tuple[float, float]]:
    places = sorted({*SPECIAL, *kinks(op)})
    few = places[::3] + kinks(op)
    return [(lo, hi) for lo, hi in product(few, few) if lo <= hi]


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_ranges_and_lines_hold_on_every_interval(op) -> None:
    points = sorted({*SPECIAL, *kinks(op)})
    truths = {z: oracle(op, z) for z in points}
    ends = intervals(op)
    lo, hi = (np.array([[pair[side]] for pair in ends]) for side in (0, 1))
    with np.errstate(all="ignore"):
        low, high = op.image(lo, hi)
        bands = [op.band(lo, hi, support) for support in Support]
        straight = op.straight(lo, hi)
    for i, (a, b) in enumerate(ends):
        within = [z for z in (*points, a, b) if a <= z <= b]
        for z in within:
            truth = truths.get(z) or oracle(op, z)
            assert inside(truth, float(low[i, 0]), float(high[i, 0])), (a, b, z)
            for band in bands:
                _below_and_above(band, i, z, truth)
        if straight[i, 0]:
            _is_line(op, a, b, within)


def _below_and_above(band, i: int, z: float, truth: tuple[Fraction, Fraction]) -> None:
    if np.isfinite(band.lower[i, 0]):
        line = Fraction(float(band.lower_slope[i, 0])) * Fraction(z)
        assert line + Fraction(float(band.lower[i, 0])) <= truth[1], z
    else:
        assert band.lower[i, 0] == -np.inf
    if np.isfinite(band.upper[i, 0]):
        line = Fraction(float(band.upper_slope[i, 0])) * Fraction(z)
        assert line + Fraction(float(band.upper[i, 0])) >= truth[0], z
    else:
        assert band.upper[i, 0] == np.inf


def _is_line(op: Unitwise, a: float, b: float, within: list[float]) -> None:
    """f is affine between a and b: exact values lie on the chord."""
    first, last = oracle(op, a), oracle(op, b)
    assert first[0] == first[1] and last[0] == last[1]
    if a == b:
        return
    slope = (last[0] - first[0]) / (Fraction(b) - Fraction(a))
    for z in within:
        assert oracle(op, z)[0] == first[0] + slope * (Fraction(z) - Fraction(a))


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_lipschitz_steepness_and_the_piece(op) -> None:
    points = sorted({*SPECIAL, *kinks(op)})
    piece = op.piece
    for a, b in product(points[::2], points[1::2]):
        first, second = oracle(op, a), oracle(op, b)
        least = max(first[0] - second[1], second[0] - first[1])
        step = abs(Fraction(a) - Fraction(b))
        assert least <= Fraction(op.lipschitz) * step
    for z in points:
        truth, line = oracle(op, z), Fraction(piece.slope) * Fraction(z)
        beyond = max(
            Fraction(0) if end in (-np.inf, np.inf) else sign * (Fraction(z) - Fraction(end))
            for end, sign in ((piece.lo, -1), (piece.hi, 1))
        )
        room = Fraction(op.steepness) * max(beyond, Fraction(0))
        assert truth[0] - line <= room and line - truth[1] <= room, z


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_an_interval_of_exact_numbers_holds_the_values_inside(op) -> None:
    points = sorted(z for z in {*SPECIAL, *kinks(op)} if abs(z) < 1e31)
    for lo, hi in product(points[::3], points[1::3]):
        if not lo < hi:
            continue
        ends = Dyadic.around([(Fraction(lo), Fraction(hi))], BITS)
        ((low, high),) = op.exact(ends, BITS).fractions()
        for z in points:
            if lo <= z <= hi:
                truth = oracle(op, z)
                assert low <= truth[1] and truth[0] <= high, (lo, hi, z)


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_derivatives_are_slopes_of_a_piece_that_is_near(op) -> None:
    for z in (-800.0, -1.5, -0.3, 0.3, 1.5, 5.0, 800.0):
        for piece in op.pieces:
            if isinstance(piece, Line) and piece.lo < z < piece.hi:
                assert op.derivative(np.array([z])).tolist() == [piece.slope]


# --- maps -----------------------------------------------------------------------------------------

ODD = np.array([[1e-300, -3.0, TOP / 2**60], [LEAST, 0.0, 1e154], [0.1, 7.0, -1e-8]])
IMAGE = Geometry(2, 3, 3, (2, 2), (1, 1), (1, 0, 1, 0))

MAPS = {
    "dense": (Affine(ODD, [0.1, 1e-320, -1e30]), 3),
    "sparse": (Affine(np.eye(3) * 0.3), 3),
    "norm": (
        Norm([1.0, -3.0, 0.0], [0.1, 0.0, 1e-310], [0.5, 0.0, 7.0], [2.0, 1.0, 1e-9], 1e-5),
        3,
    ),
    "unit norm": (Norm.neutral(3).tuned([0.3, -2.0, 1e-300], [0.1, 0.0, -5.0]), 3),
    "shared norm": (Norm([1.0, -3.0], [0.1, 0.2], [0.5, 0.0], [2.0, 1.0], 0.0, positions=2), 4),
    "scaling": (Scaling([1.0, -3.0, 1e-300], [3.0, -7.0, 1e10], [0.1, 0.0, LEAST]), 3),
    "selection": (Select(1, 3), 4),
    "placement": (Placement([2, -1, 0, 0], 3), 3),
    "sum pool": (SumPool(IMAGE), 18),
    "convolution": (Convolution(0.1 * np.arange(24.0).reshape(3, 2, 2, 2) - 1, IMAGE), 18),
}
MOVES = ("selection", "placement")
DIAGONAL = ("norm", "unit norm", "shared norm", "scaling")


def points_of(size: int) -> np.ndarray:
    """Points whose coordinates are special values, none of which makes a product overflow."""
    mild = [v for v in SPECIAL if abs(v) < 1e31]
    rng = np.random.default_rng(0)
    drawn = rng.choice(mild, size=(12, size))
    return np.concatenate([drawn, rng.standard_normal((4, size)), np.zeros((1, size))])


def exact_value(op, h: np.ndarray) -> list[tuple[Fraction, Fraction]]:
    return list(op.exact(Dyadic.exact(h), BITS).fractions())


def entries(op, size: int) -> list[list[tuple[Fraction, Fraction]]]:
    """The matrix and the constant, as the map's answers at the unit vectors minus that at zero."""
    start = exact_value(op, np.zeros(size))
    columns = []
    for unit in np.eye(size):
        pairs = zip(exact_value(op, unit), start, strict=True)
        columns.append([(a - d, b - c) for (a, b), (c, d) in pairs])
    return [*columns, start]


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_linear_in_exact_numbers_and_its_image_holds_it(name) -> None:
    op, size = MAPS[name]
    *columns, start = entries(op, size)
    points = points_of(size)
    lo, hi = points.min(axis=0), points.max(axis=0)
    low, high = (end[0] for end in op.image(lo[None], hi[None]))
    reach = op.absolute(np.abs(points).max(axis=0)[None])[0]
    for h in points:
        for i, (below, above) in enumerate(exact_value(op, h)):
            terms = [
                [Fraction(x) * e for e in column[i]] for x, column in zip(h, columns, strict=True)
            ]
            least, most = (sum(pick(t) for t in terms) for pick in (min, max))
            assert below <= start[i][1] + most and start[i][0] + least <= above
            assert inside((below, above), float(low[i]), float(high[i]))
            size_without = max(below - start[i][1], start[i][0] - above)
            assert size_without <= Fraction(float(reach[i])) * (1 + Fraction(1, 2**40)) + LEAST


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", DIAGONAL)
def test_a_diagonal_map_errs_by_no_more_than_its_rounding(name, kind) -> None:
    op, size = MAPS[name]
    precision = Precision(kind)
    for z in points_of(size):
        with np.errstate(all="ignore"):
            near = z.astype(kind)
            if not np.isfinite(near).all():
                continue
            truth = exact_value(op, near.astype(float))
            size_out = np.array([float(max(abs(a), abs(b))) for a, b in truth])
            exact = np.abs(near.astype(float))
            own = op.rounding(InputBounds(exact, np.zeros(size), size_out), precision)
            value = op(near[None])[0]
        for i, (low, high) in enumerate(truth):
            if not own.peak[i] < precision.largest / 4 or not np.isfinite(own.error[i]):
                continue
            found = Fraction(float(value[i]))
            assert max(low - found, found - high) <= Fraction(float(own.error[i])), (z, i)


@pytest.mark.parametrize("name", DIAGONAL)
def test_scale_and_shift_agree_in_every_arithmetic(name) -> None:
    op, _ = MAPS[name]
    for part, bounds, enclosed in zip(op.rationals(BITS), op.bounds(), op.enclosed(), strict=True):
        for i, (low, high) in enumerate(part):
            assert inside((low, high), float(bounds[0][i]), float(bounds[1][i]))
            middle = Fraction(float(enclosed.high[i])) + Fraction(float(enclosed.low[i]))
            room = Fraction(float(enclosed.radius[i]))
            assert low - middle <= room and middle - high <= room
            assert high - low <= abs(high) * Fraction(1, 2**200) + Fraction(1, 2**250)


@pytest.mark.parametrize("name", MAPS)
def test_what_a_pull_loses_is_covered(name) -> None:
    """|Λ·v − fl(pull Λ)·h − Λ·plain| ≤ |Λ|·error + floor, in exact numbers."""
    op, size = MAPS[name]
    rows = len(exact_value(op, np.zeros(size)))
    rng = np.random.default_rng(1)
    points = points_of(size)
    reach = np.abs(points).max(axis=0)[None]
    lost = op.pull_error(reach)
    forms = np.concatenate([np.eye(rows), rng.standard_normal((3, rows)), [[1e-300] * rows]])
    pulled = op.pull(forms[None], size)[0]
    for row, back in zip(forms, pulled, strict=True):
        weights = [Fraction(float(w)) for w in row]
        room = sum(abs(w) * Fraction(float(e)) for w, e in zip(weights, lost.error[0], strict=True))
        room += Fraction(float(lost.floor[0]))
        plain = sum(w * Fraction(float(c)) for w, c in zip(weights, lost.plain[0], strict=True))
        for h in points:
            value = exact_value(op, h)
            there = sum(
                Fraction(float(b)) * Fraction(float(x)) for b, x in zip(back, h, strict=True)
            )
            ends = [[w * e for e in pair] for w, pair in zip(weights, value, strict=True)]
            least, most = (sum(pick(e) for e in ends) for pick in (min, max))
            assert least - there - plain <= room and there + plain - most <= room


@pytest.mark.parametrize("name", MAPS)
def test_pull_is_the_adjoint(name) -> None:
    op, size = MAPS[name]
    rng = np.random.default_rng(2)
    u = rng.standard_normal(size)
    image = (op(u[None]) - op(np.zeros((1, size))))[0]
    v = rng.standard_normal(image.shape)
    scale = float(np.abs(image) @ np.abs(v) + np.abs(op(np.zeros((1, size)))[0]).max())
    assert abs(float(image @ v) - float(op.pull(v[None], size)[0] @ u)) <= 1e-12 * scale


@pytest.mark.parametrize("name", MOVES)
def test_moves_compute_nothing(name) -> None:
    op, size = MAPS[name]
    h = np.array([SPECIAL[i] for i in range(size)])
    assert [Fraction(float(v)) for v in op(h[None])[0]] == [low for low, _ in exact_value(op, h)]
