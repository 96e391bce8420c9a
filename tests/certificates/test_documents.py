"""What a certificate's document pins: honest claims, bytes, places, data files and headers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import check
from reconstruct.certificates import Verdict, certify
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.cli import main
from reconstruct.errors import InputError
from reconstruct.networks import (
    Activation,
    Add,
    Affine,
    Box,
    Clip,
    Elu,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
)


def normed(weight: float, op: Activation, norm: Norm | Scaling) -> Network:
    nodes = (
        Node("a", Affine([[1.0, 2.0], [3.0, -1.0]]), ("input",)),
        Node("n", norm, ("a",)),
        Node("r", op, ("n",)),
        Node("o", Affine([[1.0, weight]]), ("r",)),
    )
    return Network(2, nodes, "o")


ODD = [
    (Relu(), Norm([1.0, 3.0], [0.0, 1.0], [0.0, 0.5], [4.0, 4.0], 0.0)),
    (Relu(), Norm([1.0, 3.0], [0.0, 1.0], [0.0, 0.5], [2.0, 0.7], 1e-5)),
    (Elu(), Norm([1.0, 3.0], [0.0, 1.0], [0.0, 0.5], [2.0, 0.7], 1e-5)),
    (Elu(0.3), Scaling([1.0, 2.0], [3.0, 7.0], [0.1, 0.0])),
    (Clip(0.25, 6.0), Scaling([1.0, 2.0], [3.0, 7.0], [0.1, 0.0])),
]


@pytest.mark.parametrize(("op", "norm"), ODD)
@pytest.mark.parametrize("weight", [1.0, 1.1])
def test_what_is_honestly_claimed_can_be_checked(tmp_path, op, norm, weight) -> None:
    for name, factor in (("a", 1.0), ("b", weight)):
        rc.save(normed(factor, op, norm), tmp_path / f"{name}.npz", dtype=None)
    target, candidate = (rc.load(tmp_path / f"{name}.npz") for name in "ab")
    found = certify(target, candidate, domain=Box(-1.0, 1.0), time_limit=20)
    assert found.verdict == ("certified" if weight == 1.0 else "refuted")
    write_certificate(
        tmp_path / "certificate.json",
        found,
        target=Source(target, tmp_path / "a.npz"),
        candidate=Source(candidate, tmp_path / "b.npz"),
    )
    report = check(tmp_path)
    assert report.accepted, report.reason


def documented(tmp_path: Path, target: Source, candidate: Source) -> dict:
    found = certify(target.network, candidate.network, domain=Box(-1.0, 1.0), time_limit=20)
    out = tmp_path / "out"
    out.mkdir()
    place = out / "certificate.json"
    write_certificate(place, found, target=target, candidate=candidate)
    return json.loads(place.read_text(encoding="utf-8"))


def test_a_file_that_is_replaced_after_it_was_read_is_not_certified(tmp_path) -> None:
    rng = np.random.default_rng(0)
    first, last, order = rng.normal(size=(8, 3)), rng.normal(size=(1, 8)), rng.permutation(8)
    np.savez(tmp_path / "a.npz", W1=first, W2=last)
    np.savez(tmp_path / "b.npz", W1=first[order], W2=last[:, order])
    np.savez(tmp_path / "evil.npz", W1=first, W2=-5 * last)
    target, candidate = (rc.load(tmp_path / name) for name in ("a.npz", "b.npz"))
    os.replace(tmp_path / "evil.npz", tmp_path / "b.npz")
    sources = (Source(target, tmp_path / "a.npz"), Source(candidate, tmp_path / "b.npz"))
    document = documented(tmp_path, *sources)
    assert document["candidate"]["sha256"] == candidate.metadata["sha256"]
    assert document["candidate"]["sha256"] != rc.load(tmp_path / "b.npz").metadata["sha256"]
    report = check(tmp_path / "out")
    assert not report.accepted and report.field == "candidate.sha256"


def test_paths_are_told_from_the_certificate_and_never_from_the_root(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", W1=np.eye(2))
    network = rc.load(tmp_path / "a.npz")
    source = Source(network, tmp_path / "a.npz")
    document = documented(tmp_path, source, source)
    assert document["target"]["file"] == "a.npz" and document["target"]["path"] == "../a.npz"
    assert str(tmp_path) not in json.dumps(document)
    assert check(tmp_path / "out").accepted
    moved = tmp_path / "elsewhere"
    os.rename(tmp_path / "out", moved)
    assert check(moved).accepted


def test_a_network_without_a_file_has_no_certificate_file(tmp_path) -> None:
    network = Network.mlp([np.eye(2)])
    found = certify(network, network, domain=Box(-1.0, 1.0))
    with pytest.raises(InputError, match="was not read from a file; save it and load it first"):
        write_certificate(
            tmp_path / "c.json", found, target=Source(network), candidate=Source(network)
        )


def test_sums_are_cut_like_activations() -> None:
    """A sum is compared as a whole, whatever the order of its terms."""

    def net(inputs: tuple[str, str]) -> Network:
        nodes = (
            Node("a", Affine([[1.0, 2.0]]), ("input",)),
            Node("b", Affine([[0.5, -1.0]]), ("input",)),
            Node("sum", Add(), inputs),
            Node("r", Relu(), ("sum",)),
        )
        return Network(2, nodes, "r")

    certificate = certify(net(("a", "b")), net(("b", "a")), domain=Box(-1.0, 1.0))
    assert certificate.verdict is Verdict.CERTIFIED
    assert certificate.alignment == (("sum", "sum"), ("r", "r"))


def test_weights_in_a_file_of_their_own_are_part_of_what_is_certified(tmp_path) -> None:
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    weights = {"W": rng.normal(size=(3, 8)), "V": rng.normal(size=(8, 1))}
    tensors = []
    for name, weight in weights.items():
        stored = weight.astype(np.float32)
        (tmp_path / f"{name}.bin").write_bytes(stored.tobytes())
        tensor = onnx.TensorProto(name=name, data_type=1, dims=stored.shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{name}.bin")
        tensors.append(tensor)
    make = onnx.helper
    nodes = [
        make.make_node("MatMul", ["x", "W"], ["h"]),
        make.make_node("Relu", ["h"], ["r"]),
        make.make_node("MatMul", ["r", "V"], ["y"]),
    ]
    ends = [make.make_tensor_value_info(n, 1, [1, k]) for n, k in (("x", 3), ("y", 1))]
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 15)], ir_version=8)
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    network = rc.load(tmp_path / "a.onnx")
    source = Source(network, tmp_path / "a.onnx")
    document = documented(tmp_path, source, source)
    assert set(document["target"]["data_sha256"]) == {"V.bin", "W.bin"}
    assert check(tmp_path / "out").accepted
    (tmp_path / "V.bin").write_bytes((-9 * weights["V"]).astype(np.float32).tobytes())
    report = check(tmp_path / "out")
    assert not report.accepted and report.field == "target.data_sha256"


NNET = """// a network with a header
1,2,1,2,
2,1,
0,
-1.0,-1.0,
1.0,1.0,
0.5,0.25,3.0,
2.0,4.0,8.0,
1.0,2.0,
0.5,
"""


@pytest.mark.parametrize("header", [False, True])
def test_a_header_that_is_part_of_the_function_is_part_of_the_claim(tmp_path, header) -> None:
    (tmp_path / "a.nnet").write_text(NNET)
    files = [str(tmp_path / "a.nnet")] * 2
    words = ["verify", *files, "--domain=-1,1", "--quiet", "-o", str(tmp_path / "out")]
    assert main([*words, *(["--nnet-header"] if header else [])]) == 0
    document = json.loads((tmp_path / "out" / "certificate.json").read_text())
    for side in ("target", "candidate"):
        assert document[side].get("nnet_header", False) is header
    assert check(tmp_path / "out").accepted
