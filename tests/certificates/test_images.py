"""Certificates of networks on images: composed as kernels, on boxes, points and unions of boxes."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.formats import load, save
from reconstruct.networks import Box, Convolution, Points
from tests.constructions.test_images import GEOMETRIES, one_convolution
from tests.networks.test_images import small_network

DOMAINS = [
    Box(-0.3, 0.4),
    Points(np.random.default_rng(0).uniform(-0.3, 0.4, (5, 72))),
    Points(np.random.default_rng(0).uniform(-0.3, 0.4, (5, 72)), 0.01),
]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_rebuilt_convolution_is_certified_and_the_bound_holds(name):
    target = one_convolution(name)
    network = rc.reconstruct(target, rc.draw(target, seed=1), domain=Box(-1, 1)).network
    certificate = rc.certify(target, network, domain=Box(-1, 1))
    assert certificate.verdict == "certified" and certificate.bound < 1e-13
    x = np.random.default_rng(2).uniform(-1, 1, (50, target.size_in))
    assert np.abs(network(x) - target(x)).max() <= certificate.float64_bound
    single = np.abs(network(x, np.float32) - target(x.astype(np.float32).astype(float))).max()
    assert single <= certificate.float32_bound


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_cnn_is_certified_as_its_file_is_read(domain, dtype, tmp_path):
    target = small_network()
    result = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain)
    save(result.network, tmp_path / "f.onnx", dtype=dtype)
    network = load(tmp_path / "f.onnx")
    certificate = rc.certify(target, network, domain=domain)
    assert certificate.verdict == "certified"
    assert certificate.bound < (1e-12 if dtype == np.float64 else 1e-3)
    x = domain.of_size(72).sample(100, np.random.default_rng(3))
    assert np.abs(network(x) - target(x)).max() <= certificate.bound + 1e-11


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_a_tolerance_just_above_what_is_proved_is_enough(domain):
    """Intervals at an input are wider than the errors: they do not tell what can be proved."""
    target = small_network()
    network = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain).network
    first = rc.certify(target, network, domain=domain)
    again = rc.certify(target, network, domain=domain, tolerance=first.bound, time_limit=600)
    assert (again.verdict, again.method, again.bound) == ("certified", "layered", first.bound)


def test_a_changed_kernel_is_never_certified_at_the_old_bound():
    target = small_network()
    network = rc.reconstruct(target, rc.draw(target, seed=1), domain=Box(-0.3, 0.4)).network
    good = rc.certify(target, network, domain=Box(-0.3, 0.4))
    for name in ("n1.M1", "n1.M2", "c2.M1", "c2.M2"):
        op = network.node(name).op
        assert isinstance(op, Convolution)
        kernel = np.array(op.kernel, dtype=np.float64)
        kernel.flat[3] += 1e-3
        changed = network.with_ops({name: Convolution(kernel, op.geometry, op.offsets, op.groups)})
        bad = rc.certify(target, changed, domain=Box(-0.3, 0.4), time_limit=2)
        assert bad.verdict != "certified" or bad.bound > 100 * good.bound


def test_a_point_outside_of_the_data_is_not_claimed():
    """On two points far apart the shifts cover both, and nothing between them has to be covered."""
    target = small_network()
    points = Points(np.stack([np.full(72, -0.3), np.full(72, 0.4)]))
    network = rc.reconstruct(target, rc.draw(target, seed=1), domain=points).network
    assert rc.certify(target, network, domain=points).verdict == "certified"
    wide = rc.certify(target, network, domain=Box(-5, 5), time_limit=5)
    assert wide.verdict != "certified"
