"""Casts to narrower float types: the identity of real numbers, a rounding in float figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import check
from proofs_check.certificates.reading import digest
from proofs_check.reader import NotPlain, read_plain
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Affine, Cast, Convolution, Geometry, Network, Node, Relu
from reconstruct.networks.normal_form import without_casts
from tests.proofs_check.certificates.making import close

DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24}
NUMBERS = {"float16": 10, "bfloat16": 16, "float32": 1, "float64": 11}  # ONNX's


def values() -> np.ndarray:
    """Numbers of all sizes, ties between neighbours, and where types end."""
    rng = np.random.default_rng(0)
    sizes = rng.normal(size=4000) * 10.0 ** rng.uniform(-50, 45, 4000)
    ties = np.ldexp(1 + rng.integers(0, 2**12, 2000) / 2**12, rng.integers(-152, 128, 2000))
    ends = [0.0, -0.0, 65504, 65519.9, 65520, -65520, 2**-24, 1.5 * 2**-24, 2**-25, 1e-320, 1e308]
    with np.errstate(over="ignore"):
        return np.concatenate([sizes, ties, ends]).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("to", DIGITS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_casts_round_as_the_types_do(to, dtype):
    types = pytest.importorskip("ml_dtypes")
    kind = types.bfloat16 if to == "bfloat16" else np.dtype(to)
    x = values().astype(dtype)
    op = Cast(x.size, DIGITS[to])
    with np.errstate(all="ignore"):
        found, wanted = op(x[None])[0], x.astype(kind).astype(dtype)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        assert not np.any(np.abs(found - x) > op.moved(np.abs(x)))  # ∞ − ∞ is allowed to be ∞
    assert found.dtype == dtype and op.to == to
    assert np.isinf(op.moved(np.array([1e39]))).all()


@pytest.mark.parametrize("settings", [(3, 7), (0, 11), (2.0, 11), (True, 11)])
def test_casts_of_no_type_are_refused(settings):
    with pytest.raises(InputError, match="a cast needs a number of values"):
        Cast(*settings)


def pair(to: str, *, images: bool = False) -> tuple[Network, Network]:
    """A network, and the same with casts behind its activation and ahead of the output's map."""
    rng = np.random.default_rng(3)
    if images:
        first = Convolution(rng.normal(size=(3, 1, 3, 3)), Geometry(1, 4, 4, (3, 3), pads=(1,) * 4))
        last = Convolution(rng.normal(size=(2, 3, 3, 3)), Geometry(3, 4, 4, (3, 3)))
    else:
        first, last = Affine(rng.normal(size=(6, 3))), Affine(rng.normal(size=(2, 6)))
    size = first.shape[0]
    nodes = (
        Node("a", first, ("input",)),
        Node("early", Cast(size, DIGITS[to]), ("a",)),
        Node("r", Relu(), ("early",)),
        Node("late", Cast(size, DIGITS[to]), ("r",)),
        Node("end", last, ("late",)),
    )
    cast = Network(first.shape[1], nodes, "end")
    return without_casts(cast), cast


def met(target: Network, cast: Network, lo: float, hi: float) -> float:
    x = np.random.default_rng(0).uniform(lo, hi, (2000, target.size_in)).astype(np.float32)
    return float(np.abs(cast(x, dtype=np.float32).astype(np.float64) - target(x)).max())


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_float_figures_count_casts_and_claims_name_them(to, images, tmp_path):
    target, cast = pair(to, images=images)
    rc.save(target, tmp_path / "a.onnx", dtype=np.float32)
    rc.save(cast, tmp_path / "b.onnx", dtype=np.float32)
    out = tmp_path / "out"
    found = rc.verify(
        tmp_path / "a.onnx", tmp_path / "b.onnx", domain=(-1.0, 1.0), output=out, samples=50
    )
    document = json.loads((out / "certificate.json").read_text())
    figures = [float.fromhex(document[key]) for key in ("float64_bound", "float32_bound")]
    assert found.certificate.bound < 1e-9 < met(target, cast, -1, 1) < min(figures)
    assert max(figures) < 100 * met(target, cast, -1, 1)
    assert document["candidate"]["casts"] == {"early": to, "late": to}
    assert "casts" not in document["target"]
    report = check(out)
    assert report.status.value == "accepted" and not report.shared
    assert close(report, out)
    document["candidate"].pop("casts")  # a claim that does not say what it leaves out
    document["digest"] = digest(document)
    (out / "certificate.json").write_text(json.dumps(document))
    assert check(out).field == "candidate.casts"


def test_figures_below_what_casts_round_are_not_confirmed(tmp_path):
    target, cast = pair("float16")
    for network, name in ((target, "a.npz"), (cast, "b.npz")):
        rc.save(network, tmp_path / name)
    out = tmp_path / "out"
    rc.verify(tmp_path / "a.npz", tmp_path / "b.npz", domain=(-1.0, 1.0), output=out, samples=50)
    for field in ("float64_bound", "float32_bound"):
        document = json.loads((out / "certificate.json").read_text())
        document[field] = (float.fromhex(document[field]) / 4).hex()
        document["digest"] = digest(document)
        (tmp_path / "c.json").write_text(json.dumps(document))
        found = check(tmp_path / "c.json", target=tmp_path / "a.npz", candidate=tmp_path / "b.npz")
        assert found.accepted and field in found.unverified


def test_what_may_overflow_has_no_figure_and_claiming_one_is_not_verified(tmp_path):
    target, cast = pair("float16")
    for network, name in ((target, "a.npz"), (cast, "b.npz")):
        rc.save(network, tmp_path / name)
    out = tmp_path / "out"
    rc.verify(tmp_path / "a.npz", tmp_path / "b.npz", domain=(-6e4, 6e4), output=out, samples=50)
    document = json.loads((out / "certificate.json").read_text())
    assert document["float64_bound"] is None and document["float32_bound"] is None
    assert document["bound"] is not None
    document["float64_bound"] = document["bound"]
    document["digest"] = digest(document)
    (out / "certificate.json").write_text(json.dumps(document))
    assert "float64_bound" not in check(out).verified


def test_a_target_with_casts_is_rebuilt_as_a_function_of_real_numbers(tmp_path):
    _, cast = pair("bfloat16")
    rc.save(cast, tmp_path / "b.onnx", dtype=np.float32)
    outcome = rc.run(tmp_path / "b.onnx", domain=(-1.0, 1.0), output=tmp_path / "out")
    assert outcome.certificate.verdict.value == "certified"
    document = json.loads((tmp_path / "out" / "report.json").read_text())
    assert document["target"]["casts"] == {"early": "bfloat16", "late": "bfloat16"}
    error = document["error"]
    assert error["float64_max"] <= error["float64_bound"] < 1e-9 < error["target_float64_bound"]
    assert check(tmp_path / "out").status.value == "accepted"


@pytest.mark.parametrize("to", DIGITS)
@pytest.mark.parametrize(
    ("dtype", "images"), [(np.float32, False), (np.float64, False), (np.float32, True)]
)
def test_casts_are_written_and_read_again(to, dtype, images, tmp_path):
    _, cast = pair(to, images=images)
    place = tmp_path / "b.onnx"
    rc.save(cast, place, dtype=dtype)
    read = rc.load(place)
    assert [(n.name, n.op.kind, n.inputs) for n in read.nodes] == [
        (n.name, n.op.kind, n.inputs) for n in cast.nodes
    ]
    assert read.casts == cast.casts == {"early": to, "late": to}
    x = np.random.default_rng(1).normal(size=(3, cast.size_in)).astype(np.float32)
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(place.read_bytes(), providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    shaped = x.reshape(3, *entry.shape[1:]).astype(dtype)
    (theirs,) = session.run(None, {entry.name: shaped})
    unit = 2.0 ** (1 - min(DIGITS[to], 24))  # a value near a tie may round to either side
    np.testing.assert_allclose(theirs, read(x, dtype=dtype), rtol=0, atol=40 * unit)
    if to == "float32":
        with pytest.raises(NotPlain):
            read_plain(place)
    else:
        assert read_plain(place).casts == read.casts


def test_arithmetic_in_a_narrower_type_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    from tests.formats.models import onnx_bytes

    nodes = [
        ("Cast", ["x"], "h", {"to": NUMBERS["float16"]}),
        ("Neg", ["h"], "n"),  # exact in any type
        ("Cast", ["n"], "y", {"to": NUMBERS["float32"]}),
    ]
    place = tmp_path / "a.onnx"
    place.write_bytes(onnx_bytes(nodes, [1, 2], dtype=np.float32))
    assert rc.load(place).casts == {"h": "float16"}
    nodes[1] = ("LeakyRelu", ["h"], "n", {"alpha": 0.1})
    place.write_bytes(onnx_bytes(nodes, [1, 2], dtype=np.float32))
    with pytest.raises(UnsupportedError, match=r"'n' .LeakyRelu. computes in float16, narrower"):
        rc.load(place)
    nodes = [("Cast", ["x"], "h", {"to": 7}), ("Cast", ["h"], "y", {"to": 1})]
    place.write_bytes(onnx_bytes(nodes, [1, 2], dtype=np.float32))
    with pytest.raises(UnsupportedError, match="converts a value of the network to another type"):
        rc.load(place)


def test_a_misread_cast_is_noticed(tmp_path, monkeypatch):
    """bfloat16 read as float16: another program's values show it."""
    from reconstruct.formats.onnx import values

    pytest.importorskip("onnxruntime")
    _, cast = pair("bfloat16")
    rc.save(cast, tmp_path / "b.onnx", dtype=np.float32)
    rc.load(tmp_path / "b.onnx")
    monkeypatch.setitem(values.DIGITS, NUMBERS["bfloat16"], 11)
    with pytest.raises(UnsupportedError, match="so that the file would be taken for another"):
        rc.load(tmp_path / "b.onnx")


def test_torch_rounds_where_the_network_does():
    pytest.importorskip("torch")
    import torch

    _, cast = pair("float16")
    x = np.random.default_rng(2).normal(size=(5, 3))
    np.testing.assert_allclose(rc.to_torch(cast)(torch.from_numpy(x)).numpy(), cast(x), atol=1e-12)
