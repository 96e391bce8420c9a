"""Errors carried through the target's maps: sound against networks with planted errors, tighter
than absolute values, and proved again by the checker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check.certificates import CheckStatus, check
from reconstruct.bounds import Adaptive, Crown, reach
from reconstruct.certificates import certify
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.propagate import figures, secants
from reconstruct.networks import Affine, Box, Clip, Dense, Elu, LeakyRelu, Network, Relu
from tests.proofs_check.certificates.making import certified, close, edit

from .building import random_target, wide

SIZES = (3, 8, 8, 8, 2)
BOX = Box(-0.5, 0.5).of_size(3)


def disturbed(target: Network, size: float, rng: np.random.Generator) -> Network:
    """The target with every bias moved by up to `size`: errors in front of the activations."""
    ops = {}
    for node in target.mixing_nodes():
        assert isinstance(node.op, Dense)
        moved = node.op.bias + size * rng.uniform(-1, 1, len(node.op.bias))
        ops[node.name] = Affine(node.op.matrix, moved)
    return target.with_ops(ops)


def both(target: Network, other: Network, method) -> tuple[float, float]:
    """The bound through absolute values, and the one that is carried."""
    known = reach(target, BOX, method)
    names = [node.name for node in target.activation_nodes()]
    alignment = Alignment(tuple((name, name) for name in names))
    layered = bound_layers(known, other, alignment)
    return layered.bound, figures(layered).real


@pytest.mark.parametrize("method", [Crown(), Adaptive(boxes=64)])
@pytest.mark.parametrize("activation", [Relu(), LeakyRelu(0.2), Clip(-0.7, 0.9), Elu()])
def test_no_planted_error_exceeds_what_is_carried(method, activation) -> None:
    rng = np.random.default_rng(3)
    target = random_target(rng, SIZES, activation=activation)
    points = np.concatenate([BOX.sample(4000, rng), BOX.corners(8, rng)])
    for size in (1e-9, 1e-3, 0.3):
        other = disturbed(target, size, rng)
        coarse, carried = both(target, other, method)
        found = float(np.max(np.abs(other(points) - target(points))))
        assert found <= carried <= coarse * (1 + 1e-6)
        assert carried <= 1e3 * found  # and it is no idle bound


def test_leaves_and_signs_gain_where_units_are_stable() -> None:
    rng = np.random.default_rng(5)
    target = random_target(rng, (3, 8, 8, 8, 8, 2))
    other = disturbed(target, 1e-6, rng)
    coarse, carried = both(target, other, Adaptive(boxes=500))
    assert carried < coarse / 3


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.sampled_from([Relu(), LeakyRelu(0.3), Clip(-1.0, 2.0), Clip(0.5, 0.5), Elu()]),
    st.lists(st.floats(-4, 4), min_size=2, max_size=2),
    st.floats(0, 1),
    st.floats(-3, 3),
)
def test_chords_stay_within_their_noise(op, ends, place, step) -> None:
    lo, hi = min(ends), max(ends)
    z = min(max(lo + place * (hi - lo), lo), hi)
    slopes = secants(op, np.array([[lo]]), np.array([[hi]]))
    rise = float(op(np.array([z + step]))[0] - op(np.array([z]))[0])
    off = abs(rise - float(slopes.middle[0, 0]) * step)
    allowed = float(slopes.noise(np.full((1, 1, 1), abs(step)))[0, 0, 0])
    assert off <= allowed + 1e-14 * (1 + abs(z) + abs(step))  # the test's own rounding


def chain(weights: list[float]) -> Network:
    """One unit after the other, each bending in the middle of its range."""
    maps = [np.array([[w]]) for w in weights]
    biases = [np.zeros(1), *(np.array([-abs(w) / 8]) for w in weights[1:])]
    return Network.mlp(maps, biases)


def chain_pair() -> tuple[Network, Network, Box]:
    target = chain([1.0, 1.5, 2.0, 1.25])
    nodes = enumerate(target.mixing_nodes(), start=1)
    ops = {n.name: Affine(n.op.matrix, n.op.bias + 1e-6 * i) for i, n in nodes}
    return target, target.with_ops(ops), Box(-0.5, 0.5).of_size(1)


def found_on(pair: tuple[Network, Network, Box]) -> float:
    points = np.linspace(-0.5, 0.5, 20_001)[:, None]
    return float(np.max(np.abs(pair[1](points) - pair[0](points))))


def test_of_a_single_unit_nothing_is_lost() -> None:
    """One unit in each layer: a bound that is too small would be seen."""
    target, other, box = pair = chain_pair()
    names = [node.name for node in target.activation_nodes()]
    alignment = Alignment(tuple((name, name) for name in names))
    known = reach(target, box, Crown())
    layered = bound_layers(known, other, alignment)
    found = found_on(pair)
    assert found <= figures(layered).real <= 1.001 * found


# --- the checker ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "accepted"), [(1.001, True), (0.999, False)])
def test_the_checker_knows_the_error_of_a_single_unit(tmp_path, share, accepted) -> None:
    pair = chain_pair()
    certified(tmp_path, *pair, tolerance=1.0)
    edit(tmp_path, "bound", value=(share * found_on(pair)).hex())
    assert check(tmp_path).accepted is accepted


def tree_pair(folder, activation=None):
    rng = np.random.default_rng(7)
    target = random_target(rng, (2, 6, 6, 2), activation=activation)
    box, method = Box(-0.5, 0.5).of_size(2), Adaptive(boxes=100)
    network = wide(target, box, rng, method=method)
    return certified(folder, target, network, box, bounds=method)


def test_figures_on_a_tree_are_proved_again(tmp_path) -> None:
    certificate = tree_pair(tmp_path)
    report = check(tmp_path)
    assert report.accepted, report
    assert "bound" in report.verified and close(report, tmp_path)
    assert certificate.bound < certificate.segments[-1].error_out  # signs were needed


@pytest.mark.parametrize("field", ["bound", "float64_bound", "float32_bound"])
def test_a_figure_below_what_is_provable_is_not_confirmed(tmp_path, field) -> None:
    tree_pair(tmp_path)
    edit(tmp_path, field, value=lambda text: (float.fromhex(text) / 2).hex())
    report = check(tmp_path)
    if field == "bound":
        assert report.status is CheckStatus.REJECTED and report.field == field
    else:
        assert report.accepted and field in report.unverified


def test_a_gamma_that_moves_spoils_the_figure_in_float32_too(tmp_path) -> None:
    """The float32 figure of one network is not that of another with larger shifts."""
    rng = np.random.default_rng(7)
    target = random_target(rng, (2, 6, 6, 2))
    box = Box(-0.5, 0.5).of_size(2)
    small = certify(target, wide(target, box, rng), domain=box)
    network = wide(target, box, np.random.default_rng(8), slack=3.0)
    large = certified(tmp_path, target, network, box)
    assert large.float32_bound > small.float32_bound
    edit(tmp_path, "float32_bound", value=(small.float32_bound).hex())
    assert "float32_bound" in check(tmp_path).unverified


def test_what_the_checker_does_not_know_is_said_to_be_unverified(tmp_path) -> None:
    tree_pair(tmp_path, Clip(-1.0, 1.0))
    report = check(tmp_path)
    assert report.accepted and report.verified == ("bound",)
    assert report.unverified == ("float64_bound", "float32_bound")


def test_the_target_stands_beside_it(tmp_path) -> None:
    """|fl(g) − g| by the same analysis holds at samples, and is far below the bound of f."""
    rng = np.random.default_rng(9)
    target = random_target(rng, SIZES)
    found = certify(target, wide(target, BOX, rng), domain=BOX)
    points = BOX.sample(2000, rng).astype(np.float32)
    own = np.abs(target(points, np.float32).astype(float) - target(points.astype(float)))
    assert float(own.max()) <= found.target_float32_bound < found.float32_bound
    assert found.target_float64_bound < found.float64_bound
