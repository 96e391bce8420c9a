"""Every operator that is read, against onnxruntime in float64 (float32 where it has no kernel)."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from reconstruct.formats import load

from .models import onnx_bytes, run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(5)
I64 = np.int64


def normal(*shape):
    return RNG.normal(size=shape)


W = {"W": normal(4, 3), "b": normal(3)}
STATS = {"g": normal(4), "be": normal(4), "mu": normal(4), "v": RNG.uniform(0.1, 2, 4)}
BN = ["g", "be", "mu", "v"]

# name: (nodes, input shape, constants, more)
CASES = {
    "gemm": ([("Gemm", ["x", "W", "b"], "y")], [1, 4], W, {}),
    "gemm without C": ([("Gemm", ["x", "W"], "y")], ["N", 4], W, {}),
    "gemm alpha beta": (
        [("Gemm", ["x", "W", "b"], "y", {"alpha": 0.6, "beta": -1.5})],
        ["N", 4],
        W,
        {},
    ),
    "gemm transB": (
        [("Gemm", ["x", "V", "b"], "y", {"transB": 1})],
        ["N", 4],
        {"V": normal(3, 4), "b": normal(3)},
        {},
    ),
    "gemm transA": ([("Gemm", ["x", "W", "b"], "y", {"transA": 1})], [4, 1], W, {}),
    "gemm transA of a matrix": ([("Gemm", ["x", "W", "b"], "y", {"transA": 1})], [4, 2], W, {}),
    "gemm constant from the left": (
        [("Gemm", ["V", "x", "c"], "y", {"transA": 1, "transB": 1})],
        [2, 4],
        {"V": normal(4, 3), "c": normal(3, 1)},
        {},
    ),
    "gemm of several rows": ([("Gemm", ["x", "W", "b"], "y")], [5, 4], W, {}),
    "gemm with a C that flows": (
        [("Gemm", ["x", "W", "b"], "h"), ("Gemm", ["x", "W", "h"], "y")],
        [1, 4],
        W,
        {},
    ),
    "matmul from the left": (
        [("MatMul", ["V", "x"], "y")],
        [4, 1],
        {"V": normal(3, 4)},
        {},
    ),
    "matmul from the left, several columns": (
        [("MatMul", ["V", "x"], "y")],
        [2, 4, 3],
        {"V": normal(3, 4)},
        {},
    ),
    "matmul of a vector": ([("MatMul", ["x", "W"], "y")], [4], W, {}),
    "matmul by a vector": ([("MatMul", ["x", "v"], "y")], [3, 4], {"v": normal(4)}, {}),
    "vector times matrix": ([("MatMul", ["v", "x"], "y")], [4, 3], {"v": normal(4)}, {}),
    "matmul by a stack of one": (
        [("MatMul", ["x", "W"], "y")],
        [1, 2, 4],
        {"W": normal(1, 4, 3)},
        {},
    ),
    "large kron": (
        [("MatMul", ["x", "W"], "y")],
        [1, 300, 8],
        {"W": normal(8, 8)},
        {},
    ),
    "bias added": ([("MatMul", ["x", "W"], "h"), ("Add", ["b", "h"], "y")], ["N", 4], W, {}),
    "bias subtracted": ([("MatMul", ["x", "W"], "h"), ("Sub", ["h", "b"], "y")], ["N", 4], W, {}),
    "taken from a constant": ([("Sub", ["c", "x"], "y")], ["N", 4], {"c": normal(4)}, {}),
    "product used twice": (
        [("MatMul", ["x", "W"], "h"), ("Add", ["h", "b"], "k"), ("Add", ["h", "k"], "y")],
        ["N", 4],
        W,
        {},
    ),
    "mul": ([("Mul", ["x", "c"], "y")], ["N", 4], {"c": normal(4)}, {}),
    "mul by a number from the left": (
        [("Mul", ["c", "x"], "y")],
        ["N", 4],
        {"c": np.array(3.0)},
        {},
    ),
    "div": ([("Div", ["x", "c"], "y")], ["N", 4], {"c": normal(4)}, {}),
    "neg": ([("Neg", ["x"], "y")], ["N", 4], {}, {}),
    "large mul": ([("Mul", ["x", "c"], "y")], [1, 900], {"c": normal(900)}, {}),
    "broadcast that grows": ([("Add", ["x", "c"], "y")], [1, 4], {"c": normal(3, 4)}, {}),
    "two branches added": (
        [("MatMul", ["x", "W"], "h"), ("MatMul", ["x", "V"], "k"), ("Add", ["h", "k"], "y")],
        ["N", 4],
        {"W": normal(4, 3), "V": normal(4, 3)},
        {},
    ),
    "two branches subtracted": (
        [("MatMul", ["x", "W"], "h"), ("Relu", ["x"], "k"), ("Sub", ["h", "k"], "y")],
        ["N", 4],
        {"W": normal(4, 4)},
        {},
    ),
    "branches of broadcast shapes": (
        [("MatMul", ["x", "v"], "h"), ("Reshape", ["h", "s"], "k"), ("Add", ["x", "k"], "y")],
        [2, 4],
        {"v": normal(4), "s": np.array([2, 1])},
        {},
    ),
    "sum": (
        [("Relu", ["x"], "h"), ("Sum", ["x", "c", "h", "x"], "y")],
        ["N", 4],
        {"c": normal(4)},
        {},
    ),
    "batch norm": (
        [("BatchNormalization", ["x", *BN], "y", {"epsilon": 1e-3})],
        ["N", 4],
        STATS,
        {},
    ),
    "batch norm of opset 9": (
        [("BatchNormalization", ["x", *BN], "y")],
        ["N", 4],
        STATS,
        {"opset": 9},
    ),
    "batch norm over images": ([("BatchNormalization", ["x", *BN], "y")], [1, 4, 2, 3], STATS, {}),
    "batch norm over pixels of size 1": (
        [("BatchNormalization", ["x", *BN], "y")],
        [1, 4, 1, 1],
        STATS,
        {},
    ),
    "group norm of one group": (
        [("GroupNormalization", ["x", "g", "be"], "y", {"num_groups": 1})],
        [1, 4, 2, 3],
        STATS,
        {"opset": 21, "dtype": np.float32},
    ),
    "relu": ([("Relu", ["x"], "y")], ["N", 4], {}, {}),
    "clip": (
        [("Clip", ["x", "lo", "hi"], "y")],
        ["N", 4],
        {"lo": np.array(-0.5), "hi": np.array(0.25)},
        {},
    ),
    "clip below only": ([("Clip", ["x", "lo"], "y")], ["N", 4], {"lo": np.array(-0.5)}, {}),
    "clip above only": ([("Clip", ["x", "", "hi"], "y")], ["N", 4], {"hi": np.array(0.5)}, {}),
    "max with zero": ([("Max", ["x", "c"], "y")], ["N", 4], {"c": np.array(0.0)}, {}),
    "min with a number": ([("Min", ["c", "x"], "y")], ["N", 4], {"c": np.array(0.3)}, {}),
    "leaky relu, attribute": (
        [("LeakyRelu", ["x"], "y", {"alpha": 0.2})],
        ["N", 4],
        {},
        {"dtype": np.float32},
    ),
    "leaky relu of a steep slope": (
        [("LeakyRelu", ["x"], "y", {"alpha": 2.5})],
        ["N", 4],
        {},
        {"dtype": np.float32},
    ),
    "leaky relu of a negative slope": (
        [("LeakyRelu", ["x"], "y", {"alpha": -0.5})],
        ["N", 4],
        {},
        {"dtype": np.float32},
    ),
    "prelu": (
        [("PRelu", ["x", "c"], "y")],
        ["N", 4],
        {"c": np.full(4, 0.3)},
        {"dtype": np.float32},
    ),
    "elu, attribute": ([("Elu", ["x"], "y", {"alpha": 0.5})], ["N", 4], {}, {"dtype": np.float32}),
    "selu": ([("Selu", ["x"], "y")], ["N", 4], {}, {"dtype": np.float32}),
    "flatten": ([("Flatten", ["x"], "y")], [1, 2, 3], {}, {}),
    "flatten at the last axis": ([("Flatten", ["x"], "y", {"axis": -1})], [2, 2, 3], {}, {}),
    "reshape with 0 and -1": (
        [("Reshape", ["x", "s"], "y")],
        [1, 2, 6],
        {"s": np.array([0, -1, 3])},
        {},
    ),
    "reshape to a flowing shape": (
        [
            ("Shape", ["x"], "s"),
            ("Gather", ["s", "zero"], "n"),
            ("Unsqueeze", ["n", "axes"], "m"),
            ("Concat", ["m", "rest"], "t", {"axis": 0}),
            ("Reshape", ["x", "t"], "y"),
        ],
        ["N", 2, 3],
        {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])},
        {},
    ),
    "squeeze": ([("Squeeze", ["x", "a"], "y")], [1, 4, 1], {"a": np.array([-1])}, {}),
    "squeeze of opset 11": ([("Squeeze", ["x"], "y", {"axes": [2]})], [1, 4, 1], {}, {"opset": 11}),
    "squeeze everything": ([("Squeeze", ["x"], "y")], [1, 4, 1], {}, {}),
    "unsqueeze": ([("Unsqueeze", ["x", "a"], "y")], [1, 4], {"a": np.array([0, -1])}, {}),
    "transpose that relabels": (
        [("Transpose", ["x"], "y", {"perm": [0, 2, 1]})],
        [1, 4, 1],
        {},
        {},
    ),
    "transpose that moves": ([("Transpose", ["x"], "y", {"perm": [0, 2, 1]})], [1, 4, 3], {}, {}),
    "identity and dropout": (
        [("Identity", ["x"], "h"), ("Dropout", ["h"], "k"), ("Relu", ["k"], "y")],
        ["N", 4],
        {},
        {},
    ),
    "constant node": (
        [
            ("Constant", [], "c", {"value_floats": [1.0, 2.0]}),
            ("Cast", ["c"], "d", {"to": 11}),
            ("Add", ["x", "d"], "y"),
        ],
        ["N", 2],
        {},
        {},
    ),
    "constants folded": (
        [
            ("MatMul", ["A", "B"], "C"),
            ("Transpose", ["C"], "D"),
            ("Mul", ["D", "two"], "E"),
            ("Div", ["E", "three"], "F"),
            ("Neg", ["F"], "G"),
            ("Relu", ["G"], "H"),
            ("MatMul", ["x", "H"], "y"),
        ],
        ["N", 4],
        {"A": normal(3, 2), "B": normal(2, 4), "two": np.array(2.0), "three": np.array([3.0])},
        {},
    ),
    "slice": (
        [("Slice", ["x", "s", "e", "a"], "y")],
        ["N", 6],
        {"s": np.array([2]), "e": np.array([5]), "a": np.array([1])},
        {},
    ),
    "slice of opset 9": (
        [("Slice", ["x"], "y", {"starts": [1], "ends": [2147483647], "axes": [1]})],
        ["N", 6],
        {},
        {"opset": 9},
    ),
    "slice backwards": (
        [("Slice", ["x", "s", "e", "a", "t"], "y")],
        ["N", 6],
        {"s": np.array([-1]), "e": np.array([-100]), "a": np.array([1]), "t": np.array([-2])},
        {},
    ),
    "gather neighbours": (
        [("Gather", ["x", "i"], "y", {"axis": 1})],
        ["N", 6],
        {"i": np.arange(1, 4)},
        {},
    ),
    "gather one": ([("Gather", ["x", "i"], "y", {"axis": 1})], ["N", 6], {"i": np.array(-2)}, {}),
    "gather any": (
        [("Gather", ["x", "i"], "y", {"axis": 1})],
        ["N", 6],
        {"i": np.array([5, 0, 5])},
        {},
    ),
    "split and join": (
        [
            ("Split", ["x", "n"], ["p", "q"], {"axis": 1}),
            ("Relu", ["p"], "r"),
            ("Concat", ["q", "c", "r"], "y", {"axis": 1}),
        ],
        [1, 6],
        {"n": np.array([2, 4]), "c": normal(1, 2)},
        {},
    ),
    "split in halves": (
        [("Split", ["x"], ["p", "q"], {"axis": 1}), ("Sub", ["p", "q"], "y")],
        ["N", 6],
        {},
        {},
    ),
    "expand": ([("Expand", ["x", "s"], "y")], [1, 4], {"s": np.array([3, 1])}, {}),
    "shift, scale, shift": (
        [("Sub", ["x", "c"], "h"), ("Div", ["h", "d"], "k"), ("Add", ["k", "c"], "y")],
        ["N", 4],
        {"c": normal(4), "d": RNG.uniform(1, 2, 4)},
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("packed", [False, True])
def test_agrees_with_onnxruntime(name, packed, tmp_path):
    nodes, shape, constants, more = CASES[name]
    content = onnx_bytes(nodes, shape, constants, **more)
    path = tmp_path / ("model.onnx.gz" if packed else "model.onnx")
    path.write_bytes(gzip.compress(content) if packed else content)
    network = load(path)
    dtype = more.get("dtype", np.float64)
    real = [1 if isinstance(n, str) else n for n in shape]
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=real).astype(dtype)
        theirs = run(content, x)
        assert list(theirs.shape) == network.metadata["output_shape"]
        ours = network(x.ravel(), dtype)
        tolerance = 40 * np.finfo(dtype).eps * max(1, np.abs(theirs).max())
        assert np.abs(theirs.ravel() - ours).max() <= tolerance
