"""Shares of hidden units: all of them, in order, the caller's a little longer."""

from __future__ import annotations

import itertools

import pytest

from reconstruct.khatri_rao import Threads
from reconstruct.khatri_rao.engines.threads import AHEAD_FLOPS, PARALLEL_FLOPS


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("width", [1, 13, 14, 100, 10650])
@pytest.mark.parametrize("flops", [0.0, PARALLEL_FLOPS, 1e8, 1e12])
def test_shares_are_all_units_in_order(count: int, width: int, flops: float) -> None:
    shares = Threads(count).shares(width, flops)
    assert [shares[0].start, shares[-1].stop] == [0, width]
    assert all(a.stop == b.start for a, b in itertools.pairwise(shares))
    assert all(share.stop > share.start for share in shares)
    assert len(shares) == (count if flops >= PARALLEL_FLOPS and width >= 2 * count else 1)


@pytest.mark.parametrize("count", [2, 3])
def test_the_caller_does_what_it_can_while_others_wake(count: int) -> None:
    width, flops = 10_000, 1e8
    first, *others = [share.stop - share.start for share in Threads(count).shares(width, flops)]
    assert max(others) - min(others) <= 1
    assert (first - others[0]) * flops / width == pytest.approx(AHEAD_FLOPS, rel=0.01)


def test_every_share_is_about_the_same_where_there_is_much_to_do() -> None:
    a, b = [share.stop - share.start for share in Threads(2).shares(100_000, 1e12)]
    assert abs(a - b) <= 2
