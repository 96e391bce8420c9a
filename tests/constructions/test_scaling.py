"""Which units are scaled: a planted imbalance is found and undone, and rounding does less."""

from __future__ import annotations

import importlib
from unittest import mock

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.bounds import Crown, reach
from reconstruct.certificates.alignment import powers
from reconstruct.constructions.scaling import find_scales
from reconstruct.networks import Affine, Box, Mixing, Network, Node
from reconstruct.networks.rescaling import rescaled

certifying = importlib.import_module("reconstruct.certificates.certify")
BOX = Box(-1.0, 1.0).of_size(3)


def powers_of(network: Network) -> dict[str, np.ndarray]:
    return find_scales(network, reach(network, BOX, Crown()))


def even(seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    sizes = ((3, 8), (8, 8), (8, 2))
    weights = [rng.normal(size=(m, k)).astype(np.float32) / np.sqrt(k) for k, m in sizes]
    return Network.mlp(weights, [0.1 * rng.normal(size=len(w)).astype(np.float32) for w in weights])


def planted(seed: int = 0) -> tuple[Network, dict[str, np.ndarray]]:
    """A network whose units were scaled by wild powers of two."""
    rng = np.random.default_rng(seed + 100)
    wild = {name: rng.integers(-9, 10, size=8) for name in ("act1", "act2")}
    return rescaled(even(seed), wild), wild


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_imbalance_is_undone(seed):
    network, wild = planted(seed)
    found = powers_of(network)
    own = powers_of(even(seed))
    for name, row in wild.items():
        left = row + found[name] - own.get(name, np.zeros(8, dtype=np.int64))
        assert np.ptp(left) <= 4 < np.ptp(row), (name, left)  # rounded, and up to a common power
    assert max(np.abs(row).max() for row in own.values()) <= 4


def test_rounding_does_less_and_the_certificate_holds():
    target, _ = planted(1)
    frozen = rc.draw(target, construction=rc.Wide(ratio=1.5), seed=0)
    result = rc.reconstruct(target, frozen, domain=BOX)
    x = BOX.sample(2000, np.random.default_rng(0)).astype(np.float32)
    exact = target(x.astype(np.float64))
    error = np.abs(result.network(x, dtype=np.float32) - exact).max()
    factors = powers(target, result.network, BOX)
    assert set(factors) == {"act1", "act2"}
    assert np.abs(result.network(x.astype(np.float64)) - exact).max() < 1e-10
    assert error < 2e-5 * np.abs(exact).max()
    certificate = rc.certify(target, result.network, domain=BOX)
    assert certificate.verdict.value == "certified" and certificate.scales


def test_a_network_with_the_same_units_has_no_powers():
    assert powers(even(), even(), BOX) == {}


def test_exact_solves_and_factored_maps_stay_as_they_are():
    target, _ = planted(2)
    for construction, solver in ((rc.Wide(), rc.Exact()), (rc.Factored(), None)):
        frozen = rc.draw(target, construction=construction, seed=0)
        result = rc.reconstruct(target, frozen, domain=BOX, solver=solver)
        assert powers(target, result.network, BOX) == {}


def lattice() -> Network:
    """Differences of functions that are equal: units that are zero everywhere, weights that are
    not, as in networks of minima and maxima."""
    rng = np.random.default_rng(3)
    half, wide = rng.normal(size=(4, 3)), rng.normal(size=(3, 8))
    first = np.concatenate([half, half])
    differences = np.concatenate([np.eye(4), -np.eye(4)], axis=1) * [[64.0], [8.0], [1.0], [0.125]]
    second = np.concatenate([differences, wide])
    return Network.mlp([first, second, rng.normal(size=(2, 7))], [None, None, rng.normal(size=2)])


def test_units_that_are_always_zero_are_not_scaled_and_do_not_spoil_the_proof():
    target = lattice()
    values = target.values(BOX.sample(50, np.random.default_rng(0)))["layer2"]
    assert not values[:, :4].any() and values[:, 4:].any(axis=0).all()
    found = powers_of(target)
    assert found and not found.get("act2", np.zeros(7))[:4].any()
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(2.0)), domain=BOX)
    certificate = rc.certify(target, result.network, domain=BOX)
    assert certificate.verdict == "certified" and certificate.method == "layered"
    assert certificate.bound is not None and certificate.bound < 1e-12


def in_a_row(seed: int = 0) -> Network:
    """A planted imbalance with two maps in front of each activation."""
    network, _ = planted(seed)
    nodes, place = [], {network.source: network.source}
    for node in network.nodes:
        inputs = tuple(place[i] for i in node.inputs)
        if isinstance(node.op, Mixing):
            k = node.op.shape[1]
            mix = Affine(np.random.default_rng(k).normal(size=(k, k)) / np.sqrt(k))
            nodes.append(Node(f"{node.name}_mix", mix, inputs))
            inputs = (f"{node.name}_mix",)
        nodes.append(Node(node.name, node.op, inputs))
        place[node.name] = node.name
    return Network(network.size_in, tuple(nodes), network.output)


@pytest.mark.parametrize("method", [rc.Crown(), rc.Adaptive(boxes=64)])
def test_a_certificate_rests_on_the_bounds_that_shifts_were_made_from(monkeypatch, method):
    target = in_a_row()
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(1.5)), domain=BOX, bounds=method)
    assert result.form.merged and powers(target, result.network, BOX)
    monkeypatch.setattr(certifying, "reach", None)
    network, known = result.network, result.known
    certificate = rc.certify(target, network, domain=BOX, bounds=method, known=known)
    assert certificate.verdict == "certified" and certificate.method == "layered"


def test_weights_that_cannot_be_scaled_stay_as_they_are():
    smallest = 2.0**-1074
    network, _ = planted()
    ops = {n.name: n.op for n in network.nodes if isinstance(n.op, Mixing)}
    weight = np.array(ops["layer2"].matrix, dtype=np.float64)
    weight[1, 2] = smallest  # its row and its column are both scaled down
    target = network.with_ops({"layer2": Affine(weight, ops["layer2"].bias)})
    assert powers_of(target)
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(1.5)), domain=BOX)
    assert powers(target, result.network, BOX) == {}


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_rows_are_scaled_with_their_units(norm):
    """A unit that is never active costs the whole site the size of its weights, unless its scale
    falls."""
    target = even(2)
    weight, bias = (np.array(target.node("layer2").op.arrays()[k]) for k in ("weight", "bias"))
    weight[3] *= 2.0**5
    bias[3] = -(2.0**9)
    target = target.with_ops({"layer2": Affine(weight, bias)})
    found = powers_of(target)
    assert found["act2"][3] <= min(0, np.median(found["act2"]) - 2)
    x = BOX.sample(500, np.random.default_rng(0)).astype(np.float32)

    def error() -> float:
        frozen = rc.draw(target, rc.Wide(1.5, norm), seed=0)
        network = rc.reconstruct(target, frozen, domain=BOX).network
        exact = target(x.astype(np.float64))
        return float(np.sqrt(np.mean((network(x, dtype=np.float32) - exact) ** 2)))

    scaled = error()
    with mock.patch("reconstruct.pipeline.scaled_layout", lambda layout, *_: layout):
        assert scaled < 0.5 * error()
