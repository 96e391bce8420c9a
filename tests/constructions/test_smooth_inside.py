"""GELU, SiLU, softplus and tanh inside frozen sites: lines up to a stated rest."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates.curves import NEARLY, value
from reconstruct.certificates.document import write_certificate
from reconstruct.errors import UnsupportedError
from reconstruct.networks.activations import SMOOTH, Sigmoid
from tests.constructions.targets import mlp

INNER = sorted(kind for kind in NEARLY if NEARLY[kind][-1])


@pytest.mark.parametrize("kind", INNER)
def test_a_curve_is_its_line_up_to_its_rest(kind: str) -> None:
    """At the end where the rest is largest, and further on; halfway to 0 it is not."""
    op = SMOOTH[kind]()
    lo, hi, rest = NEARLY[kind]
    assert (op.piece.lo, op.piece.hi, op.rest, op.piece.slope) == (lo, hi, rest, 1.0)
    end = Fraction(hi if isfinite(hi) else lo)
    outward = Fraction(1, 3) if isfinite(hi) else 3

    def gap(z: Fraction) -> Fraction:
        low, high = value(kind, z, 512)
        return max(abs(low - z), abs(high - z))

    assert rest / 4 < gap(end) <= rest
    assert gap(end * outward) <= gap(end)
    assert gap(end * (2 if isfinite(hi) else Fraction(1, 2))) > rest


@pytest.mark.parametrize("kind", INNER)
@pytest.mark.parametrize("change", [None, "shift"])
def test_networks_with_curves_inside_are_certified_and_checked(
    kind: str, change: str | None, tmp_path: Path
) -> None:
    target, domain = mlp([3, 4, 2], 0), rc.Box(-1, 1)
    frozen = rc.draw(target, seed=1, activation=SMOOTH[kind]())
    result = rc.reconstruct(target, frozen, domain=domain)
    certificate = rc.certify(target, result.network, domain=domain)
    assert certificate.verdict.value == "certified" and certificate.bound < 1e-12
    assert certificate.float64_bound is None  # nothing is assumed of the machine's library
    network = result.network
    if change is not None:  # one hidden unit moved off its line
        name = frozen.network.norm_nodes()[0].name
        op = network.node(name).op
        beta = op.beta - (60.0 if kind != "Tanh" else -1e-3) * np.eye(len(op.beta))[0]
        network = network.with_ops({name: op.tuned(op.gamma, beta)})
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    rc.save(target, files["target"])
    rc.save(network, files["candidate"])
    write_certificate(tmp_path / "certificate.json", certificate, **files)
    report = rc.check(tmp_path / "certificate.json", **files)
    assert report.accepted == (change is None), report


def test_sigmoid_has_no_line_through_zero() -> None:
    with pytest.raises(UnsupportedError, match="Sigmoid has no linear piece through 0"):
        rc.draw(mlp([3, 4, 2], 0), activation=Sigmoid())
