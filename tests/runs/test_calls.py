"""rc.run, rc.verify, rc.report and rc.rebuild mean what the commands mean; results are plain."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.formats import load, save
from reconstruct.networks import Network
from tests.constructions.targets import mlp

QUIET = {"samples": 100, "bounds": rc.Crown()}


@dataclass(frozen=True)
class Roomy(rc.Wide):
    """A construction of one's own, with a setting that has no default."""

    spare: int = field(kw_only=True)


def numbers(folder):
    with np.load(folder / "norms.npz") as kept:
        return {name: kept[name] for name in kept.files}


def test_run_is_the_command(cli, target, out, tmp_path):
    """`out` was made by the command with the same options: the same bytes come out of the call."""
    outcome = rc.run(target, tmp_path / "called", domain=(-1, 1), **QUIET)
    assert outcome.certificate.verdict == "certified"
    for name in ("network.onnx", "network_folded.onnx", "norms.npz"):
        assert (tmp_path / "called" / name).read_bytes() == (out / name).read_bytes()
    assert cli("check", tmp_path / "called")[0] == 0


def test_run_takes_a_network_of_no_file(cli, tmp_path):
    out = tmp_path / "out"
    outcome = rc.run(
        mlp([3, 4, 2], 5),
        out,
        domain=rc.Box(-1, 1),
        construction=rc.Deep(block=2),
        seed=3,
        weights="uniform",
        **QUIET,
    )
    assert outcome.report["recipe"]["construction"] == "deep"
    assert outcome.report["recipe"]["settings"]["block"] == 2
    assert (out / "target" / "target.npz").exists()
    assert cli("check", out)[0] == 0
    before = (out / "network.onnx").read_bytes()
    (out / "network.onnx").unlink()
    made = rc.rebuild(out)
    assert made.files[0] == out / "network.onnx" and made.files[0].read_bytes() == before


def test_run_tells_the_command_that_does_the_same(target, tmp_path):
    outcome = rc.run(target, tmp_path / "out", domain="-1,1", seed=4, dtype=np.float32, **QUIET)
    options = outcome.report["options"]
    assert (options["target"], options["domain"]) == (str(target), "-1,1")
    assert (options["seed"], options["dtype"], options["bounds"]) == (4, "float32", "crown")
    json.dumps(options)


def test_settings_that_are_no_options_are_told_by_a_name(target, tmp_path):
    plain = rc.run(target, tmp_path / "a", domain=(-1, 1), construction=rc.Wide(1.5), **QUIET)
    odd = rc.Wide(1.5, live_error=1e-3)
    told = rc.run(target, tmp_path / "b", domain=(-1, 1), construction=odd, **QUIET)
    assert plain.report["options"]["ratio"] == 1.5 and "frozen" not in plain.report["options"]
    assert told.report["options"]["frozen"] == "FROZEN"
    own = rc.run(target, tmp_path / "c", domain=(-1, 1), construction=Roomy(spare=2), **QUIET)
    assert own.report["options"]["frozen"] == "FROZEN"


def test_the_frozen_network_may_be_a_file_or_an_object(target, out, tmp_path):
    brought = rc.run(target, tmp_path / "a", domain=(-1, 1), frozen=out / "network.onnx", **QUIET)
    drawn = rc.draw(load(target), seed=9)
    given = rc.run(target, tmp_path / "b", domain=(-1, 1), frozen=drawn, **QUIET)
    assert brought.report["frozen"]["file"] == "network.onnx"
    assert given.report["frozen"]["seed"] == 9
    with pytest.raises(rc.InputError, match="`frozen` brings one"):
        rc.run(target, tmp_path / "c", frozen=out / "network.onnx", seed=1)


def test_data_are_shown_with_their_labels(target, tmp_path):
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3))
    labels = load(target)(x).argmax(axis=1)
    np.savez(tmp_path / "data.npz", x=x, y=labels)
    seed = np.int64(3)  # as a loop over numpy's numbers gives it
    told = rc.run(target, tmp_path / "a", domain=tmp_path / "data.npz", seed=seed).report
    assert told["inputs"]["accuracy"]["network"] == 1.0 and told["recipe"]["seed"] == 3
    plain = rc.run(target, tmp_path / "b", domain=rc.Points(x)).report
    assert plain["inputs"]["accuracy"] is None and len(plain["inputs"]["shown"]) == 5
    assert plain["options"]["domain"] == "DOMAIN.npz"


def test_verify_is_the_command(cli, target, out, tmp_path):
    other = out / "network.onnx"
    outcome = rc.verify(target, other, domain=(-1, 1), output=tmp_path / "v", samples=100)
    assert outcome.certificate.verdict == "certified" and outcome.output == tmp_path / "v"
    assert cli("check", tmp_path / "v")[0] == 0
    far = rc.verify(load(target), mlp([3, 4, 2], 1), domain="-1,1", samples=100)
    assert far.certificate.verdict == "refuted" and far.output is None
    assert far.report["verdict"] == "refuted"


def test_report_makes_the_page_again(out):
    (out / "report.html").unlink()
    path = rc.report(out)
    assert path == out / "report.html" and "certified" in path.read_text().lower()
    with pytest.raises(rc.InputError, match=r"none of that name"):
        rc.report(out / "nothing")


def test_results_are_pickled(target):
    network = load(target)
    frozen = rc.draw(network)
    result = rc.reconstruct(network, frozen, domain=(-1, 1))
    again = pickle.loads(pickle.dumps(result))
    x = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    np.testing.assert_array_equal(again.network(x), result.network(x))
    np.testing.assert_array_equal(again.margin(x), result.margin(x))
    assert dict(again.target.metadata) == dict(network.metadata)
    assert again.network.sizes == result.network.sizes and repr(again) == repr(result)
    with pytest.raises(TypeError):
        again.network.metadata["file"] = "other"
    certificate = rc.certify(network, result.network, domain=(-1, 1))
    assert pickle.loads(pickle.dumps(certificate)).bound == certificate.bound


NETWORK = mlp([3, 4, 2], 0)
WRONG = [
    (lambda: rc.draw("a.onnx"), r"target must be a Network, but is of the type str; rc.load\('a"),
    (lambda: rc.draw(NETWORK, rc.Wide), "but is the class"),
    (lambda: rc.draw(NETWORK, seed=1.5), "seed must be a whole number, but is 1.5"),
    (lambda: rc.draw(NETWORK, weights="normal"), "one of gaussian, uniform, .* but are 'normal'"),
    (lambda: rc.draw(NETWORK, activation="relu"), r"rc.Relu\(\) or .* but is the word 'relu'"),
    (lambda: rc.reconstruct(NETWORK, "a.onnx", domain=(-1, 1)), "the frozen network must be a Net"),
    (lambda: rc.reconstruct(NETWORK, rc.draw(NETWORK), domain=(-1, 1), bounds="crown"), "'crown'"),
    (lambda: rc.reconstruct(NETWORK, rc.draw(NETWORK), domain=(-1, 1), solver="cg"), "'cg'"),
    (lambda: rc.reconstruct(NETWORK, rc.draw(NETWORK), domain=(-1, 1), dtype=np.float16), "loat16"),
    (lambda: rc.reconstruct(NETWORK, rc.draw(NETWORK), domain=(-1, 1), dtype="huh"), "is huh"),
    (lambda: rc.certify(NETWORK, rc.draw(NETWORK), domain=(-1, 1)), "type Frozen; give its .netw"),
    (lambda: rc.certify(NETWORK, NETWORK, domain=(-1, 1), bounds=rc.Crown), "pass an instance"),
    (lambda: rc.save(rc.draw(NETWORK), "a.onnx"), "type Frozen; give its .network"),
    (lambda: rc.run(3, "out"), "target must be a Network, but is of the type int"),
    (lambda: rc.run(NETWORK, "out", nnet_header=True), "belongs to a .nnet file"),
    (lambda: rc.run(NETWORK, "out", samples=0), "samples must be at least 1, but is 0"),
    (lambda: rc.run(NETWORK, "out", radius=0.1), "a radius belongs to a domain made of data"),
    (lambda: rc.verify(NETWORK, None, domain=(-1, 1)), "the candidate must be a Network"),
]


@pytest.mark.parametrize(("call", "needle"), WRONG, ids=[needle for _, needle in WRONG])
def test_what_cannot_be_meant_is_a_sentence(call, needle):
    with pytest.raises(rc.InputError, match=needle):
        call()


def test_a_word_that_no_job_has_is_a_type_error():
    with pytest.raises(TypeError, match="toleranz"):
        rc.run(NETWORK, "out", toleranz=1)


FOREIGN = [
    ("a.pt", b"PK\x03\x04 archive/data.pkl", "a PyTorch file, a pickle"),
    ("a.pth", b"\x80\x02}q\x00.", r"rc\.from_torch\(model, example\)"),
    ("a", b"PK\x03\x04 archive/data.pkl", "torch.onnx.export"),
    ("a.safetensors", b"\x02\0\0\0\0\0\0\0{}", "weights without the network"),
    ("a.h5", b"\x89HDF\r\n\x1a\n", "tf2onnx"),
]


@pytest.mark.parametrize(("name", "content", "needle"), FOREIGN, ids=[f[0] for f in FOREIGN])
def test_files_of_other_programs_are_named_as_what_they_are(tmp_path, name, content, needle):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(rc.InputError, match=needle):
        rc.load(tmp_path / name)


def test_the_header_of_a_pair_is_of_the_nnet_file_alone(cli, tmp_path):
    header = "// two inputs\n1,2,1,2,\n2,1,\n0,\n-1.0,-1.0,\n1.0,1.0,\n0.5,0.0,3.0,\n2.0,1.0,4.0,\n"
    nnet = tmp_path / "a.nnet"
    nnet.write_text(header + "1.0,2.0,\n0.5,\n")
    save(rc.load(nnet, nnet_header=True), tmp_path / "b.npz", dtype=None)
    save(rc.load(nnet), tmp_path / "c.npz", dtype=None)
    where = ("--domain", "-1,1", "--samples", "100")
    assert cli("verify", nnet, tmp_path / "b.npz", *where, "--nnet-header")[0] == 0
    assert cli("verify", nnet, tmp_path / "b.npz", *where)[0] == 1
    code, _, said = cli("verify", tmp_path / "b.npz", tmp_path / "c.npz", *where, "--nnet-header")
    assert code == 2 and "but these are npz and npz files" in said


def test_a_target_with_a_wide_layer_of_its_own_is_reported(tmp_path) -> None:
    rng = np.random.default_rng(0)
    target = Network.mlp([rng.normal(size=(128, 8)), rng.normal(size=(2, 128))], None)
    found = rc.run(target, tmp_path / "out", domain=(-1, 1))
    assert found.certificate.verdict == "certified"
    rows = found.report["measurements"]["layers"]
    assert [row["name"] for row in rows] == ["act1", "layer2"]
    assert all(0 <= row["float64"] < 1e-12 for row in rows)
