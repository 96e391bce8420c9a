"""What operators of ONNX become, what is said of the file, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.formats import load
from reconstruct.networks import (
    Add,
    Cast,
    Clip,
    Dense,
    Elu,
    LeakyRelu,
    Norm,
    Placement,
    Relu,
    Select,
    Selu,
)
from reconstruct.networks.activations import Gelu

from .models import onnx_bytes
from .test_onnx_operators import CASES, W

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def load_nodes(tmp_path, nodes, shape, constants=None, **more):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_bytes(nodes, shape, constants, **more))
    return load(path)


def kinds(network):
    return [type(n.op) for n in network.nodes]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bias added", [Dense]),
        ("bias subtracted", [Dense]),
        ("product used twice", None),
        ("batch norm", [Norm]),
        ("batch norm over images", [Norm]),
        ("batch norm over pixels of size 1", [Norm]),
        ("transpose that relabels", []),
        ("identity and dropout", [Relu]),
        ("max with zero", [Relu]),
        ("clip above only", [Clip]),
        ("slice", [Select]),
        ("gather neighbours", [Select]),
        ("gather any", [Placement]),
        ("constants folded", [Dense]),
        ("reshape to a flowing shape", []),
        ("prelu", [LeakyRelu]),
    ],
)
def test_is_read_as(name, expected, tmp_path):
    nodes, shape, constants, more = CASES[name]
    network = load_nodes(tmp_path, nodes, shape, constants, **more)
    if expected is not None:
        assert kinds(network) == expected


@pytest.mark.parametrize(
    ("kind", "value"), [("Add", 0.0), ("Sub", 0.0), ("Mul", 1.0), ("Div", 1.0)]
)
def test_neutral_constants_leave_nothing_behind(kind, value, tmp_path):
    constants = {"c": np.full((1, 1, 1, 3), value)}
    nodes = [(kind, ["x", "c"], "h"), ("Flatten", ["h"], "y")]
    network = load_nodes(tmp_path, nodes, [1, 1, 1, 3], constants)
    assert network.nodes == () and network.size_in == 3


def test_initializers_may_be_listed_as_inputs(tmp_path):
    inputs = {"W": [4, 3], "x": [1, 4]}
    network = load_nodes(tmp_path, [("MatMul", ["x", "W"], "y")], [], W, inputs=inputs)
    assert (network.source, network.maps) == ("x", ((3, 4),))


def test_float32_weights_stay_float32(tmp_path):
    network = load_nodes(tmp_path, [("Gemm", ["x", "W", "b"], "y")], [1, 4], W, dtype=np.float32)
    assert network.nodes[0].op.weight.dtype == np.float32


def test_metadata_says_where_the_network_came_from(tmp_path):
    network = load_nodes(tmp_path, [("Gemm", ["x", "W", "b"], "y")], ["N", 4], W)
    told = network.metadata
    assert (told["file"], told["format"], told["batch"]) == ("model.onnx", "onnx", "symbolic")
    assert (told["input"], told["input_shape"], told["output"]) == ("x", [1, 4], "y")
    assert len(told["sha256"]) == 64


def test_values_may_be_widened_and_what_narrows_them_is_an_operation(tmp_path):
    widened = [("Cast", ["x"], "h", {"to": 11}), ("Relu", ["h"], "y")]
    assert kinds(load_nodes(tmp_path, widened, [1, 2], dtype=np.float32)) == [Relu]
    narrowed = [("Cast", ["x"], "h", {"to": 1}), ("Relu", ["h"], "y")]
    assert kinds(load_nodes(tmp_path, narrowed, [1, 2])) == [Cast, Relu]
    mixed = [
        ("Relu", ["x"], "r"),
        ("Cast", ["x"], "h", {"to": 11}),
        ("Cast", ["r"], "s", {"to": 11}),
        ("Add", ["h", "s"], "y"),
    ]
    assert kinds(load_nodes(tmp_path, mixed, [1, 2], dtype=np.float32)) == [Relu, Add]


def test_nodes_that_the_output_does_not_need_are_dropped(tmp_path):
    nodes = [("Relu", ["x"], "y"), ("MatMul", ["x", "W"], "unused")]
    assert kinds(load_nodes(tmp_path, nodes, [1, 4], W)) == [Relu]


@pytest.mark.parametrize("op", [LeakyRelu(0.3), Elu(0.7), Selu(1.5, 1.1)])
def test_activations_spelled_out_are_recognised(op, tmp_path):
    from reconstruct.formats import save
    from reconstruct.networks import Network, Node

    save(Network(3, (Node("act", op, ("input",)),), "act"), tmp_path / "a.onnx")
    nodes = load(tmp_path / "a.onnx").nodes
    assert [(n.name, n.op) for n in nodes] == [("act", op)]


GELUS = {  # what is done with the root, and the product of h and 1 + erf
    "torch": ("Div", [("Mul", ["x", "p"], "q"), ("Mul", ["q", "half"], "y")]),
    "transformers": ("Div", [("Mul", ["x", "half"], "q"), ("Mul", ["q", "p"], "y")]),
    "by a factor": ("Mul", [("Mul", ["half", "x"], "q"), ("Mul", ["p", "q"], "y")]),
}


@pytest.mark.parametrize("wrong", [None, "root", "half", "one"])
@pytest.mark.parametrize("writer", GELUS)
def test_a_gelu_spelled_out_is_recognised(writer, wrong, tmp_path):
    kind, product = GELUS[writer]
    numbers = {"root": 2**0.5 if kind == "Div" else 0.5**0.5, "half": 0.5, "one": 1.0}
    if wrong is not None:
        numbers[wrong] *= 1 + 1e-6
    scaled = [(kind, ["x", "root"], "s"), ("Erf", ["s"], "e"), ("Add", ["e", "one"], "p")]
    given = (tmp_path, [*scaled, *product], [1, 3], {k: np.array(v) for k, v in numbers.items()})
    if wrong is None:  # no float is √2: in real arithmetic the file is another function
        with pytest.raises(rc.InputError, match=r"GELU but for √2, .* say --unchecked"):
            load_nodes(*given, dtype=np.float32)
        network = load(tmp_path / "model.onnx", unchecked=True)
        assert [n.op for n in network.nodes] == [Gelu()]
        assert network.metadata["compared"] is None
    else:
        with pytest.raises(rc.ReconstructError, match=r"only as a step of ELU.* of GELU"):
            load_nodes(*given, dtype=np.float32)


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("inverse", [False, True], ids=["root", "inverse root"])
@pytest.mark.parametrize("centred", [False, True], ids=["rms", "layer"])
def test_norms_that_are_spelled_out_are_recognised(centred, inverse, eps, tmp_path):
    """In every way of PATTERNS; with the square by Pow where there is an eps, else by Mul."""
    d, axes = "d" if centred else "x", {"axes": [-1], "keepdims": 1}
    mean = [("ReduceMean", ["x"], "m", axes), ("Sub", ["x", "m"], "d")] if centred else []
    square = ("Pow", [d, "two"], "q") if eps else ("Mul", [d, d], "q")
    added = [("Add", ["v", "eps"], "w")] if eps else []
    root = ("Sqrt", ["w" if eps else "v"], "r")
    last = (
        [("Reciprocal", ["r"], "i"), ("Mul", ["i", d], "y")]
        if inverse
        else [("Div", [d, "r"], "y")]
    )
    nodes = [*mean, square, ("ReduceMean", ["q"], "v", axes), *added, root, *last]
    constants = {"two": np.array(2.0), "eps": np.array(eps or 0.0)}
    (node,) = load_nodes(tmp_path, nodes, [1, 5], constants, dtype=np.float32).nodes
    assert node.op.kind == ("LayerNorm" if centred else "RMSNorm")
    assert node.op.eps == np.float32(eps or 0.0)
