"""Cuts at maps: the forms of both values are compared, whatever an alignment says of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from reconstruct.certificates import Verdict
from reconstruct.formats import save, sha256_file
from reconstruct.networks import Affine, Convolution, Network, Node, Placement
from tests.certificates.joining import NETWORKS
from tests.certificates.test_seams import BOX, DOMAINS, as_read, nudged, rebuilt
from tests.proofs_check.certificates.making import certified, document_of, edit, forged, write


@pytest.mark.parametrize("name", NETWORKS)
def test_honest_certificates_are_accepted_on_all_domains(name, tmp_path) -> None:
    target, network = rebuilt(name)
    network = as_read(network, tmp_path)
    for domain in DOMAINS.values():
        made = certified(tmp_path, target, network, domain)
        assert made.verdict is Verdict.CERTIFIED and made.method == "layered"
        assert check(tmp_path).accepted, check(tmp_path)


@pytest.mark.parametrize("name", NETWORKS)
def test_another_network_under_the_same_claims_is_rejected(name, tmp_path) -> None:
    target, network = rebuilt(name)
    certified(tmp_path, target, network, BOX)
    save(nudged(network), tmp_path / "network.npz", dtype=None)
    edit(tmp_path, "candidate", "sha256", value=sha256_file(tmp_path / "network.npz"))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field.startswith("segments["), report


def test_values_of_different_maps_that_are_paired_make_the_claims_fail(tmp_path) -> None:
    """A forger pairs the seam with another value of its size: the gap between them is seen."""
    target, network = rebuilt("flat")
    certified(tmp_path, target, network, BOX)
    document = document_of(tmp_path)
    text = json.dumps(document).replace('"c2.norm2"', '"c2.M2"')
    assert text.count('"c2.M2"') == 2  # in the alignment and in its segment
    write(tmp_path, json.loads(text))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field.startswith("segments["), report


def moved(index) -> Network:
    kernel = np.ones((1, 4))
    nodes = (Node("m", Placement(index, 4), ("x",)), Node("y", Affine(kernel), ("m",)))
    return Network(4, nodes, "y", "x")


def test_placements_are_no_seam(tmp_path) -> None:
    """Two of them may move other units, and what is compared must be what they give."""
    pair = moved(np.array([0, 1, 2, 3])[::-1]), moved(np.array([0, 0, 0, 0]))
    forged(tmp_path, *pair, ([0.0] * 4, [1.0] * 4), 1e-9, ("m",))
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "alignment"), report


@pytest.mark.parametrize("change", ["kernel", "offsets"])
def test_a_seam_hides_no_difference(change, tmp_path) -> None:
    """Outright claims over a cut at the very map that differs."""
    target, _ = rebuilt("flat")
    op = target.node("c2").op
    assert isinstance(op, Convolution)
    kernel, offsets = np.array(op.kernel, dtype=np.float64), np.array(op.offsets)
    (kernel if change == "kernel" else offsets).flat[-1] += 2.0**-20
    other = target.with_ops({"c2": Convolution(kernel, op.geometry, offsets)})
    ends = BOX.lo.tolist(), BOX.hi.tolist()
    forged(tmp_path, target, other, ends, 1e-9, ("r1", "c2"))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field.startswith("segments[1]."), report
    forged(tmp_path, target, target, ends, 1e-9, ("r1", "c2"))
    assert check(tmp_path).accepted, check(tmp_path)
