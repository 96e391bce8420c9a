"""A smaller, seeded version of the benchmarks `honesty` and `refusal`: the slack is zero."""

from __future__ import annotations

import pytest

from benchmarks.honesty import tallies
from benchmarks.refusal import MUTATIONS, mutate


@pytest.mark.parametrize("start", [1000, 1010, 1020])
def test_no_difference_that_is_found_exceeds_a_bound_that_is_stated(start: int) -> None:
    (row,) = tallies(range(start, start + 6))
    assert row["cases"] == 30
    assert min(row["comparisons"].values()) >= 180 and len(row["comparisons"]) == 3
    assert row["violations"] == 0, row["examples"]


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_spoiled_reconstructions_are_not_certified(name: str) -> None:
    row = mutate(name, range(100, 103))
    assert row["cases"] == 3 and row["certified_at_original_bound"] == 0
    assert row["differ_and_refuted"] == row["differ"]
