"""Small files that ask for much memory or time, and the bytes that a network was read from."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile

import numpy as np
import pytest

from reconstruct.errors import InputError
from reconstruct.formats import Origin, load, load_domain, sha256_file
from reconstruct.formats.files import VARIABLE, read_limit

from .models import onnx_bytes

LIMIT = 10**6


def refused(path, message, **more):
    with pytest.raises(InputError, match=message) as caught:
        load(path, **more)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_archives_that_unpack_to_much(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", W1=np.zeros((1000, 1000)))
    assert (tmp_path / "a.npz").stat().st_size < LIMIT / 10
    refused(
        tmp_path / "a.npz", r"entry 'W1'.*to 8\.0 MB, more than the limit of 1\.0 MB", limit=LIMIT
    )
    assert load(tmp_path / "a.npz", limit=10 * LIMIT).maps == ((1000, 1000),)


def test_streams_that_unpack_to_much(tmp_path):
    path = tmp_path / "a.nnet.gz"
    path.write_bytes(gzip.compress(b"//" + b" " * (5 * LIMIT)))
    refused(path, r"the gzip'd data would bring .* more than the limit of 1\.0 MB", limit=LIMIT)


def test_headers_that_announce_what_is_not_there(tmp_path):
    path = tmp_path / "a.npz"
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W1.npy", buffer.getvalue() + bytes(64))
    refused(path, r"states shape \(1000000, 1000000\) of float64, but 64 bytes follow")


@pytest.mark.parametrize("descr", [b"('a','<f8'", b"float64"])
def test_headers_that_cannot_be_read(descr, tmp_path):
    text = (
        b"{'descr': " + descr + b", 'fortran_order': False, 'shape': (2, 2), }" + b" " * 20 + b"\n"
    )
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W1.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    refused(path, "array 'W1' of the .npz archive is damaged [^<>]*header cannot be read")


def test_an_array_that_is_there_twice(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, W1=np.eye(2))
    with zipfile.ZipFile(path) as archive:
        content = archive.read("W1.npy")
    with pytest.warns(UserWarning), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("W1.npy", content)
    refused(path, "holds 'W1' twice")


def onnx_file(tmp_path, nodes, shape, constants=None, **more):
    pytest.importorskip("onnx")
    path = tmp_path / "a.onnx"
    path.write_bytes(onnx_bytes(nodes, shape, constants, **more))
    return path


def test_constants_that_grow(tmp_path):
    sizes = {"n": np.array([2**20, 2**20]), "s": np.array([3, 2**40])}
    path = onnx_file(
        tmp_path, [("ConstantOfShape", ["n"], "c"), ("Add", ["x", "c"], "y")], [1, 3], sizes
    )
    refused(path, r"node 'c' has shape \(1048576, 1048576\), more than the 67108864 values")
    path = onnx_file(tmp_path, [("Expand", ["x", "s"], "y")], [3, 1], sizes)
    refused(path, r"node 'y' has shape \(3, 1099511627776\)")


def test_values_that_double(tmp_path):
    for first in ("x", "c"):
        nodes = [("Concat", [first, first], "t0", {"axis": 0})]
        nodes += [("Concat", [f"t{i}", f"t{i}"], f"t{i + 1}", {"axis": 0}) for i in range(40)]
        path = onnx_file(tmp_path, [*nodes, ("Add", ["x", "t40"], "y")], [1], {"c": np.ones(1)})
        refused(path, "more than the", limit=LIMIT)


def test_thousands_of_nodes_of_one_name_are_read(tmp_path):
    count = 4_000
    nodes = [("Relu", [f"t{i}" if i else "x"], f"t{i + 1}", {"name": "same"}) for i in range(count)]
    network = load(onnx_file(tmp_path, nodes, [1, 2], outputs=(f"t{count}",)))
    assert len(network.nodes) == count and network.nodes[-1].name == f"same_{count}"


def test_the_limit_may_be_set_by_the_environment(monkeypatch, tmp_path):
    assert read_limit() == 2**32 and read_limit(5) == 5
    monkeypatch.setenv(VARIABLE, "1000")
    np.savez_compressed(tmp_path / "a.npz", W1=np.zeros((100, 100)))
    refused(
        tmp_path / "a.npz",
        "the limit of 1000 bytes; .* raise RECONSTRUCT",
    )
    np.savez_compressed(tmp_path / "b.npz", lo=np.zeros(10**4), hi=np.ones(10**4))
    with pytest.raises(InputError, match="more than the limit"):
        load_domain(tmp_path / "b.npz")
    for bad in ("much", "-1", "0", "1e9", "9" * 30):
        monkeypatch.setenv(VARIABLE, bad)
        with pytest.raises(InputError, match="RECONSTRUCT_READ_LIMIT must be a positive whole"):
            read_limit()
    for wrong in (0, -5, 1.5, True):
        with pytest.raises(InputError, match="positive whole number of bytes"):
            read_limit(wrong)


def graph(tmp_path, nodes, size=1, **arrays):
    text = {
        "schema": "reconstruct.network/1",
        "size_in": size,
        "source": "input",
        "output": nodes[-1]["name"],
        "nodes": nodes,
    }
    content = json.dumps(text).replace('"@', "").replace('@"', "").encode()
    np.savez(tmp_path / "g.npz", graph=np.frombuffer(content, np.uint8), **arrays)
    return tmp_path / "g.npz"


def test_graphs_with_numbers_that_are_none(tmp_path):
    def node(op, **fields):
        return [{"name": "a", "op": op, "inputs": ["input"], **fields}]

    refused(graph(tmp_path, node("Select", start=0.5, stop=2), 3), "whole numbers")
    refused(
        graph(tmp_path, node("LeakyRelu", slope=10**400)),
        "1000.* of the graph .* has more than 18 digits",
    )
    refused(
        graph(tmp_path, node("Elu", alpha="@1e999@")), "1e999 of the graph .* does not fit into"
    )
    refused(graph(tmp_path, node("Elu", alpha="@Infinity@")), "'a': .*finite")
    refused(graph(tmp_path, node("Elu", alpha="@NaN@")), "holds NaN, which is no number")
    refused(graph(tmp_path, node("Clip", lo="@Infinity@", hi="@Infinity@")), "no finite value")
    refused(graph(tmp_path, node("Relu"), 10**17), r"the input has shape \(100000000000000000,\)")
    refused(
        graph(tmp_path, [{"name": "\ud800", "op": "Relu", "inputs": ["input"]}]), "no valid text"
    )


def test_graphs_with_layers_of_nothing(tmp_path):
    def affine(name, source):
        return {"name": name, "op": "Affine", "inputs": [source]}

    nothing = {"a.weight": np.zeros((0, 1)), "a.bias": np.zeros(0)}
    rest = {"o.weight": np.zeros((1, 0)), "o.bias": np.ones(1)}
    refused(graph(tmp_path, [affine("a", "input"), affine("o", "a")], **nothing, **rest), "'a'")
    refused(graph(tmp_path, [affine("a", "input")], **nothing), ".")


def test_origin_is_of_the_bytes_that_were_read(tmp_path):
    np.savez(tmp_path / "a.npz", W1=np.eye(2))
    network, stored = load(tmp_path / "a.npz"), sha256_file(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", W1=np.eye(3))
    origin = Origin.of(network)
    assert origin is not None and origin.document() == {"file": "a.npz", "sha256": stored}
    assert origin.differs({"file": "b.npz", "sha256": stored, "nnet_header": False}) is None
    assert origin.differs({"file": "a.npz", "sha256": "0" * 64}) == "sha256"
    assert origin.differs({"sha256": stored, "nnet_header": True}) == "nnet_header"


def external(tmp_path, name, weight):
    onnx = pytest.importorskip("onnx")
    (tmp_path / f"{name}.bin").write_bytes(b"some padding" + weight.tobytes())
    model = onnx.ModelProto.FromString(
        onnx_bytes([("MatMul", ["x", "W"], "y")], [1, 3], {"W": weight}, dtype=np.float32)
    )
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    for key, value in {
        "location": f"{name}.bin",
        "offset": "12",
        "length": str(weight.nbytes),
    }.items():
        tensor.external_data.add(key=key, value=value)
    return model, tmp_path / f"{name}.onnx"


def test_external_data_is_pinned(tmp_path):
    weight = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    model, path = external(tmp_path, "a", weight)
    path.write_bytes(model.SerializeToString())
    network = load(path)
    np.testing.assert_array_equal(network.nodes[0].op.weight, weight.T)
    origin = Origin.of(network)
    assert origin is not None
    assert origin.document()["data_sha256"] == {"a.bin": sha256_file(tmp_path / "a.bin")}
    (tmp_path / "a.bin").write_bytes(b"some padding" + (9 * weight).tobytes())
    changed = Origin.of(load(path))
    assert changed is not None and changed.differs(origin.document()) == "data_sha256"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("location", "../a.bin", "only files beside the model are read"),
        ("location", "/etc/passwd", "only files beside the model are read"),
        ("location", "b.bin", "b.bin, which is not beside the model"),
        ("offset", "13", "go beyond the end of a.bin"),
        ("offset", "-1", "which are no numbers"),
        ("length", "8", "of 24 bytes is said to have 8 bytes"),
    ],
)
def test_external_data_that_does_not_fit(key, value, message, tmp_path):
    model, path = external(tmp_path, "a", np.ones((3, 2), np.float32))
    for entry in model.graph.initializer[0].external_data:
        if entry.key == key:
            entry.value = value
    path.write_bytes(model.SerializeToString())
    refused(path, message)


def test_external_constants_of_nodes_are_refused(tmp_path):
    model, path = external(tmp_path, "a", np.ones((3, 2), np.float32))
    tensor = model.graph.initializer.pop()
    node = model.graph.node.add(op_type="Constant", output=["W"])
    node.attribute.add(name="value", type=4).t.CopyFrom(tensor)
    path.write_bytes(model.SerializeToString())
    refused(path, "only initializers are read from there")
