"""Legal ONNX files that are easily read as another function, against onnxruntime."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load
from reconstruct.networks import Relu, Scaling

from .models import onnx_bytes, run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
W = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
C = np.array([0.1, 0.2, 0.3], np.float32)
CUT = {"s": np.array([0]), "e": np.array([1]), "a": np.array([1])}
ELU = [
    ("MatMul", ["x", "W"], "h"),
    ("Min", ["h", "z"], "m"),
    ("Exp", ["m"], "e"),
    ("Sub", ["e", "o"], "t"),
    ("Mul", ["t", "half"], "ta"),
    ("Relu", ["h"], "r"),
]
PAIRS = [[2, 3], [1, 2], [3, 1], [4, 0]]
ENDLESS = {"i": np.float32(np.inf)}


NUMBERS = {"z": np.float32(0), "o": np.float32(1), "half": np.float32(0.5)}

# name: (nodes, input shape, constants, more)
READ = {
    "negative multiple of an elu": (
        [*ELU, ("Add", ["r", "ta"], "u"), ("Mul", ["u", "less"], "y")],
        [1, 3],
        {"W": W, "less": np.float32(-2), **NUMBERS},
        {},
    ),
    "mean of each row of a stack": (
        [("ReduceMean", ["x"], "m", {"axes": [-1], "keepdims": 1}), ("Relu", ["m"], "y")],
        [1, 2, 3],
        {},
        {},
    ),
    "constant of rank 3": (
        [
            ("MatMul", ["x", "W"], "h"),
            ("Slice", ["h", "s", "e", "a"], "g"),
            ("Add", ["g", "c"], "y"),
        ],
        [1, 3],
        {"W": W[None], "c": C, **CUT},
        {},
    ),
    "stack of matrices": (
        [("MatMul", ["x", "W"], "y")],
        [2, 1, 3],
        {"W": np.stack([W, 2 * W])},
        {},
    ),
    "stack from the left": (
        [("MatMul", ["W", "x"], "y")],
        [3, 2],
        {"W": np.stack([W, 2 * W])[:, None]},
        {},
    ),
    "maximum with a constant of higher rank": (
        [
            ("Max", ["x", "k"], "h"),
            ("Gather", ["h", "i"], "g", {"axis": 0}),
            ("Add", ["g", "c"], "y"),
        ],
        [3],
        {"k": np.array([[0.0]], np.float32), "i": np.array([0]), "c": C},
        {},
    ),
    "constants through float16": (
        [
            ("Cast", ["W"], "a", {"to": 10}),
            ("Cast", ["a"], "b", {"to": 1}),
            ("MatMul", ["x", "b"], "y"),
        ],
        [1, 3],
        {"W": W},
        {},
    ),
    "constants through bfloat16": (
        [
            ("Cast", ["W"], "a", {"to": 16}),
            ("Cast", ["a"], "b", {"to": 1}),
            ("MatMul", ["x", "b"], "y"),
        ],
        [1, 3],
        {"W": W},
        {},
    ),
    "constants through bool": (
        [
            ("Cast", ["W"], "a", {"to": 9}),
            ("Cast", ["a"], "b", {"to": 1}),
            ("MatMul", ["x", "b"], "y"),
        ],
        [1, 3],
        {"W": 3 * W},
        {},
    ),
    "integers that wrap around": (
        [
            ("Cast", ["W"], "a", {"to": 2}),
            ("Cast", ["a"], "b", {"to": 1}),
            ("MatMul", ["x", "b"], "y"),
        ],
        [1, 3],
        {"W": np.arange(300, 309).reshape(3, 3)},
        {},
    ),
    "constants folded in float32": (
        [
            ("Add", ["p", "q"], "r"),
            ("Sub", ["r", "p"], "s"),
            ("Mul", ["x", "s"], "t"),
            ("Add", ["t", "x"], "y"),
        ],
        [1, 3],
        {"p": np.array([1e8], np.float32), "q": np.array([1], np.float32)},
        {},
    ),
    "slice that starts before the first value": (
        [("Slice", ["x", "s", "e", "a", "t"], "y")],
        [1, 3],
        {"s": np.array([-9]), "e": np.array([-99]), "a": np.array([1]), "t": np.array([-1])},
        {},
    ),
    "norm of a tensor of rank 1": (
        [("BatchNormalization", ["x", "g", "b", "m", "v"], "y")],
        [3],
        {k: np.array([v], np.float32) for k, v in {"g": 2, "b": 1, "m": 3, "v": 4}.items()},
        {},
    ),
    "norm over a batch of images": (
        [("BatchNormalization", ["x", "g", "b", "m", "v"], "y")],
        [2, 2, 3],
        {
            k: np.array(v, np.float32)
            for k, v in {"g": [2, 3], "b": [1, 2], "m": [3, 1], "v": [4, 0]}.items()
        },
        {},
    ),
    "windows that begin on pads alone do not count": (
        [
            (
                "MaxPool",
                ["x"],
                "y",
                {"ceil_mode": 1, "kernel_shape": [2], "pads": [0, 1], "strides": [3]},
            )
        ],
        [1, 2, 3],
        {},
        {},
    ),
    "a window larger than its image": (
        [("AveragePool", ["x"], "y", {"ceil_mode": 1, "kernel_shape": [3], "strides": [3]})],
        [1, 2, 2],
        {},
        {},
    ),
    "nodes out of order": (
        [("Relu", ["h"], "y"), ("Add", ["g", "c"], "h"), ("MatMul", ["x", "W"], "g")],
        [1, 3],
        {"W": W, "c": C},
        {},
    ),
    "constants of no dimension": (
        [
            ("Neg", ["c"], "a"),
            ("Sum", ["a", "c", "c"], "b"),
            ("Max", ["b", "a"], "d"),
            ("Relu", ["d"], "f"),
            ("Sub", ["x", "f"], "g"),
            ("Sub", ["g", "c"], "y"),
        ],
        [1, 3],
        {"c": np.float32(0.5)},
        {},
    ),
    "a function of constants only": (
        [
            ("Sqrt", ["v"], "s"),
            ("ConstantOfShape", ["n"], "z"),
            ("Add", ["s", "z"], "w"),
            ("Div", ["x", "w"], "y"),
        ],
        [1, 3],
        {"v": np.float32(2), "n": np.array([3])},
        {},
    ),
}


def stored(tmp_path, nodes, shape, constants, **more):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_bytes(nodes, shape, constants, **{"dtype": np.float32, **more}))
    return path


@pytest.mark.parametrize("name", READ)
def test_is_read_as_onnxruntime_runs_it(name, tmp_path):
    nodes, shape, constants, more = READ[name]
    path = stored(tmp_path, nodes, shape, constants, **more)
    network = load(path)
    for seed in range(4):
        x = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
        theirs = run(path.read_bytes(), x)
        assert list(theirs.shape) == network.metadata["output_shape"]
        np.testing.assert_allclose(network(x.ravel()), theirs.ravel(), rtol=2e-5, atol=2e-6)


REFUSED = {
    "leaky pattern that is broadcast": (
        [
            ("MatMul", ["x", "W"], "h"),
            ("Mul", ["h", "half"], "p"),
            ("Reshape", ["p", "sh"], "q"),
            ("Max", ["h", "q"], "y", {"name": "top"}),
        ],
        {"W": W, "sh": np.array([3, 1]), **NUMBERS},
        r"node 'top' \(Max\) is supported of a value and a number",
    ),
    "elu pattern that is broadcast": (
        [*ELU, ("Reshape", ["r", "sh"], "rr"), ("Add", ["rr", "ta"], "y", {"name": "sum"})],
        {"W": W, "sh": np.array([3, 1]), **NUMBERS},
        r"node 'sum' \(Add\) is a product, .* which is read only as a step of ELU",
    ),
    "elu of two values": (
        [("Relu", ["x"], "a"), *ELU, ("Add", ["a", "ta"], "y", {"name": "sum"})],
        {"W": W, **NUMBERS},
        r"node 'sum' \(Add\) is a product, .* which is read only as a step of ELU",
    ),
    "elu with several alphas": (
        [*ELU[:4], ("Mul", ["t", "c"], "ta", {"name": "m"}), ("Add", ["h", "ta"], "y")],
        {"W": W, "c": C, **NUMBERS},
        r"node 'm' \(Mul\) is a product, .* which is read only as a step of ELU",
    ),
    "exponential of a value between two ends": (
        [("Clip", ["x", "low", "z"], "m"), ("Exp", ["m"], "y", {"name": "e"})],
        {"low": np.float32(-3), **NUMBERS},
        r"node 'e' \(Exp\) is a product, .* which is read only as a step of ELU",
    ),
    "leaky relu with several slopes": (
        [("Mul", ["x", "c"], "p"), ("Max", ["x", "p"], "y", {"name": "top"})],
        {"c": C},
        r"node 'top' \(Max\) is supported of a value and a number",
    ),
    "clip between infinities": (
        [("Clip", ["x", "i", "i"], "y")],
        {"i": np.float32(np.inf)},
        r"Clip to \[inf, inf\] leaves no finite value",
    ),
    "maximum with infinity": (
        [("Max", ["x", "i"], "y")],
        {"i": np.float32(np.inf)},
        "no finite value",
    ),
    "minimum with infinity": (
        [("Min", ["x", "i"], "y")],
        {"i": np.float32(-np.inf)},
        "no finite value",
    ),
    "maximum with NaN": (
        [("Max", ["x", "i"], "y")],
        {"i": np.float32(np.nan)},
        "Clip needs lo ≤ hi",
    ),
    "elu of NaN": (
        [("Elu", ["x"], "y", {"alpha": float("nan")})],
        {},
        "needs finite numbers, but got nan",
    ),
    "gemm times infinity": (
        [("Gemm", ["x", "W"], "y", {"alpha": float("inf")})],
        {"W": W},
        "its factor must be finite numbers, but 3 of 3",
    ),
    "norm of infinite epsilon": (
        [("BatchNormalization", ["x", "c", "c", "c", "c"], "y", {"epsilon": float("inf")})],
        {"c": C},
        "with eps = inf",
    ),
    "division by infinity": (
        [("Div", ["x", "i"], "y")],
        {"i": np.float32(np.inf)},
        "its divisor must be finite numbers",
    ),
    "division by infinity that is folded": (
        [("Div", ["o", "z"], "i"), ("Div", ["x", "i"], "y")],
        NUMBERS,
        "its divisor must be finite numbers",
    ),
    "value made twice": (
        [("Relu", ["x"], "y"), ("Neg", ["x"], "y")],
        {},
        "something else makes already",
    ),
    "cycle": ([("Add", ["x", "h"], "y"), ("Relu", ["y"], "h")], {}, "depends on its own value"),
    "random constants": (
        [("RandomNormal", [], "r", {"shape": [1, 3]}), ("Add", ["x", "r"], "y")],
        {},
        "'r' is of type RandomNormal, which is not supported",
    ),
    "constants that ONNX's reference computes otherwise": (
        [("Hardmax", ["W"], "h", {"axis": 0}), ("MatMul", ["x", "h"], "y")],
        {"W": W},
        "'h' is of type Hardmax, which is not supported",
    ),
    "constants by an activation": (
        [("Selu", ["W"], "h"), ("MatMul", ["x", "h"], "y")],
        {"W": W},
        "computes a constant by Selu, .*fold constants when exporting",
    ),
    "an attribute of another operator set": (
        [("Clip", ["x"], "y", {"min": 0.0})],
        {},
        "has the attribute 'min', which is not supported in operator set 15",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name, tmp_path):
    nodes, constants, message = REFUSED[name]
    path = stored(tmp_path, nodes, [1, 3], constants)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_infinite_ends_that_clip_nothing_are_the_identity(tmp_path):
    ends = {"lo": np.float32(-np.inf), "hi": np.float32(np.inf)}
    nodes = [("Clip", ["x", "lo", "hi"], "a"), ("Max", ["a", "lo"], "b"), ("Min", ["b", "hi"], "y")]
    assert load(stored(tmp_path, nodes, [1, 3], ends)).nodes == ()


def test_a_product_that_float64_cannot_hold_is_refused(tmp_path):
    constants = {"w": np.eye(2), "c": np.array([1e-300, 1.0])}
    nodes = [("Gemm", ["x", "w", "c"], "y", {"beta": 0.1})]
    with pytest.raises(UnsupportedError, match=r"product of beta = 0\.1 and C"):
        load(stored(tmp_path, nodes, [1, 2], constants, dtype=float))


def exactly(network, x):
    """The network at rationals, for maps, scalings and ReLU."""
    values = {network.source: [Fraction(v) for v in x]}
    for node in network.nodes:
        (h,) = (values[i] for i in node.inputs)
        op = node.op
        if isinstance(op, Scaling):
            parts = zip(h, op.factor, op.divisor, op.offset, strict=True)
            made = [v * Fraction(f) / Fraction(d) + Fraction(o) for v, f, d, o in parts]
        elif isinstance(op, Relu):
            made = [max(v, Fraction(0)) for v in h]
        else:
            rows = zip(op.weight.astype(float), op.bias, strict=True)
            made = [
                sum(Fraction(float(w)) * v for w, v in zip(row, h, strict=True)) + Fraction(b)
                for row, b in rows
            ]
        values[node.name] = made
    return values[network.output]


def test_a_division_is_not_rounded(tmp_path):
    path = stored(
        tmp_path, [("Div", ["x", "c"], "y")], [1, 2], {"c": np.array([3.0, 7.0])}, dtype=float
    )
    assert exactly(load(path), [1.0, 1e300]) == [Fraction(1, 3), Fraction(1e300) / 7]


@pytest.mark.parametrize("alpha", [0.1, 3.0, -0.5, 0.0])
@pytest.mark.parametrize("beta", [0.3, 1.0, 0.0])
def test_alpha_and_beta_are_not_rounded(alpha, beta, tmp_path):
    w, c = np.array([[0.7, -1 / 3]]), np.array([0.1, 1 / 7])
    more = {"alpha": alpha, "beta": beta}
    path = stored(
        tmp_path, [("Gemm", ["x", "w", "c"], "y", more)], [1, 1], {"w": w, "c": c}, dtype=float
    )
    a, b = (Fraction(float(np.float32(v))) for v in (alpha, beta))
    x = Fraction(0.6)
    expected = [a * x * Fraction(float(w[0, i])) + b * Fraction(float(c[i])) for i in range(2)]
    assert exactly(load(path), [0.6]) == expected
