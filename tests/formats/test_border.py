"""Files made to be read as something else than they are: each is refused, or read as it is."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import numpy as np
import pytest

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import Origin, load, load_domain
from reconstruct.networks import (
    Affine,
    Clip,
    Convolution,
    Geometry,
    LeakyRelu,
    Network,
    Node,
    Points,
    Relu,
    SumPool,
)

from .models import onnx_bytes

HEADER = "//c\n1,1,1,1,\n1,1,\n0,\n-1,\n1,\n0,0,\n1,1,\n"
SPEC = "(declare-const X_0 Real)(assert (<= X_0 {hi}))(assert (>= X_0 -1))"


def stored(tmp_path, nodes, shape=(1, 2), constants=None, **more):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_bytes(nodes, list(shape), constants, **{"dtype": np.float32, **more}))
    return path


def external(tmp_path, kind, dims, content, link=False):
    """x times a tensor of that type that lies in w.bin and states no length."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    place = tmp_path / "elsewhere.bin" if link else tmp_path / "w.bin"
    place.write_bytes(content)
    if link:
        (tmp_path / "w.bin").symlink_to(place)
    tensor = TensorProto(name="q", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    nodes = [
        helper.make_node("Cast", ["q"], ["W"], to=1),
        helper.make_node("MatMul", ["x", "W"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, [1, 2]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [tensor])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    return onnx, tmp_path / "a.onnx"


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "FLOAT4E2M1", "STRING"])
def test_packed_types_in_data_files_are_refused(kind, tmp_path):
    onnx = pytest.importorskip("onnx")
    number = getattr(onnx.TensorProto, kind)
    _, path = external(tmp_path, number, [2, 2], bytes([0x21, 0x43, 5, 6]))
    with pytest.raises(InputError, match=f"has the type {kind} and lies in another file"):
        load(path)


@pytest.mark.parametrize(
    "kind", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "UINT16", "INT64", "BOOL"]
)
def test_whole_bytes_in_data_files_are_read_as_onnxruntime_reads_them(kind, tmp_path):
    onnx = pytest.importorskip("onnx")
    number = getattr(onnx.TensorProto, kind)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    values = np.array([[1, 0], [1, 1]]).astype(dtype)
    _, path = external(tmp_path, number, [2, 2], values.tobytes())
    np.testing.assert_array_equal(load(path)([3.0, 5.0]), [8.0, 5.0])


def test_data_files_that_are_links_are_refused(tmp_path):
    _, path = external(tmp_path, 2, [2, 2], b"\1\2\3\4", link=True)
    with pytest.raises(InputError, match="is a link, but links are not followed"):
        load(path)


def test_holes_of_a_sparse_file_count_as_memory(tmp_path):
    _, path = external(tmp_path, 2, [2, 2], b"\1\2\3\4")
    os.truncate(tmp_path / "w.bin", 2**40)
    with pytest.raises(InputError, match="more than the limit"):
        load(path)


def test_old_defaults_are_those_of_the_files_own_operator_set(tmp_path):
    """Clip-6 ends at ±3.4e38; Selu-1 has other constants than Selu-6 and is refused."""
    nodes = [("Clip", ["x"], "y")]
    network = load(stored(tmp_path, nodes, opset=10, dtype=np.float64))
    largest = float(np.finfo(np.float32).max)
    assert [node.op for node in network.nodes] == [Clip(-largest, largest)]
    assert load(stored(tmp_path, nodes, opset=11, dtype=np.float64)).nodes == ()
    with pytest.raises(UnsupportedError, match="is Selu of operator set 1, but sets 6 to 22"):
        load(stored(tmp_path, [("Selu", ["x"], "y")], opset=5))


def test_a_wrong_constant_cannot_hide_in_a_bump(tmp_path, monkeypatch):
    """x + K·hat(x) with hat = 0 but between 1/2 and 5/8: K itself is compared."""
    from reconstruct.formats.onnx import read

    def doubled(call, build):
        return np.asarray(2 * call.value())

    wrong = read.Operator(6, 13, "", None, doubled)
    monkeypatch.setitem(read.OPERATORS, "Sqrt", wrong)
    nodes = [
        ("Sqrt", ["one"], "K"),
        ("Gemm", ["x", "A", "a"], "z"),
        ("Relu", ["z"], "r"),
        ("MatMul", ["r", "B"], "hat"),
        ("Mul", ["hat", "K"], "k"),
        ("Add", ["x", "k"], "y"),
    ]
    constants = {
        "one": np.float32(1),
        "A": np.ones((1, 3), np.float32),
        "a": np.float32([-0.5, -0.5625, -0.625]),
        "B": np.float32([[1], [-2], [1]]),
    }
    with pytest.raises(
        UnsupportedError, match=r"'K' \(Sqrt\): onnxruntime gives 1.0 where 2 was read"
    ):
        load(stored(tmp_path, nodes, (1, 1), constants))


def test_constants_without_entries_are_compared_too(tmp_path):
    """The shape of no dimensions, from which another one is put together."""
    nodes = [
        ("Shape", ["x"], "s"),
        ("Slice", ["s", "zero", "zero"], "none"),
        ("Concat", ["none", "two"], "shape", {"axis": 0}),
        ("Reshape", ["x", "shape"], "y"),
    ]
    network = load(stored(tmp_path, nodes, (1, 2), {"zero": np.array([0]), "two": np.array([2])}))
    assert network.metadata["compared"]["values"] == 4 and network.nodes == ()


def test_old_files_that_list_constants_as_inputs_are_compared_with_onnxruntime(tmp_path):
    """Also where nodes that nothing needs are left out, and their constants with them."""
    nodes = [("Add", ["x", "a"], "y"), ("Add", ["x", "b"], "unused")]
    constants = {"a": np.ones((1, 2), np.float32), "b": np.ones((1, 2), np.float32)}
    path = stored(tmp_path, nodes, (1, 2), constants)
    onnx = pytest.importorskip("onnx")
    model = onnx.load(path)
    for name in constants:
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, 1, [1, 2]))
    path.write_bytes(model.SerializeToString())
    assert load(path).metadata["compared"]["by"] == "onnxruntime"


def test_points_are_drawn_from_the_domain(tmp_path, monkeypatch):
    """A clip that only values of 10^6 reach is seen when the domain has them."""
    from reconstruct.formats.onnx import read

    nodes = [("Clip", ["x", "", "hi"], "y")]
    path = stored(tmp_path, nodes, (1, 1), {"hi": np.float32(1e6)})
    endless = read.Operator(6, 13, "", lambda call, build: call.flow())
    monkeypatch.setitem(read.OPERATORS, "Clip", endless)
    load(path)  # nothing beyond 10^4 was tried
    with pytest.raises(UnsupportedError, match=r"onnxruntime gives 1000000\.0 where"):
        load(path, near=load_domain("0,1e8"))


def test_what_cannot_be_compared_is_refused_unless_the_user_says_so(tmp_path):
    """x + 3.4e38 may overflow wherever it is tried, so that nothing behind it is compared."""
    nodes = [("Add", ["x", "big"], "b"), ("Mul", ["b", "zero"], "z"), ("Add", ["x", "z"], "y")]
    constants = {"big": np.float32([[3.4028235e38]]), "zero": np.float32([[0]])}
    path = stored(tmp_path, nodes, (1, 1), constants)
    with pytest.raises(UnsupportedError, match=r"may overflow .*, say --unchecked-reading"):
        load(path)
    network = load(path, unchecked=True)
    origin = Origin.of(network)
    assert network.metadata["compared"] is None and not origin.compared
    assert origin.document()["unchecked_reading"] is True
    assert Origin.of(load(stored(tmp_path, [("Relu", ["x"], "y")]))).compared


@pytest.mark.parametrize("kind", ["RegexFullMatch", "MaxUnpool", "Hardmax", "Unique", "LRN"])
def test_constants_by_operators_outside_of_the_table_are_refused(kind, tmp_path):
    nodes = [(kind, ["c"], "k"), ("Add", ["x", "k"], "y")]
    with pytest.raises(UnsupportedError, match=f"'k' is of type {kind}, which is not supported"):
        load(stored(tmp_path, nodes, (1, 1), {"c": np.ones((1, 1), np.float32)}))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1_0,\n3,\n", "should hold row 1"),
        ("\u0661\u0662,\n3,\n", "should hold row 1"),
        ("//was\x0c7,\n3,\n", "holds the character"),
        ("//was\u20287,\n3,\n", "holds the character"),
        ("//was\r7,\n3,\n", "holds the character"),
        ("7,,\n3,\n", "should hold row 1"),
    ],
)
def test_nnet_texts_that_other_programs_read_otherwise(body, message, tmp_path):
    (tmp_path / "a.nnet").write_text(HEADER + body, newline="")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "a.nnet")
    (tmp_path / "a.nnet").write_text(HEADER.replace("\n", "\r\n") + "7,\r\n3,\r\n", newline="")
    assert load(tmp_path / "a.nnet")([1.0]) == 10


@pytest.mark.parametrize(
    "text",
    [
        SPEC.format(hi="1_0"),
        SPEC.format(hi="\uff11"),
        SPEC.format(hi="1") + "(declare-const X_00 Real)",
        SPEC.format(hi="1").replace("X_0", "X_\u0660"),
    ],
)
def test_vnnlib_texts_that_other_programs_read_otherwise(text, tmp_path):
    (tmp_path / "a.vnnlib").write_text(text)
    with pytest.raises(InputError):
        load_domain(tmp_path / "a.vnnlib")


def test_keys_with_digits_of_other_scripts_are_refused(tmp_path):
    weights = {f"W{i}": np.ones((1, 1)) for i in range(1, 11)}
    weights["b1\uff10"] = np.array([100.0])
    np.savez(tmp_path / "a.npz", **weights)
    with pytest.raises(InputError, match="needs the keys"):
        load(tmp_path / "a.npz")


def graph(tmp_path, node, size=1, **arrays):
    text = {
        "schema": "reconstruct.network/1",
        "size_in": size,
        "source": "input",
        "output": "a",
        "nodes": [{"name": "a", "inputs": ["input"], **node}],
    }
    content = json.dumps(text).replace('"lo_": -1', '"lo": -1')
    np.savez(tmp_path / "g.npz", graph=np.frombuffer(content.encode(), np.uint8), **arrays)
    return tmp_path / "g.npz"


def window(kernel, pads):
    return {
        "image": [1, 1, 1],
        "kernel": [kernel] * 2,
        "strides": [1, 1],
        "pads": [pads] * 4,
        "dilations": [1, 1],
    }


def test_graphs_with_two_meanings_or_absurd_sizes(tmp_path):
    with pytest.raises(InputError, match="says 'lo' twice"):
        load(graph(tmp_path, {"op": "Clip", "lo": -2, "lo_": -1, "hi": 1}))
    for kernel, pads in ((10**6, 10**6), (1, 10**17)):
        for op in ("MaxPool", "SumPool"):
            with pytest.raises(InputError, match="numbers, more than the"):
                load(graph(tmp_path, {"op": op, **window(kernel, pads)}))
    parts = {
        "a.weight.data": np.ones(1),
        "a.weight.indices": np.array([1.7]),
        "a.weight.indptr": np.array([0, 1]),
        "a.bias": np.zeros(1),
    }
    with pytest.raises(InputError, match="rows of whole numbers"):
        load(graph(tmp_path, {"op": "Affine", "shape": [1, 2]}, 2, **parts))


def test_boxes_around_data_cover_the_stated_radius():
    """x ± R to nearest may lie inside: 1 − 2^-60 is more than 1 − R rounded to 1."""
    x = np.random.default_rng(0).normal(size=(40, 5))
    lo, hi = Points(x, 0.1).boxes
    radius = Fraction(0.1)
    for value, low, high in zip(x.ravel(), lo.ravel(), hi.ravel(), strict=True):
        assert Fraction(low) <= Fraction(value) - radius
        assert Fraction(high) >= Fraction(value) + radius
    exact = Points([[0.5]], 0.25).boxes
    assert (exact[0].item(), exact[1].item()) == (0.25, 0.75)


@pytest.mark.parametrize("name", ["a\udcff.npz", "x" * 300 + ".npz", "y/" * 400 + "a.npz"])
def test_names_that_no_report_can_hold(name):
    with pytest.raises(InputError, match=r"not UTF-8|use a shorter one"):
        load(name)


def test_output_through_a_link_is_refused(tmp_path):
    import reconstruct as rc

    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "precious.txt").write_text("years of work")
    (tmp_path / "OUT").mkdir()
    (tmp_path / "OUT" / "target").symlink_to(tmp_path / "victim")
    target = rc.Network.mlp([np.ones((2, 2)), np.ones((1, 2))])
    with pytest.raises(InputError, match="is a symbolic link, which is not followed"):
        rc.run(target, domain=(-1.0, 1.0), output=tmp_path / "OUT", force=True)
    assert [p.name for p in (tmp_path / "victim").iterdir()] == ["precious.txt"]


def small_cnn(activation, pads):
    """An activation, two convolutions without one between them, and a map."""
    first = Convolution(np.ones((2, 1, 1, 3)), Geometry(1, 2, 2, (1, 3), (1, 1), pads))
    second = Convolution(
        np.ones((1, 2, 1, 1)), Geometry(*first.out_shape, (1, 1), (1, 1), (1, 0, 0, 0))
    )
    nodes = (
        Node("a", activation, ("input",)),
        Node("c", first, ("a",)),
        Node("e", second, ("c",)),
        Node("end", Affine(np.ones((2, second.shape[0]))), ("e",)),
    )
    return Network(4, nodes, "end")


def test_networks_that_differ_ahead_of_two_convolutions_are_compared():
    import reconstruct as rc

    pair = [small_cnn(op, (0, 1, 0, 1)) for op in (Relu(), LeakyRelu(0.1))]
    found = rc.verify(*pair, domain=(-1.0, 1.0), tolerance=10.0).certificate
    assert found.verdict.value == "certified"
    assert 0 < found.bound <= 10


def test_a_map_of_all_pixels_behind_a_pool_is_no_layer_of_blocks():
    """Pools are grouped convolutions; a map of their channels and positions mixes both."""
    import reconstruct as rc

    first = Convolution(np.ones((2, 2, 1, 2)), Geometry(2, 2, 4, (1, 2), (1, 1), (1, 0, 1, 0)))
    pool = SumPool(Geometry(2, 4, 3, (4, 3), (1, 1), (0, 1, 1, 0)))
    nodes = (
        Node("w0", first, ("input",)),
        Node("a0", LeakyRelu(0.1), ("w0",)),
        Node("w1", pool, ("a0",)),
        Node("a1", Relu(), ("w1",)),
        Node("end", Affine(np.ones((2, pool.shape[0]))), ("a1",)),
    )
    network = Network(16, nodes, "end")
    other = network.with_ops({"a1": LeakyRelu(0.5)})
    found = rc.verify(network, other, domain=(-0.1, 0.1), tolerance=1e6).certificate
    assert found.verdict.value == "certified" and 3 < found.bound < 1e3


def test_a_window_that_lies_on_pads_alone_is_rebuilt(tmp_path):
    import reconstruct as rc

    window = Geometry(2, 1, 1, (2, 1), (1, 1), (0, 2, 1, 1))
    rng = np.random.default_rng(0)
    conv = Convolution(rng.normal(size=(2, 2, 2, 1)), window, rng.normal(size=2))
    nodes = (
        Node("a", Relu(), ("input",)),
        Node("c", conv, ("a",)),
        Node("end", Affine(rng.normal(size=(2, conv.shape[0]))), ("c",)),
    )
    out = tmp_path / "out"
    rc.run(Network(2, nodes, "end"), domain=(-1.0, 1.0), output=out)
    assert (out / "certificate.json").exists()


def test_rationals_whose_gcd_takes_long_are_refused():
    from proofs_check.certificates import reading
    from proofs_check.certificates.report import CheckFailed

    with pytest.raises(CheckFailed, match="a rational p/q is needed"):
        reading.rational("0x" + "f" * 2**20 + "/0x3", "witness.difference")


@pytest.mark.parametrize(
    "words", [["--samples", "-5"], ["--memory", "9" * 40 + "G"], ["--domain", "1,-1"]]
)
def test_absurd_arguments_are_refused(words, tmp_path, capsys):
    from reconstruct.cli import main

    np.savez(tmp_path / "a.npz", W1=np.eye(2))
    start = ["run", str(tmp_path / "a.npz"), "-o", str(tmp_path / "out"), "--domain=-1,1"]
    assert main([*start, *words]) == 2
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.npz", "a.onnx", "a.vnnlib"])
def test_devices_are_no_files(name, tmp_path):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match="this is a device; name a file"):
        load_domain(tmp_path / name) if name == "a.vnnlib" else load(tmp_path / name)


def test_a_pipe_in_the_place_of_a_certificate_is_not_waited_for(tmp_path):
    from proofs_check.certificates import check

    os.mkfifo(tmp_path / "certificate.json")
    assert check(tmp_path).status.value == "unreadable"


def test_a_pool_whose_windows_see_pads_alone_is_checked(tmp_path):
    """A subsampling of which every window lies on a pad: both channels are 0."""
    import reconstruct as rc
    from proofs_check.certificates import check

    first = Convolution(np.ones((2, 1, 2, 1)), Geometry(1, 2, 3, (2, 1)))
    pool = SumPool(Geometry(2, 1, 3, (1, 1), (2, 2), (1, 1, 0, 0)))
    nodes = (
        Node("c", first, ("input",)),
        Node("a", LeakyRelu(0.5), ("c",)),
        Node("p", pool, ("a",)),
        Node("b", Clip(-1.0, 1.0), ("p",)),
        Node("end", Affine(np.ones((1, pool.shape[0]))), ("b",)),
    )
    network = Network(6, nodes, "end")
    for name in ("a.npz", "b.npz"):
        rc.save(network, tmp_path / name)
    out = tmp_path / "out"
    other = network.with_ops({"end": Affine(np.ones((1, pool.shape[0])) * 2)})
    rc.save(other, tmp_path / "b.npz")
    files = tmp_path / "a.npz", tmp_path / "b.npz"
    rc.verify(*files, domain=(-1.0, 1.0), tolerance=5.0, output=out, samples=20)
    assert check(out).status.value == "accepted"


def test_the_second_output_of_a_node_is_refused_by_name(tmp_path):
    nodes = [("Dropout", ["x"], ["d", "mask"]), ("Cast", ["mask"], "y", {"to": 1})]
    with pytest.raises(UnsupportedError, match="uses 'mask', which is not read: a second output"):
        load(stored(tmp_path, nodes))
