"""Images that are normalised inside of the network, ahead of a convolution with pads."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import CheckStatus, check
from reconstruct.certificates import write_certificate
from reconstruct.formats import load, save, sha256_file
from reconstruct.networks import Box, Convolution, Geometry, Network, Node, Points, Relu, Scaling
from tests.proofs_check.certificates.making import edit

SHAPE = (3, 4, 4)


def normalised(mean, deviation) -> Network:
    """(x − mean)/deviation, a convolution with pads, ReLU, and another one."""
    size = int(np.prod(SHAPE))
    rng = np.random.default_rng(0)
    first = Geometry(*SHAPE, (3, 3), (1, 1), (1, 1, 1, 1))
    second = Geometry(2, 4, 4, (2, 2), (2, 2))
    nodes = (
        Node("sub", Scaling(np.ones(size), None, -np.asarray(mean)), ("input",)),
        Node("div", Scaling(np.ones(size), deviation), ("sub",)),
        Node("c", Convolution(rng.normal(size=(2, 3, 3, 3)), first, rng.normal(size=2)), ("div",)),
        Node("r", Relu(), ("c",)),
        Node("d", Convolution(rng.normal(size=(2, 2, 2, 2)), second), ("r",)),
    )
    return Network(size, nodes, "d", metadata={"input_shape": [1, *SHAPE]})


def by_channel() -> Network:
    return normalised(np.repeat([0.5, 0.375, 0.25], 16), np.repeat([0.25, 0.1875, 0.3125], 16))


def by_pixel() -> Network:
    """Float32 numbers, so that a file of these has the same."""
    rng = np.random.default_rng(1)
    return normalised(rng.integers(0, 256, 48) / 256, rng.integers(50, 80, 48) / 256)


DOMAINS = [Box(0, 1), Points(np.random.default_rng(2).uniform(size=(3, 48)), 0.01)]


@pytest.mark.parametrize("network", [by_channel, by_pixel])
@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_normalised_image_is_a_cut(network, domain, dtype, tmp_path):
    target = network()
    save(target, tmp_path / "target.npz")
    target = load(tmp_path / "target.npz")
    result = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain)
    save(result.network, tmp_path / "network.onnx", dtype=dtype)
    candidate = load(tmp_path / "network.onnx")
    certificate = rc.certify(target, candidate, domain=domain)
    assert ("div", "div") in certificate.alignment
    if dtype == np.float64:
        assert certificate.verdict == "certified" and certificate.bound < 1e-12
    x = domain.of_size(48).sample(50, np.random.default_rng(3))
    gap = np.abs(candidate(x) - target(x)).max()
    assert certificate.float64_bound is not None and gap <= certificate.float64_bound
    write_certificate(
        tmp_path / "certificate.json",
        certificate,
        target=tmp_path / "target.npz",
        candidate=tmp_path / "network.onnx",
    )
    assert check(tmp_path).accepted, check(tmp_path)


def test_another_normalisation_is_rejected(tmp_path):
    target, domain = by_channel(), DOMAINS[0]
    result = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain)
    save(target, tmp_path / "target.npz")
    save(result.network, tmp_path / "network.npz")
    pair = load(tmp_path / "target.npz"), load(tmp_path / "network.npz")
    certificate = rc.certify(*pair, domain=domain)
    assert certificate.verdict == "certified"
    write_certificate(
        tmp_path / "certificate.json",
        certificate,
        target=tmp_path / "target.npz",
        candidate=tmp_path / "network.npz",
    )
    assert check(tmp_path).accepted
    other = Scaling(np.ones(48), np.repeat([0.25, 0.1875, 0.3125 + 1e-9], 16))
    save(result.network.with_ops({"div": other}), tmp_path / "network.npz")
    edit(tmp_path, "candidate", "sha256", value=sha256_file(tmp_path / "network.npz"))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field == "alignment", report


def test_how_many_neighbours_are_scaled_alike():
    assert Scaling(np.repeat([1.0, 2.0, 3.0], 4)).repeats == 4
    assert Scaling(np.ones(6)).repeats == 6
    assert Scaling(np.array([1.0, 1.0, 2.0])).repeats == 1
    assert Scaling(np.array([1.0, 1.0, 2.0, 3.0])).repeats == 1
