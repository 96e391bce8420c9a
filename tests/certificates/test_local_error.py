"""The local error is the range of (A' − A) h + c' − c: each of its terms has an input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.certificates.error_recursion import Recursion
from reconstruct.certificates.forms import Form, GroupedForm, View
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure


class AtAPoint:
    """Bounds of values at one point, as floats that are exact: nothing here hides a lost term."""

    def __init__(self, values: dict[str, Array]) -> None:
        self.values = values

    def bounds(self, name: str) -> Range:
        return self.values[name], self.values[name]

    def functionals(self, name: str, weight: Array) -> Range:
        value = weight @ self.values[name]
        return value, value


def ends(form: Form, values: dict[str, float], errors: dict[str, float]) -> tuple[Fraction, ...]:
    """The range that the recursion finds, for sources of one unit each."""
    arrays = {name: np.array([value]) for name, value in values.items()}
    recursion = Recursion.__new__(Recursion)
    recursion.known = AtAPoint(arrays)  # type: ignore[assignment]
    wrong = {name: np.array([errors.get(name, 0.0)]) for name in values}
    sizes = {name: np.abs(value) for name, value in arrays.items()}
    recursion.errors, recursion.sizes = wrong, sizes
    low, high = recursion._ends(form, wrong)
    return Fraction(float(low[0])), Fraction(float(high[0]))


def row(names: list[str], high: list[float], low: float = 0.0, radius: float = 0.0, at: int = -1):
    """One row over sources of one unit; a tail and a radius at one entry."""
    tail, doubt = np.zeros((1, len(high))), np.zeros((1, len(high)))
    tail[0, at], doubt[0, at] = low, radius
    layout = tuple(View(name, 1) for name in names)
    return Form(layout, Enclosure(np.array([high]), tail, doubt))


TINY = 2.0**-54


@pytest.mark.parametrize(
    ("form", "values", "errors", "least", "most"),
    [
        pytest.param(row([], [1.0], low=TINY), {}, {}, 1, 1 + Fraction(TINY), id="constant, tail"),
        pytest.param(
            row([], [0.0], radius=TINY),
            {},
            {},
            -Fraction(TINY),
            Fraction(TINY),
            id="constant, radius",
        ),
        pytest.param(
            row(["h"], [1.0, 0.0], radius=0.25),
            {"h": 0.0},
            {"h": 0.5},
            -Fraction(3, 4),
            Fraction(3, 4),
            id="constant, radius beside an error",
        ),
        pytest.param(
            row(["h"], [0.0, 0.0], radius=2.0**-600, at=0),
            {"h": 2.0**-600},
            {},
            -(Fraction(2) ** -1200),
            Fraction(2) ** -1200,
            id="what underflows",
        ),
        pytest.param(
            row([], [1.0], radius=TINY / 2),
            {},
            {},
            1 - Fraction(TINY) / 2,
            1 + Fraction(TINY) / 2,
            id="the last difference",
        ),
        pytest.param(
            row(["h"], [2.0**-80, 0.0], low=2.0**-140, at=0),
            {"h": 1.0},
            {},
            Fraction(2) ** -80,
            Fraction(2) ** -80 + Fraction(2) ** -140,
            id="map, tail",
        ),
        pytest.param(
            row(["h"], [0.0, 0.0], radius=2.0**-100, at=0),
            {"h": 1.0},
            {},
            -(Fraction(2) ** -100),
            Fraction(2) ** -100,
            id="map, radius",
        ),
        pytest.param(
            row(["h"], [0.0, 0.0], radius=2.0**-100, at=0),
            {"h": 0.0},
            {"h": 1.0},
            -(Fraction(2) ** -100),
            Fraction(2) ** -100,
            id="map, radius times an error",
        ),
        pytest.param(
            row(["h"], [1.0, 0.0]),
            {"h": 0.0},
            {"h": 0.5},
            -Fraction(1, 2),
            Fraction(1, 2),
            id="map times an error",
        ),
        pytest.param(
            row(["g", "h"], [1.0, 1.0, 1.0]),
            {"g": TINY, "h": -1.0},
            {},
            Fraction(TINY),
            Fraction(TINY),
            id="a sum that is lost before the rest cancels",
        ),
    ],
)
def test_a_term_of_the_range_is_needed(form, values, errors, least, most) -> None:
    low, high = ends(form, values, errors)
    assert low <= least and high >= most


def block(high: list[float], low: tuple[float, float], radius: tuple[float, float]) -> GroupedForm:
    """Two groups of one row and one input each, the constant last; a tail and a radius of both."""
    parts = (np.array([part, (0.0, 0.0)], dtype=float) for part in (high, low, radius))
    return GroupedForm("h", np.array([[0], [1]]), Enclosure(*parts), 2)


@pytest.mark.parametrize(
    ("form", "error"),
    [
        pytest.param(block([0.0, 0.0], (2.0**-60, 0), (0, 0)), 0.0, id="tail"),
        pytest.param(block([0.0, 0.0], (0, 0), (2.0**-60, 0)), 0.0, id="radius"),
        pytest.param(block([0.0, 0.0], (0, 0), (0.25, 0)), 1.0, id="radius times an error"),
        pytest.param(block([0.0, 1.0], (0, 2.0**-54), (0, 0)), 0.0, id="constant, tail"),
        pytest.param(block([0.0, 0.0], (0, 0), (0, 2.0**-60)), 0.0, id="constant, radius"),
        pytest.param(block([2.0, 0.0], (0, 0), (0, 0)), 0.5, id="map times an error"),
        pytest.param(block([1.0, 2.0**-54], (0, 0), (0, 0)), 0.0, id="the sum"),
    ],
)
def test_a_term_of_the_range_of_a_grouped_layer_is_needed(form, error) -> None:
    recursion = Recursion.__new__(Recursion)
    recursion.known = AtAPoint({"h": np.array([1.0, 0.0])})  # type: ignore[assignment]
    low, high = recursion._ends_of_blocks(form, {"h": np.array([error, 0.0])})
    high_part, low_part = form.matrix.high[0], form.matrix.low[0]
    ends = [Fraction(a) + Fraction(b) for a, b in zip(high_part, low_part, strict=True)]
    doubt = [Fraction(r) for r in form.matrix.radius[0].tolist()]
    values = [1 - Fraction(error), 1 + Fraction(error)]
    found = [
        (ends[0] + s * doubt[0]) * v + ends[1] + t * doubt[1]
        for v in values
        for s in (-1, 1)
        for t in (-1, 1)
    ]
    assert low[0] <= min(found) and max(found) <= high[0]
