"""Scaled units in a certificate: an identity of floats that the checker does itself."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates.checker import check
from proofs_check.certificates.cuts import scaled
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import Add, Affine, Clip, Elu, LeakyRelu, Network, Node, Relu
from tests.bounds.rational import rational_values
from tests.constructions.test_scaling import BOX, planted

from .making import certified, document_of, edit


def balanced(folder) -> None:
    target, _ = planted(3)
    frozen = rc.draw(target, construction=rc.Wide(ratio=1.5), seed=0)
    network = rc.reconstruct(target, frozen, domain=BOX).network
    assert certified(folder, target, network, BOX).scales


def test_a_certificate_with_scaled_units_is_proved_again(tmp_path) -> None:
    balanced(tmp_path)
    report = check(tmp_path)
    assert report.accepted and "bound" in report.verified


def test_other_powers_prove_nothing(tmp_path) -> None:
    balanced(tmp_path)
    powers = document_of(tmp_path)["scales"]["act1"]
    edit(tmp_path, "scales", "act1", value=[powers[0] + 1, *powers[1:]])
    assert not check(tmp_path).accepted
    edit(tmp_path, "scales", value={})
    assert not check(tmp_path).accepted


@pytest.mark.parametrize(
    "value",
    [{"act1": [0.5] * 8}, {"act1": [True] * 8}, {"act1": [1]}, {"layer1": [0] * 8}, {"x": []}, [],
     {"act1": [10**6] * 8}, {"act1": "1"}],
)  # fmt: skip
def test_what_are_no_powers_is_rejected_by_name(tmp_path, value) -> None:
    balanced(tmp_path)
    edit(tmp_path, "scales", value=value)
    assert (check(tmp_path).field or "").split(".")[0] == "scales"


def test_the_scaled_target_is_the_target_in_rationals() -> None:
    target, _ = planted(4)
    other = scaled(target, {"act1": (1, -3, 0, 2, 5, -7, 0, 1), "act2": (4,) * 8})
    for point in BOX.sample(3, np.random.default_rng(0)):
        ours, theirs = rational_values(target, point), rational_values(other, point)
        assert ours[target.output] == theirs[target.output]


@pytest.mark.parametrize("op", [Clip(0.0, 6.0), Elu()])
def test_what_is_not_homogeneous_is_refused(op) -> None:
    target = Network.mlp([np.eye(2), np.eye(2)], None, activation=op)
    with pytest.raises(CheckFailed, match="no activation that can be scaled"):
        scaled(target, {"act1": (1, 1)})


def test_units_that_others_use_are_refused() -> None:
    nodes = (
        Node("a", Affine(np.eye(2)), ("input",)),
        Node("r", LeakyRelu(0.5), ("a",)),
        Node("b", Affine(np.eye(2)), ("r",)),
        Node("s", Add(), ("b", "r")),
    )
    with pytest.raises(CheckFailed, match="does not stand between plain maps"):
        scaled(Network(2, nodes, "s"), {"r": (1, 1)})
    twice = (*nodes[:1], Node("q", Relu(), ("a",)), *nodes[1:3], Node("s", Add(), ("b", "q")))
    with pytest.raises(CheckFailed, match="does not stand between plain maps"):
        scaled(Network(2, twice, "s"), {"r": (1, 1)})
