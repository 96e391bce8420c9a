"""Networks made by others, where they are at hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from proofs_check.certificates import check
from reconstruct.certificates import Verdict, certify, write_certificate
from reconstruct.certificates.document import Source
from reconstruct.constructions import Wide, draw
from reconstruct.equivalence.search import hop
from reconstruct.equivalence.witness import Replay
from reconstruct.formats import load, save
from reconstruct.networks import Box
from reconstruct.pipeline import reconstruct

TARGETS = Path(__file__).resolve().parents[3] / "shared" / "targets"
pytestmark = pytest.mark.skipif(not TARGETS.is_dir(), reason="../shared/targets is not there")

FILES = [
    ("hcas/HCAS_rect_v6_pra0_tau00_25HU_3000.nnet", -0.5, 0.5),
    ("sat_relu/sat_v9_c9.onnx", 0.0, 1.0),
    ("cersyve/pendulum_finetune_inv.onnx", -1.0, 1.0),
    ("cersyve/double_integrator_pretrain_con.onnx", -1.0, 1.0),
]


@pytest.mark.parametrize(("name", "lo", "hi"), FILES)
def test_certified_and_accepted(tmp_path, name: str, lo: float, hi: float) -> None:
    target = load(TARGETS / name)
    result = reconstruct(target, draw(target, Wide(ratio=1.5), seed=0), domain=Box(lo, hi))
    save(result.network, tmp_path / "network.onnx")
    network = load(tmp_path / "network.onnx")
    certificate = certify(target, network, domain=result.domain)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.bound <= 1e-6
    files = {"target": TARGETS / name, "candidate": tmp_path / "network.onnx"}
    write_certificate(tmp_path / "certificate.json", certificate, **files)
    report = check(tmp_path)
    assert report.accepted, report


def test_two_networks_of_one_family_are_refuted() -> None:
    folder = TARGETS / "acasxu"
    first, second = (load(folder / f"ACASXU_run2a_{n}_batch_2000.onnx") for n in ("1_1", "2_3"))
    certificate = certify(first, second, domain=Box(-0.5, 0.5))
    assert certificate.verdict is Verdict.REFUTED and certificate.seconds < 30
    assert certificate.witness is not None and certificate.witness.strictly_inside


def test_a_pair_made_by_a_splitting_tool_is_decided(tmp_path) -> None:
    """The constants of the split layer are rounded to float32, the rest is equal."""
    files = [TARGETS / "relusplitter" / n for n in ("model_0_0.onnx", "model_0_0_split.onnx")]
    target, candidate = (load(file) for file in files)
    wide = certify(target, candidate, domain=Box(0.0, 1.0), tolerance=0.004)
    assert wide.verdict is Verdict.CERTIFIED and wide.bound < 0.0031
    wide.save(tmp_path / "c.json", target=files[0], candidate=files[1])
    assert check(tmp_path / "c.json").accepted
    narrow = certify(target, candidate, domain=Box(0.0, 1.0), tolerance=1e-6)
    assert narrow.verdict is Verdict.REFUTED and narrow.witness.difference > Fraction(1, 10**6)


def test_one_network_in_two_formats_is_decided(tmp_path) -> None:
    """Weights agree to 9e-7: the same structure, no common names."""
    files = [
        TARGETS / "acasxu" / f"ACASXU_run2a_1_1_batch_2000.{kind}" for kind in ("onnx", "nnet")
    ]
    target, candidate = (load(file) for file in files)
    wide = certify(target, candidate, domain=Box(-0.5, 0.5), tolerance=0.3)
    assert wide.verdict is Verdict.CERTIFIED and wide.method == "layered"
    sources = [Source(target, files[0]), Source(candidate, files[1])]
    write_certificate(tmp_path / "c.json", wide, target=sources[0], candidate=sources[1])
    report = check(tmp_path / "c.json")
    assert report.accepted, report
    narrow = certify(target, candidate, domain=Box(-0.5, 0.5), tolerance=3e-7)
    assert narrow.verdict is Verdict.REFUTED


def test_hopping_finds_what_climbing_alone_does_not() -> None:
    """Above 1e-6 of the largest output: the default tolerance refutes the pair of formats."""
    stem = TARGETS / "acasxu" / "ACASXU_run2a_1_1_batch_2000"
    target, candidate = (load(stem.with_suffix(kind)) for kind in (".onnx", ".nnet"))
    box = Box(-0.5, 0.5).of_size(5)
    starts = box.sample(64, np.random.default_rng(0))
    found = hop(target, candidate, box, starts, beyond=2.8e-6, over=bool)
    assert found[0][0] > 2.8e-6 and box.contains(np.array(found[0][1]))
    assert Replay(target, candidate, box).witness(np.array(found[0][1]), 2.79e-6) is not None
