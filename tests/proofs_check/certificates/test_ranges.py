"""Ranges and functionals of networks on boxes: no rational value is ever outside."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array, issparse

from proofs_check.certificates.affine import Form
from proofs_check.certificates.arithmetic import Tally
from proofs_check.certificates.ranges import (
    Ranges,
    Rows,
    Term,
    boxes_of,
    interval,
    product,
    rows_of,
    unrolled,
)
from proofs_check.certificates.rationals import Rationals
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Convolution,
    Geometry,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
)
from reconstruct.networks.activations import Clip, MaxPool
from reconstruct.networks.maps import Placement, Scaling, Select
from tests.bounds.rational import holds, rational_values
from tests.networks.test_images import convolutions

TREE = bytes([1, 2, 0, 2, 0, 0, 1, 0, 0])


def test_boxes_cover_the_domain() -> None:
    domain = Box([0.0, 0.0], [1.0, 2.0])
    lo, hi = boxes_of(domain, bytes([1, 2, 0, 0, 0]))
    assert np.prod(hi - lo, axis=1).sum() == 2.0
    with pytest.raises(CheckFailed, match="lacks 1 of its leaves"):
        boxes_of(domain, bytes([1, 0]))
    with pytest.raises(CheckFailed, match="not a partition"):
        boxes_of(domain, bytes([3, 0, 0]))


def branches(rng: np.random.Generator, scale: float, op) -> Network:
    """Sums, norms, scalings, units that are moved, and a map that is known to a root alone."""
    maps = [scale * rng.normal(size=(4, 2)), rng.normal(size=(4, 4)), rng.normal(size=(3, 8))]
    norm = Norm(rng.normal(size=4), rng.normal(size=4), rng.normal(size=4), np.full(4, 2.0), 0.25)
    nodes = (
        Node("one", Affine(maps[0], rng.normal(size=4)), ("input",)),
        Node("act1", op, ("one",)),
        Node("two", Affine(maps[1], rng.normal(size=4)), ("act1",)),
        Node("norm", norm, ("two",)),
        Node("act2", op, ("norm",)),
        Node("sum", Add(), ("act1", "act2", "act1")),
        Node("moved", Placement(np.array([3, -1, 0, 1, 2, 2, 0, 1]), 4), ("sum",)),
        Node("act3", op, ("moved",)),
        Node("some", Select(0, 8), ("act3",)),
        Node("out", Affine(maps[2], rng.normal(size=3)), ("some",)),
    )
    return Network(2, nodes, "out")


def require(network: Network, ranges: Ranges, rows: Rows, rng: np.random.Generator) -> None:
    """Values at points of every box, exactly, against the ranges and a functional's bounds."""
    (term,) = rows.terms
    found = ranges.worst(rows)
    low, high = ranges.values[network.source]
    for box in range(ranges.boxes):
        points = [low[box], high[box], *Box(low[box], high[box]).sample(3, rng)]
        for point in points:
            exact = rational_values(network, point)
            for name, (lo, hi) in ranges.values.items():
                assert holds((lo[box], hi[box]), exact[name]), name
            last = Node("asked", Affine(term.matrix, rows.constant), (term.source,))
            asked = Network(network.size_in, (*network.nodes, last), "asked", network.source)
            assert holds(found, rational_values(asked, point)["asked"])


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_ranges_hold_in_exact_arithmetic(seed: int, lean: bool) -> None:
    rng = np.random.default_rng(seed)
    scale = (1.0, 1e-3, 30.0, 1e120, 1e-160)[seed % 5]
    op = (Relu(), LeakyRelu(0.3), Clip(0.0, 2.0))[seed % 3]
    network, width = branches(rng, scale, op), (1.0, 0.0, 1e-9)[seed % 3]
    box = Box([-0.5, 0.25], [-0.5 + width, 1.0])
    whole = Ranges(network, box.lo[None], box.hi[None], sharp={"sum", "out"})
    leaves = Ranges(network, *boxes_of(box, TREE), known=whole.values, lean=lean)
    names = {"act1": 4, "sum": 4, "act3": 8}
    for ranges in (whole, leaves):
        name = list(names)[seed % 3]
        term = Term(name, rng.normal(size=(3, names[name])))
        require(network, ranges, Rows((term,), rng.normal(size=3), np.zeros(3)), rng)


@pytest.mark.parametrize("seed", range(10))
def test_ranges_hold_through_maxima_over_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = MaxPool(Geometry(1, 3, 2, (2, 2), (1, 1), (0, 0, 1, 0)))
    nodes = (
        Node("one", Affine(rng.normal(size=(6, 2)), rng.normal(size=6)), ("input",)),
        Node("act1", Relu(), ("one",)),
        Node("most", pool, ("act1",)),
        Node("two", Affine(rng.normal(size=(4, 3)), rng.normal(size=4)), ("most",)),
        Node("act2", Relu(), ("two",)),
        Node("out", Affine(rng.normal(size=(2, 4))), ("act2",)),
    )
    network, box = Network(2, nodes, "out"), Box([-1.0, -0.5], [0.5, 1.0])
    for boxes in ((box.lo[None], box.hi[None]), boxes_of(box, TREE)):
        ranges = Ranges(network, *boxes, sharp={"out"})
        term = Term("act2", rng.normal(size=(3, 4)))
        require(network, ranges, Rows((term,), rng.normal(size=3), np.zeros(3)), rng)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(convolutions())
def test_an_unrolled_convolution_is_its_matrix(op: Convolution) -> None:
    node = Node("c", op, ("x",))
    rows = rows_of(node, {"x": op.shape[1], "c": op.shape[0]})
    found = sum((term.matrix for term in rows.terms), np.zeros(op.shape))
    assert np.array_equal(found, op.tile(0, op.shape[0]))
    assert np.array_equal(rows.constant, op.bias)


def test_a_form_is_bounded_as_its_unrolled_rows_are() -> None:
    """Columns that meet in one unit are added, and what the sum may lose is not forgotten."""
    rng = np.random.default_rng(3)
    network = branches(rng, 1.0, Relu())
    ranges = Ranges(network, np.full((1, 2), -1.0), np.full((1, 2), 0.5))
    index = np.array([[6, 0], [1, -1], [3, 3], [6, 2]])
    matrix = np.hstack([rng.normal(size=(5, 4)), np.zeros((5, 1))])
    matrix[:3, 3] = -matrix[:3, 0] * (1 + 2.0**-50)  # sums that are exact, and others
    form = Form.over_source("act3", index, matrix)
    whole = unrolled(form, form.floats(), network.sizes)
    for position, places in enumerate(index.T):
        rows = whole.take(np.arange(position, 10, 2))
        (term,) = rows.terms
        middle, error = (
            np.asarray(m.todense() if issparse(m) else m)
            for m in (term.matrix, 0 * term.matrix if term.error is None else term.error)
        )
        for row in range(5):
            exact = [Fraction(0)] * 8
            for column, unit in enumerate(places):
                if unit >= 0:
                    exact[unit] += Fraction(matrix[row, column])
            for unit in range(8):
                gap = abs(Fraction(middle[row, unit]) - exact[unit])
                assert gap <= Fraction(error[row, unit]) and error[row, unit] < 1e-14
        assert np.allclose(
            ranges.worst(rows),
            ranges.worst(Rows((Term("act3", middle),), rows.constant, rows.doubt)),
            atol=1e-12,
        )


def least(network: Network, name: str, row: np.ndarray, box: Box) -> Fraction:
    """The exact minimum of a row of a value that is affine in the input: at a corner."""
    origin, *ends = (
        sum((Fraction(a) * v for a, v in zip(row.tolist(), found[name], strict=True)), Fraction(0))
        for found in (
            rational_values(network, point)
            for point in (np.zeros(network.size_in), *np.eye(network.size_in))
        )
    )
    slopes = [end - origin for end in ends]
    corners = zip(slopes, box.lo.tolist(), box.hi.tolist(), strict=True)
    return origin + sum(s * Fraction(lo if s > 0 else hi) for s, lo, hi in corners)


def null(matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A row that the columns of a matrix cancel, but for rounding."""
    _, _, basis = np.linalg.svd(matrix.T)
    rest = basis[matrix.shape[1] :]
    return rng.normal(size=len(rest)) @ rest


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["map", "constants", "norm", "branches", "sum"])
def test_what_rounding_takes_from_coefficients_that_cancel_is_counted(kind: str, seed: int) -> None:
    """The true value is far below its terms: whatever is not charged is seen in the bound."""
    rng, box = np.random.default_rng(seed), Box(0.75, 1.25).of_size(3)
    inner, nothing = rng.normal(size=(12, 3)), np.zeros(12)
    nodes = [Node("a", Affine(inner, nothing), ("input",))]
    row = null(inner, rng)
    if kind == "constants":
        nodes = [Node("a", Affine(0 * inner, rng.normal(size=12)), ("input",))]
    elif kind == "norm":
        eps = np.full(12, 2.0)
        norm = Norm(rng.normal(size=12), nothing, nothing, eps, 0.25)
        nodes.append(Node("b", norm, ("a",)))
        row = null(inner * (norm.gamma / 1.5)[:, None], rng)
    elif kind != "map":
        first, second = rng.normal(size=(2, 5, 12))
        nodes += [
            Node("p", Affine(first, np.zeros(5)), ("a",)),
            Node("q", Affine(second, np.zeros(5)), ("a",)),
            Node("b", Add(), ("p", "q")),
        ]
        row = null((first + second) @ inner, rng)
    network = Network(3, tuple(nodes), nodes[-1].name)
    ranges = Ranges(network, box.lo[None], box.hi[None])
    for sign in (1.0, -1.0):
        terms = (Term(network.output, sign * row[None]),)
        if kind == "branches":
            terms = tuple(Term(name, sign * row[None]) for name in ("p", "q"))
        low, high = ranges.worst(Rows(terms, np.zeros(1), np.zeros(1)))
        assert Fraction(low[0]) <= least(network, network.output, sign * row, box)
        assert Fraction(high[0]) >= -least(network, network.output, -sign * row, box)


@pytest.mark.parametrize("sparse", [False, True])
def test_units_that_see_nothing_are_constants(sparse: bool) -> None:
    weight = csr_array(np.zeros((2, 3))) if sparse else np.zeros((2, 3))
    nodes = (
        Node("dead", Affine(weight, [0.5, -1.0]), ("input",)),
        Node("act", Relu(), ("dead",)),
        Node("out", Affine(csr_array(np.eye(2))), ("act",)),
    )
    ranges = Ranges(Network(3, nodes, "out"), np.zeros((2, 3)), np.ones((2, 3)), sharp={"out"})
    rows = Rows((Term("act", np.array([[0.0, 1.0]])),), np.zeros(1), np.zeros(1))
    for name, expected in (("dead", [0.5, -1.0]), ("out", [0.5, 0.0])):
        assert np.allclose(ranges.values[name], np.array([expected] * 2), atol=1e-12)
    assert np.allclose(ranges.worst(rows), 0.0, atol=1e-12)


def test_branches_that_come_from_one_value_cancel() -> None:
    """h − h through two nodes: intervals say ±1, lines that are carried back say 0."""
    nodes = (
        Node("a", Affine(np.ones((1, 1))), ("input",)),
        Node("b", Affine(np.ones((1, 1))), ("input",)),
    )
    network = Network(1, (*nodes, Node("out", Add(), ("a", "b"))), "out")
    ranges = Ranges(network, np.zeros((1, 1)), np.ones((1, 1)))
    terms = Term("a", np.ones((1, 1))), Term("b", -np.ones((1, 1)))
    low, high = ranges.worst(Rows(terms, np.zeros(1), np.zeros(1)))
    assert -1e-12 < low[0] <= 0 <= high[0] < 1e-12


def test_what_is_never_negative_stays_so() -> None:
    """A unit that is handed on, by a matrix of either kind, and with its sign turned."""
    values = {"h": (np.zeros((1, 3)), np.array([[0.1, 0.2, 0.3]]))}
    matrix = np.array([[0.1, 0.7, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])
    for held in (matrix, csr_array(matrix)):
        low, high = interval(Rows((Term("h", held),), *np.zeros((2, 3))), values)
        assert low[0, 1] == 0 and high[0, 1] == 0.2
        assert low[0, 2] == -0.3 and high[0, 2] == 0


def test_the_error_of_a_matrix_widens_its_rows() -> None:
    values = {"h": (-np.ones((1, 2)), 2 * np.ones((1, 2)))}
    term = Term("h", np.zeros((1, 2)), np.full((1, 2), 0.5))
    low, high = interval(Rows((term,), np.zeros(1), np.array([0.25])), values)
    assert low[0, 0] <= -2.25 and high[0, 0] >= 2.25


def test_a_scaling_is_a_map_of_its_own() -> None:
    op = Scaling(np.array([1.0, 2.0]), np.array([3.0, 1.0]), np.array([0.5, 0.0]))
    network = Network(2, (Node("out", op, ("input",)),), "out")
    ranges = Ranges(network, np.ones((1, 2)), np.ones((1, 2)))
    assert holds(
        [end[0] for end in ranges.values["out"]], rational_values(network, np.ones(2))["out"]
    )


@pytest.mark.parametrize(("scale", "shift", "least"), [(0.1, 0.0, -1.3), (0.0, 0.1, -1.2)])
def test_what_is_not_known_of_a_norm_is_carried_back(scale, shift, least, monkeypatch) -> None:
    """s x₁ + t − s' x₂ − t' over [1, 2]², s within `scale` of 1, and t within `shift` of 0."""
    parts = Rationals.of(np.ones(2), scale), Rationals.of(np.zeros(2), shift)
    monkeypatch.setattr("proofs_check.certificates.ranges.columns_of", lambda op: parts)
    norm = Norm(np.ones(2), np.zeros(2), np.zeros(2), np.ones(2), 0.0)
    nodes = (
        Node("norm", norm, ("input",)),
        Node("gap", Affine(np.array([[1.0, -1.0]])), ("norm",)),
    )
    ranges = Ranges(Network(2, nodes, "gap"), np.ones((1, 2)), np.full((1, 2), 2.0))
    low, high = ranges.worst(Rows((Term("gap", np.ones((1, 1))),), np.zeros(1), np.zeros(1)))
    assert low[0] <= least < low[0] + 0.11 and high[0] - 0.11 < -least <= high[0]


@pytest.mark.parametrize(("error", "doubt", "least"), [(0.5, 0.0, -1.5), (0.0, 0.25, -1.25)])
def test_what_is_not_known_of_a_functional_is_carried_back(error, doubt, least) -> None:
    """a (x₁ − x₂) + c over [0, 1]², a within `error` of 1 and c within `doubt` of 0."""
    nodes = (Node("gap", Affine(np.array([[1.0, -1.0]])), ("input",)),)
    ranges = Ranges(Network(2, nodes, "gap"), np.zeros((1, 2)), np.ones((1, 2)))
    term = Term("gap", np.ones((1, 1)), np.full((1, 1), error))
    low, high = ranges.worst(Rows((term,), np.zeros(1), np.full(1, doubt)))
    assert low[0] <= least < low[0] + 1e-12 and high[0] - 1e-12 < -least <= high[0]


def test_what_rounding_takes_when_ranges_are_put_in_is_counted() -> None:
    """One row over many units: the map before it has one product a coefficient to account for."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        lo, weight = rng.uniform(1.0, 2.0, (2, 600))
        hi = lo * (1 + 2.0**-40)
        network = Network(600, (Node("a", Affine(weight[None]), ("input",)),), "a")
        ranges = Ranges(network, lo[None], hi[None])
        rows = Rows((Term("a", np.ones((1, 1))),), np.zeros(1), np.zeros(1))
        for found, end, sign in zip(ranges.worst(rows), (lo, hi), (1, -1), strict=True):
            pairs = zip(weight.tolist(), end.tolist(), strict=True)
            assert (
                sign * (Fraction(found[0]) - sum(Fraction(w) * Fraction(x) for w, x in pairs)) <= 0
            )


@pytest.mark.parametrize("second", [2.0**-53, -(2.0**-54), 2.0**-53 + 2.0**-105, 0.1])
def test_a_coefficient_that_is_a_sum_loses_its_rounding(second) -> None:
    """1 + u is 1 in floats: all that a sum can lose, and the value is 3 or -3."""
    network = Network(1, (Node("out", Relu(), ("input",)),), "out")
    ranges = Ranges(network, np.full((1, 1), -3.0), np.full((1, 1), 3.0))
    one, waiting = np.ones((1, 1, 1)), {"input": np.ones((1, 1, 1))}
    start = Tally.start(*np.zeros((2, 1, 1)))
    tally = ranges._wait(waiting, "input", second * one, start, slice(None))
    lost = abs(Fraction(1) + Fraction(second) - Fraction(waiting["input"].item()))
    assert lost > 0 and Fraction(tally.lowest().item()) <= -3 * lost


def test_a_coefficient_that_is_a_product_loses_its_rounding() -> None:
    """Of a slope that is all there is on the box."""
    slope, rng = 1.0 + 2.0**-52, np.random.default_rng(2)
    network = Network(1, (Node("out", LeakyRelu(slope), ("input",)),), "out")
    ranges = Ranges(network, np.full((1, 1), -3.0), np.full((1, 1), -3.0))
    for a in (1.0 + 2.0**-1, *rng.uniform(1, 1 + 2.0**-20, 50)):
        low = ranges.lower({"out": np.full((1, 1, 1), a)}).item()
        assert Fraction(low) <= -3 * Fraction(a) * Fraction(slope)


def test_a_single_product_is_rounded_and_a_unit_that_is_handed_on_is_not() -> None:
    rng = np.random.default_rng(8)
    h = rng.normal(size=50)
    for weight in (rng.normal(size=50), np.ones(50), -np.ones(50)):
        rows = Rows((Term("h", np.diag(weight)),), *np.zeros((2, 50)))
        low, high = (end[0] for end in interval(rows, {"h": (h[None], h[None])}))
        for a, x, least_, most in zip(weight, h, low, high, strict=True):
            assert Fraction(least_) <= Fraction(a) * Fraction(x) <= Fraction(most)
        assert (low == high).all() == (abs(weight) == 1).all()


def test_what_is_not_known_of_a_form_is_unrolled_with_it() -> None:
    form = Form.over_source("h", np.array([[1], [0], [-1]]), np.array([[1.0, 2.0, 3.0, 4.0]]))
    form = replace(form, radius=np.full(form.radius.shape, 0.5))
    (term,) = unrolled(form, form.floats(), {"h": 3}).terms
    assert term.error is not None and (term.error[:, :2] >= 0.5).all() and term.error[0, 2] == 0


@pytest.mark.parametrize("exponent", [0, -300, -520, -537, 500])
def test_a_product_by_middle_and_radius_holds_what_is_attained(exponent: int) -> None:
    """At the worst ends of wide and of narrow ranges, where numbers underflow, and without ends."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 6))
        a, lo = np.ldexp(rng.normal(size=(2, n)), exponent)
        hi = lo + np.abs(lo) * rng.choice([0.0, 2.0**-52, 2.0**-50, 3.0])
        (value,), (room,) = (x[:, 0] for x in product(a[None], lo[:, None], hi[:, None]))
        for rising in (a > 0, a < 0):
            ends = zip(a.tolist(), np.where(rising, hi, lo).tolist(), strict=True)
            exact = sum((Fraction(x) * Fraction(y) for x, y in ends), Fraction(0))
            assert abs(exact - Fraction(value)) <= Fraction(room)
    value, room = product(np.ones((1, 2)), np.array([[-np.inf], [0.0]]), np.ones((2, 1)))
    assert np.isfinite(value).all() and np.isinf(room).all()
