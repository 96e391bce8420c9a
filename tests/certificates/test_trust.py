"""What users may bring: pairs and files that once led to a false, lost or misleading verdict."""

from __future__ import annotations

import json
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import reconstruct as rc
from proofs_check.certificates import check
from reconstruct.bounds import Crown, reach
from reconstruct.certificates import Rigor, Verdict, certify
from reconstruct.certificates.alignment import Alignment, alignments, by_values
from reconstruct.certificates.certify import _Hunt, _Work, conclude
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.identity import prove_identity
from reconstruct.certificates.verdicts import PUBLISHED
from reconstruct.cli import main
from reconstruct.equivalence.witness import LIMITS, enclose, evaluate_exact
from reconstruct.errors import InputError
from reconstruct.networks import (
    Activation,
    Affine,
    Box,
    Clip,
    LeakyRelu,
    Network,
    Node,
    Relu,
)

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
            bound_layers(known, candidate, pairs)
        else:
            prove_identity(known, candidate, {}, pairs)


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


@pytest.mark.parametrize(("relu", "length"), [(False, 400), (True, 200)])
def test_long_chains_are_composed_without_recursion(relu, length) -> None:
    target, candidate = chain(length, relu=relu), chain(length, relu=relu, last=2.0**-20)
    box = Box(0.0, 1.0).of_size(2)
    certificate = certify(target, candidate, domain=box, bounds=rc.Interval(), tolerance=2.0**-19)
    assert certificate.verdict is Verdict.CERTIFIED
    assert 2.0**-20 <= certificate.bound <= 2.0**-20 * PUBLISHED * (1 + 2.0**-20)


@pytest.mark.parametrize("anyway", [False, True])
def test_what_stays_undecided_has_the_bounds_that_can_be_checked(monkeypatch, anyway) -> None:
    """A sharper bound that does not decide either does not replace the segments of a run."""
    work = _Work
    monkeypatch.setattr(work, "_probe", lambda self, tolerance: None)
    monkeypatch.setattr(work, "_search", lambda *rest: _Hunt(None, 0.0, []))
    monkeypatch.setattr(
        work,
        "_joint",
        lambda self, best, *rest, **more: (None, self._general(best, best.bound / 2)),
    )
    target, candidate = chain(3, relu=True), chain(3, relu=True, last=2.0**-20)
    box = Box(0.0, 1.0).of_size(2)
    found = certify(target, candidate, domain=box, tolerance=2.0**-30, bound_anyway=anyway)
    assert found.verdict is Verdict.UNDECIDED
    assert found.method == ("layered" if anyway else "general")
    assert bool(found.segments) is anyway


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
    assert high.denominator.bit_length() <= LIMITS.most_bits + 1
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

    concluding = sys.modules[certify.__module__]
    real = concluding.search
    monkeypatch.setattr(concluding, "search", counted)
    monkeypatch.setattr("reconstruct.equivalence.search.search", counted)
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
