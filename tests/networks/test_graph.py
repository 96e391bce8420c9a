"""Networks: evaluation against plain numpy, counting, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Clip,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
    Select,
    Selu,
)
from reconstruct.networks.operation import LIMITS
from reconstruct.numbers.arrays import everywhere, frozen_array


def test_an_mlp_is_its_formula():
    rng = np.random.default_rng(0)
    W1, W2, b1 = rng.normal(size=(4, 3)), rng.normal(size=(2, 4)), rng.normal(size=4)
    network = Network.mlp([W1, W2], [b1, None])
    x = rng.normal(size=(7, 3))
    expected = np.maximum(x @ W1.T + b1, 0) @ W2.T
    np.testing.assert_allclose(network(x), expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(network(x[0]), network(x[:1])[0])


def test_final_activation_and_float32():
    network = Network.mlp([-np.eye(2)], final_activation=True)
    assert network(np.ones(2), np.float32).dtype == np.float32
    np.testing.assert_array_equal(network([1.0, -2.0]), [0.0, 2.0])


def test_a_graph_with_a_skip_connection():
    nodes = (
        Node("block", Select(1, 3), ("input",)),
        Node("map", Affine(np.eye(2), [1.0, 2.0]), ("block",)),
        Node("sum", Add(), ("map", "block")),
        Node("out", Relu(), ("sum",)),
    )
    network = Network(3, nodes, "out")
    np.testing.assert_array_equal(network([9.0, 1.0, -5.0]), [3.0, 0.0])


def test_a_sparse_map_of_many_units_is_applied_at_once():
    """By tiles of as many entries as a dense one has it would be row by row, each with a copy of
    all inputs: a file of 338 bytes took minutes to read."""
    size = 2**13
    op, parts = Affine(sparse.csr_array(sparse.eye_array(size))), []
    assert size * size > LIMITS.tile
    x = np.random.default_rng(0).normal(size=(2, size))
    made = op._times(x, lambda part: parts.append(part.shape) or part)
    assert np.array_equal(made, x) and parts == [(size, size)]


def test_sparse_weights_evaluate_as_dense_ones():
    rng = np.random.default_rng(1)
    W = rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.3)
    x = rng.normal(size=(4, 6))
    for dtype in (np.float64, np.float32):
        ours = Network.mlp([sparse.csr_array(W)])(x, dtype)
        np.testing.assert_allclose(ours, Network.mlp([W])(x, dtype), rtol=1e-6)
        assert ours.dtype == dtype


@pytest.mark.parametrize(
    ("op", "formula"),
    [
        (Relu(), lambda z: max(z, 0.0)),
        (LeakyRelu(0.25), lambda z: z if z >= 0 else 0.25 * z),
        (Elu(2.0), lambda z: z if z >= 0 else 2.0 * np.expm1(z)),
        (Selu(), lambda z: Selu().gamma * (z if z >= 0 else Selu().alpha * np.expm1(z))),
        (Clip(-1, 1), lambda z: min(max(z, -1.0), 1.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_activations_and_their_linear_piece(op, formula):
    z = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(op(z), [formula(v) for v in z], rtol=1e-15, atol=0)
    inside = z[(z >= op.piece.lo) & (z <= op.piece.hi)]
    np.testing.assert_allclose(op(inside), op.piece.slope * inside, rtol=1e-15)
    steps = np.abs(np.diff(op(z)) / np.diff(z))
    assert steps.max() <= op.lipschitz * (1 + 1e-12)
    away = z[np.abs(z) % 1 > 0.05]
    numeric = (op(away + 1e-6) - op(away - 1e-6)) / 2e-6
    np.testing.assert_allclose(op.derivative(away), numeric, rtol=1e-5, atol=1e-8)


def test_norm_formula_effective_form_and_its_inverse():
    rng = np.random.default_rng(3)
    norm = Norm(rng.normal(size=4), rng.normal(size=4), rng.normal(size=4), rng.random(4), 1e-3)
    z = rng.normal(size=(5, 4))
    s, t = norm.effective()
    np.testing.assert_allclose(norm(z), s * z + t, rtol=1e-12, atol=1e-13)
    moved = norm.with_effective(np.full(4, 3.0), np.arange(4.0))
    np.testing.assert_allclose(moved(z), 3.0 * z + np.arange(4.0), rtol=1e-12, atol=1e-12)
    assert norm.eps == 1e-3


def test_counts():
    network = Network.mlp([np.ones((4, 3)), np.diag([1.0, 2, 3, 4])], [None, np.ones(4)])
    assert network.maps == ((4, 3), (4, 4))
    assert (network.weights, network.nonzeros, network.parameters) == (28, 16, 36)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network.mlp([np.ones((2, 3)), np.ones((2, 3))]), "3 inputs was given 2"),
        (lambda: Network.mlp([np.ones((2, 3))], [np.ones(3)]), "needs 2 biases"),
        (lambda: Network.mlp([np.array([[np.nan, 1.0]])]), "1 of 2 entries are NaN or infinite"),
        (lambda: Network.mlp([]), "at least one weight"),
        (lambda: Network(1, (Node("a", Relu(), ("b",)),), "a"), "uses 'b'"),
        (lambda: Network(1, (Node("a", Relu(), ("input",)),) * 2, "a"), "two nodes"),
        (lambda: Network(1, (), "z"), "output 'z'"),
        (lambda: Norm([1.0], [0.0], [0.0], [-1.0]), "var ≥ 0"),
        (
            lambda: Network.mlp([np.ones((2, 3))])(np.ones(2)),
            r"3 numbers, .* \(2,\)",
        ),
    ],
)
def test_refusals_name_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("lo", "hi", "message"),
    [
        (1.0, 0.0, "lo = 1 and hi = 0"),
        ([0.0, 2.0], [1.0, 1.0], "coordinate 1"),
        (-np.inf, 0.0, "bounded"),
        (np.nan, 0.0, "bounded"),
        ([0.0], [1.0, 2.0], "1 and 2"),
    ],
)
def test_boxes_refuse_what_is_no_box(lo, hi, message):
    with pytest.raises(InputError, match=message):
        Box(lo, hi)


def test_boxes_sample_and_have_corners():
    rng = np.random.default_rng(4)
    box = Box([-1.0, 0.0], [1.0, 0.5])
    assert all(box.contains(x) for x in box.sample(100, rng))
    assert {tuple(c) for c in box.corners(8, rng)} == {(-1, 0), (1, 0), (-1, 0.5), (1, 0.5)}
    assert len(box.corners(3, rng)) == 3
    with pytest.raises(InputError, match="3 inputs, but the domain has 2"):
        box.of_size(3)


def test_arrays_are_shared_where_nobody_can_change_them():
    """A part of an array that can be written to is copied, though it is read-only itself."""
    settled = frozen_array([1.0, 2.0])
    assert frozen_array(settled) is settled and frozen_array(settled[1:]).base is settled
    open_, part = np.ones(3), np.ones(3)
    kept = frozen_array(open_)
    open_[0] = 5.0
    view = part[:2]
    view.setflags(write=False)
    held = frozen_array(view)
    part[0] = 7.0
    assert kept[0] == 1.0 and held[0] == 1.0 and not held.flags.writeable
    assert frozen_array(settled, np.float32) is not settled
    read, buffer = np.frombuffer(bytes(16)), np.frombuffer(bytearray(16))
    assert frozen_array(read) is read and frozen_array(buffer) is not buffer
    same = everywhere(0.5, (3,))
    assert frozen_array(same) is same and same.strides == (0,) and not same.flags.writeable
