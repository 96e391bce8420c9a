"""`reach`: a lower bound that no norms pass, its certificate, and what is refused."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates.reading import digest
from reconstruct.cli import main
from reconstruct.khatri_rao.converse import expressible, lower_bound
from reconstruct.networks import Affine, LeakyRelu, Network, Node, Norm, Relu

ONE = (Fraction(1), Fraction(1))


def site(M1, M2, hidden=None, last=None, activation=None):
    """linear, norm, activation, linear, norm; the norms are neutral unless they are given."""
    ops = (
        Affine(M1),
        hidden or Norm.neutral(len(M1)),
        activation or Relu(),
        Affine(M2),
        last or Norm.neutral(len(M2)),
    )
    names = ["input", "a", "n", "h", "b", "out"]
    nodes = (Node(names[i + 1], op, (names[i],)) for i, op in enumerate(ops))
    return Network(M1.shape[1], tuple(nodes), "out")


def drawn(m, k, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)), rng.normal(size=(m, n)), rng.normal(size=(m, k))


@pytest.mark.parametrize(("m", "k"), [(1, 4), (2, 3), (4, 4)])
def test_one_unit_short_has_a_positive_bound_and_enough_have_none(m, k):
    M1, M2, W = drawn(m, k, m * k - 1)
    target = rc.Network.mlp([W])
    assert rc.reach(site(M1, M2), target, rc.Box(-1, 2)).bound > 0
    M1, M2, W = drawn(m, k, m * k)
    assert rc.reach(site(M1, M2), target, rc.Box(-1, 2)).bound == 0


def test_bound_is_the_distance_from_the_only_direction_that_is_out_of_reach():
    """Two outputs, one input, one unit: f moves along (1, 2), W = (2, -1), r = 3."""
    found = lower_bound(
        np.ones((1, 1)),
        np.array([[1.0], [2.0]]),
        [[Fraction(2)], [Fraction(-1)]],
        [Fraction(3)],
        [ONE, ONE],
    )
    # Y = (2, -1): |<Y, W>| = 5 over (2 + 1)/3
    assert found.bound == 5.0 and {abs(y) for _, _, y in found.dual} == {1, 2}


@pytest.mark.parametrize("activation", [Relu(), LeakyRelu(0.1)])
def test_no_norms_that_were_tried_pass_the_bound(activation):
    rng = np.random.default_rng(5)
    M1, M2, W = drawn(2, 2, 3, seed=1)
    target, box = rc.Network.mlp([W]), rc.Box(-1, 1)
    found = rc.reach(site(M1, M2, activation=activation), target, box)
    x = np.vstack([box.of_size(2).corners(4, rng), rng.uniform(-1, 1, (400, 2))])
    best = np.inf
    for _ in range(300):
        hidden = Norm.neutral(3).tuned(rng.normal(size=3), rng.normal(size=3) * 3)
        error = site(M1, M2, hidden=hidden, activation=activation)(x) - target(x)
        best = min(best, float(np.max(np.ptp(error, axis=0)) / 2))  # with the best shift behind
    assert 0 < found.bound <= best
    assert found.bound <= found.fitted


def test_inputs_without_width_and_the_scale_of_the_last_norm_count_as_they_are():
    M1, M2, W = drawn(2, 3, 3)
    plain = rc.reach(site(M1, M2), rc.Network.mlp([W]), rc.Box([-1, -1, 0], [1, 1, 0]))
    less = rc.reach(site(M1[:, :2], M2), rc.Network.mlp([W[:, :2]]), rc.Box(-1, 1))
    assert plain.bound == less.bound > 0
    last = Norm([2.0, -0.5], [0, 0], [1, 1], [3.0, 7.0], eps=0.25)  # roots that are irrational
    scale = np.array([[2.0], [-0.5]]) / np.sqrt([[3.25], [7.25]])
    scaled = rc.reach(site(M1, M2, last=last), rc.Network.mlp([W]), rc.Box(-1, 1))
    folded = rc.reach(site(M1, scale * M2), rc.Network.mlp([W]), rc.Box(-1, 1))
    assert scaled.bound == pytest.approx(folded.bound, rel=1e-9) and scaled.bound > 0


def test_an_update_in_the_range_is_expressed_and_one_beside_it_is_not():
    M1, M2, W = drawn(3, 4, 7)
    inside = (M2 * np.arange(1.0, 8.0)) @ M1
    assert expressible(M1, M2, inside) < 1e-12
    K = np.column_stack([np.outer(M2[:, i], M1[i]).ravel() for i in range(7)])
    outside = W.ravel() - K @ np.linalg.lstsq(K, W.ravel(), rcond=None)[0]
    assert expressible(M1, M2, outside.reshape(3, 4)) == pytest.approx(1)
    share = np.linalg.norm(outside) / np.linalg.norm(W)
    found = rc.reach(
        site(M1, M2), rc.Network.mlp([inside]), rc.Box(-1, 1), update=rc.Network.mlp([inside + W])
    )
    assert found.update == pytest.approx(share) and found.random == pytest.approx((5 / 12) ** 0.5)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reach") / "out"
    M1, M2, W = drawn(3, 3, 7)
    last = Norm([1.0, 2.0, 1.0], [0, 0, 0], [0, 0, 0], [1.0, 2.0, 3.0], eps=0.0)
    two = rc.Network(
        3, (Node("a", Affine(W), ("input",)), Node("b", Affine(np.eye(3)[::-1]), ("a",))), "b"
    )
    found = rc.reach(site(M1, M2, last=last), two, rc.Box([-1, 0, 2], [1, 3, 2.5]), output=folder)
    assert found.bound > 0 and rc.check(folder).accepted
    return folder


def _unit(document):
    document["dual"][0][2] = hex(int(document["dual"][0][2], 16) + 1)


def _entry(document):
    document["dual"][0][1] = 99


def _twice(document):
    document["dual"].append(document["dual"][0])


def _bound(document):
    document["bound"] = float.fromhex(document["bound"]).__add__(1e-9).hex()


def _domain(document):
    document["domain"]["hi"][1] = (2.9).hex()


def _target(document):
    document["target"]["sha256"] = document["candidate"]["sha256"]


def _candidate(document):
    document["candidate"] = document["target"]


def _swapped(document):
    document["target"], document["candidate"] = document["candidate"], document["target"]


def _more(document):
    document["tolerance"] = "0x0.0p+0"


def _less(document):
    del document["dual"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_unit, "dual"),
        (_entry, "dual"),
        (_twice, "dual"),
        (_bound, "bound"),
        (_domain, "bound"),
        (_target, "target.sha256"),
        (_candidate, "candidate"),
        (_swapped, "target"),
        (_more, "tolerance"),
        (_less, "dual"),
    ],
)
def test_forged_certificates_are_rejected_though_signed_anew(written, change, field, tmp_path):
    document = json.loads((written / "certificate.json").read_text())
    change(document)
    document["digest"] = digest(document)
    forged = written / f"{change.__name__}.json"
    forged.write_text(json.dumps(document))
    report = rc.check(forged)
    assert (report.status.value, report.field) == ("rejected", field)


def test_a_change_that_touches_no_proof_is_noticed(written):
    document = json.loads((written / "certificate.json").read_text())
    document["bound"] = (float.fromhex(document["bound"]) / 2).hex()
    changed = written / "halved.json"
    changed.write_text(json.dumps(document))
    assert rc.check(changed).field == "digest"


def test_command_says_what_is_proved_and_the_exit_code_whether_anything_is(tmp_path, capsys):
    M1, M2, W = drawn(2, 2, 3)
    rc.save(site(M1, M2), tmp_path / "f.onnx")
    rc.save(rc.Network.mlp([W]), tmp_path / "g.npz")
    rc.save(rc.Network.mlp([W + 1]), tmp_path / "u.npz")
    words = ["reach", str(tmp_path / "f.onnx"), str(tmp_path / "g.npz"), "--domain", "-1,1"]
    tuned = ["--update", str(tmp_path / "u.npz")]
    assert main([*words, *tuned, "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "no γ, β of the hidden units" in said and "of the update" in said
    assert main(["check", str(tmp_path / "out")]) == 0
    assert "bring |f − g| below" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bound"] > 0 and report["hidden_units"] == 3 and report["equations"] == 4
    rc.save(site(*drawn(2, 2, 4)[:2]), tmp_path / "f.onnx")
    assert main([*words, "--quiet"]) == 3
    assert "nothing is excluded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("frozen", "target", "domain", "words"),
    [
        (site(*drawn(2, 2, 3)[:2]), Network.mlp([np.eye(2)] * 2), rc.Box(0, 1), "must be affine"),
        (Network.mlp([np.eye(2)] * 3), Network.mlp([np.eye(2)]), rc.Box(0, 1), "one hidden layer"),
        (site(*drawn(2, 3, 3)[:2]), Network.mlp([np.eye(2)]), rc.Box(0, 1), "2 inputs"),
        (site(*drawn(2, 2, 3)[:2]), Network.mlp([np.eye(2)]), rc.Points([[0, 0]]), "needs a box"),
        (
            site(*drawn(2, 2, 3)[:2], last=Norm([1, 0], [0, 0], [0, 0], [1, 1])),
            Network.mlp([np.eye(2)]),
            rc.Box(0, 1),
            "γ_1 is 0",
        ),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(frozen, target, domain, words):
    with pytest.raises(rc.InputError, match=words):
        rc.reach(frozen, target, domain)
