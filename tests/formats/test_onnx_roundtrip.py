"""What is written is what is read, and onnxruntime agrees on what it means."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconstruct.errors import InputError
from reconstruct.formats import load, save, sha256_file
from reconstruct.formats.files import Limits
from reconstruct.formats.onnx import constants as onnx_constants
from reconstruct.formats.onnx import write as onnx_write
from reconstruct.networks import (
    Affine,
    Convolution,
    Geometry,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
    SumPool,
)

from .models import assert_same_graph, networks, numbers, run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
RELAXED = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DTYPES = st.sampled_from([np.float64, np.float32])


def scale(network: Network, x: np.ndarray) -> float:
    """The size that rounding errors are relative to: the largest value met on the way."""
    largest = max(float(np.abs(v).max()) for v in network.values(x).values())
    weights = max((np.abs(p).sum() for n in network.nodes for p in numbers(n.op)[:1]), default=1)
    return max(1.0, largest) * max(1.0, float(weights if np.isfinite(weights) else 1)) * 30


@RELAXED
@given(network=networks(), dtype=DTYPES)
def test_load_gives_back_the_saved_graph(network, dtype, tmp_path):
    save(network, tmp_path / "a.onnx", dtype=dtype)
    assert_same_graph(load(tmp_path / "a.onnx"), network, dtype)


@RELAXED
@given(network=networks(), dtype=DTYPES, seed=st.integers(0, 99))
def test_onnxruntime_agrees_with_our_evaluation(network, dtype, seed, tmp_path):
    path = tmp_path / "a.onnx"
    save(network, path, dtype=dtype)
    x = np.random.default_rng(seed).uniform(-2, 2, (4, network.size_in)).astype(dtype)
    theirs, ours = run(str(path), x), network(x, dtype)
    assert theirs.shape == ours.shape and theirs.dtype == dtype
    assert np.abs(theirs - ours).max() <= scale(network, x) * np.finfo(dtype).eps


@RELAXED
@given(network=networks(), dtype=st.sampled_from([np.float64, np.float32, None]))
def test_npz_gives_back_the_saved_graph(network, dtype, tmp_path):
    save(network, tmp_path / "a.npz", dtype=dtype)
    assert_same_graph(load(tmp_path / "a.npz"), network, dtype or np.float64)


def test_the_model_is_pinned_to_versions_that_onnxruntime_knows(tmp_path):
    import onnx

    save(Network.mlp([np.eye(2)]), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 15)]
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert batch.dim_param == "N"


def test_epsilon_is_written_as_onnx_keeps_it(tmp_path):
    norm = Norm(np.ones(2), np.zeros(2), np.zeros(2), np.ones(2), eps=1e-3)
    save(Network(2, (Node("n", norm, ("input",)),), "n"), tmp_path / "a.onnx")
    assert load(tmp_path / "a.onnx").node("n").op.eps == float(np.float32(1e-3))


def test_scalings_and_norms_of_images_are_written_as_they_are(tmp_path):
    numbers = np.array([[3.0, 1.0, -0.5], [7.0, 1.0, 1.0], [0.1, 0.0, 2.0]])
    for chosen in ([0], [0, 1], [0, 2], [0, 1, 2], [1], [1, 2], [2]):
        parts = [numbers[i] if i in chosen else np.full(3, 1.0 if i < 2 else 0.0) for i in range(3)]
        network = Network(3, (Node("s", Scaling(*parts), ("input",)),), "s")
        save(network, tmp_path / "a.onnx")
        assert_same_graph(load(tmp_path / "a.onnx"), network)
    norm = Norm([1.0, 2.0], [0.5, 0.25], [3.0, 1.0], [4.0, 0.5], eps=0.25, positions=3)
    network = Network(6, (Node("n", norm, ("input",)), Node("r", Relu(), ("n",))), "r")
    save(network, tmp_path / "a.onnx")
    assert_same_graph(load(tmp_path / "a.onnx"), network)
    assert run(str(tmp_path / "a.onnx"), np.ones((2, 6))).shape == (2, 6)


def test_a_network_that_does_nothing(tmp_path):
    save(Network(3, (), "input"), tmp_path / "a.onnx")
    back = load(tmp_path / "a.onnx")
    assert (back.output, back.nodes, back.size_out) == ("input", (), 3)


def test_numbers_too_large_for_float32_are_refused(tmp_path):
    network = Network.mlp([np.array([[1e300]])])
    for name in ("a.onnx", "a.npz"):
        with pytest.raises(InputError, match=r"'layer1'.*1e\+300.*float32; save it in float64"):
            save(network, tmp_path / name, dtype=np.float32)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def large(monkeypatch):
    """A network that counts as too large for one protobuf message."""
    monkeypatch.setattr(onnx_write, "LIMITS", Limits(message=1000))
    rng = np.random.default_rng(0)
    return Network.mlp([rng.normal(size=(40, 30)), rng.normal(size=(5, 40))])


def test_large_models_keep_their_weights_beside_them(large, tmp_path):
    path = tmp_path / "a.onnx"
    save(large, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "a.onnx.data"]
    assert path.stat().st_size < 3000
    back = load(path)
    assert_same_graph(back, large)
    stored = sha256_file(tmp_path / "a.onnx.data")
    assert back.metadata["data_sha256"] == {"a.onnx.data": stored}
    x = np.random.default_rng(1).normal(size=(3, 30))
    np.testing.assert_allclose(run(str(path), x), large(x), rtol=1e-12, atol=1e-12)


def test_weights_of_another_model_are_refused(large, tmp_path):
    save(large, tmp_path / "a.onnx")
    data = tmp_path / "a.onnx.data"
    data.write_bytes(data.read_bytes()[:-8] + b"12345678")
    with pytest.raises(InputError, match=r"a\.onnx\.data are not those"):
        load(tmp_path / "a.onnx")
    data.unlink()
    with pytest.raises(InputError, match=r"a\.onnx\.data, which is not beside"):
        load(tmp_path / "a.onnx")


def test_names_that_clash_with_our_own_are_kept_apart(tmp_path):
    first = Affine(np.eye(2), [1.0, 2.0])
    nodes = (Node("a", first, ("input",)), Node("a.weight", Relu(), ("a",)))
    network = Network(2, nodes, "a.weight")
    save(network, tmp_path / "a.onnx")
    assert_same_graph(load(tmp_path / "a.onnx"), network)


def frozen_pair(size: int) -> Network:
    """A float32 map large enough to be stored as it is, and norms in float64."""
    rng = np.random.default_rng(0)
    nodes = (
        Node("M1", Affine(rng.normal(size=(size, 4)).astype(np.float32)), ("input",)),
        Node("n", Norm(*rng.normal(size=(3, size)), rng.uniform(1, 2, size)), ("M1",)),
        Node("r", Relu(), ("n",)),
        Node("M2", Affine(rng.normal(size=(3, size)).astype(np.float32)), ("r",)),
    )
    return Network(4, nodes, "M2")


def test_float32_weights_stay_so_in_a_float64_file(tmp_path, monkeypatch):
    """The numbers are the same, the file is half as large, and the products are in float64."""
    network, x = frozen_pair(500), np.random.default_rng(1).normal(size=(5, 4))
    for least in (1000, 10**9):
        monkeypatch.setattr(onnx_write, "LIMITS", Limits(narrow=least))
        monkeypatch.setattr(onnx_constants, "LIMITS", Limits(narrow=least))
        save(network, tmp_path / f"{least}.onnx", dtype=np.float64)
    small, large = tmp_path / "1000.onnx", tmp_path / "1000000000.onnx"
    saved = 4 * 7 * 500
    assert abs(large.stat().st_size - small.stat().st_size - saved) < 600
    monkeypatch.setattr(onnx_constants, "LIMITS", Limits(narrow=1000))
    again = load(small)
    for name in ("M1", "M2"):
        kept, was = again.node(name).op.matrix, network.node(name).op.matrix
        assert kept.dtype == np.float32 and np.array_equal(kept, was)
    assert np.array_equal(run(str(small), x), run(str(large), x))
    assert np.array_equal(again(x), load(large)(x))


def test_numbers_that_are_held_already_are_not_held_twice(tmp_path):
    """A network that is read back shares its arrays with the one that was written, where all bits
    are the same; others are read as the file has them."""
    network = frozen_pair(50)
    save(network, tmp_path / "a.onnx")
    norm = network.node("n").op
    assert np.shares_memory(load(tmp_path / "a.onnx", held=network).node("n").op.beta, norm.beta)
    for other in (np.nextafter(norm.beta, 1.0), np.append(norm.beta[:-1], -norm.beta[-1])):
        changed = network.with_ops({"n": norm.tuned(norm.gamma, other)})
        found = load(tmp_path / "a.onnx", held=changed).node("n").op
        assert np.shares_memory(found.gamma, norm.gamma)
        assert np.array_equal(found.beta, norm.beta) and not np.shares_memory(found.beta, other)


def test_constants_behind_a_widening_cast_are_folded_in_float64(tmp_path, monkeypatch):
    """float32(2^24) + 1 is 2^24 + 1 once cast: kept as float32 it would be 2^24."""
    import onnx
    from onnx import helper, numpy_helper

    monkeypatch.setattr(onnx_constants, "LIMITS", Limits(narrow=1))
    weight = numpy_helper.from_array(np.full((2, 2), 2.0**24, np.float32), "w")
    one = numpy_helper.from_array(np.ones((2, 2)), "one")
    double = onnx.TensorProto.DOUBLE
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=double),
        helper.make_node("Add", ["wide", "one"], ["sum"]),
        helper.make_node("MatMul", ["x", "sum"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, double, ["N", 2]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight, one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    onnx.save(model, tmp_path / "a.onnx")
    assert np.array_equal(load(tmp_path / "a.onnx")([1.0, 0.0]), np.full(2, 2.0**24 + 1))


def pooled(geometry, name="mean"):
    """Conv, ReLU, the mean over windows, Linear."""
    rng = np.random.default_rng(1)
    image = Geometry(2, geometry.height, geometry.width, (3, 3), (1, 1), (1, 1, 1, 1))
    conv = Convolution(rng.normal(size=(geometry.channels, 2, 3, 3)), image)
    pool = SumPool(geometry)
    size = pool.shape[0]
    nodes = (
        Node("conv", conv, ("input",)),
        Node("relu", Relu(), ("conv",)),
        Node(f"{name}/sum", pool, ("relu",)),
        Node(
            "mean",
            Scaling(np.ones(size), np.full(size, float(np.prod(geometry.kernel)))),
            (f"{name}/sum",),
        ),
        Node("linear", Affine(rng.normal(size=(3, size))), ("mean",)),
    )
    return Network(image.size, nodes, "linear")


WINDOWS = [
    Geometry(3, 4, 6, (4, 6)),
    Geometry(3, 4, 6, (2, 2), (2, 2)),
    Geometry(3, 4, 6, (3, 2), (1, 2), (1, 1, 0, 1)),
    Geometry(3, 4, 6, (4, 1)),
]


@pytest.mark.parametrize("name", ["mean", "other"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", WINDOWS, ids=str)
def test_pools_are_written_without_weights_and_read_back(geometry, dtype, name, tmp_path):
    network = pooled(geometry, name)
    save(network, tmp_path / "a.onnx", dtype=dtype)
    again = load(tmp_path / "a.onnx")
    assert again.parameters == network.parameters
    x = np.random.default_rng(2).normal(size=(5, network.size_in))
    gap = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(again(x), network(x), atol=gap, rtol=0)
    save(again, tmp_path / "b.onnx", dtype=dtype)
    third, title = load(tmp_path / "b.onnx"), f"{name}/sum"
    assert third.parameters == network.parameters and third.node(title).op.same(
        again.node(title).op
    )
    if dtype == np.float32 and name == "mean":
        assert [n.name for n in again.nodes] == [n.name for n in network.nodes]
        assert again.node("mean/sum").op.same(network.node("mean/sum").op)
