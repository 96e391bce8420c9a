"""Networks in .npz archives: the simple form, the graph form, and what is refused."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load, save
from reconstruct.networks import (
    Convolution,
    Geometry,
    MaxPool,
    Network,
    Node,
    Placement,
    Relu,
    SumPool,
)

W1, W2 = np.arange(6.0).reshape(3, 2), np.ones((1, 3))


def stored(tmp_path, **arrays):
    np.savez(tmp_path / "net.npz", **arrays)
    return tmp_path / "net.npz"


def refused(path, message, kind=InputError):
    with pytest.raises(kind, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_layers_in_a_row(tmp_path):
    network = load(stored(tmp_path, W1=W1, b1=[1, 2, 3], W2=W2.astype(np.float32)))
    x = np.array([0.5, -2.0])
    expected = W2 @ np.maximum(W1 @ x + [1, 2, 3], 0)
    np.testing.assert_array_equal(network(x), expected)
    assert network.metadata["format"] == "npz"
    assert network.nodes[-1].op.weight.dtype == np.float32


@pytest.mark.parametrize("flag", [True, 1, np.array([True])])
def test_final_relu(flag, tmp_path):
    network = load(stored(tmp_path, W1=W1, final_relu=flag))
    assert isinstance(network.nodes[-1].op, Relu)
    network = load(stored(tmp_path, W1=W1, final_relu=False))
    assert not network.activation_nodes()


def test_many_layers_are_ordered_by_number(tmp_path):
    weights = {f"W{i}": np.full((1, 1), float(i)) for i in range(1, 12)}
    network = load(stored(tmp_path, **weights))
    assert [float(n.op.weight[0, 0]) for n in network.mixing_nodes()] == list(range(1, 12))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"weights": W1}, "needs the keys W1, b1.*but this one has weights"),
        ({}, "no arrays"),
        ({"W1": W1, "extra": W1}, "extra"),
        ({"W1": W1, "W3": W2}, "lacks the weight matrix W2"),
        ({"W1": W1, "b2": W2}, "lacks the weight matrix W2"),
        ({"W1": W1, "W2": W1}, "'layer2': an affine map with 2 inputs was given 3 values"),
        ({"W1": W1, "b1": np.ones(2)}, r"layer 1: .* needs 3 biases, but got shape \(2,\)"),
        ({"W1": np.ones(3)}, r"layer 1: an affine map needs a weight matrix, but got shape \(3,\)"),
        ({"W1": np.ones((0, 3))}, r"layer 1: .* at least one input and one output"),
        ({"W1": W1 + 1j}, "real numbers, but has dtype complex128"),
        ({"W1": np.array([["a", "b"]])}, "real numbers"),
        ({"W1": W1, "final_relu": np.array([1, 2])}, "single true or false"),
        ({"W1": W1 * np.nan}, "'layer1': its weight must be finite numbers, but 6 of 6"),
    ],
)
def test_refusals(arrays, message, tmp_path):
    refused(stored(tmp_path, **arrays), message)


def test_convolutions_are_refused_by_name(tmp_path):
    path = stored(tmp_path, **{"conv1.weight": np.ones((16, 3, 3, 3))})
    refused(path, r"'conv1.weight' of shape \(16, 3, 3, 3\).*convolution", UnsupportedError)


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self):
        return exec, ("import builtins; builtins.bomb_went_off = True",)


def test_pickles_are_refused_and_never_loaded(tmp_path):
    import builtins

    path = tmp_path / "net.npz"
    np.savez(path, W1=np.array([Bomb()], dtype=object))
    refused(path, "'W1'.*pickled Python objects.*never read")
    path.write_bytes(np.array([Bomb()], dtype=object).dumps())
    refused(path, "not an .npz archive")
    assert not hasattr(builtins, "bomb_went_off")


def test_an_entry_that_is_no_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        archive.writestr("W1.txt", "hello")
    refused(tmp_path / "net.npz", "not an array")


@pytest.mark.parametrize("damaged", [False, True])
def test_a_refusal_is_short_however_long_names_are(tmp_path, damaged):
    """And ends with what to do: the middle is left out."""
    path = tmp_path / "net.npz"
    np.savez(path, **{"K" * 60_000: W1})
    content = bytearray(path.read_bytes())
    content[40] ^= damaged  # in the name that stands ahead of the entry
    path.write_bytes(content)
    message = "damaged .*K … K.* fetch it again$" if damaged else "needs the keys W1, .*K … K.*K$"
    refused(path, message)
    with pytest.raises(InputError) as caught:
        load(path)
    assert len(str(caught.value)) < 1600 + len(str(path))


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_entries_are_unpacked_only_where_numpy_packs_them_so(tmp_path, compression):
    """Python's own reader of archives unpacks others whole, whatever size they state."""
    saved = zipfile.ZipFile(stored(tmp_path, W1=W1)).read("W1.npy")
    with zipfile.ZipFile(tmp_path / "net.npz", "w", compression) as archive:
        archive.writestr("W1.npy", saved)
    refused(tmp_path / "net.npz", "'W1' .* in a way that numpy does not write; save it by numpy")


@pytest.fixture
def graph(tmp_path):
    save(Network.mlp([W1, W2]), tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz", allow_pickle=False) as archive:
        return dict(archive)


def changed(graph, **fields):
    text = json.loads(graph["graph"].tobytes()) | fields
    return graph | {"graph": np.frombuffer(json.dumps(text).encode(), np.uint8)}


def test_graph_form_is_documented_text(graph):
    text = json.loads(graph["graph"].tobytes())
    assert text["schema"] == "reconstruct.network/1"
    assert [n["op"] for n in text["nodes"]] == ["Affine", "Relu", "Affine"]
    assert set(graph) == {"graph", "layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias"}


def test_graph_form_refusals(graph, tmp_path):
    without = {k: v for k, v in graph.items() if k != "layer2.bias"}
    refused(stored(tmp_path, **without), "lacks the array 'layer2.bias'")
    refused(stored(tmp_path, **changed(graph, schema="other/9")), "schema")
    refused(stored(tmp_path, **changed(graph, size_in=-1)), "positive whole number")
    refused(stored(tmp_path, **changed(graph, output="nowhere")), "'nowhere'")
    refused(stored(tmp_path, **changed(graph, nodes=[{"op": 3}])), "malformed")
    bad = [{"name": "a", "op": "Mish", "inputs": ["input"]}]
    refused(stored(tmp_path, **changed(graph, nodes=bad)), "'a'.*'Mish' is unknown")
    bad = [{"name": "a", "op": "LeakyRelu", "inputs": ["input"], "slope": "x"}]
    refused(stored(tmp_path, **changed(graph, nodes=bad)), "'a'.*slope must be a number")
    refused(stored(tmp_path, **graph | {"graph": np.array([255, 1], np.uint8)}), "malformed")
    strings = graph | {"layer1.bias": np.array(["a", "b", "c"])}
    refused(stored(tmp_path, **strings), "'layer1.bias' must hold numbers")


IMAGE = {"kernel": (2, 3), "strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2)}


@pytest.mark.parametrize("groups", [1, 2])
def test_images_are_kept_and_compared(groups, tmp_path):
    rng = np.random.default_rng(0)
    geometry = Geometry(4, 5, 6, **IMAGE)
    kernel = rng.normal(size=(6, 4 // groups, 2, 3)).astype(np.float32)
    first = Convolution(kernel, geometry, rng.normal(size=6), groups)
    channels, tall, wide = first.out_shape
    pool = Geometry(channels, tall, wide, (2, 2), pads=(1, 0, 0, 1))
    most, total = MaxPool(pool), SumPool(Geometry(*MaxPool(pool).out_shape, (2, 1)))
    moved = Placement([5, -1, 0, 0], total.shape[0])
    nodes = (
        Node("conv", first, ("input",)),
        Node("most", most, ("conv",)),
        Node("total", total, ("most",)),
        Node("moved", moved, ("total",)),
    )
    network = Network(4 * 5 * 6, nodes, "moved")
    save(network, tmp_path / "net.npz", dtype=None)
    back = load(tmp_path / "net.npz")
    x = rng.normal(size=(3, 120))
    np.testing.assert_array_equal(back(x), network(x))
