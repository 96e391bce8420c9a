"""How tight the bounds are: each method against the one before, and on a real network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from reconstruct.bounds import Adaptive, Crown, Interval, Reach, reach
from reconstruct.bounds.propagation import propagate
from reconstruct.errors import InputError
from reconstruct.networks import Box, Network

from .cases import random_box, random_network

ACAS = (
    Path(__file__).parents[3] / "shared" / "targets" / "acasxu" / "ACASXU_run2a_1_1_batch_2000.onnx"
)


def small() -> Network:
    rng = np.random.default_rng(0)
    return Network.mlp(
        [rng.normal(size=s) for s in ((8, 3), (8, 8), (2, 8))],
        [rng.normal(size=m) for m in (8, 8, 2)],
    )


@pytest.mark.parametrize("seed", range(40))
def test_crown_is_never_looser_than_interval(seed):
    rng = np.random.default_rng(1000 + seed)
    network = random_network(rng)
    box = random_box(rng, network.size_in)
    found = [reach(network, box, m) for m in (Interval(), Crown())]
    for name in network.sizes:
        forms = rng.normal(size=(4, network.sizes[name]))
        for get in (lambda r, n=name: r.bounds(n), lambda r, n=name, f=forms: r.functionals(n, f)):
            pairs = [get(r) for r in found]
            for loose, tight in pairwise(pairs):
                assert np.all(tight[0] >= loose[0]) and np.all(tight[1] <= loose[1])


def test_a_straight_network_is_bounded_to_rounding():
    """Without a ReLU that bends, CROWN's bounds are the true range: one affine map's."""
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(5, 4)), rng.normal(size=(3, 5))]
    network = Network.mlp(weights, [np.full(5, 100.0), np.zeros(3)])
    lo, hi = reach(network, Box(-1, 1)).bounds("layer2")
    centre, radius = weights[1] @ np.full(5, 100.0), np.abs(weights[1] @ weights[0]).sum(axis=1)
    assert np.allclose(lo, centre - radius, rtol=1e-12) and np.all(lo <= centre - radius)
    assert np.allclose(hi, centre + radius, rtol=1e-12) and np.all(hi >= centre + radius)


def test_smaller_boxes_approach_the_true_range():
    network, box = small(), Box(-1, 1)
    values = network(box.of_size(3).sample(20_000, np.random.default_rng(2)))
    methods = (Interval(), Crown(), *(Adaptive(boxes=n) for n in (16, 256, 2048)))
    widths = [np.sum(np.ptp(reach(network, box, m).bounds("layer3"), axis=0)) for m in methods]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] <= 1.5 * np.sum(np.ptp(values, axis=0))


def test_a_point_has_bounds_as_narrow_as_rounding():
    lo, hi = reach(small(), Box(0.3, 0.3)).bounds("layer3")
    assert np.all(hi - lo <= 1e-12)


def test_lean_bounds_hold_what_the_full_ones_hold():
    network, box = small(), Box(-1, 1).of_size(3)
    full = propagate(network, box.lo[None], box.hi[None], backward=True)
    lean = propagate(network, box.lo[None], box.hi[None], backward=True, lean=True)
    for name in network.sizes:
        assert np.all(lean.values[name][0] <= full.values[name][0] + 1e-9)
        assert np.all(lean.values[name][1] >= full.values[name][1] - 1e-9)


def test_errors_name_what_came_and_what_was_needed():
    with pytest.raises(InputError, match="at least 1 box"):
        Adaptive(boxes=0)
    with pytest.raises(InputError, match="3 inputs, but the domain has 2"):
        reach(small(), Box([0, 0], [1, 1]))


def test_many_rows_are_tiled_and_agree_with_single_ones():
    found = reach(small(), Box(-1, 1))
    forms = sparse.random_array((70_000, 8), density=0.3, rng=np.random.default_rng(3)).tocsr()
    lo, hi = found.functionals("act2", forms)
    for i in (0, 1234, 69_999):
        one = found.functionals("act2", forms[[i]].toarray())
        assert np.allclose([lo[i], hi[i]], np.ravel(one), rtol=1e-12)


@pytest.fixture(scope="module")
def acas() -> Network:
    pytest.importorskip("onnx")
    if not ACAS.exists():
        pytest.skip("needs ../shared/targets/acasxu, which is not part of the project")
    from reconstruct.formats import load

    return load(ACAS)


def largest(found: Reach, name: str) -> float:
    return float(np.max(np.abs(found.bounds(name))))


def test_acas_crown_is_far_tighter_than_interval(acas):
    """Interval bounds of the last hidden layer are above 1e5; sampled values stay below 2e3."""
    last = acas.activation_nodes()[-1].inputs[0]
    box = Box(-0.5, 0.5)
    interval, crown, adaptive = (
        largest(reach(acas, box, m), last) for m in (Interval(), Crown(), Adaptive(boxes=64))
    )
    assert interval > 1e5
    assert crown < interval / 4
    assert adaptive < crown / 1.5
