"""Rows that are scaled and shifted: their floats hold them, and their products are exact."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates.arithmetic import LONG, exact
from proofs_check.certificates.columns import Column
from proofs_check.certificates.form import Form
from proofs_check.certificates.rows import Rows
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.views import View

ROWS, COLUMNS = 7, 5


def column(rng: np.random.Generator, kind: str) -> Column:
    values = rng.standard_normal(ROWS) * 10.0 ** rng.integers(-9, 9, ROWS)
    values[0] = 0.0
    if kind == "floats":
        return Column.of_floats(values)
    ends = [(Fraction(v), Fraction(v) + abs(Fraction(v)) / 3**40) for v in values.tolist()]
    if kind == "thirds":
        ends = [(low / 3, low / 3) for low, _ in ends]
    return Column.between(ends, 64)


def rows(seed: int, kind: str, spread: float = 1.0) -> Rows:
    rng = np.random.default_rng(seed)
    size = np.exp(spread * rng.standard_normal((ROWS, COLUMNS + 1)))
    weight = (rng.standard_normal((ROWS, COLUMNS + 1)) * size).astype(np.float32).astype(np.float64)
    weight[rng.random(weight.shape) < 0.2] = 0.0
    view = View("x", COLUMNS)
    return Rows.of(view, weight).scaled(column(rng, kind)).shifted(column(rng, kind))


def fractions(form: Form) -> list[Fraction]:
    return [Fraction(n, form.unit) for n in form.whole.integers()]


@pytest.mark.parametrize("kind", ["floats", "thirds", "slips"])
@pytest.mark.parametrize("spread", [1.0, 12.0])
def test_floats_hold_the_rows(kind: str, spread: float) -> None:
    found = rows(3, kind, spread)
    middle, error = found.floats()
    form = found.take(np.arange(ROWS))
    assert form.radius.any() == (kind == "slips")
    parts = zip(fractions(form), form.radius.flat, middle.flat, error.flat, strict=True)
    for truth, radius, near, off in parts:
        assert abs(truth - Fraction(near)) + Fraction(radius) <= Fraction(off) * (1 + 2**-40)
        assert off <= 2.0**-50 * abs(near) + 1e-18 * (1 + abs(near))
    unscaled = np.asarray(found.weight == 0)[:, :-1] | (np.arange(ROWS) == 0)[:, None]
    assert not middle[:, :-1][unscaled].any() and not error[:, :-1][unscaled].any()
    assert error[:, :-1][~unscaled].all()


@pytest.mark.parametrize("kind", ["floats", "thirds", "slips"])
def test_a_product_is_that_of_the_form(kind: str) -> None:
    found = rows(5, kind)
    outer = np.random.default_rng(1).standard_normal((3, ROWS))
    ours, theirs = found.mixed(outer), found.take(np.arange(ROWS)).mixed(outer)
    assert fractions(ours) == fractions(theirs)
    assert (ours.radius >= theirs.radius * (1 - 2.0**-30)).all()
    assert (ours.radius <= theirs.radius * (1 + 2.0**-30)).all()
    assert ours.layout == theirs.layout == found.layout


def test_scales_one_after_the_other_multiply_and_shifts_add() -> None:
    rng = np.random.default_rng(2)
    first, second = column(rng, "slips"), column(rng, "slips")
    mine, yours = (np.array(c.whole.integers()) for c in (first, second))
    product, total = first.times(second), first.plus(second)
    assert product.whole.integers() == (mine * yours).tolist()
    assert product.unit == first.unit * second.unit
    a, b = ([Fraction(s) for s in c.slip.tolist()] for c in (first, second))
    for i in range(ROWS):
        x, y = abs(Fraction(int(mine[i]), first.unit)), abs(Fraction(int(yours[i]), second.unit))
        assert Fraction(product.slip[i]) >= x * b[i] + y * a[i] + a[i] * b[i]
        assert Fraction(total.slip[i]) >= a[i] + b[i]
        sum_ = Fraction(total.whole.integers()[i], total.unit)
        one = Fraction(int(mine[i]), first.unit)
        assert sum_ == one + Fraction(int(yours[i]), second.unit)


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
    monkeypatch.setattr("proofs_check.certificates.threads.processors", lambda: 2)
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
    monkeypatch.setattr("proofs_check.certificates.threads.processors", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda i: 1 // (4 - i), range(9)))
