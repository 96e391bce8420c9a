"""Convolutions from the command line, end to end: rebuilt, certified, accepted by the checker."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reconstruct.formats import save
from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Geometry,
    Network,
    Node,
    Norm,
    Relu,
    SumPool,
)

ort = pytest.importorskip("onnxruntime")


def small(groups: int = 1) -> Network:
    """Two convolutions (the second one with stride 2), a sum over the image and a dense map."""
    rng = np.random.default_rng(6)
    one = Convolution(
        rng.normal(size=(4, 2 // groups, 3, 3)),
        Geometry(2, 4, 4, (3, 3), (1, 1), (1, 1, 1, 1)),
        rng.normal(size=4),
        groups,
    )
    two = Convolution(
        rng.normal(size=(4, 4 // groups, 2, 2)),
        Geometry(4, 4, 4, (2, 2), (2, 2)),
        rng.normal(size=4),
        groups,
    )
    nodes = (
        Node("a", one, ("x",)),
        Node("r", Relu(), ("a",)),
        Node("b", two, ("r",)),
        Node("q", Relu(), ("b",)),
        Node("s", SumPool(Geometry(4, 2, 2, (2, 2))), ("q",)),
        Node("o", Affine(rng.normal(size=(2, 4)), [0.5, -0.5]), ("s",)),
    )
    return Network(32, nodes, "o", "x")


@pytest.fixture
def rebuild(cli, tmp_path):
    """Run with these words, have the certificate checked, and meet the file in onnxruntime."""

    def run(target: Network, *words):
        save(target, tmp_path / "t.npz")
        out = tmp_path / "out"
        given = ("--domain", "-0.5,0.5", "--samples", 20, "--quiet")
        code, stdout, stderr = cli("run", tmp_path / "t.npz", "-o", out, *given, *words)
        assert code == 0 and stdout.startswith("CERTIFIED"), stdout + stderr
        code, stdout, stderr = cli("check", out)
        assert code == 0 and stdout.startswith("ACCEPTED"), stdout + stderr
        x = np.random.default_rng(0).uniform(-0.5, 0.5, (10, target.size_in))
        session = ort.InferenceSession(out / "network.onnx", providers=["CPUExecutionProvider"])
        (given,) = session.get_inputs()
        (answer,) = session.run(None, {given.name: x.reshape(10, *given.shape[1:])})
        assert np.abs(answer - target(x)).max() <= 1e-8
        return json.loads((out / "report.json").read_text())

    return run


def test_the_ratio_for_a_float32_error(rebuild):
    report = rebuild(small(), "--ratio", "auto", "--float32-error", 1e-2)
    assert report["frozen"]["ratio"] == 1.05 and len(report["layers"]) == 3


@pytest.mark.parametrize("groups", [1, 2])
def test_the_exact_solver_solves_for_the_kernels(rebuild, groups):
    kernel = np.random.default_rng(6).normal(size=(2, 2 // groups, 2, 2))
    one = Convolution(kernel, Geometry(2, 3, 3, (2, 2)), [0.5, -1.0], groups)
    halved = Norm([0.5, 3.0], [0.25, 0.0], [-1.0, 0.1], [3.75, 0.0], 0.25, 4)  # roots 2 and 1/2
    nodes = (Node("a", one, ("x",)), Node("n", halved, ("a",)), Node("r", Relu(), ("n",)))
    report = rebuild(Network(18, nodes, "r", "x"), "--solver", "exact")
    assert [row["solver"] for row in report["layers"]] == ["exact"] * groups
    assert report["certificate"]["exact_identity"] is True


def test_a_stack_of_frozen_convolutions(rebuild):
    """Biases and shifts are those of channels, wherever on the image they are added."""
    report = rebuild(small(), "--construction", "stacked", "--layers", 3, "--ratio", 1.6)
    assert len(report["layers"]) == 3


def test_patches_enter_a_deep_site_block_by_block(rebuild):
    """A convolution, and a shortcut beside it that looks at the same image."""
    rng = np.random.default_rng(1)
    one = Convolution(rng.normal(size=(2, 2, 2, 2)), Geometry(2, 3, 3, (2, 2)), [0.5, -1.0])
    two = Convolution(rng.normal(size=(2, 2, 1, 1)), Geometry(2, 2, 2, (1, 1)))
    side = Convolution(rng.normal(size=(2, 2, 2, 2)), Geometry(2, 3, 3, (2, 2)))
    nodes = (
        Node("a", one, ("x",)),
        Node("r", Relu(), ("a",)),
        Node("b", two, ("r",)),
        Node("s", side, ("x",)),
        Node("o", Add(), ("b", "s")),
    )
    report = rebuild(Network(18, nodes, "o", "x"), "--construction", "deep", "--block", 3)
    assert [row["index"] for row in report["layers"]] == [1, 1, 1, 2, 3, 3, 3]


def test_each_group_has_factors_of_its_own(rebuild):
    """Of the two groups one has rank 1 and the other 2: both get layers of two channels."""
    rng = np.random.default_rng(1)
    kernel = rng.normal(size=(4, 1, 2, 2))
    kernel[1] = 2 * kernel[0]
    one = Convolution(kernel, Geometry(2, 3, 3, (2, 2)), rng.normal(size=4), 2)
    nodes = (Node("a", one, ("x",)), Node("r", Relu(), ("a",)))
    report = rebuild(Network(18, nodes, "r", "x"), "--construction", "factored")
    assert [(row["rows"], row["cols"]) for row in report["layers"]] == [(2, 4), (2, 2)] * 2


@pytest.mark.parametrize("construction", ["deep", "stacked"])
def test_each_group_is_a_chain_of_its_own(rebuild, construction):
    report = rebuild(small(2), "--construction", construction)
    assert [row["index"] for row in report["layers"]].count(2) == 2


def test_convolutions_of_one_position(rebuild):
    """Each kernel sees a part of the image, or a group of the channels, at a single place."""
    rng = np.random.default_rng(0)
    one = Convolution(rng.normal(size=(4, 1, 2, 2)), Geometry(1, 3, 3, (2, 2), (2, 2)))
    two = Convolution(rng.normal(size=(2, 2, 1, 1)), Geometry(4, 1, 1, (1, 1)), None, 2)
    nodes = (Node("a", one, ("x",)), Node("r", Relu(), ("a",)), Node("b", two, ("r",)))
    assert len(rebuild(Network(9, nodes, "b", "x"))["layers"]) == 3
