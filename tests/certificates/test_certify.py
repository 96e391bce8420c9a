"""`certify` on hand-made reconstructions, mutations of them, and pairs that are not alike."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from reconstruct.bounds import Adaptive, Crown, Interval
from reconstruct.certificates import Certificate, Rigor, Verdict, certify, enclose
from reconstruct.equivalence.witness import least_difference, strictly_inside
from reconstruct.errors import InputError
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
from tests.certificates.building import inner_activations, random_target, wide

BOX = Box(-0.5, 0.5)


def pair(seed: int = 0, sizes: tuple[int, ...] = (3, 6, 5, 2), **options: object):
    rng = np.random.default_rng(seed)
    target = random_target(rng, sizes)
    box = BOX.of_size(sizes[0])
    return target, wide(target, box, rng, **options), box  # type: ignore[arg-type]


def assert_replayed(certificate: Certificate, target: Network, other: Network, box: Box) -> None:
    witness = certificate.witness
    assert witness is not None
    point = np.array(witness.point)
    assert strictly_inside(point, box)
    assert least_difference(enclose(target, point), enclose(other, point)) == witness.difference
    assert witness.difference > Fraction(certificate.tolerance)


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("method", [Interval(), Crown(), Adaptive(boxes=16)])
def test_a_reconstruction_is_certified_near_its_rounding(statistics, method) -> None:
    target, network, box = pair(statistics=statistics, method=method)
    certificate = certify(target, network, domain=box, bounds=method)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.rigor is Rigor.RIGOROUS
    assert certificate.bound is not None and certificate.bound < 1e-12
    assert certificate.bound < certificate.float64_bound < 1e-10
    assert certificate.float64_bound < certificate.float32_bound < 1
    assert [s.target_node for s in certificate.segments] == ["act1", "act2", "output"]
    assert [s.maps for s in certificate.segments] == [("layer1",), ("layer2",), ("layer3",)]
    assert all(s.margin > 0 for s in certificate.segments)


@pytest.mark.parametrize("activation", [LeakyRelu(0.1), Elu(), Selu(), Clip(-1.0, 1.0)])
def test_other_activations_of_the_target(activation) -> None:
    rng = np.random.default_rng(3)
    target = random_target(rng, (3, 5, 4, 2), activation=activation, final_activation=True)
    box = BOX.of_size(3)
    certificate = certify(target, wide(target, box, rng), domain=box)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.bound < 1e-12


@pytest.mark.parametrize("hidden", [LeakyRelu(0.1), Elu(), Selu()])
def test_other_activations_inside_the_frozen_network(hidden) -> None:
    target, network, box = pair(hidden=hidden)
    certificate = certify(target, network, domain=box)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.bound < 1e-12


def test_identical_networks_differ_by_nothing_that_counts() -> None:
    target, _, box = pair()
    certificate = certify(target, target, domain=box)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.bound <= 1e-250


def test_runs_of_affine_maps_norms_and_sums_in_the_target() -> None:
    rng = np.random.default_rng(1)
    weights = [
        rng.standard_normal((4, 3)),
        rng.standard_normal((4, 4)),
        rng.standard_normal((2, 4)),
    ]
    norm = Norm(rng.standard_normal(4), rng.standard_normal(4), rng.random(4), rng.random(4), 1e-5)
    nodes = (
        Node("a", Affine(weights[0], rng.standard_normal(4)), ("input",)),
        Node("bn", norm, ("a",)),
        Node("r", Relu(), ("bn",)),
        Node("b", Affine(weights[1]), ("r",)),
        Node("sum", Add(), ("b", "r")),
        Node("r2", Relu(), ("sum",)),
        Node("c", Affine(weights[2]), ("r2",)),
        Node("d", Affine(rng.standard_normal((2, 2))), ("c",)),
    )
    target = Network(3, nodes, "d")
    box = BOX.of_size(3)
    certificate = certify(target, wide(target, box, rng), domain=box)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.bound < 1e-11
    assert {"r", "sum", "r2"} <= {t for t, _ in certificate.alignment}


def test_a_box_without_width_and_a_refutation_on_it() -> None:
    target, network, _ = pair()
    point = Box([0.1, -0.2, 0.3], [0.1, -0.2, 0.3])
    assert certify(target, network, domain=point).verdict is Verdict.CERTIFIED
    other = random_target(np.random.default_rng(9), (3, 4, 2))
    certificate = certify(target, other, domain=point)
    assert certificate.verdict is Verdict.REFUTED
    assert_replayed(certificate, target, other, point)


def test_two_different_networks_are_refuted_with_a_witness_inside() -> None:
    target, _, box = pair()
    other = random_target(np.random.default_rng(9), (3, 6, 5, 2))
    certificate = certify(target, other, domain=box)
    assert certificate.verdict is Verdict.REFUTED and certificate.rigor is Rigor.EXACT
    assert_replayed(certificate, target, other, box)


def test_a_unit_that_dies_in_a_corner_is_never_certified_at_the_old_bound() -> None:
    target, network, box = pair(sizes=(2, 4, 3, 1))
    bound = certify(target, network, domain=box).bound
    node = network.node(inner_activations(network)[1].inputs[0])
    beta = node.op.beta.copy()
    beta[3] -= 0.05 * abs(beta[3]) + 0.01
    second = network.node("layer2.N2")
    moved = second.op.beta - network.node("layer2.M2").op.weight[:, 3] * (beta[3] - node.op.beta[3])
    changed = network.with_ops(
        {
            node.name: Norm(node.op.gamma, beta, node.op.mean, node.op.var, node.op.eps),
            second.name: Norm(second.op.gamma, moved, second.op.mean, second.op.var, second.op.eps),
        }
    )
    certificate = certify(target, changed, domain=box, time_limit=5)
    assert certificate.bound is None or certificate.bound > bound
    layered = next(
        text
        for text in certify(target, changed, domain=box, tolerance=10.0).tried
        if text.startswith("layer by layer")
    )
    assert "least margin of an inner activation -" in layered


def test_the_tolerance_decides() -> None:
    target, network, box = pair()
    last = network.node("layer3.N2").op
    shifted = Norm(last.gamma, last.beta + 1e-4, last.mean, last.var, last.eps)
    moved = network.with_ops({"layer3.N2": shifted})
    assert certify(target, moved, domain=box).verdict is Verdict.REFUTED
    certificate = certify(target, moved, domain=box, tolerance=1.1e-4)
    assert certificate.verdict is Verdict.CERTIFIED
    assert 1e-4 <= certificate.bound <= 1.1e-4


def test_float32_that_overflows_has_no_bound_and_says_so() -> None:
    huge = Network.mlp([np.array([[1e30, 1e30]]), np.array([[1e-30]])])
    same = certify(huge, huge, domain=Box(-1e10, 1e10).of_size(2), tolerance=1.0)
    assert same.float32_bound is None and same.float64_bound is not None
    assert any("may overflow float32" in text for text in same.tried)


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    target, network, box = pair()
    with pytest.raises(InputError, match="finite number of at least 0"):
        certify(target, network, domain=box, tolerance=tolerance)


def test_networks_that_cannot_be_compared_are_refused() -> None:
    target, _, box = pair()
    other = random_target(np.random.default_rng(0), (3, 4))
    with pytest.raises(InputError, match="the target has 3 and 2, the candidate has 3 and 4"):
        certify(target, other, domain=box)


def test_the_certificate_reads_well() -> None:
    target, network, box = pair()
    certificate = certify(target, network, domain=box)
    assert repr(certificate).startswith("Certificate(certified, rigorous, bound ")
    assert replace(certificate, bound=None).bound is None


def test_wide_layers_behind_a_narrow_value_are_made_when_asked_for(monkeypatch) -> None:
    """The same bound, whether or not their form is held."""
    from reconstruct.certificates import forms as composites
    from reconstruct.constructions import Factored, draw
    from reconstruct.pipeline import reconstruct

    rng = np.random.default_rng(2)
    factors = rng.standard_normal((6, 2)), rng.standard_normal((2, 6))
    target = Network.mlp([factors[0] @ factors[1], rng.standard_normal((2, 6))])
    network = reconstruct(target, draw(target, Factored(), seed=0), domain=BOX).network
    box = BOX.of_size(6)
    plain = certify(target, network, domain=box)
    monkeypatch.setattr(composites, "LIMITS", replace(composites.LIMITS, terms=1))
    unheld = certify(target, network, domain=box)
    assert plain.verdict is unheld.verdict is Verdict.CERTIFIED
    assert unheld.bound == pytest.approx(plain.bound, rel=1e-3)
    assert unheld.float64_bound == pytest.approx(plain.float64_bound, rel=0.2)
