"""Convolutions and pooling: against onnxruntime, the unrolled matrix, exact values and bounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconstruct.bounds import Crown, Interval, reach
from reconstruct.equivalence.witness import evaluate_exact
from reconstruct.errors import InputError
from reconstruct.networks import (
    Affine,
    Box,
    Convolution,
    Geometry,
    MaxPool,
    Network,
    Node,
    Norm,
    Placement,
    Relu,
    SumPool,
)
from reconstruct.networks.graph import gradient
from reconstruct.networks.normal_form import fold_norms, normal_form
from reconstruct.numbers.exact import Dyadic


@st.composite
def geometries(draw):
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    sizes = draw(st.tuples(st.integers(5, 8), st.integers(5, 8)))
    strides = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    dilations = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    return Geometry(draw(st.sampled_from([1, 2, 4])), *sizes, kernel, strides, pads, dilations)


@st.composite
def convolutions(draw):
    geometry = draw(geometries())
    groups = draw(st.sampled_from([g for g in (1, 2, 4) if geometry.channels % g == 0]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape = (groups * draw(st.integers(1, 2)), geometry.channels // groups, *geometry.kernel)
    kernel = rng.normal(size=shape).astype(draw(st.sampled_from([np.float32, np.float64])))
    return Convolution(kernel, geometry, rng.normal(size=shape[0]), groups)


def by_onnxruntime(kind: str, geometry: Geometry, x, *constants, **attributes):
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    names = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(
        kind,
        ["x", *names],
        ["y"],
        kernel_shape=geometry.kernel,
        strides=geometry.strides,
        pads=geometry.pads,
        **attributes,
    )
    image = [len(x), geometry.channels, geometry.height, geometry.width]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", number, image)],
        [helper.make_tensor_value_info("y", number, None)],
        [
            onnx.numpy_helper.from_array(np.asarray(c, np.float32), n)
            for c, n in zip(constants, names, strict=True)
        ],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x.reshape(image).astype(np.float32)})[0].reshape(len(x), -1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(convolutions(), st.integers(0, 99))
def test_a_convolution_is_what_onnxruntime_computes_and_what_its_matrix_says(op, seed):
    x = np.random.default_rng(seed).normal(size=(3, op.geometry.size))
    ours = op(x)
    theirs = by_onnxruntime(
        "Conv",
        op.geometry,
        x,
        op.kernel,
        op.offsets,
        group=op.groups,
        dilations=op.geometry.dilations,
    )
    assert ours.shape == theirs.shape == (3, op.shape[0])
    slack = 1e-14 * op.summands * (1 + np.abs(op.kernel).max() * np.abs(x).max())
    assert np.abs(op(x.astype(np.float32)) - theirs).max() <= 1e9 * slack  # float32 kernels only
    whole = op.tile(0, op.shape[0])
    assert np.abs(x @ whole.T + op.bias - ours).max() <= slack
    assert np.array_equal(whole, op.columns(0, op.shape[1]))
    assert np.abs(op.absolute(np.abs(x)) - np.abs(x) @ np.abs(whole).T).max() <= slack


@settings(max_examples=60, deadline=None, derandomize=True)
@given(convolutions(), st.integers(0, 99))
def test_the_dot_test_holds(op, seed):
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(1, op.shape[1])), rng.normal(size=(1, op.shape[0]))
    left, right = float(op.linear(u)[0] @ v[0]), float(u[0] @ op.pull(v, op.shape[1])[0])
    assert abs(left - right) <= 1e-12 * (1 + np.abs(u).sum() * np.abs(op.kernel).max())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(geometries(), st.integers(0, 99))
def test_pooling_is_what_onnxruntime_computes(geometry, seed):
    if any(pad >= side for pad, side in zip(geometry.pads, geometry.kernel * 2, strict=True)):
        return
    x = np.random.default_rng(seed).normal(size=(2, geometry.size))
    theirs = by_onnxruntime("MaxPool", geometry, x, dilations=geometry.dilations)
    assert np.array_equal(MaxPool(geometry)(x.astype(np.float32)), theirs)
    if geometry.dilations == (1, 1):
        pool = SumPool(geometry)
        averages = pool(x) / np.tile(pool.counts(), geometry.channels)
        assert np.abs(averages - by_onnxruntime("AveragePool", geometry, x)).max() <= 1e-5


def small_network() -> Network:
    rng = np.random.default_rng(4)
    first = Geometry(2, 6, 6, (3, 3), (1, 1), (1, 1, 1, 1))
    pool = Geometry(3, 6, 6, (2, 2), (2, 2))
    second = Geometry(3, 3, 3, (2, 2))
    nodes = (
        Node("c1", Convolution(rng.normal(size=(3, 2, 3, 3)), first, rng.normal(size=3)), ("x",)),
        Node("n1", Norm([1.0, -2, 0.5], [0.1, 0, 1], [0, 1, 2], [1, 2, 3], 1e-3, 36), ("c1",)),
        Node("r1", Relu(), ("n1",)),
        Node("p", MaxPool(pool), ("r1",)),
        Node("c2", Convolution(rng.normal(size=(2, 3, 2, 2)), second), ("p",)),
        Node("r2", Relu(), ("c2",)),
        Node("s", SumPool(Geometry(2, 2, 2, (2, 2))), ("r2",)),
        Node("move", Placement([1, -1, 0], 2), ("s",)),
        Node("o", Affine(rng.normal(size=(2, 3)), [1.0, 2.0]), ("move",)),
    )
    return Network(72, nodes, "o", "x")


@pytest.mark.parametrize("method", [Interval(), Crown()], ids=repr)
def test_bounds_of_a_small_cnn_hold_at_every_node(method):
    network = small_network()
    box = Box(-0.3, 0.4)
    known = reach(network, box, method)
    rng = np.random.default_rng(0)
    points = np.concatenate([box.of_size(72).sample(200, rng), box.of_size(72).corners(50, rng)])
    values = network.values(points)
    for name in network.sizes:
        lo, hi = known.bounds(name)
        slack = 1e-12 * (1 + np.abs(values[name]))
        assert np.all(values[name] >= lo - slack) and np.all(values[name] <= hi + slack), name


def test_crown_is_tighter_than_intervals_on_a_cnn():
    network = small_network()
    loose, tight = (reach(network, Box(-0.3, 0.4), m).bounds("o") for m in (Interval(), Crown()))
    assert np.all(tight[1] - tight[0] < loose[1] - loose[0])


def test_a_cnn_has_an_exact_value():
    network = small_network().with_ops(
        {"n1": Norm([1.0, -2, 0.5], [0.25, 0, 1], [0, 1, 2], [1, 4, 16], 0.0, 36)}
    )
    x = np.random.default_rng(1).normal(size=72)
    exact = evaluate_exact(network, x)
    assert all(isinstance(v, Fraction) for v in exact)
    np.testing.assert_allclose([float(v) for v in exact], network(x), rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(convolutions())
def test_exact_values_are_those_of_the_unrolled_matrix(op):
    value = Dyadic.exact(np.random.default_rng(3).normal(size=op.shape[1]))
    unrolled = Affine(op.tile(0, op.shape[0]), op.bias).exact(value, 64)
    assert op.exact(value, 64).fractions() == unrolled.fractions()
    wide = Dyadic(value.low, value.low + 1, value.shift)
    unrolled = Affine(op.tile(0, op.shape[0]), op.bias).exact(wide, 64)
    assert op.exact(wide, 64).fractions() == unrolled.fractions()


def test_exact_values_of_many_groups_take_no_dense_matrix():
    groups = 2**15  # as one matrix 8 GB
    op = Convolution(np.full((groups, 1, 1, 1), 0.5), Geometry(groups, 1, 1, (1, 1)), None, groups)
    found = op.exact(Dyadic.exact(np.arange(groups)), 64)
    assert found.fractions()[-1] == (Fraction(groups - 1, 2),) * 2


@pytest.mark.parametrize("var", [1.0, 0.75])  # with eps 0.25 the second one is drawn
def test_exact_values_of_norms_are_gamma_z_over_the_deviation_plus_beta(var):
    norm = Norm([0.1, -2.0], [0.3, 1e-9], [0, 0], [var] * 2, 0.25 if var < 1 else 0.0, positions=2)
    z = [0.7, -1.0, 1e9, 3.0]
    expected = [
        (Fraction(g) * Fraction(v) + Fraction(b),) * 2
        for g, b, v in zip([0.1, 0.1, -2.0, -2.0], [0.3, 0.3, 1e-9, 1e-9], z, strict=True)
    ]
    assert list(norm.exact(Dyadic.exact(z), 64).fractions()) == expected


def test_the_gradient_is_that_of_finite_differences():
    network = small_network()
    x = np.random.default_rng(2).normal(size=(1, 72)) * 0.3
    seeds = np.array([[1.0, -0.5]])
    found = gradient(network, network.values(x), "o", seeds)[0]
    for i in range(0, 72, 7):
        step = np.zeros((1, 72))
        step[0, i] = 1e-6
        slope = float((network(x + step) - network(x - step))[0] @ seeds[0]) / 2e-6
        assert abs(slope - found[i]) <= 1e-6 * (1 + abs(slope))


def test_misfits_are_refused_with_their_numbers():
    with pytest.raises(InputError, match="6 input channels, but the image has 4"):
        Convolution(np.ones((2, 3, 1, 1)), Geometry(4, 5, 5, (1, 1)), groups=2)
    with pytest.raises(InputError, match=r"2 groups needs .* \(3, 1, 1, 1\) has 3 in all; .* of 2"):
        Convolution(np.ones((3, 1, 1, 1)), Geometry(2, 5, 5, (1, 1)), groups=2)
    with pytest.raises(InputError, match=r"channel and one pixel, but got shape \(0, 1, 1, 1\)"):
        Convolution(np.ones((0, 1, 1, 1)), Geometry(1, 5, 5, (1, 1)))
    with pytest.raises(InputError, match=r"rank 4, but got shape \(1, 1, 1\)"):
        Convolution(np.ones((1, 1, 1)), Geometry(1, 5, 5, (1, 1)))
    needle = r"3×2 kernel on 1×5×4 with strides 1×1, pads \(0, -1, 0, 0\) and dilations 1×1; cut"
    with pytest.raises(InputError, match=needle):
        Geometry(1, 5, 4, (3, 2), pads=(0, -1, 0, 0))
    with pytest.raises(InputError, match="does not fit into an image of 2×2"):
        Geometry(1, 2, 2, (3, 3))
    with pytest.raises(InputError, match="from 0 to 3, or -1 for none, but has 0 to 4"):
        Placement([0, 4], 4)
    with pytest.raises(InputError, match="pads alone"):
        MaxPool(Geometry(1, 2, 2, (1, 1), pads=(1, 0, 0, 0)))


def test_norms_of_images_are_folded_into_their_convolution_and_pools_stay():
    network = small_network()
    form = normal_form(network)
    assert form.chains == {"n1": ("c1", "n1"), "c2": ("c2",), "o": ("o",)}
    kinds = [n.op.kind for n in form.network.nodes]
    assert kinds == ["Convolution", "Relu", "MaxPool", "Convolution", "Relu", "SumPool",
                     "Placement", "Affine"]  # fmt: skip
    x = np.random.default_rng(5).normal(size=(6, 72))
    np.testing.assert_allclose(form.network(x), network(x), rtol=1e-12, atol=1e-12)
    folded = fold_norms(network)
    assert not folded.norm_nodes()
    np.testing.assert_allclose(folded(x), network(x), rtol=1e-12, atol=1e-12)
