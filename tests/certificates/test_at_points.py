"""Errors with their signs at given inputs: certified where absolute values would explode."""

from __future__ import annotations

import numpy as np

import reconstruct as rc
from proofs_check.certificates import CheckStatus, check
from reconstruct.bounds import reach
from reconstruct.bounds.at_points import ranges_at, value_of
from reconstruct.certificates.alignment import alignments
from reconstruct.certificates.at_points import bound_at_points
from reconstruct.networks import Geometry, MaxPool, Network, Points
from reconstruct.numbers.double_double import Enclosure
from tests.certificates.building import long_gap, long_values
from tests.networks.test_images import small_network
from tests.proofs_check.certificates.making import certified


def deep(layers: int = 26, width: int = 10) -> Network:
    """Rows that cancel: values stay of size 1, intervals grow by 5 and more at every layer."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(width, width)) for _ in range(layers)]
    weights = [1.1 * (w - w.mean(axis=1, keepdims=True)) / np.sqrt(width / 2) for w in weights]
    return Network.mlp(weights, [0.3 * rng.normal(size=width) for _ in weights])


def points(count: int = 3, size: int = 10) -> Points:
    return Points(np.random.default_rng(1).normal(size=(count, size)))


def test_a_deep_network_is_certified_at_points_and_the_bound_holds(tmp_path):
    target, domain = deep(), points()
    network = rc.reconstruct(target, rc.draw(target, seed=0), domain=domain).network
    certificate = certified(tmp_path, target, network, domain)
    assert certificate.verdict == "certified" and certificate.method == "pointwise"
    assert any("with signs" in line for line in certificate.tried)
    wide = [long_values(net, domain.x)[net.output] for net in (target, network)]
    gap = float(np.abs(wide[0] - wide[1]).max())
    assert gap - 1e-16 <= certificate.bound <= 1e-6  # the rounding of long doubles
    assert check(tmp_path).accepted


def test_a_network_equals_itself_and_that_is_checked_too(tmp_path):
    """The claim leaves room for an evaluation that is not exact; a tolerance of 0 leaves none."""
    target, domain = deep(34), points(1)
    found = certified(tmp_path, target, target, domain)
    assert found.bound < 1e-20 and check(tmp_path).accepted
    found = certified(tmp_path, target, target, domain, tolerance=0.0)
    assert found.method == "general" and found.bound < 1e-200
    assert check(tmp_path).status is CheckStatus.NOT_CHECKABLE


def test_a_difference_at_an_input_on_the_hull_of_the_data_is_a_witness(tmp_path):
    """All of two inputs lies on the border of the box around both: they are in the data still."""
    target = Network.mlp([np.eye(2), np.ones((1, 2))], [np.ones(2), np.zeros(1)])
    off = Network.mlp([np.eye(2), np.ones((1, 2))], [np.ones(2), np.full(1, 1e-3)])
    for domain in (Points([[0.0, 1.0], [1.0, 0.0]]), Points([[0.0, 1.0], [5.0, 0.0]], radius=0.1)):
        found = certified(tmp_path, target, off, domain, tolerance=1e-4)
        assert found.verdict == "refuted" and found.witness.strictly_inside
        assert domain.contains(np.array(found.witness.point))
        assert check(tmp_path).accepted


def test_signs_are_kept_and_a_wrong_network_is_not_certified():
    target, domain = deep(), points()
    network = rc.reconstruct(target, rc.draw(target, seed=0), domain=domain).network
    name = next(n.name for n in network.norm_nodes() if n.name.endswith("norm2"))
    norm = network.node(name).op
    beta = np.array(norm.beta)
    beta[0] += 1e-5
    wrong = network.with_ops({name: norm.tuned(norm.gamma, beta)})
    gap = long_gap(target, wrong, domain.x)
    assert gap > 1e-8
    found = rc.certify(target, wrong, domain=domain, tolerance=1.5 * gap)
    assert found.verdict == "certified" and gap - 1e-15 <= found.bound <= 1.01 * gap
    tight = rc.certify(target, wrong, domain=domain, tolerance=0.9 * gap, time_limit=5)
    assert tight.verdict != "certified"


def test_on_images_signs_give_no_more_than_absolute_values():
    target = small_network()
    domain = Points(np.random.default_rng(0).uniform(-0.3, 0.4, (2, 72)))
    network = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain).network
    known = reach(target, domain)
    alignment = next(alignments(target, network, domain))
    bound = bound_at_points(known, network, alignment)
    gap = long_gap(target, network, domain.x)
    plain = rc.certify(target, network, domain=domain).bound
    assert gap - 1e-16 <= bound <= plain


def test_values_at_points_are_known_to_the_last_digit():
    for network, x in ((deep(), points().x), (small_network(), np.full((2, 72), 0.1))):
        exact = long_values(network, x)
        for name, (lo, hi) in ranges_at(network, x).items():
            value = exact[name]
            own = 1e-17 * (1 + np.abs(value))
            assert np.all(lo <= value + own) and np.all(value - own <= hi), name
            assert np.max(hi - lo) <= 1e-15 * (1 + np.max(np.abs(value))), name


def test_the_largest_of_a_window_is_held_where_it_is_not_known_which_it_is():
    pool = MaxPool(Geometry(1, 3, 3, (2, 2), (1, 1), (0, 1, 1, 0)))
    rng = np.random.default_rng(0)
    for spread in (0.0, 0.1, 2.0):
        middle, radius = rng.normal(size=9), spread * rng.uniform(size=9)
        lo, hi = value_of(pool, [Enclosure(middle, np.zeros(9), radius)]).ends()
        ends = [middle - radius, middle + radius, *rng.uniform(-1, 1, (500, 9)) * radius + middle]
        found = pool(np.array(ends))
        assert np.all(lo <= found) and np.all(found <= hi)
        assert np.all(hi - lo <= found[1] - found[0] + 2 * radius.max() + 1e-15)
