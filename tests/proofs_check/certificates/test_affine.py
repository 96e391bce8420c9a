"""Forms: sums over columns that look alike; numbers held exactly; blocks side by side."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates.affine import Form, stacked
from proofs_check.certificates.arithmetic import LONG, exact, side_by_side
from proofs_check.certificates.rationals import Rationals


def drawn(rng: np.random.Generator, rows: int, source: str, positions: int = 2) -> tuple:
    """A form whose columns look at places that repeat, at pads, and twice at the same."""
    index = rng.integers(-1, 3, size=(6, positions))
    index[0] = -1
    index[1] = index[2]
    matrix = rng.standard_normal((rows, 7)).astype(np.float32).astype(np.float64)
    return Form.over_source(source, index, matrix), index, matrix


def value(form: Form, sources: dict[str, list[Fraction]]) -> list[Fraction]:
    """The value of each row at each position, in rationals, radius left aside."""
    numbers = np.array(form.whole.integers(), dtype=object).reshape(form.whole.shape)
    found = []
    for row in numbers:
        for position in range(form.positions):
            total = Fraction(int(row[-1]))
            for view, part in form.parts():
                for entry, place in zip(row[part], view.index[:, position], strict=True):
                    total += int(entry) * (sources[view.source][place] if place >= 0 else 0)
            found.append(total / form.unit)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_forms_are_added_over_all_columns_that_occur(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (a, *_), (b, *_), (c, *_) = (drawn(rng, 3, name) for name in ("x", "x", "y"))
    sources = {n: [Fraction(int(i), 7) for i in rng.integers(-9, 9, size=3)] for n in ("x", "y")}
    total = a.plus(b).minus(c).plus(a)
    found = zip(value(a, sources), value(b, sources), value(c, sources), strict=True)
    assert value(total, sources) == [2 * first + second - third for first, second, third in found]
    assert len({view.source for view in total.layout}) == len(total.layout) == 2
    below = stacked([a, c, b])
    assert value(below, sources) == value(a, sources) + value(c, sources) + value(b, sources)
    weight = rng.standard_normal((2, 3))
    rows = np.array(value(total, sources), dtype=object).reshape(3, 2)
    exactly = np.array([[Fraction(entry) for entry in row] for row in weight], dtype=object)
    assert value(total.mixed(Rationals.of(weight)), sources) == (exactly @ rows).ravel().tolist()


def test_columns_that_look_alike_are_one_and_pads_none() -> None:
    rng = np.random.default_rng(0)
    form, index, matrix = drawn(rng, 4, "x")
    seen = {tuple(row) for row in index.tolist()} - {(-1, -1)}
    assert form.layout[0].columns == len(seen)
    units = [Fraction(3, 2), Fraction(-5), Fraction(1, 3)]
    expected = [
        Fraction(row[-1])
        + sum(
            Fraction(a) * units[place]
            for a, place in zip(row, index[:, position], strict=False)
            if place >= 0
        )
        for row in matrix
        for position in (0, 1)
    ]
    assert value(form, {"x": units}) == expected
    assert form.minus(form).whole.integers() == [0] * form.whole.digits[0].size


def test_what_is_not_known_of_a_scale_is_in_every_entry() -> None:
    matrix = np.array([[3.0, -2.0, 7.0], [0.0, 1.0, 0.5]])
    form = Form.over_source("x", np.array([[0], [1]]), matrix)
    ends = [(Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**6)), (Fraction(2), Fraction(2, 1))]
    scaled = form.scaled(Rationals.between(ends, 64))
    numbers = np.array(scaled.whole.integers(), dtype=object).reshape(matrix.shape)
    for row, (pair, entries) in enumerate(zip(ends, matrix.tolist(), strict=True)):
        for column, entry in enumerate(entries):
            found = Fraction(int(numbers[row, column]), scaled.unit)
            room = Fraction(scaled.radius[row, column])
            assert all(abs(end * Fraction(entry) - found) <= room for end in pair)
    assert scaled.radius[1, 0] == 0


def test_rows_that_look_at_pads_alone_are_constants() -> None:
    form = Form.over_source("x", np.full((2, 3), -1), np.array([[1.0, 2.0, 5.0]]))
    assert form.layout == () and value(form, {}) == [Fraction(5)] * 3


@pytest.mark.parametrize("scale", [1.0, 2.0**-30, 2.0**61, 2.0**-61, 2.0**-80, 2.0**300])
def test_short_numbers_are_held_exactly_in_words_or_not(scale: float) -> None:
    rng = np.random.default_rng(4)
    short = rng.standard_normal((4, 6)).astype(np.float32).astype(np.float64)
    short[1, 2] = 0.0
    for values in (short * scale, np.rint(short * 8) * scale, rng.standard_normal((4, 6)) * scale):
        whole, unit = exact(values)
        assert [Fraction(n, unit) for n in whole.integers()] == [Fraction(v) for v in values.flat]
        odd = unit == 1 or any(n % 2 for n in whole.integers())
        assert odd, "the denominator is as small as it can be"
        assert len(whole.digits) < LONG


def test_blocks_side_by_side_are_given_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs_check.certificates.arithmetic.processors", lambda: 2)
    barrier, names = threading.Barrier(2, timeout=20), []

    def block(item: int) -> int:
        names.append(threading.current_thread().name)
        if item:  # the first alone, then two at once
            barrier.wait()
            np.full(2, 1e300) * 1e300  # an overflow that is nobody's fault
        return -item

    assert list(side_by_side(block, range(5))) == [0, -1, -2, -3, -4]
    assert names[0] not in names[1:] and len(set(names)) == 3


def test_what_a_block_refuses_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs_check.certificates.arithmetic.processors", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda i: 1 // (4 - i), range(9)))
