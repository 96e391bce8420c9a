"""Figures of an evaluation in floats hold for every program that the model allows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates import check
from reconstruct.certificates import certify
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Diagonal,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
    Select,
)
from tests.proofs_check.certificates.making import certified, close

TERMS = 600
UNIT = 2.0**-24
WEIGHTS = (float.fromhex("0x1.3e0e160000000p+0"), float.fromhex("0x1.0000080000000p-21"))
INPUT = float.fromhex("0x1.6897a40000000p+2")
SHIFT = float.fromhex(
    "0x1.0000000000000p+0"
)  # found by a search: what is rounded is rounded up by nearly half
DROP = np.float32(0.75 * UNIT)  # less than half of the distance from 1 to the float before it


def behind_a_long_sum(op: Diagonal) -> tuple[Network, Box]:
    """The map adds up 600 numbers, each too small to move the 1 that comes behind it."""
    nodes = (Node("sum", Affine(np.ones((1, TERMS))), ("x",)), Node("shift", op, ("sum",)))
    return Network(TERMS, nodes, "shift", "x"), Box(0.0, float(DROP)).of_size(TERMS)


def norm(gamma: float, mean: float, var: float, beta: float = 1.0) -> Norm:
    return Norm([gamma], [beta], [mean], [var], eps=2.0**-17)


SHIFTS = {
    "a drawn norm": norm(1.0, 0.0, 1 - 2.0**-17),
    "a norm with statistics": norm(0.5, 2.0**-30, 0.25 - 2.0**-17),
    "a scaling": Scaling([1.0], [1.0], [1.0]),
}


def folded(op: Diagonal, x: np.ndarray) -> float:
    """The map and what is behind it as one sum that begins with the shift, in float32."""
    scale, shift = (part.astype(np.float32) for part in op.effective())
    total = shift[0]
    for value in x.astype(np.float32):
        total = np.float32(total + np.float32(scale[0] * value))
    return float(total)


def exact(op: Diagonal, x: np.ndarray) -> Fraction:
    scale, shift = (part[0][0] for part in op.rationals(200))
    return Fraction(scale * sum(map(Fraction, x.tolist())) + shift)


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_may_be_what_a_sum_begins_with(name, tmp_path) -> None:
    op = SHIFTS[name]
    network, box = behind_a_long_sum(op)
    made = certified(tmp_path, network, network, box)
    error = float(abs(Fraction(folded(op, box.hi)) - exact(op, box.hi)))
    assert 100 * UNIT < error <= made.float32_bound
    report = check(tmp_path)
    assert report.accepted and close(report, tmp_path, 3), report
    assert report.figures["float32_bound"] >= error


def test_a_norm_whose_scale_is_gamma_counts_no_root_and_no_quotient() -> None:
    """The same function with var + eps = 1 exactly and with another root of the same scale."""
    plain, other = (norm(g, 0.0, g**2 - 2.0**-17, beta=0.0) for g in (1.0, 2.0))
    box = Box(-1.0, 1.0).of_size(1)
    found = []
    for op in (plain, other):
        network = Network(1, (Node("norm", op, ("x",)),), "norm", "x")
        found.append(certify(network, network, domain=box).float32_bound)
    assert found[0] < 0.5 * found[1]


def test_a_unit_variance_counts_only_where_the_format_holds_it() -> None:
    """1 − 1e-5 is no float32: its cast and eps add up to another number than 1."""
    box = Box(-1.0, 1.0).of_size(1)
    eps = float(np.float32(1e-5))
    op = Norm([1.0], [0.0], [0.0], [1 - eps], eps=eps)
    network = Network(1, (Node("norm", op, ("x",)),), "norm", "x")
    bound = certify(network, network, domain=box).float32_bound
    x = np.float32(1.0)
    found = x / np.sqrt(np.float32(1 - eps) + np.float32(eps))
    assert abs(float(found) - 1.0) <= bound
    assert bound > 8 * UNIT  # the casts of var and eps are counted


def test_a_map_without_a_bias_may_be_given_one_by_what_is_folded_into_it(tmp_path) -> None:
    """Six products and a shift that comes first: every product then meets seven roundings."""
    first, tiny = WEIGHTS
    W = np.array([[first] + [tiny] * 5])
    x = np.array([INPUT] + [1.0] * 5)
    shift = Scaling(np.ones(1), np.ones(1), np.array([SHIFT]))
    nodes = (Node("map", Affine(W), ("x",)), Node("shift", shift, ("map",)))
    network = Network(6, nodes, "shift", "x")
    made = certified(tmp_path, network, network, Box(x, x))
    total = np.float32(SHIFT)
    for w, value in zip(W[0], x, strict=True):
        total = np.float32(total + np.float32(np.float32(w) * np.float32(value)))
    products = [Fraction(float(w)) * Fraction(float(v)) for w, v in zip(W[0], x, strict=True)]
    error = float(abs(Fraction(float(total)) - sum(products) - Fraction(SHIFT)))
    assert 50 * UNIT < error <= made.float32_bound
    assert check(tmp_path).figures["float32_bound"] >= error


# --- sums that a graph spells out -----------------------------------------------------------------


def spelled(taken: str, weight: np.ndarray, biases: list[float], name: str) -> tuple[Node, ...]:
    """A map as a sum of two halves, each with a bias of its own."""
    half = weight.shape[1] // 2
    parts = ((0, half), (half, weight.shape[1]))
    nodes = []
    for i, (start, stop) in enumerate(parts):
        bias = np.full(len(weight), biases[i])
        nodes.append(Node(f"{name}.taken{i}", Select(start, stop), (taken,)))
        nodes.append(
            Node(f"{name}.part{i}", Affine(weight[:, start:stop], bias), (f"{name}.taken{i}",))
        )
    return (*nodes, Node(name, Add(), (f"{name}.part0", f"{name}.part1")))


def test_biases_of_a_spelled_sum_are_cast_one_by_one(tmp_path) -> None:
    """Two biases that cancel, neither of them a float32 number: their casts do not cancel."""
    large = 2.0**20 + 2.0**-5
    network = Network(4, spelled("x", np.ones((1, 4)), [large, -large - 2.0**-4], "y"), "y", "x")
    box = Box(np.zeros(4), np.full(4, 2.0**-10))
    made = certified(tmp_path, network, network, box)
    held = np.float32(large) + np.float32(-large - 2.0**-4)
    error = abs(float(held) + 2.0**-4)
    assert error > 0 and error <= made.float32_bound
    report = check(tmp_path)
    assert report.accepted and report.figures["float32_bound"] >= error, report


@pytest.mark.parametrize("behind", [(), (Node("r", Relu(), ("y",)),)])
def test_a_spelled_sum_that_is_itself_a_cut(behind, tmp_path) -> None:
    nodes = (Node("z", Scaling(np.ones(4), np.ones(4), np.ones(4)), ("x",)),)
    nodes = (*nodes, *spelled("z", np.ones((2, 4)), [0.0, 1.0], "y"), *behind)
    network = Network(4, nodes, nodes[-1].name, "x")
    made = certified(tmp_path, network, network, Box(-1.0, 1.0).of_size(4))
    assert made.float64_bound is not None
    assert check(tmp_path).accepted


def test_a_branch_may_be_evaluated_before_the_cut_of_another(tmp_path) -> None:
    """Biases that cancel make a norm's input large; how small the norm itself is, is known."""
    one = Norm([1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1 - 2.0**-17] * 2, eps=2.0**-17)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((2, 4)).astype(np.float32).astype(float)
    nodes = (
        *spelled("x", W, [2.0**14, -(2.0**14)], "b"),
        Node("bn", one, ("b",)),
        *spelled("x", 2 * W, [2.0**14, -(2.0**14)], "c"),
        Node("cn", one, ("c",)),
        Node("p", Relu(), ("bn",)),
        Node("q", Relu(), ("cn",)),
        Node("y", Add(), ("p", "q")),
    )
    network = Network(4, nodes, "y", "x")
    certified(tmp_path, network, network, Box(-1.0, 1.0).of_size(4))
    report = check(tmp_path)
    assert report.accepted and "float64_bound" in report.figures, report


def test_every_sum_of_a_tree_rounds(tmp_path) -> None:
    """A chain of thirty sums, each too small to move the 1 that comes first."""
    count = 31
    nodes = [Node(f"t{i}", Select(i, i + 1), ("x",)) for i in range(count)]
    nodes += [Node(f"p{i}", Affine(np.ones((1, 1))), (f"t{i}",)) for i in range(count)]
    nodes += [
        Node(f"s{i}", Add(), ("p0" if i == 1 else f"s{i - 1}", f"p{i}")) for i in range(1, count)
    ]
    network = Network(count, tuple(nodes), f"s{count - 1}", "x")
    x = np.array([1.0] + [float(DROP)] * (count - 1))
    plain = Network(count, (Node("y", Affine(np.ones((1, count))), ("x",)),), "y", "x")
    made = certified(tmp_path, plain, network, Box(x, x))  # no sum of it is a cut
    found = network(x.astype(np.float32)[None], np.float32)[0, 0]
    error = float(sum(map(Fraction, x.tolist())) - Fraction(float(found)))
    assert found == 1.0 and error > 20 * UNIT
    assert error <= made.float32_bound < 2 * error
    assert check(tmp_path).figures["float32_bound"] >= error


def test_a_product_that_underflows_in_float32_is_counted(tmp_path) -> None:
    """2^-80 times 2^-80 is 0 in float32: no relative rounding says how much is lost. The bound, and
    the checker of a certificate that claims less."""
    W, box = np.full((1, 1), 2.0**-80), Box(0.0, 2.0**-80).of_size(1)
    network = Network(1, (Node("map", Affine(W), ("x",)),), "map", "x")
    made = certified(tmp_path, network, network, box)
    assert W[0, 0].astype(np.float32) * box.hi[0].astype(np.float32) == 0
    assert made.float32_bound >= 2.0**-160
    assert check(tmp_path).figures["float32_bound"] >= 2.0**-160


def test_a_value_that_may_overflow_has_no_bound_in_float32(tmp_path) -> None:
    """Partial sums 2^127 + 2^127 reach infinity in float32, and cancel in real arithmetic."""
    W = np.array([[1.0, 1.0, -1.0, -1.0]])
    network = Network(4, (Node("map", Affine(W), ("x",)),), "map", "x")
    found = certify(network, network, domain=Box(0.0, 2.0**127).of_size(4))
    assert found.bound is not None and found.float64_bound is not None
    assert found.float32_bound is None
