"""A reading that is not what an independent evaluation computes is refused, by the node."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from reconstruct.errors import UnsupportedError
from reconstruct.formats import load, save
from reconstruct.formats.onnx import agreement, read
from reconstruct.formats.onnx.agreement import Followed, _check_value, points
from reconstruct.formats.onnx.values import Flow
from reconstruct.networks import Affine, Network, Node, Placement, Relu

from .test_onnx_meaning import READ, W, stored

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

# A Neg that is taken for a ReLU.
MISREAD = replace(
    read.OPERATORS["Neg"], flow=lambda call, build: build.emit(call.name, Relu(), call.flow())
)


def test_a_reading_that_differs_is_refused_by_the_node(tmp_path, monkeypatch):
    """The reader is made to err in one operator: the independent evaluation names the node."""
    monkeypatch.setitem(read.OPERATORS, "Neg", MISREAD)
    nodes = [
        ("MatMul", ["x", "W"], "h"),
        ("Neg", ["h"], "n", {"name": "wrong"}),
        ("Relu", ["n"], "y", {"name": "last"}),
    ]
    path = stored(tmp_path, nodes, [1, 3], {"W": W})
    with pytest.raises(
        UnsupportedError, match=r"node 'wrong' \(Neg\): onnxruntime gives .* was read"
    ):
        load(path)
    monkeypatch.setitem(read.OPERATORS, "Neg", read.OPERATORS["Identity"])
    with pytest.raises(UnsupportedError, match="another function"):
        load(path)


def test_a_shape_that_differs_is_refused_by_the_node(tmp_path, monkeypatch):
    monkeypatch.setitem(read.OPERATORS, "Expand", read.OPERATORS["Dropout"])
    path = stored(tmp_path, [("Expand", ["x", "a"], "y")], [1, 3], {"a": np.array([2, 3])})
    with pytest.raises(
        UnsupportedError, match=r"'y' .* shape \(1, 3\), but ONNX's rules give \(2, 3\)"
    ):
        load(path)


def test_the_reference_stands_in_for_onnxruntime(tmp_path, monkeypatch):
    import sys

    nodes, shape, constants, _ = READ["nodes out of order"]
    path = stored(tmp_path, nodes, shape, constants)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert load(path).maps == ((3, 3),)
    monkeypatch.setitem(read.OPERATORS, "Relu", read.OPERATORS["Identity"])
    with pytest.raises(UnsupportedError, match="ONNX's reference gives"):
        load(path)


@pytest.mark.parametrize("absent", [False, True])
def test_large_weights_are_compared_too(absent, tmp_path, monkeypatch):
    """Beyond a megabyte a tensor is held once, and matrices are followed some rows at a time."""
    import sys

    from reconstruct.formats.onnx import linear

    wide = np.random.default_rng(1).normal(size=(600, 2000)).astype(np.float32)
    path = stored(tmp_path, [("MatMul", ["x", "W"], "y")], [1, 600], {"W": wide})
    if absent:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    np.testing.assert_array_equal(load(path).nodes[0].op.weight, wide.T)
    wrong = wide.copy()
    wrong[599, 1999] += 1
    monkeypatch.setattr(linear, "_flat_map", lambda x, w, *, from_right: wrong.T)
    with pytest.raises(UnsupportedError, match="another function"):
        load(path)


def test_vast_values_are_compared_at_one_point():
    """A small file may ask for 2^26 values by Expand: a few copies of them have to do."""
    size = 2**24 + 1
    wide = Network(1, (Node("y", Placement(np.zeros(size, np.int64), 1), ("x",)),), "y", "x")
    assert len(points(wide, b"seed")) == 1


@pytest.mark.parametrize("absent", [False, True])
def test_values_of_vast_models_go_on_from_session_to_session(absent, tmp_path, monkeypatch):
    """One value at a time, each from those that are known: no node is evaluated twice, and one that
    is misread far behind is named."""
    import sys

    limits = replace(agreement.EFFORT, held=1)
    monkeypatch.setattr(agreement, "EFFORT", limits)
    if absent:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    asked = []
    plain = agreement._Evaluator._behind

    def behind(self, names):
        found = plain(self, names)
        asked.extend(node.output[0] for node in found[0] if len(names) == 1)
        return found

    monkeypatch.setattr(agreement._Evaluator, "_behind", behind)
    nodes = [
        ("MatMul", ["x", "W"], "h"),
        ("Relu", ["h"], "r"),
        ("MatMul", ["r", "W"], "s"),
        ("Add", ["s", "h"], "t"),  # what was known long before goes on, too
        ("Neg", ["t"], "y", {"name": "last"}),
    ]
    path = stored(tmp_path, nodes, [1, 3], {"W": W})
    assert load(path).metadata["compared"]["values"] == 5
    assert set(asked) == {"h", "r", "s", "t", "y"} and asked.count("h") <= 2
    monkeypatch.setitem(read.OPERATORS, "Neg", MISREAD)
    with pytest.raises(UnsupportedError, match=r"node 'last' \(Neg\)"):
        load(path)


def test_the_same_numbers_in_another_shape_are_another_value():
    """A Reshape to 1 × 2 that another program reads as one to 2 × 1."""
    model = SimpleNamespace(nodes=[])
    reading = SimpleNamespace(flows={"y": Flow("y", (1, 2))}, folded={}, model=model)
    step = Followed("y", np.zeros((1, 2)), np.zeros((1, 2)), np.ones(1, bool))
    with pytest.raises(UnsupportedError, match=r"gives shape \(2, 1\) where \(1, 2\) was read"):
        _check_value(reading, SimpleNamespace(name="another"), "y", step, [np.zeros((2, 1))])


def test_frozen_weights_of_any_size_are_read_back(tmp_path, monkeypatch) -> None:
    """A tensor may be as large as what the file holds of it: what `run` writes, it reads."""
    weight = np.random.default_rng(0).standard_normal((300, 300), dtype=np.float32)
    path = tmp_path / "wide.onnx"
    save(Network(300, (Node("a", Affine(weight), ("input",)),), "a"), path, dtype=np.float64)
    monkeypatch.setenv("RECONSTRUCT_READ_LIMIT", str(64 * 300 * 299))
    assert np.array_equal(load(path).node("a").op.weight, weight)
