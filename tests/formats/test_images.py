"""Networks on images, in and out: ONNX in both precisions, .npz, and the state dict of a ResNet."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load, save
from reconstruct.networks import Convolution, MaxPool, Placement, Scaling, SumPool
from tests.networks.test_images import small_network

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cnn_written_and_read_is_the_same_function_and_takes_images(dtype, tmp_path):
    network, path = small_network(), tmp_path / "cnn.onnx"
    save(network, path, dtype=dtype)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    assert entry.shape == ["N", 2, 6, 6]
    x = np.random.default_rng(0).normal(size=(4, 72)).astype(dtype)
    theirs = session.run(None, {entry.name: x.reshape(4, 2, 6, 6)})[0]
    back = load(path)
    scale = 500 * np.finfo(dtype).eps * np.abs(theirs).max()
    assert np.abs(theirs - network(x, dtype)).max() <= scale
    assert np.abs(theirs - back(x, dtype)).max() <= scale
    if dtype == np.float64:
        assert np.array_equal(back(x), network(x))


def test_an_npz_network_keeps_its_images(tmp_path):
    network = small_network()
    save(network, tmp_path / "cnn.npz")
    back = load(tmp_path / "cnn.npz")
    assert [n.op.kind for n in back.nodes] == [n.op.kind for n in network.nodes]
    assert all(a.op.same(b.op) for a, b in zip(back.nodes, network.nodes, strict=True))


def model(tmp_path, nodes, shape, **constants):
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(k, i, o, **a) for k, i, o, a in nodes],
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


K = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
HALF = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
CASES = {
    "same upper": [("Conv", ["x", "K"], ["y"], {"auto_pad": "SAME_UPPER", "strides": [2, 2]})],
    "same lower": [("Conv", ["x", "K"], ["y"], {"auto_pad": "SAME_LOWER", "strides": [2, 2]})],
    "ceil max": [("MaxPool", ["x"], ["y"], HALF)],
    "ceil mean": [
        ("AveragePool", ["x"], ["y"], HALF | {"pads": [1, 0, 1, 0], "count_include_pad": 1})
    ],
    "mean without pads": [
        ("AveragePool", ["x"], ["y"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
    ],
    "global mean": [("GlobalAveragePool", ["x"], ["y"], {})],
    "global max": [("GlobalMaxPool", ["x"], ["y"], {})],
    "reduce mean": [("ReduceMean", ["x"], ["y"], {"axes": [-1, 2], "keepdims": 0})],
    "mean of rows": [("ReduceMean", ["x"], ["y"], {"axes": [1, 3], "keepdims": 1})],
    "sum of rows": [("ReduceSum", ["x", "over"], ["y"], {"keepdims": 0})],
    "pad": [("Pad", ["x", "pads"], ["y"], {})],
    "concat of channels": [
        ("Relu", ["x"], ["r"], {}), ("Concat", ["x", "r", "x"], ["y"], {"axis": 1})
    ],
    "subsample": [("Slice", ["x", "s", "e", "a", "t"], ["y"], {})],
    "shift of channels": [("Conv", ["x", "K"], ["c"], {}), ("Add", ["c", "B"], ["y"], {})],
}  # fmt: skip
CONSTANTS = {
    "over": np.array([1, -1]),
    "K": K,
    "B": np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1),
    "pads": np.array([0, 1, 1, 0, 0, 2, 0, 1]),
    "s": np.array([0, 0]), "e": np.array([9, 9]), "a": np.array([2, 3]), "t": np.array([2, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_exporters_write_around_images_is_what_onnxruntime_computes(name, tmp_path):
    used = {i for _, inputs, _, _ in CASES[name] for i in inputs}
    constants = {key: value for key, value in CONSTANTS.items() if key in used}
    path = model(tmp_path, CASES[name], ["N", 3, 7, 6], **constants)
    network = load(path)
    x = np.random.default_rng(2).normal(size=(1, 3, 7, 6)).astype(np.float32)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": x})[0].ravel()
    assert np.abs(network(x.ravel(), np.float32) - theirs).max() <= 1e-5


def test_a_shift_of_channels_becomes_the_convolutions_bias(tmp_path):
    network = load(model(tmp_path, CASES["shift of channels"], [1, 3, 7, 6], K=K, B=CONSTANTS["B"]))
    (node,) = network.nodes
    assert isinstance(node.op, Convolution) and node.op.offsets.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        ([("Pad", ["x", "pads", "v"], ["y"], {})], {"v": np.float32(1)}, "zeros alone"),
        ([("ReduceMean", ["x"], ["y"], {"axes": [0]})], {}, "over the batch"),
        ([("MaxPool", ["x"], ["y", "i"], {"kernel_shape": [2, 2]})], {}, "places of its maxima"),
    ],
    ids=["pad with ones", "mean over the batch", "places"],
)
def test_what_is_not_supported_is_named(nodes, constants, message, tmp_path):
    used = {i for _, inputs, _, _ in nodes for i in inputs}
    known = {k: v for k, v in CONSTANTS.items() if k in used}
    with pytest.raises(UnsupportedError, match=message):
        load(model(tmp_path, nodes, [1, 3, 7, 6], **known, **constants))


def tiny_resnet() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    state: dict[str, np.ndarray] = {}

    def layer(conv: str, norm: str, out: int, into: int) -> None:
        state[f"{conv}.weight"] = rng.normal(size=(out, into, 3, 3)).astype(np.float32) / 3
        for key in ("weight", "bias", "running_mean"):
            state[f"{norm}.{key}"] = rng.normal(size=out).astype(np.float32)
        state[f"{norm}.running_var"] = rng.uniform(0.5, 2, out).astype(np.float32)

    layer("conv1", "bn1", 2, 3)
    for name, out, into in (("layer1.0", 2, 2), ("layer2.0", 4, 2)):
        layer(f"{name}.conv1", f"{name}.bn1", out, into)
        layer(f"{name}.conv2", f"{name}.bn2", out, out)
    state["linear.weight"] = rng.normal(size=(5, 4)).astype(np.float32)
    state["linear.bias"] = rng.normal(size=5).astype(np.float32)
    return {f"module.{key}": value for key, value in state.items()}


def test_the_state_dict_of_a_resnet_is_a_network(tmp_path):
    np.savez(tmp_path / "r.npz", **tiny_resnet())
    network = load(tmp_path / "r.npz")
    assert network.size_in == 3 * 32 * 32 and network.size_out == 5
    kinds = {type(n.op) for n in network.nodes}
    assert {Convolution, SumPool, Scaling, Placement} <= kinds and MaxPool not in kinds
    assert [n.name for n in network.nodes if isinstance(n.op, Placement)] == ["layer2.0.shortcut"]


def test_a_resnet_computes_what_its_arrays_give(tmp_path):
    np.savez(tmp_path / "r.npz", **tiny_resnet())
    state = {key.removeprefix("module."): value for key, value in tiny_resnet().items()}
    image = np.random.default_rng(0).normal(size=(state["conv1.weight"].shape[1], 32, 32))
    expected = plain_resnet(state, image)
    np.testing.assert_allclose(load(tmp_path / "r.npz")(image.ravel()), expected, rtol=1e-9)


def test_a_resnet_with_an_array_missing_or_too_many_is_refused(tmp_path):
    state = tiny_resnet()
    del state["module.layer1.0.bn2.running_var"]
    np.savez(tmp_path / "r.npz", **state)
    with pytest.raises(InputError, match=r"lacks the array 'layer1\.0\.bn2\.running_var'"):
        load(tmp_path / "r.npz")
    np.savez(tmp_path / "s.npz", **tiny_resnet(), extra=np.ones(2))
    with pytest.raises(UnsupportedError, match="no array 'extra'"):
        load(tmp_path / "s.npz")


def plain_resnet(state, image):
    """The arrays evaluated plainly, as an oracle."""
    from scipy.signal import correlate2d

    def convolved(conv, norm, x, stride):
        kernel = state[f"{conv}.weight"].astype(np.float64)
        pad = kernel.shape[2] // 2
        wide = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
        out = np.stack(
            [
                sum(correlate2d(c, k, "valid") for c, k in zip(wide, row, strict=True))
                for row in kernel
            ]
        )[:, ::stride, ::stride]
        if f"{conv}.bias" in state:
            out = out + state[f"{conv}.bias"][:, None, None]
        gamma, beta, mean, var = (
            state[f"{norm}.{key}"].astype(np.float64)[:, None, None]
            for key in ("weight", "bias", "running_mean", "running_var")
        )
        return np.asarray(gamma * (out - mean) / np.sqrt(var + 1e-5) + beta)

    x = np.maximum(convolved("conv1", "bn1", image, 1), 0)
    names = sorted({key.rpartition(".conv1")[0] for key in state if ".conv1" in key})
    for name in names:
        stride = 1 if state[f"{name}.conv1.weight"].shape[0] == len(x) else 2
        y = np.maximum(convolved(f"{name}.conv1", f"{name}.bn1", x, stride), 0)
        y = convolved(f"{name}.conv2", f"{name}.bn2", y, 1)
        around = [k for k in ("shortcut", "downsample") if f"{name}.{k}.0.weight" in state]
        if around:
            x = convolved(f"{name}.{around[0]}.0", f"{name}.{around[0]}.1", x, stride)
        elif y.shape != x.shape:
            extra = len(y) - len(x)
            x = x[:, ::2, ::2]
            x = np.pad(x, ((extra // 2, extra - extra // 2), (0, 0), (0, 0)))
        x = np.maximum(y + x, 0)
    head = "linear" if "linear.weight" in state else "fc"
    return np.asarray(state[f"{head}.weight"] @ x.mean(axis=(1, 2)) + state[f"{head}.bias"])
