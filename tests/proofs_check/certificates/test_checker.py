"""The checker: accepts what was proved, rejects every kind of tampering, and names the field."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.activations import Bend
from proofs_check.certificates.affine import Forms
from proofs_check.certificates.points import evaluate
from proofs_check.certificates.recursion import moved
from reconstruct.bounds import Adaptive, Crown, Interval
from reconstruct.certificates import Rigor, Verdict, certify, enclose
from reconstruct.constructions import Deep, Factored, Wide, draw
from reconstruct.formats import load, save, sha256_file
from reconstruct.khatri_rao import Exact
from reconstruct.networks import (
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
    Selu,
)
from reconstruct.pipeline import reconstruct
from tests.certificates.building import random_target, wide
from tests.proofs_check.certificates.making import certified, close, document_of, edit, simple


def half(text: str) -> str:
    return (float.fromhex(text) / 2).hex()


# --- what was proved is accepted ------------------------------------------------------------------


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("method", [Interval(), Crown(), Adaptive(boxes=16)])
def test_reconstructions_are_accepted(tmp_path, statistics, method) -> None:
    rng = np.random.default_rng(4)
    target, box = random_target(rng, (2, 6, 5, 2)), Box(-1.0, 0.5).of_size(2)
    network = wide(target, box, rng, statistics=statistics, method=method)
    certificate = certified(tmp_path, target, network, box, bounds=method)
    assert certificate.verdict is Verdict.CERTIFIED
    report = check(tmp_path)
    assert report.accepted, report
    assert report.bound == certificate.bound and close(report, tmp_path), report


@pytest.mark.parametrize("activation", [LeakyRelu(0.1), Elu(), Selu(), Clip(-1.0, 1.0)])
def test_other_activations_are_accepted(tmp_path, activation) -> None:
    rng = np.random.default_rng(4)
    target = random_target(rng, (2, 6, 5, 2), activation=activation)
    box = Box(-1.0, 0.5).of_size(2)
    certified(tmp_path, target, wide(target, box, rng), box)
    assert check(tmp_path / "certificate.json").accepted


@pytest.mark.parametrize("construction", [Wide(ratio=2.0), Deep(block=2, ratio=2.0), Factored()])
def test_every_construction_is_accepted(tmp_path, construction) -> None:
    rng = np.random.default_rng(1)
    target, box = random_target(rng, (4, 5, 4, 2)), Box(-0.5, 0.5)
    result = reconstruct(target, draw(target, construction, seed=1), domain=box)
    certificate = certified(tmp_path, target, result.network, result.domain)
    assert certificate.verdict is Verdict.CERTIFIED
    assert check(tmp_path).accepted


def test_sums_and_zero_biases_on_a_symmetric_box_are_accepted(tmp_path) -> None:
    """Zero biases give ties in the choice of lines, which the rule settles."""
    rng = np.random.default_rng(1)
    nodes = (
        Node("a", Affine(rng.standard_normal((6, 2))), ("input",)),
        Node("r", Relu(), ("a",)),
        Node("b", Affine(rng.standard_normal((6, 6))), ("r",)),
        Node("sum", Add(), ("b", "r")),
        Node("r2", Relu(), ("sum",)),
        Node("c", Affine(rng.standard_normal((2, 6))), ("r2",)),
    )
    target, box = Network(2, nodes, "c"), Box(-2.0, 2.0).of_size(2)
    certificate = certified(tmp_path, target, wide(target, box, rng), box)
    assert certificate.verdict is Verdict.CERTIFIED
    assert check(tmp_path).accepted


def test_a_witness_is_evaluated_again(tmp_path) -> None:
    rng = np.random.default_rng(0)
    target, other = random_target(rng, (3, 4, 2)), random_target(rng, (3, 4, 2))
    certificate = certified(tmp_path, target, other, Box(-0.5, 0.5).of_size(3))
    assert certificate.verdict is Verdict.REFUTED
    report = check(tmp_path)
    assert report.accepted and "witness" in report.verified
    edit(tmp_path, "witness", "difference", value="0x1000/0x1")
    assert check(tmp_path).field == "witness.difference"
    edit(tmp_path, "witness", "point", 0, value=(0.0).hex())
    assert check(tmp_path).field == "witness.target"
    edit(tmp_path, "witness", "point", 0, value=(0.9).hex())
    assert check(tmp_path).field == "witness.point"


@pytest.mark.parametrize("activation", [Relu(), LeakyRelu(0.1), Elu(), Clip(-1.0, 1.0)])
def test_the_two_exact_evaluators_agree(activation) -> None:
    rng = np.random.default_rng(2)
    target, box = random_target(rng, (2, 4, 2), activation=activation), Box(-1.0, 1.0).of_size(2)
    network = wide(target, box, rng, statistics=True)
    for x in box.sample(5, rng):
        pairs = zip(enclose(network, x), evaluate(network, x), strict=True)
        for (low, high), (least, most) in pairs:
            assert low <= most and least <= high
            assert most - least <= Fraction(1, 2**30)


def union(folder: Path, kind: str, width: float) -> list[np.ndarray]:
    """The simple certificate with its domain replaced by boxes around a few points of it."""
    simple(folder)
    points = list(Box(-0.45, 0.45).of_size(3).sample(4, np.random.default_rng(6)))
    lo, hi = ([[(v + s * width).hex() for v in p.tolist()] for p in points] for s in (-1, 1))
    edit(folder, "domain", value={"kind": kind, "lo": lo, "hi": hi})
    return points


def test_domains_of_boxes_and_points_are_proved_part_by_part(tmp_path) -> None:
    for kind, width in (("boxes", 0.01), ("points", 0.0)):
        union(tmp_path, kind, width)
        assert check(tmp_path).accepted, check(tmp_path)
        edit(tmp_path, "domain", "hi", 0, 0, value=(0.4).hex())
        edit(tmp_path, "domain", "lo", 0, 0, value=(0.5).hex())
        assert check(tmp_path).field == "domain"
    union(tmp_path, "points", 0.01)
    assert check(tmp_path).field == "domain"
    union(tmp_path, "boxes", 2.0)
    assert check(tmp_path).field.startswith("segments[")


def test_a_domain_of_another_kind_is_not_checkable(tmp_path) -> None:
    union(tmp_path, "ball", 0.1)
    report = check(tmp_path)
    assert report.status is CheckStatus.NOT_CHECKABLE and "ball" in report.reason
    simple(tmp_path)
    edit(tmp_path, "domain", "lo", 0, value=[(0.0).hex()])
    assert check(tmp_path).field == "domain.lo"


# --- exact certificates ---------------------------------------------------------------------------


def exact_pair(folder: Path):
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (3, 4, 2)), Box(-0.5, 0.5)
    result = reconstruct(target, draw(target, Wide(), seed=3), domain=box, solver=Exact())
    assert result.exact is not None
    return result, certified(
        folder, target, result.network, result.domain, exact_norms=result.exact
    )


def test_an_exact_identity_is_proved_and_checked(tmp_path) -> None:
    _, certificate = exact_pair(tmp_path)
    assert certificate.rigor is Rigor.EXACT and certificate.exact_identity
    assert certificate.bound is not None and certificate.bound > 0  # of the file, in floats
    report = check(tmp_path)
    assert report.accepted and {"bound", "exact_identity"} <= set(report.verified)


def test_one_rational_changed_is_noticed(tmp_path) -> None:
    result, _ = exact_pair(tmp_path)
    name = next(iter(result.exact))
    edit(
        tmp_path,
        "exact_norms",
        name,
        "gamma",
        0,
        value=lambda v: f"{int(v.split('/')[0], 16) + 1:#x}/{v.split('/')[1]}",
    )
    assert check(tmp_path).field == "exact_norms"


def test_an_identity_that_does_not_hold_is_not_claimed(tmp_path) -> None:
    result, _ = exact_pair(tmp_path)
    name, norm = next(iter(result.exact.items()))
    wrong = type(norm)((norm.gamma[0] + Fraction(1, 10**60), *norm.gamma[1:]), norm.beta)
    certificate = certify(
        result.target,
        result.network,
        domain=result.domain,
        exact_norms={**result.exact, name: wrong},
    )
    assert certificate.rigor is Rigor.RIGOROUS and not certificate.exact_identity
    assert any("not equal as rational matrices" in text for text in certificate.tried)


def test_statistics_without_a_rational_root_are_refused_with_the_reason() -> None:
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (2, 2)), Box(-0.5, 0.5).of_size(2)
    network = wide(target, box, rng, statistics=True)
    certificate = certify(target, network, domain=box, exact_norms={})
    assert any("not rational" in text for text in certificate.tried)


# --- tampering ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("bound",), half, "bound"),
        (("bound",), "nan", "bound"),
        (("segments", 0, "residual_bound"), half, "segments[0].residual_bound"),
        (("segments", 1, "constant_bound"), half, "segments[1].constant_bound"),
        (("segments", 2, "error_out"), half, "segments[2].error_out"),
        (("segments", 1, "error_in"), half, "segments[1].error_in"),
        (("segments", 1, "target_node"), "other", "segments[1].target_node"),
        (("target", "sha256"), "0" * 64, "target.sha256"),
        (("candidate", "sha256"), "0" * 64, "candidate.sha256"),
        (("domain", "lo", 0), "x", "domain.lo"),
        (("domain", "lo", 0), "-0x1.00000000000000001p-1", "domain.lo"),
        (("domain", "lo", 0), "-0x1p-1", "domain.lo"),
        (("domain", "hi"), [(1.0).hex()], "domain"),
        (("alignment", 0, 1), "layer1.act", "alignment"),
        (("alignment", 0, 1), "nobody", "alignment"),
        (("verdict",), "refuted", "witness"),
        (("tolerance",), (1e-300).hex(), "verdict"),
        (("exact_identity",), True, "exact_norms"),
    ],
)
def test_a_changed_field_is_rejected_by_name(tmp_path, path, value, field) -> None:
    simple(tmp_path)
    edit(tmp_path, *path, value=value)
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field == field, report


def test_a_larger_box_is_rejected(tmp_path) -> None:
    """On the larger box inner units leave their line, so the claimed errors do not follow."""
    simple(tmp_path)
    edit(tmp_path, "domain", "hi", 0, value=(2.0).hex())
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field.startswith("segments[")


@pytest.mark.parametrize("field", ["float32_bound", "tried", "seconds", "output_scale"])
def test_what_no_proof_is_about_is_guarded_by_the_digest(tmp_path, field) -> None:
    simple(tmp_path)
    edit(tmp_path, field, value=None, sign=False)
    assert check(tmp_path).field == "digest"


@pytest.mark.parametrize("part", ["weight", "bias", "gamma", "beta"])
def test_a_changed_number_in_the_network_is_rejected(tmp_path, part) -> None:
    """First by its hash; and by the proof, when the forger corrects the hash."""
    simple(tmp_path)
    network = load(tmp_path / "network.npz")
    name = "layer2.M2" if part in ("weight", "bias") else "layer2.N1"
    op = network.node(name).op
    if part in ("weight", "bias"):
        values = {"weight": np.array(op.weight, dtype=float), "bias": op.bias.copy()}
        values[part].flat[1] += 1e-7
        changed = Affine(values["weight"], values["bias"])
    else:
        values = {"gamma": op.gamma.copy(), "beta": op.beta.copy()}
        values[part][1] += 1e-7
        changed = Norm(values["gamma"], values["beta"], op.mean, op.var, op.eps)
    save(network.with_ops({name: changed}), tmp_path / "network.npz")
    assert check(tmp_path).field == "candidate.sha256"
    edit(tmp_path, "candidate", "sha256", value=sha256_file(tmp_path / "network.npz"))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field.startswith("segments[1]")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"schema": 3}'])
def test_a_broken_certificate_is_unreadable(tmp_path, content) -> None:
    (tmp_path / "certificate.json").write_text(content)
    report = check(tmp_path)
    assert report.status is CheckStatus.UNREADABLE
    assert report.field in ("certificate", "schema")


@pytest.mark.parametrize(
    ("path", "value"), [(("alignment",), [3]), (("segments", 0), "x"), (("scales",), 7)]
)
def test_a_document_of_another_build_is_rejected(tmp_path, path, value) -> None:
    simple(tmp_path)
    edit(tmp_path, *path, value=value)
    assert check(tmp_path).status is CheckStatus.REJECTED


def test_a_missing_certificate_is_named(tmp_path) -> None:
    for place in (tmp_path / "nowhere.json", tmp_path):
        report = check(place)
        assert report.status is CheckStatus.MISSING and report.field == "certificate"


def test_missing_and_tampered_files_are_told_apart(tmp_path) -> None:
    simple(tmp_path)
    (tmp_path / "network.npz").write_bytes((tmp_path / "target.npz").read_bytes())
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "candidate.sha256")
    (tmp_path / "network.npz").write_bytes(b"PK\x03\x04 and no more")
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "candidate.file")
    (tmp_path / "network.npz").unlink()
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.MISSING, "candidate.file")
    assert "network.npz was not found" in report.reason


def test_networks_may_have_moved(tmp_path) -> None:
    simple(tmp_path)
    (tmp_path / "target.npz").rename(tmp_path / "elsewhere.npz")
    assert check(tmp_path).status is CheckStatus.MISSING
    assert check(tmp_path, target=tmp_path / "elsewhere.npz").accepted


def test_a_bound_by_branch_and_bound_without_its_steps_is_not_checkable(tmp_path) -> None:
    simple(tmp_path)
    edit(tmp_path, "method", value="general")
    for verdict in ("certified", "undecided", "refuted"):
        edit(tmp_path, "verdict", value=verdict)
        report = check(tmp_path)
        assert report.status is CheckStatus.NOT_CHECKABLE and not report.accepted
        assert "does not say the steps of its proof" in report.reason


def test_a_figure_below_the_bound_is_refused(tmp_path) -> None:
    """A larger bound is a claim that holds, but an evaluation's figure contains it."""
    simple(tmp_path)
    edit(tmp_path, "bound", value=lambda text: (2 * float.fromhex(text)).hex())
    assert check(tmp_path).accepted
    figure = document_of(tmp_path)["float64_bound"]
    edit(tmp_path, "bound", value=np.nextafter(float.fromhex(figure), 1.0).hex())
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field == "float64_bound"


def test_the_way_off_a_line_is_rounded_up() -> None:
    """2^55 + 8 is 2^55 + 2 beyond 6, which floats round to 2^55."""
    op, top = Clip(0.0, 6.0), 2.0**55 + 8
    found = Bend(op).deviation(np.zeros(1), np.full(1, top))
    assert Fraction(top) - 6 <= Fraction(found[0])


def test_errors_are_moved_by_all_that_a_form_may_be() -> None:
    """A coefficient 1 ± 1/4 and an error of 1: the row may move by 5/4."""
    network = Network(1, (Node("map", Affine(np.ones((1, 1))), ("x",)),), "map", "x")
    form = Forms(network, {"x": "x"}).rows("map", 0, 1)
    floats = np.ones((1, 1)), np.full((1, 1), 0.25)
    assert moved(form, floats, lambda _: np.ones((1, 1)))[0, 0] >= 1.25
