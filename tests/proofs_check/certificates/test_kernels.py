"""Convolutions composed as kernels: the maps that unrolled ones are, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import issparse

from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.affine import Forms, windows
from proofs_check.certificates.ranges import mapped, unrolled
from reconstruct.constructions import draw
from reconstruct.formats import save, sha256_file
from reconstruct.networks import Box, Convolution, Network, Node, Norm, Points, Relu
from reconstruct.pipeline import reconstruct
from tests.constructions.test_images import GEOMETRIES, one_convolution
from tests.networks.test_images import convolutions, small_network
from tests.proofs_check.certificates.making import certified, close, edit

BOX = Box(-0.3, 0.4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(convolutions())
def test_windows_and_kernels_give_the_unrolled_matrix(op: Convolution) -> None:
    matrix = np.zeros(op.shape)
    places, each = windows(op).reshape(op.groups, -1, op.positions), op.channels // op.groups
    for channel, row in enumerate(op.kernel.reshape(op.channels, -1)):
        for entry, at in zip(row, places[channel // each], strict=True):
            for position, place in enumerate(at):
                if place >= 0:
                    matrix[channel * op.positions + position, place] += entry
    assert np.array_equal(matrix, op.tile(0, op.shape[0]))


def rebuilt(name: str) -> tuple[Network, Network]:
    target = one_convolution(name)
    return target, reconstruct(target, draw(target, seed=1), domain=Box(-1, 1)).network


@pytest.mark.parametrize("name", GEOMETRIES)
def test_forms_by_kernels_are_the_unrolled_forms(name: str) -> None:
    _, network = rebuilt(name)
    last = network.node(network.output).inputs[0]
    act = next(n for n in network.nodes if isinstance(n.op, Relu) and n.name != network.output)
    found = []
    for kernels in (True, False):
        forms = Forms(network, {network.source: "x"})
        forms.doubts[act.name] = np.zeros(network.sizes[act.name])
        positions = forms.positions(last) if kernels else 1
        found.append((forms.whole(last, positions), positions))
    (form, positions), (flat, single) = found
    assert positions == GEOMETRIES[name][0].positions and single == 1
    assert form.rows * positions == flat.rows
    found = []
    for one in (form, flat):
        (term,) = unrolled(one, one.floats(), {"x": network.size_in}).terms
        found.append(term.matrix.toarray() if issparse(term.matrix) else term.matrix)
    assert np.allclose(*found, rtol=2.0**-52, atol=0)  # integers over another denominator
    constant = np.repeat(form.floats()[0][:, -1], positions)
    assert np.allclose(constant, flat.floats()[0][:, -1], rtol=2.0**-52, atol=0)


def shifted_pads(op: Convolution) -> Convolution:
    top, left, bottom, right = op.geometry.pads
    moved = replace(op.geometry, pads=(top + 1, left, bottom - 1, right))
    return Convolution(op.kernel, moved, op.offsets, op.groups)


def transposed_strides(op: Convolution) -> Convolution:
    """Strides (1, 2) for (2, 1), pads so that as many positions are left."""
    g = op.geometry
    turned = replace(g, strides=g.strides[::-1], pads=(g.pads[1], g.pads[0], g.pads[3], g.pads[2]))
    return Convolution(op.kernel, turned, op.offsets, op.groups)


def other_entry(op: Convolution) -> Convolution:
    kernel = np.array(op.kernel, dtype=np.float64)
    kernel.flat[kernel.size // 2] *= 1 + 1e-9
    return Convolution(kernel, op.geometry, op.offsets, op.groups)


def other_bias(op: Convolution) -> Convolution:
    return Convolution(op.kernel, op.geometry, op.offsets + 1e-9, op.groups)


def strided() -> Network:
    """Square images and steps of (2, 1), so that (1, 2) gives as many units."""
    from reconstruct.networks import Geometry

    geometry = Geometry(2, 6, 6, (3, 3), (2, 1), (1, 1, 1, 1))
    rng = np.random.default_rng(0)
    op = Convolution(rng.normal(size=(3, 2, 3, 3)), geometry, rng.normal(size=3))
    return Network(geometry.size, (Node("c", op, ("x",)), Node("r", Relu(), ("c",))), "r", "x")


@pytest.mark.parametrize("change", [other_entry, other_bias, shifted_pads, transposed_strides])
@pytest.mark.parametrize("side", ["target", "network"])
@pytest.mark.parametrize("domain", ["box", "points"])
def test_another_convolution_is_rejected(change, side, domain, tmp_path) -> None:
    target = strided()
    where = BOX.of_size(72) if domain == "box" else Points(BOX.of_size(72).sample(3, _rng()))
    network = reconstruct(target, draw(target, seed=1), domain=where).network
    certified(tmp_path, target, network, where)
    assert check(tmp_path).accepted, check(tmp_path)
    name, net = ("c", target) if side == "target" else ("c.M1", network)
    op = net.node(name).op
    assert isinstance(op, Convolution)
    save(net.with_ops({name: change(op)}), tmp_path / f"{side}.npz")
    part = "target" if side == "target" else "candidate"
    edit(tmp_path, part, "sha256", value=sha256_file(tmp_path / f"{side}.npz"))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED, report


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_norm_per_pixel_is_taken_unit_by_unit() -> None:
    """Units of one channel that are scaled differently: no kernel is the same at every position."""
    target = one_convolution("padded")
    units = target.sizes["c"]
    rng = np.random.default_rng(0)
    norm = Norm(rng.normal(size=units), np.zeros(units), np.zeros(units), np.ones(units))
    nodes = (target.node("c"), Node("n", norm, ("c",)), Node("r", Relu(), ("n",)))
    forms = Forms(Network(target.size_in, nodes, "r", "x"), {"x": "x", "r": "r"})
    assert forms.positions("c") == 25 and forms.positions("n") == 1
    assert forms.whole("n").rows == units


@pytest.mark.parametrize("radius", [0.0, 0.01])
def test_a_cnn_on_data_is_accepted(radius: float, tmp_path) -> None:
    target = small_network()
    points = Points(BOX.of_size(72).sample(3, _rng()), radius)
    network = reconstruct(target, draw(target, seed=1), domain=points).network
    certified(tmp_path, target, network, points)
    report = check(tmp_path)
    assert report.accepted, report
    assert "bound" in report.verified and close(report, tmp_path), report


@settings(max_examples=40, deadline=None, derandomize=True)
@given(convolutions())
def test_what_kernels_make_of_values_is_what_the_unrolled_map_makes(op: Convolution) -> None:
    values = np.random.default_rng(0).uniform(size=(3, op.shape[1]))
    (found,) = mapped(op, lambda matrix, x: (np.abs(matrix) @ x,), values)
    assert np.allclose(found, values @ np.abs(op.tile(0, op.shape[0])).T, rtol=1e-12, atol=0)
