"""Images whose composed values are cut: shortcuts, pools, joins and flattening without a ReLU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates.points import evaluate
from reconstruct.certificates.alignment import Alignment, alignments, seams
from reconstruct.errors import InputError
from reconstruct.formats import load, save
from reconstruct.networks import Box, Network, Norm, Placement, Points
from tests.certificates.joining import NETWORKS, PIXELS, option_a

BOX = Box(0.0, 1.0).of_size(PIXELS)
DATA = np.random.default_rng(5).uniform(0.1, 0.9, (3, PIXELS))
DOMAINS = {"box": BOX, "data": Points(DATA), "radius": Points(DATA, 0.01)}


@cache
def rebuilt(name: str) -> tuple[Network, Network]:
    target = NETWORKS[name]()
    return target, rc.reconstruct(target, rc.draw(target, seed=1), domain=BOX).network


def as_read(network: Network, folder) -> Network:
    save(network, folder / "f.onnx")
    return load(folder / "f.onnx")


def apart(target: Network, network: Network, x) -> float:
    """|f − g| at x in rational arithmetic, from below."""
    pairs = zip(evaluate(target, x), evaluate(network, x), strict=True)
    return max(float(max(a - d, c - b, 0)) for (a, b), (c, d) in pairs)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_layered_proof_certifies_what_is_read_from_a_file(name: str, tmp_path):
    target, network = rebuilt(name)
    network = as_read(network, tmp_path)
    certificate = rc.certify(target, network, domain=BOX)
    assert (certificate.verdict, certificate.method) == ("certified", "layered"), certificate.tried
    assert certificate.bound < 1e-12
    x = BOX.sample(20, np.random.default_rng(2))
    assert apart(target, network, x[0]) <= certificate.bound
    assert np.abs(network(x) - target(x)).max() <= certificate.float64_bound + 1e-14


SEAMS = {
    "option A": [],
    "global": ["c2"],
    "windows": ["c2", "p"],
    "flat": ["c2"],
    "twice": ["c2", "c3"],
    "concat": ["a", "b"],
    "ceiling": ["p/sum"],
}


@pytest.mark.parametrize("name", NETWORKS)
def test_both_networks_are_cut_at_the_same_values(name: str):
    target, network = rebuilt(name)
    kept = {"r1", "r2", "join"} & set(target.sizes)
    assert [node.name for node in seams(target, kept)] == SEAMS[name]
    best = next(alignments(target, network, BOX))
    x = BOX.sample(3, np.random.default_rng(3))
    ours, theirs = target.values(x), network.values(x)
    assert len(best.pairs) == len(kept) + len(SEAMS[name])
    for first, second in best.pairs:
        assert np.abs(ours[first] - theirs[second]).max() < 1e-9


@pytest.mark.parametrize("name", [name for name in NETWORKS if SEAMS[name]])
def test_the_forms_of_seams_are_kernels(name: str):
    """A row for each channel, however many pixels there are."""
    target, network = rebuilt(name)
    rows = {s.target_node: s.rows for s in rc.certify(target, network, domain=BOX).segments}
    assert all(rows[seam] in (2, 3) for seam in SEAMS[name])


def test_pixels_that_move_are_read_as_such(tmp_path):
    network = as_read(rebuilt("option A")[1], tmp_path)
    assert isinstance(network.node("sub").op, Placement)
    assert isinstance(network.node("pad").op, Placement)


def nudged(network: Network) -> Network:
    """The same with a bias that is off by a thousandth, in the last norm but one."""
    name = [n.name for n in network.nodes if n.name.endswith("norm2")][-2]
    op = network.node(name).op
    assert isinstance(op, Norm)
    beta = op.beta.copy()
    beta[0] += 1e-3
    return network.with_ops({name: replace(op, beta=beta)})


@pytest.mark.parametrize("name", NETWORKS)
def test_another_entry_is_not_certified(name: str):
    target, network = rebuilt(name)
    good = rc.certify(target, network, domain=BOX)
    bad = rc.certify(target, nudged(network), domain=BOX, tolerance=good.tolerance, time_limit=2)
    assert bad.verdict != "certified" and (bad.bound is None or bad.bound > 1e-6)


def test_other_pixels_are_refuted():
    target, network = rebuilt("option A")
    op = network.node("sub").op
    assert isinstance(op, Placement)
    other = network.with_ops({"sub": Placement(np.roll(op.index, 1), op.inputs)})
    assert rc.certify(target, other, domain=BOX, time_limit=5).verdict == "refuted"


def test_a_seam_joins_maps_of_one_size_and_moves_no_units():
    target = option_a()
    for pair, words in ((("c2", "c1"), "16 values"), (("sub", "sub"), "Placement")):
        with pytest.raises(InputError, match=words):
            Alignment((pair,)).check(target, target)
    Alignment((("c2", "c2"),)).check(target, target)
