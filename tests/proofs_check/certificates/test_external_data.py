"""Weights that lie in data files beside an ONNX model are part of what was certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from reconstruct.formats import Origin, load
from reconstruct.networks import Affine, Network, Node, Relu
from tests.proofs_check.certificates.making import document_of, edit, forged, write

onnx = pytest.importorskip("onnx", reason="external data are a matter of ONNX files")

W = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]], dtype=np.float32)
V = np.array([[1.0, -1.0, 2.0]], dtype=np.float32)


def model_with_data(folder: Path) -> None:
    """x ↦ V relu(W x) as a.onnx, each weight in a file of its own."""
    helper, kinds = onnx.helper, onnx.TensorProto
    tensors = []
    for name, values in (("W", W.T), ("V", V.T)):
        (folder / f"{name}.bin").write_bytes(np.ascontiguousarray(values).tobytes())
        tensor = kinds(name=name, data_type=kinds.FLOAT, dims=values.shape)
        tensor.data_location = kinds.EXTERNAL
        tensor.external_data.add(key="location", value=f"{name}.bin")
        tensors.append(tensor)
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "V"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, [1, s]) for n, s in (("x", 2), ("y", 1))]
    graph = helper.make_graph(nodes, "g", [ends[0]], [ends[1]], tensors)
    opset = [helper.make_opsetid("", 15)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    (folder / "a.onnx").write_bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A certificate that the model with data equals the same network in one file."""
    nodes = (
        Node("h", Affine(W), ("x",)),
        Node("r", Relu(), ("h",)),
        Node("y", Affine(V), ("r",)),
    )
    same = Network(2, nodes, "y", source="x")
    forged(tmp_path, same, same, ([-1.0, -1.0], [1.0, 1.0]), 1e-9, ("r",), figure=1.0)
    model_with_data(tmp_path)
    read = load(tmp_path / "a.onnx")
    origin = Origin.of(read)
    assert origin is not None and set(origin.data) == {"W.bin", "V.bin"}
    name = next(n.name for n in read.nodes if isinstance(n.op, Relu))
    document: dict[str, Any] = document_of(tmp_path)
    document["segments"][0]["candidate_node"] = name
    pair = {"candidate": origin.document(), "alignment": [["r", name]]}
    write(tmp_path, document | pair)
    return tmp_path


def test_the_model_with_its_data_is_accepted(folder: Path) -> None:
    assert check(folder).accepted, check(folder)


def test_other_weights_in_the_data_are_noticed(folder: Path) -> None:
    (folder / "V.bin").write_bytes((-9 * V.T).tobytes())
    report = check(folder)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "candidate.data_sha256")


def test_a_certificate_that_does_not_pin_the_data_is_rejected(folder: Path) -> None:
    edit(folder, "candidate", "data_sha256", value={})
    assert check(folder).field == "candidate.data_sha256"
    edit(folder, "candidate", "data_sha256", value={"V.bin": "0" * 64})
    assert check(folder).field == "candidate.data_sha256"


def test_data_that_are_not_there_are_missing(folder: Path) -> None:
    (folder / "V.bin").unlink()
    report = check(folder)
    assert (report.status, report.field) == (CheckStatus.MISSING, "candidate.data_sha256")
    assert "V.bin" in report.reason
