"""Rounding on boxes, and errors of hidden units with their signs: sound, tighter, proved again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from proofs_check.certificates import check
from reconstruct.bounds import Adaptive, reach
from reconstruct.certificates import certify
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Cut, bound_layers
from reconstruct.certificates.forms import Form, View
from reconstruct.certificates.propagate import Affine, Mode, OnBoxes, Walk, figures, secants
from reconstruct.equivalence.witness import enclose
from reconstruct.networks import Box, LeakyRelu, Network, in_blocks
from reconstruct.networks.blocks import Tree
from reconstruct.numbers.double_double import Enclosure
from tests.proofs_check.certificates.making import certified, close, edit

from .building import random_target, wide

SIZES = (2, 8, 8, 8, 2)
BOX = Box(-2.0, 2.0).of_size(2)
METHOD = Adaptive(boxes=200)
SHORT = Tree(block=4, together=2)


def rebuilt(seed: int = 7) -> tuple[Network, Network]:
    """A target, and its reconstruction with sums in short blocks."""
    rng = np.random.default_rng(seed)
    target = random_target(rng, SIZES)
    return target, in_blocks(wide(target, BOX, rng, method=METHOD), SHORT)


def facts_of(target: Network, network: Network) -> OnBoxes:
    known = reach(target, BOX, METHOD)
    return OnBoxes(bound_layers(known, network, cuts_of(target)))


def cuts_of(target: Network) -> Alignment:
    return Alignment(tuple((node.name, node.name) for node in target.activation_nodes()))


# --- what is known on boxes -----------------------------------------------------------------------


def test_values_on_a_box_are_within_what_is_known_there() -> None:
    """In rationals: at points of every tenth box, of all values that something is known of."""
    target, network = rebuilt()
    facts, rng = facts_of(target, network), np.random.default_rng(0)
    below, above = facts.layered.known.parts.values[target.source]
    rows = np.arange(0, facts.count, 10)
    here = facts.inner(rows)
    assert len(rows) > 2 and facts.apart and len(here) == len(facts.layered.ranges) + 3
    for place, box in enumerate(rows):
        x = rng.uniform(below[box], above[box])
        for inside, ends in here.items():
            lo, hi = (end[min(place, len(end) - 1)] for end in ends)
            for (low, high), least, most in zip(
                enclose(_until(network, inside), x), lo, hi, strict=True
            ):
                assert Fraction(float(least)) <= low and high <= Fraction(float(most))


def _until(network: Network, name: str) -> Network:
    """The network up to a value."""
    last = next(i for i, node in enumerate(network.nodes) if node.name == name)
    return Network(network.size_in, network.nodes[: last + 1], name, network.source)


def test_boxes_tell_more_than_the_domain() -> None:
    facts = facts_of(*rebuilt())
    whole, apart = facts.inner(None), facts.inner(np.arange(facts.count))
    gains = [
        float(np.median((whole[name][1] - whole[name][0]) / np.maximum(hi - lo, 1e-300)))
        for name, (lo, hi) in apart.items()
    ]
    assert min(gains) >= 1 and max(gains) > 1.5


# --- the figures ----------------------------------------------------------------------------------


def test_boxes_apart_lower_the_figures_and_no_evaluation_exceeds_them() -> None:
    target, network = rebuilt()
    facts = facts_of(target, network)
    found = figures(facts.layered)
    far = replace(facts.layered.known, parts=None, partition=None)
    coarse = figures(bound_layers(far, network, cuts_of(target)))
    assert found.floats[0] < 0.8 * coarse.floats[0]
    x = BOX.sample(3000, np.random.default_rng(1)).astype(np.float32)
    error = np.abs(network(x, np.float32).astype(float) - target(x.astype(float)))
    assert found.floats[1] is not None and float(error.max()) <= found.floats[1]


@pytest.mark.parametrize("field", ["float64_bound", "float32_bound"])
def test_figures_on_boxes_are_proved_again_and_no_less(tmp_path, field) -> None:
    certified(tmp_path, *rebuilt(), BOX, bounds=METHOD, tolerance=1.0)
    report = check(tmp_path)
    # the checker counts a shift that is taken out of a sum as any other scaling
    assert report.accepted and close(report, tmp_path, 6), report
    edit(tmp_path, field, value=lambda text: (float.fromhex(text) * 0.5).hex())
    assert field in check(tmp_path).unverified


def test_what_a_hidden_unit_takes_on_a_box_is_known_but_for_rounding() -> None:
    """1 and a thousand numbers below u are 1 in floats; the values are points."""
    row = np.full((1, 1002), 0.99 * 2.0**-53)
    row[0, 0], row[0, -1] = 1.0, 0.0
    values = np.ones((1, 1001))
    form = Form((View("x", 1001),), Enclosure.exact(row))
    taken = Affine.of(form, {"x": np.ones(1001)}, {"x": np.zeros(1001)})
    lo, hi = taken.on({"x": (values, values)})
    true = sum(map(Fraction, row.ravel().tolist()))
    assert taken.constant + float((values @ row[:, :-1].T).item()) < true
    assert Fraction(lo.item()) <= true <= Fraction(hi.item())


def test_errors_of_the_sources_move_what_a_hidden_unit_takes() -> None:
    form = Form((View("x", 1),), Enclosure.exact([[2.0, 0.0]]))
    point = np.zeros((1, 1))
    taken = Affine.of(form, {"x": np.zeros(1)}, {"x": np.array([0.5])})
    lo, hi = taken.on({"x": (point, point)})
    assert lo.item() <= -1.0 and hi.item() >= 1.0


def test_errors_of_floats_pass_the_residual_and_all_that_was_rounded() -> None:
    """In front of a cut: A δ, (A' − A) δ, the residual in real arithmetic, and what was rounded."""
    view = View("x", 1)
    form = Form((view,), Enclosure.exact([[1.0, 0.0]]))
    parts = ((view, np.full((1, 1), 2.0**k)) for k in (0, 1))
    cut = Cut("a", "a", "z", None, form, *((part,) for part in parts), np.array([4.0]), np.ones(1))
    mode = Mode(np.float64)
    mode.errors["x"] = np.ones((1, 1))
    mode.rounded["a"] = np.full((1, 1), 8.0), np.full((1, 1), 16.0)
    total, fresh, behind = (part.item() for part in mode.at(cut, np.zeros((1, 1))))
    assert fresh >= 2 + 4 + 8 and total >= 1 + 2 + 4 + 8 and behind == 16


@pytest.mark.parametrize("signed", [False, True])
def test_what_an_activation_rounds_is_an_error_behind_the_cut(signed) -> None:
    walk = walking(Mode(np.float64))
    walk.rows, walk.signed = None, signed
    point = np.ones((1, 1))
    walk.facts = SimpleNamespace(range=lambda name, rows: (point, point))  # type: ignore[assignment]
    walk.modes[0].rounded["a"] = np.full((1, 1), 8.0), np.full((1, 1), 16.0)
    walk.modes[0].errors["x"] = np.zeros((1, 1))
    view, none = View("x", 1), np.zeros(1)
    form, part = Form((view,), Enclosure.exact([[1.0, 0.0]])), ((view, np.ones((1, 1))),)
    ((error,),) = walk._cut(Cut("a", "a", "z", LeakyRelu(0.5), form, part, (), none, none))
    assert error.item() >= 8 + 16
    assert not signed or walk._symbols.item() >= 8 + 16


def walking(*modes: Mode) -> Walk:
    """A walk on one box that begins."""
    walk = Walk.__new__(Walk)
    walk.boxes, walk.modes, walk._terms = 1, list(modes), 16
    walk._symbols, walk._forms, walk._sizes, walk._reached = np.zeros((1, 0, 1)), {}, {}, {}
    return walk


def carried(*maps: Enclosure, first: float = 1.0) -> float:
    """The error behind a chain of maps that is `first` in front of it, and no other is new."""
    walk = walking(Mode(None))
    for place, matrix in enumerate((Enclosure.exact([[1.0, 0.0]]), *maps)):
        rows, columns = matrix.shape
        form = Form((View("x" if place == 0 else str(place - 1), columns - 1),), matrix)
        fresh = np.full((1, rows, 1), first if place == 0 else 0.0)
        cut = Cut(str(place), "", "", None, form, (), (), fresh[0, :, 0], fresh[0, :, 0])
        slopes = secants(None, -fresh[..., 0], fresh[..., 0])
        found = walk._carried(cut, slopes, np.full_like(fresh, np.inf), fresh, np.zeros_like(fresh))
    return float(found.max())


def test_maps_that_are_not_known_exactly_are_noise() -> None:
    """1 ± 1/2 times an error of 1 may be 3/2."""
    unsure = Enclosure(np.array([[1.0, 0.0]]), np.zeros((1, 2)), np.array([[0.5, 0.0]]))
    assert carried(unsure) >= 1.5


def test_what_products_of_maps_round_is_counted() -> None:
    """Sums of random products that cancel: what floats leave of them is rounding."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second = rng.normal(size=(2, 40))
        last = -float(sum(map(Fraction, first * second))) / first[0]
        spread = np.column_stack([np.append(first, first[0]), np.zeros(41)])
        row = np.append(second, [last, 0.0])[None]
        pairs = zip(spread[:, 0].tolist(), row[0].tolist(), strict=False)
        true = abs(sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0)))
        assert Fraction(carried(Enclosure.exact(spread), Enclosure.exact(row))) >= true


def test_what_products_of_maps_lose_by_underflow_is_counted() -> None:
    """2^-1100 is no float, but times 2^60 and an error of 2^200 it would be."""
    maps = (Enclosure.exact([[power, 0.0]]) for power in (2.0**-550, 2.0**-550, 2.0**60))
    assert carried(*maps, first=2.0**200) >= 2.0**-840


def test_a_sum_that_may_overflow_on_the_domain_has_no_bound_on_its_boxes_either() -> None:
    """Its terms are so many that rounding is looked at on the domain alone."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(200, 2))
    second = 1e37 * np.where(np.arange(200) % 2, 1.0, -1.0)[None]
    network = Network.mlp([np.repeat(first[::2], 2, axis=0), second], [np.ones(200), np.zeros(1)])
    found = certify(network, network, domain=BOX, bounds=Adaptive(boxes=50))
    assert found.tree is not None and found.bound < 1e20 and found.float64_bound is not None
    assert found.float32_bound is None and found.target_float32_bound is None
