"""What is outside of the theorem, or broken, is refused by name in one sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from reconstruct.errors import InputError, MissingDependencyError, UnsupportedError
from reconstruct.formats import load

from .models import onnx_bytes

pytest.importorskip("onnx")
W = {"W": np.ones((4, 3)), "b": np.ones(3)}
STATS = {name: np.ones(4) for name in ("g", "be", "mu", "v")}
BN = ["x", *STATS]

UNSUPPORTED = {
    "an activation that is not read": (
        [("Mish", ["x"], "h", {"name": "act"}), ("Relu", ["h"], "y")],
        {},
        r"model\.onnx: node 'act' is of type Mish, which is not supported; supported are Gemm",
    ),
    "log-softmax at the end": (
        [("Relu", ["x"], "h"), ("LogSoftmax", ["h"], "y", {"name": "last"})],
        {},
        r"'last' is of type LogSoftmax.*remove the last node to use the network before it",
    ),
    "transposed conv": (
        [("ConvTranspose", ["x", "W"], "h"), ("Relu", ["h"], "y")],
        W,
        r"ConvTranspose, .* write it as a Conv of the image with zeros between its pixels",
    ),
    "recurrent": (
        [("LSTM", ["x", "W", "W"], "h", {"hidden_size": 1}), ("Relu", ["h"], "y")],
        W,
        r"LSTM, .* unroll it over a sequence of one length",
    ),
    "another domain": (
        [("Gemm", ["x", "W"], "y", {"domain": "com.example"})],
        W,
        r"com\.example\.Gemm",
    ),
    "product of two branches": (
        [("Mul", ["x", "x"], "y")],
        {},
        "product, root, exponential or mean of values that depend on the network's input",
    ),
    "softmax over rows": ([("Softmax", ["x"], "y", {"axis": 0})], {}, "another axis than the last"),
    "division by a branch": ([("Div", ["c", "x"], "y")], {"c": np.ones(4)}, "divides by a value"),
    "training norm": (
        [("BatchNormalization", BN, ["y", "m", "w"], {"training_mode": 1})],
        STATS,
        "training mode.*export the model in evaluation mode",
    ),
    "training norm of an early set": (
        [("BatchNormalization", BN, ["y", "m", "w", "a", "b"])],
        STATS,
        "training mode.*export the model in evaluation mode",
    ),
    "training dropout": (
        [("Dropout", ["x", "", "t"], "y")],
        {"t": np.array(True)},
        "training mode",
    ),
    "exp alone": ([("Exp", ["x"], "y")], {}, "read only as a step of ELU"),
    "cast to integers": ([("Cast", ["x"], "y", {"to": 7})], {}, "another type"),
    "max of branches": (
        [("Relu", ["x"], "h"), ("Max", ["x", "h"], "y")],
        {},
        "of a value and a number",
    ),
    "clip by a branch": ([("Clip", ["x", "x"], "y")], {}, "bounds that depend on"),
    "constant output": ([("Identity", ["W"], "y")], W, "a function of the input is needed"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported(name, tmp_path):
    nodes, constants, message = UNSUPPORTED[name]
    more = {"opset": 9} if "early" in name else {}
    refused(tmp_path, UnsupportedError, message, onnx_bytes(nodes, [1, 4], constants, **more))


MALFORMED = {
    "conv": (
        [("Conv", ["x", "W"], "y")],
        W,
        r"not legal ONNX on inputs of shapes \(1, 4\), \(4, 3\)",
    ),
    "max pool": (
        [("MaxPool", ["x"], "y", {"kernel_shape": [1]})],
        {},
        r"inputs of shapes \(1, 4\) \(Input tensor must have at least 3 dimensions\); export",
    ),
    "leaky relu of no slope": (
        [("PRelu", ["x", "s"], "y")],
        {"s": np.array([np.inf])},
        "needs a finite slope, but got inf",
    ),
    "slopes of more values than there are": (
        [("PRelu", ["x", "s"], "y")],
        {"s": np.full((3, 4), 0.5)},
        "could not be broadcast",
    ),
    "shapes that do not fit": ([("MatMul", ["x", "V"], "y")], {"V": np.ones((5, 2))}, r"\(1, 4\)"),
    "bias that does not fit": (
        [("Gemm", ["x", "W", "c"], "y")],
        W | {"c": np.ones(7)},
        "could not be broadcast",
    ),
    "reshape that does not fit": (
        [("Reshape", ["x", "s"], "y")],
        {"s": np.array([3, -1])},
        r"\(1, 4\), \(2,\) \(Dimension could not be inferred: incompatible shapes\)",
    ),
    "a shape of complex numbers": (
        [("Reshape", ["x", "s"], "y")],
        {"s": np.array([2 + 1j, 2])},
        r"'y' \(Reshape\) is not legal ONNX .* Expected:int64 Actual:complex128",
    ),
    "a shape of floats": (
        [("Reshape", ["x", "s"], "y")],
        {"s": np.array([2.5, 2])},
        "Expected:int64 Actual:double",
    ),
    "places that are no whole numbers": (
        [("Gather", ["x", "i"], "y", {"axis": 1})],
        {"i": np.array([0.5])},
        r"indices typestr: Tind, has unsupported type: tensor\(double\)",
    ),
    "unknown name": ([("Relu", ["nothing"], "y")], {}, "uses 'nothing', which no node makes"),
    "division by zero": (
        [("Div", ["x", "c"], "y")],
        {"c": np.zeros(4)},
        "cannot divide by zero; check the divisors",
    ),
    "norm of another size": (
        [("BatchNormalization", BN, "y")],
        {k: np.ones(3) for k in STATS},
        "unification between 3 and 4",
    ),
    "negative variance": (
        [("BatchNormalization", BN, "y")],
        STATS | {"v": -np.ones(4)},
        "var ≥ 0",
    ),
    "missing input": ([("MatMul", ["x"], "y")], {}, "has input size 1 not in range"),
    "empty clip": (
        [("Clip", ["x", "lo", "hi"], "y")],
        {"lo": np.array(2.0), "hi": np.array(1.0)},
        "empty",
    ),
    "slice out of the axes": (
        [("Slice", ["x", "s", "e", "a"], "y")],
        {"s": np.array([0]), "e": np.array([1]), "a": np.array([7])},
        "Unexpected axis value: 7",
    ),
    "slice of nothing": (
        [("Slice", ["x", "s", "e", "a"], "y")],
        {"s": np.array([2]), "e": np.array([2]), "a": np.array([1])},
        "leaves no values",
    ),
    "gather out of range": ([("Gather", ["x", "i"], "y")], {"i": np.array([9])}, "malformed"),
    "NaN weights": (
        [("Gemm", ["x", "V"], "y", {"name": "fc1"})],
        {"V": np.array([[1.0], [np.nan], [2], [np.inf]])},
        r"model\.onnx: node 'fc1': its weight must be finite numbers, but 2 of 4",
    ),
    "infinite bias": (
        [("MatMul", ["x", "W"], "h"), ("Add", ["h", "c"], "y")],
        W | {"c": np.array([1.0, np.inf, 0])},
        r"node 'h': its bias must be finite numbers, but 1 of 3 entries",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name, tmp_path):
    nodes, constants, message = MALFORMED[name]
    refused(tmp_path, InputError, message, onnx_bytes(nodes, [1, 4], constants))


@pytest.mark.parametrize(
    "node",
    [
        ("Conv", ["x", "k"], "y", {"kernel_shape": [1, 1]}),
        (
            "MaxPool",
            ["x"],
            "y",
            {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]},
        ),
    ],
)
def test_windows_that_contradict_themselves_are_refused_unchecked_too(node, tmp_path):
    """A kernel of another shape than is stated; pads beside those that auto_pad asks for."""
    (tmp_path / "model.onnx").write_bytes(
        onnx_bytes([node], [1, 1, 5, 5], {"k": np.ones((1, 1, 3, 3))})
    )
    with pytest.raises(UnsupportedError, match=r"is read in shape .*, but ONNX's rules give"):
        load(tmp_path / "model.onnx", unchecked=True)


def refused(tmp_path, kind, message, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(kind, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_several_inputs(tmp_path):
    inputs = {"x": [1, 4], "z": [1, 4]}
    content = onnx_bytes([("Add", ["x", "z"], "y")], [], inputs=inputs)
    refused(tmp_path, UnsupportedError, r"2 inputs \('x', 'z'\) and 1 outputs", content)


def test_several_outputs(tmp_path):
    content = onnx_bytes([("Relu", ["x"], "y")], [1, 4], outputs=("y", "x"))
    told = r"2 outputs \('y', 'x'\); choose one .*extract_model\(FILE, NEW_FILE, \['x'\], \['y'\]\)"
    refused(tmp_path, UnsupportedError, told, content)


def test_two_symbolic_dimensions(tmp_path):
    content = onnx_bytes([("Relu", ["x"], "y")], ["N", "M"])
    refused(tmp_path, UnsupportedError, "2 dimensions of unknown size", content)


def test_an_input_without_shape(tmp_path):
    content = onnx_bytes([("Relu", ["x"], "y")], None)
    refused(tmp_path, UnsupportedError, "'x' has no shape", content)


def test_integers_as_input(tmp_path):
    content = onnx_bytes([("Relu", ["x"], "y")], [1, 4], dtype=np.int32)
    refused(tmp_path, UnsupportedError, "float32 or float64 numbers", content)


def test_an_input_of_absurd_size(tmp_path):
    content = onnx_bytes([("Relu", ["x"], "y")], [1, 2**40])
    refused(tmp_path, UnsupportedError, "more than the", content)


def test_a_map_of_absurd_size(tmp_path):
    content = onnx_bytes([("MatMul", ["x", "W"], "y")], [2**20, 20], {"W": np.ones((20, 20))})
    refused(
        tmp_path, InputError, r"map of node 'y'.*to 13\.4 GB, more than the limit of 4\.3", content
    )


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(b"\x08\x08")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"reading ONNX files.*reconstruct\[onnx\]"):
        load(tmp_path / "model.onnx")
