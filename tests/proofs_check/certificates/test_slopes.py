"""Certificates that rest on searched slopes: proved again with them, whatever they are."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from proofs_check.certificates import reading
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.checker import check
from proofs_check.certificates.forms import Forms
from proofs_check.certificates.reachable import Hints, Ranges
from reconstruct.bounds import Adaptive, Crown
from reconstruct.bounds.leaning import LEVELS
from reconstruct.certificates import Verdict
from reconstruct.constructions import Wide
from reconstruct.constructions.frozen import draw
from reconstruct.networks import Box, Clip, Elu, LeakyRelu, Network, Relu
from reconstruct.pipeline import reconstruct
from tests.bounds.rational import holds, rational_values
from tests.certificates.building import random_target

from .making import certified, document_of, edit, write


def tight(folder, seed: int = 0, activation=None) -> None:
    """A reconstruction whose shifts rest on slopes, with its certificate."""
    rng = np.random.default_rng(seed)
    target = random_target(rng, (18, 6, 6, 5, 2), activation=activation or Relu())
    box = Box(-1.0, 1.0).of_size(18)
    frozen = draw(target, Wide(ratio=1.5), seed=seed)
    result = reconstruct(target, frozen, domain=box, bounds=Adaptive())
    assert result.known is not None
    certificate = certified(folder, target, result.network, box, bounds=result.known.again)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.slopes


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slopes")
    tight(folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """Such a certificate, to be changed."""
    return shutil.copytree(made, tmp_path / "run")


def test_a_certificate_with_slopes_is_proved_again(folder) -> None:
    report = check(folder)
    assert report.accepted and {"bound", "float64_bound", "float32_bound"} <= set(report.verified)


def test_of_other_activations_too(tmp_path) -> None:
    tight(tmp_path, 1, LeakyRelu(0.1))
    report = check(tmp_path)
    assert report.accepted and {"bound", "float64_bound", "float32_bound"} <= set(report.verified)


def test_shifts_that_rest_on_slopes_need_them(folder) -> None:
    """Without slopes, or with others, the units cannot be shown to stay active."""
    sets = document_of(folder)["slopes"]
    edit(folder, "slopes", value={})
    assert not check(folder).accepted
    rng = np.random.default_rng(0)
    forged = {
        last: {n: rng.integers(0, 256, len(row) // 2, dtype=np.uint8).tobytes().hex()}
        for last, rows in sets.items()
        for n, row in rows.items()
    }
    edit(folder, "slopes", value=forged)
    assert not check(folder).accepted
    edit(folder, "slopes", value=sets)
    assert check(folder).accepted


@pytest.mark.parametrize(
    "slopes",
    [
        5,
        [],
        {"act1": 5},
        {"act1": {"act1": 5}},
        {"act1": {"act1": [0.5] * 6}},
        {"act1": {"act1": "nan"}},
        {"act1": {"act1": "0x1p+4"}},
        {"act1": {"act1": "00 00 00 00 00 00"}},
        {"act1": {"act1": "0"}},
    ],
)
def test_what_are_no_slopes_is_rejected_by_name(folder, slopes) -> None:
    edit(folder, "slopes", value=slopes)
    assert check(folder).field == "slopes"


def test_a_slope_too_many_is_rejected_by_its_numbers(folder) -> None:
    edit(folder, "slopes", value={"act3": {"act1": "00" * 7}})
    report = check(folder)
    assert report.field == "slopes.act3" and "'act1' has 6 units, but 7 slopes" in report.reason


def test_more_slopes_than_are_checked_are_refused(folder, monkeypatch) -> None:
    sets = document_of(folder)["slopes"].values()
    count = sum(len(text) // 2 for shares in sets for text in shares.values())
    monkeypatch.setattr(reading, "SLOPES", count)
    assert check(folder).accepted
    monkeypatch.setattr(reading, "SLOPES", count - 1)
    report = check(folder)
    assert report.field == "slopes" and f"at most {count - 1} slopes" in report.reason


def test_certificates_without_slopes_are_read(tmp_path) -> None:
    """Those of earlier versions do not know the field."""
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (2, 4, 2)), Box(-1.0, 1.0).of_size(2)
    network = reconstruct(target, draw(target, Wide()), domain=box).network
    certified(tmp_path, target, network, box, bounds=Crown())
    assert document_of(tmp_path)["slopes"] == {}
    document = document_of(tmp_path)
    del document["slopes"]
    write(tmp_path, document)
    assert check(tmp_path).accepted


@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold_whatever_the_slopes(seed) -> None:
    """Shares at random, also such as no byte can say: no rational value is outside."""
    rng = np.random.default_rng(seed)
    scale = (1.0, 1e-3, 30.0, 1e120, 1e-160)[seed % 5]
    op = (Relu(), LeakyRelu(0.3), LeakyRelu(2.0), Clip(-0.5, 1.0))[seed % 4]
    weights = [scale * rng.normal(size=(4, 3)), rng.normal(size=(4, 4)), rng.normal(size=(3, 4))]
    network = Network.mlp(weights, [rng.normal(size=len(w)) for w in weights], activation=op)
    width = (1.0, 0.0, 1e-9)[seed % 3]
    box = Box([-0.5, 0.25, -1.0], [-0.5 + width, 1.0, -1.0])
    forms = Forms(network, {"input": "input", "act1": "act1", "act2": "act2"})
    ranges = Ranges("input", box.lo, box.hi)
    for name in ("act1", "act2"):
        shares = {last: _shares(rng, 4) for last in ("act1", "act2")}
        node = forms.nodes[name]
        form = forms.whole(node.inputs[0])
        hints = Hints(None, shares, name)
        ranges.add_cut(name, form, form.floats(), op, forms.bend(node), hints)
    form = forms.whole("layer3")
    found = ranges.of_form(form, form.floats())
    for point in [box.lo, box.hi, *box.sample(4, rng)]:
        exact = rational_values(network, point)
        assert holds(found, exact["layer3"])
        for name in ("act1", "act2"):
            assert holds(ranges.ranges[name], exact[name])


def _shares(rng, size):
    wild = np.array([np.nan, np.inf, -np.inf, 1e300, -3.0, 2.0])
    return np.where(rng.random(size) < 0.3, rng.choice(wild, size), rng.random(size))


@pytest.mark.parametrize("op", [Relu(), LeakyRelu(0.1), LeakyRelu(2.5), Clip(-0.5, 1.0), Elu()])
def test_both_sides_mean_the_same_lines(op) -> None:
    rng = np.random.default_rng(0)
    lo = rng.normal(size=200) - 1
    hi = lo + 3 * rng.random(200)
    shares = rng.integers(0, LEVELS + 1, size=200) / LEVELS
    ours = op.band(lo[None], hi[None], shares=shares[None])
    bend, start = Bend(op), op.band(lo[None], hi[None])
    slopes = start.lower_slope[0], start.upper_slope[0]
    theirs = bend.band(lo, hi, bend.leaning(lo, hi, slopes, shares))
    for mine, other in (
        (ours.lower_slope, theirs.below),
        (ours.upper_slope, theirs.above),
        (ours.lower, theirs.low),
        (ours.upper, theirs.high),
    ):
        np.testing.assert_allclose(mine[0], other, rtol=1e-12, atol=1e-12)
