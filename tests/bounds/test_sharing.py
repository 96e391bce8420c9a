"""Boxes and samples that are dealt out to ranks: the same numbers as without, and everything that
goes to another rank can go there."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Split, reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.cutting import cut_until
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.gaps import gaps
from reconstruct.networks import Affine, Box, Network
from reconstruct.numbers.sharing import MOST_SENT, dealing, dealt_out
from reconstruct.progress import silent
from reconstruct.refutation.search import search

BOX = Box(-0.5, 0.5).of_size(2)


class Ranks:
    """Deals as ranks would: function and arguments travel as bytes, and so do results."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(
        self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        for item in items:
            there, arguments = pickle.loads(pickle.dumps((function, item)))
            self.calls.append(there.__name__)
            yield pickle.loads(pickle.dumps(there(*arguments)))


@pytest.fixture
def pair() -> tuple[Network, Network]:
    rng = np.random.default_rng(1)
    sizes = (2, 12, 12, 12, 2)
    weights = [rng.standard_normal((m, k)) / np.sqrt(k) for k, m in pairwise(sizes)]
    first = Network.mlp(weights, [rng.standard_normal(len(w)) / 4 for w in weights])
    moved = {
        node.name: Affine(node.op.matrix * (1 + 1e-6), node.op.bias)  # type: ignore[attr-defined]
        for node in first.mixing_nodes()
    }
    return first, first.with_ops(moved)


def test_sub_boxes_are_bounded_alike_by_ranks(pair) -> None:
    target, wide, method = pair[0], Box(-4.0, 4.0).of_size(2), Split(parts=60)
    alone, ranks = reach(target, wide, method), Ranks()
    with dealing(ranks):
        shared = reach(target, wide, method)
    assert set(ranks.calls) == {"values_on"} and len(ranks.calls) > 1
    for name in target.sizes:
        assert np.array_equal(alone.bounds(name), shared.bounds(name))


def test_leaves_are_bounded_alike_by_ranks(pair) -> None:
    target, wide = pair[0], Box(-4.0, 4.0).of_size(2)
    alone = reach(target, wide, Adaptive(boxes=400))
    ranks = Ranks()
    with dealing(ranks):
        shared = reach(target, wide, Adaptive(boxes=400, cuts=alone.cuts))
    assert {"ranges_on"} == set(ranks.calls)
    forms = np.random.default_rng(0).standard_normal((40, 12))
    with dealing(ranks):
        found = shared.functionals("act3", forms)
    assert "worst_on" in ranks.calls
    for name in target.sizes:
        assert np.array_equal(alone.bounds(name), shared.bounds(name))
    assert np.array_equal(found, alone.functionals("act3", forms))


def test_samples_and_boxes_of_a_difference_are_alike_by_ranks(pair) -> None:
    alone, ranks = search(*pair, BOX, samples=3000, restarts=0), Ranks()
    with dealing(ranks):
        shared = search(*pair, BOX, samples=3000, restarts=0)
    assert ranks.calls == ["measured"] * 3
    assert (shared.points, shared.float32_max) == (alone.points, alone.float32_max)
    known = reach(pair[0], BOX, Adaptive(boxes=200))
    cuts = Alignment(tuple((n.name, n.name) for n in pair[0].activation_nodes()))
    steps = gaps(*pair, cuts, bound_layers(*pair, known, cuts))
    bounds = []
    for deal in (None, ranks):
        deadline = time.perf_counter() + 60
        tolerance = 1.5 * alone.float64_max
        arguments = (known, steps, tolerance, deadline, silent)
        if deal is None:
            bounds.append(cut_until(*arguments).bound)
        else:
            with dealing(deal):
                bounds.append(cut_until(*arguments).bound)
    assert bounds[0] == bounds[1] <= tolerance
    assert "bound_boxes" in ranks.calls


def test_what_is_too_large_to_send_stays() -> None:
    ranks = Ranks()
    with dealing(ranks):
        assert dealt_out(pow, [(2, 3), (3, 2)], numbers=MOST_SENT + 1) == [8, 9]
        assert dealt_out(pow, [(2, 3)], numbers=1) == [8]  # a single call goes nowhere
        assert not ranks.calls
        assert dealt_out(pow, [(2, 3), (3, 2)], numbers=1) == [8, 9]
    assert ranks.calls == ["pow", "pow"]
