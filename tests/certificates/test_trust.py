"""What users may bring: pairs and files that once led to a false, lost or misleading verdict."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import reconstruct as rc
from proofs_check.certificates import check
from reconstruct.bounds import Crown, reach
from reconstruct.certificates import Rigor, Verdict, certify
from reconstruct.certificates import conclude as concluding
from reconstruct.certificates.alignment import Alignment, alignments, by_values
from reconstruct.certificates.conclude import conclude
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.identity import prove_identity
from reconstruct.cli import main
from reconstruct.errors import InputError
from reconstruct.networks import (
    Activation,
    Add,
    Affine,
    Box,
    Clip,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
)
from reconstruct.refutation.exact_point import MOST_BITS, enclose, evaluate_exact

HUGE = 1.7e308


def bend(op: Activation, weight: object) -> Network:
    """One map, one activation, one map, all of one unit."""
    nodes = (
        Node("a", Affine(weight), ("input",)),
        Node("r", op, ("a",)),
        Node("o", Affine([[1.0]]), ("r",)),
    )
    return Network(np.shape(weight)[1], nodes, "o")


def chain(length: int, *, relu: bool, last: float = 0.0) -> Network:
    """Maps in a row, each a small shear, with or without ReLUs between them."""
    nodes, before = [], "input"
    for i in range(length):
        bias = [0.0, last if i == length - 1 else 0.125]
        nodes.append(Node(f"a{i}", Affine([[1.0, 2.0**-10], [0.0, 1.0]], bias), (before,)))
        before = f"a{i}"
        if relu:
            nodes.append(Node(f"r{i}", Relu(), (before,)))
            before = f"r{i}"
    return Network(2, tuple(nodes), before)


# --- alignment ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [False, True])
def test_activations_of_different_kinds_are_never_paired(dense) -> None:
    """z = 1.7e308·(x1 − x2) overflows at every sample, though each value is finite."""
    row = [[HUGE, -HUGE] * (16 if dense else 1)]
    weight = row if dense else sparse.csr_array(row)
    target, candidate = bend(Clip(-1.0, 1.0), weight), bend(Clip(-500.0, 500.0), weight)
    box = Box(2.0, 3.0).of_size(target.size_in)
    assert all(not found.pairs for found in alignments(target, candidate, box))
    certificate = certify(target, candidate, domain=box, time_limit=5)
    assert certificate.verdict is Verdict.REFUTED and certificate.rigor is Rigor.EXACT
    assert certificate.witness.difference > 499 - 1 - Fraction(1, 1000)


def test_values_that_are_no_numbers_pair_nothing() -> None:
    weight = sparse.csr_array([[HUGE, -HUGE]])
    target, candidate = bend(Relu(), weight), bend(Relu(), weight)
    renamed = Network(
        2,
        (
            Node("a", candidate.node("a").op, ("input",)),
            Node("s", Relu(), ("a",)),
            Node("o", candidate.node("o").op, ("s",)),
        ),
        "o",
    )
    assert by_values(target, renamed, Box(2.0, 3.0).of_size(2)) == ()


@pytest.mark.parametrize("proof", ["rigorous", "exact"])
def test_no_proof_accepts_a_pair_of_different_operations(proof) -> None:
    target, candidate = bend(Relu(), [[1.0]]), bend(LeakyRelu(0.5), [[1.0]])
    known = reach(target, Box(-1.0, 1.0), Crown())
    pairs = Alignment((("r", "r"),))
    with pytest.raises(InputError, match=r"LeakyRelu\(slope=0.5\) of 1; leave the pair out"):
        if proof == "rigorous":
            bound_layers(target, candidate, known, pairs)
        else:
            prove_identity(target, candidate, {}, known, pairs)


def test_equal_graphs_are_aligned_without_a_look_at_values() -> None:
    """Names differ and units are permuted: the pairs come from the structure, the proof decides."""
    rng = np.random.default_rng(0)
    target = Network.mlp([rng.normal(size=(4, 2)), rng.normal(size=(1, 4))])
    other = Network(
        2,
        (
            Node("u", target.nodes[0].op, ("input",)),
            Node("v", Relu(), ("u",)),
            Node("w", target.nodes[2].op, ("v",)),
        ),
        "w",
    )
    first = next(alignments(target, other, Box(-1.0, 1.0).of_size(2)))
    assert first.origin == "structure" and first.pairs == (("act1", "v"),)
    assert certify(target, other, domain=Box(-1.0, 1.0)).bound < 1e-250


# --- names, chains, overflow ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["negated", "difference", "input.x", "target.negated"])
def test_no_name_of_a_node_is_magic(name) -> None:
    rng = np.random.default_rng(0)
    first, last = rng.normal(size=(6, 2)), rng.normal(size=(1, 6))
    order = rng.permutation(6)
    nodes = (
        Node("a", Affine(first), ("input",)),
        Node(name, Relu(), ("a",)),
        Node("o", Affine(last), (name,)),
    )
    permuted = Network.mlp([first[order], last[:, order]])
    certificate = certify(Network(2, nodes, "o"), permuted, domain=Box(-1.0, 1.0), time_limit=30)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.method == "general"


@pytest.mark.parametrize("relu", [False, True])
def test_long_chains_are_composed_without_recursion(relu) -> None:
    target, candidate = chain(400, relu=relu), chain(400, relu=relu, last=2.0**-20)
    box = Box(0.0, 1.0).of_size(2)
    certificate = certify(target, candidate, domain=box, bounds=rc.Interval(), tolerance=2.0**-19)
    assert certificate.verdict is Verdict.CERTIFIED
    assert 2.0**-20 <= certificate.bound <= 2.0**-20 * (1 + 2.0**-9)


def test_a_time_limit_ends_every_proof() -> None:
    """With no time at all the layered proof says so, and claims nothing."""
    target, candidate = chain(60, relu=True), chain(60, relu=True, last=2.0**-30)
    box = Box(-1.0, 1.0).of_size(2)
    found = certify(target, candidate, domain=box, tolerance=1e-3, time_limit=1e-9)
    assert found.method != "layered" and not found.segments and found.float64_bound is None
    assert "layer by layer: the time was over" in found.tried


def test_values_of_a_long_chain_stay_short() -> None:
    """Exact as long as that is short; an interval of rationals from there on."""
    steps = [Node("n0", Affine([[1 / 3]]), ("input",))]
    steps += [Node(f"n{i}", Affine([[1 / 3]], [1.0]), (f"n{i - 1}",)) for i in range(1, 400)]
    network = Network(1, tuple(steps), "n399")
    ((low, high),) = enclose(network, [1.0])
    assert 0 < high - low < Fraction(1, 2**200)
    assert high.denominator.bit_length() <= MOST_BITS + 1
    with pytest.raises(InputError, match="an exact value needs"):
        evaluate_exact(network, [1.0])


def test_a_difference_beyond_the_floats_is_refuted(tmp_path, capsys) -> None:
    np.savez(tmp_path / "a.npz", W1=[[1e200]], W2=[[1e200]])
    np.savez(tmp_path / "b.npz", W1=[[1e200]], W2=[[-1e200]])
    files = str(tmp_path / "a.npz"), str(tmp_path / "b.npz")
    out = tmp_path / "out"
    assert main(["verify", *files, "--domain=0,1", "--quiet", "-o", str(out)]) == 1
    assert "REFUTED (exact)" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report["certificate"]["witness"]["difference"] == np.finfo(float).max
    assert check(out).accepted


def test_no_bound_is_stated_where_the_difference_overflows() -> None:
    """|f − g| reaches 2e400 on the box: no float is a bound."""
    first, second = (Network.mlp([[[1e200]], [[w]]]) for w in (1e200, -1e200))
    found = certify(first, second, domain=Box(0.0, 1.0), tolerance=1e300, bound_anyway=True)
    assert found.verdict is Verdict.REFUTED and found.bound is None


# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("low", [1.1, 1.0, -3.0, 1e30])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_clip_that_does_not_hold_zero_is_covered_by_the_float_bounds(low, kind) -> None:
    rng = np.random.default_rng(0)
    last = rng.normal(size=(1, 50)).astype(np.float32).astype(float) * 1000
    ends = sorted((low, 2 * low))
    nodes = (
        Node("a", Affine(np.full((50, 1), 1e-20)), ("input",)),
        Node("c", Clip(*ends), ("a",)),
        Node("o", Affine(last), ("c",)),
    )
    network = Network(1, nodes, "o")
    certificate = certify(network, network, domain=Box(-1.0, 1.0))
    bound = getattr(certificate, f"{np.dtype(kind).name}_bound")
    truth = evaluate_exact(network, [0.5])[0]
    hidden = network.values(np.array([[0.5]], dtype=kind), dtype=kind)["c"][0]
    terms = (last.astype(kind)[0] * hidden).tolist()
    for order in (terms, terms[::-1], sorted(terms), sorted(terms, key=abs)):
        total = kind(0)
        for term in order:
            total = kind(total + kind(term))
        assert abs(Fraction(float(total)) - truth) <= Fraction(bound)


def test_verdicts_are_words_and_only_a_certified_one_is_true() -> None:
    first, second = (Network.mlp([[[w]]]) for w in (1.0, 2.0))
    good = certify(first, first, domain=Box(-1.0, 1.0))
    bad = certify(first, second, domain=Box(-1.0, 1.0))
    assert good.verdict == "certified" and bad.verdict == "refuted" and good.rigor == "rigorous"
    assert good and not bad
    assert json.dumps({"verdict": good.verdict}) == '{"verdict": "certified"}'


# --- one conclusion -------------------------------------------------------------------------------


def test_run_and_verify_search_once(monkeypatch) -> None:
    calls = []

    def counted(*args, **options):
        calls.append(options["samples"])
        return real(*args, **options)

    real = concluding.search
    monkeypatch.setattr(concluding, "search", counted)
    monkeypatch.setattr("reconstruct.refutation.search.search", counted)
    rng = np.random.default_rng(1)
    first, second = (Network.mlp([rng.normal(size=(2, 2))]) for _ in range(2))
    found = conclude(first, second, domain=Box(-1.0, 1.0), tolerance=1e3, samples=50)
    assert calls == [50] and found.search.samples == 50
    assert found.certificate.verdict is Verdict.CERTIFIED


def test_what_is_certified_is_measured_and_not_searched() -> None:
    net = Network.mlp([np.eye(2), np.ones((1, 2))])
    proved = conclude(net, net, domain=Box(-1.0, 1.0))
    assert proved.certificate.verdict is Verdict.CERTIFIED
    assert proved.search.samples == proved.search.evaluations == 1000
    other = Network.mlp([np.eye(2), 2 * np.ones((1, 2))])
    refuted = conclude(net, other, domain=Box(-1.0, 1.0))
    assert refuted.certificate.verdict is Verdict.REFUTED
    assert refuted.search.evaluations > refuted.search.samples == 10_000


# --- documents ------------------------------------------------------------------------------------


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
