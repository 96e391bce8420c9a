"""The checker's own reader: the networks that the other one reads, by code that shares nothing."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates.checker import check
from proofs_check.certificates.command import as_text
from proofs_check.reader import NotPlain, read_plain
from reconstruct.networks import (
    Add,
    Affine,
    Clip,
    Convolution,
    Geometry,
    LeakyRelu,
    MaxPool,
    Network,
    Node,
    Norm,
    Placement,
    Relu,
    Scaling,
    Select,
    SumPool,
)
from tests.formats.models import onnx_bytes

rng = np.random.default_rng(0)


def chain(size, *ops, metadata=None):
    nodes, last = [], "input"
    for i, op in enumerate(ops):
        nodes.append(Node(f"n{i}", op, (last,)))
        last = f"n{i}"
    return Network(size, tuple(nodes), last, "input", metadata or {})


def norm(channels, positions=1):
    parts = rng.normal(size=(3, channels))
    return Norm(*parts, np.ones(channels) + rng.random(channels), 1e-5, positions)


IMAGE = Geometry(2, 4, 4, (3, 3), (1, 1), (1, 1, 1, 1))
PIXELS = Geometry(4, 4, 4, (2, 2), (2, 2))
NETWORKS = {
    "dense": chain(3, Affine(rng.normal(size=(4, 3)), rng.normal(size=4)), Relu(), norm(4)),
    "clip": chain(3, Affine(rng.normal(size=(4, 3))), Clip(0.0, 6.0), Clip(-1.0, np.inf)),
    "scaled": chain(3, Scaling([1.0, 2, 3], [3.0, 1, 7], [0.0, 1, 0]), Relu()),
    "divided": chain(3, Scaling(np.ones(3), [3.0, 1, 7]), Affine(np.eye(3))),
    "select": chain(5, Select(1, 4), Affine(rng.normal(size=(2, 3)))),
    "placed": chain(3, Placement([2, 1, 0, 0, 1, -1], 3), Affine(rng.normal(size=(2, 6)))),
    "image": chain(
        32,
        Convolution(rng.normal(size=(4, 2, 3, 3)), IMAGE, rng.normal(size=4)),
        norm(4, 16),
        Relu(),
        MaxPool(PIXELS),
        Affine(rng.normal(size=(2, 16))),
    ),
    "groups": chain(
        32,
        Convolution(rng.normal(size=(4, 1, 3, 3)), IMAGE, rng.normal(size=4), groups=2),
        Relu(),
        SumPool(PIXELS),
    ),
}
for title, window in {
    "whole": Geometry(2, 4, 4, (4, 4)),
    "columns": Geometry(2, 4, 4, (4, 1)),
    "pads": Geometry(2, 4, 4, (2, 3), (1, 2), (0, 1, 1, 1)),
}.items():
    pool = SumPool(window)
    NETWORKS[f"pool {title}"] = chain(32, Relu(), pool, Scaling(np.full(pool.shape[0], 0.5)))
NETWORKS["skip"] = Network(
    3,
    (
        Node("a", Affine(rng.normal(size=(3, 3))), ("input",)),
        Node("r", Relu(), ("a",)),
        Node("s", Add(), ("r", "input")),
    ),
    "s",
)


@pytest.mark.parametrize("suffix", [".onnx", ".npz"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_written_is_read_alike_by_both(name, dtype, suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    rc.save(NETWORKS[name], path, dtype=dtype)
    ours, theirs = read_plain(path), rc.load(path, unchecked=True)
    assert ours.same(theirs)
    assert ours.metadata["sha256"] == theirs.metadata["sha256"]


@pytest.mark.parametrize("construction", ["wide", "grouped", "deep", "factored"])
def test_what_run_writes_is_plain(construction, tmp_path):
    target = rc.Network.mlp([rng.normal(size=(3, 2)), rng.normal(size=(2, 3))])
    methods = {"wide": rc.Wide(), "deep": rc.Deep(block=1), "factored": rc.Factored()}
    methods["grouped"] = rc.Grouped(block=2)
    out = tmp_path / "out"
    rc.run(target, domain=(-1.0, 1.0), output=out, construction=methods[construction])
    for name in ("network.onnx", "network_folded.onnx"):
        assert read_plain(out / name).same(rc.load(out / name))
    assert check(out).shared == ()


def product(transposed):
    attributes = {"transB": 1} if transposed else {}
    nodes = [("Gemm", ["x", "W"], "z", attributes), ("Relu", ["z"], "y")]
    return onnx_bytes(nodes, [1, 2], {"W": np.array([[1.0, 2.0], [3.0, 4.0]])})


def test_a_file_that_the_shared_reader_misreads_is_rejected(tmp_path, monkeypatch):
    """Gemm's transB is ignored, and the second reading is switched off with it."""
    from reconstruct.formats.onnx import linear, read

    (tmp_path / "a.onnx").write_bytes(product(True))
    (tmp_path / "b.onnx").write_bytes(product(False))
    honest = rc.verify(tmp_path / "a.onnx", tmp_path / "b.onnx", domain=(-1.0, 1.0))
    assert honest.certificate.verdict.value == "refuted"
    monkeypatch.setattr(linear, "moved", lambda build, call, step, value: value)
    monkeypatch.setattr(read, "compared", lambda reading, near, unchecked: {})
    files = tmp_path / "a.onnx", tmp_path / "b.onnx"
    rc.verify(*files, domain=(-1.0, 1.0), output=tmp_path / "out")
    report = check(tmp_path / "out")
    assert not report.accepted


def test_everything_else_is_read_by_the_shared_reader_and_said(tmp_path):
    for name in ("a", "b"):
        rc.save(chain(2, Affine(np.eye(2)), LeakyRelu(0.1)), tmp_path / f"{name}.onnx")
    with pytest.raises(NotPlain):
        read_plain(tmp_path / "a.onnx")
    files = tmp_path / "a.onnx", tmp_path / "b.onnx"
    rc.verify(*files, domain=(-1.0, 1.0), output=tmp_path / "out")
    report = check(tmp_path / "out")
    assert report.shared == ("target", "candidate")
    assert "target and candidate read by the shared reader" in as_text(report)


def test_values_that_no_node_makes_are_left_to_the_shared_reader(tmp_path):
    (tmp_path / "a.onnx").write_bytes(onnx_bytes([("Relu", ["nobody"], "y")], [1, 2]))
    with pytest.raises(NotPlain, match="no node makes"):
        read_plain(tmp_path / "a.onnx")


@pytest.mark.parametrize("damage", ["locked", "deflated"])
def test_archives_that_cannot_be_unpacked_are_left_to_the_shared_reader(damage, tmp_path):
    """A flag that says "encrypted", or compressed bytes that are none: no crash."""
    place = tmp_path / "a.npz"
    np.savez_compressed(place, W1=np.eye(3))
    content = bytearray(place.read_bytes())
    entry = content.index(b"PK\x01\x02")
    if damage == "locked":
        content[6] |= 1
        content[entry + 8] |= 1
    else:
        content[50:60] = b"\xff" * 10
    place.write_bytes(content)
    with pytest.raises(NotPlain):
        read_plain(place)


def test_a_reading_that_nothing_confirms_is_said_in_the_acceptance(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    nodes = [("Softplus", ["x"], "s"), ("Add", ["s", "big"], "b"), ("Mul", ["b", "none"], "n")]
    nodes.append(("Add", ["s", "n"], "y"))
    constants = {"big": np.full((1, 2), 3.4028235e38), "none": np.zeros((1, 2))}
    path = tmp_path / "a.onnx"
    path.write_bytes(onnx_bytes(nodes, [1, 2], constants, dtype=np.float32))
    monkeypatch.setenv("RECONSTRUCT_UNCHECKED_READING", "1")
    rc.verify(path, path, domain=(-1.0, 1.0), output=tmp_path / "out", samples=20)
    assert "candidate (not compared with another program) read by the" in as_text(
        check(tmp_path / "out")
    )
    monkeypatch.delenv("RECONSTRUCT_UNCHECKED_READING")
    assert "may overflow wherever the model was tried" in str(check(tmp_path / "out"))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_that_cannot_be_unpacked_are_left_to_the_other_reader(tmp_path, compression):
    """And are refused there in one short sentence."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        stream = io.BytesIO()
        np.save(stream, np.eye(30))
        archive.writestr("W1.npy", stream.getvalue())
    content = bytearray(path.read_bytes())
    content[45:70] = b"\xff" * 25
    path.write_bytes(content)
    with pytest.raises(NotPlain):
        read_plain(path)
    with pytest.raises(rc.InputError) as refused:
        rc.load(path)
    assert len(str(refused.value)) < 400
