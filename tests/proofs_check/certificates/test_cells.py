"""The cells of a grid, bounded together: exact values inside, and no worse than box by box."""

from __future__ import annotations

import numpy as np
import pytest

from proofs_check.certificates import cells as module
from proofs_check.certificates.cells import Cells, in_batches, unit_by_unit
from proofs_check.certificates.checker import check
from proofs_check.certificates.form import Form
from proofs_check.certificates.forms import Forms
from proofs_check.certificates.reachable import Ranges, meet
from reconstruct.bounds import Split
from reconstruct.networks import Add, Affine, Box, Clip, LeakyRelu, Network, Node, Relu
from tests.bounds.rational import holds, rational_values
from tests.certificates.building import random_target, wide
from tests.networks.test_images import small_network

from .making import certified, document_of, edit

CUTS = ("act1", "act2", "sum")


def branching(seed: int) -> Network:
    """Weights of all sizes, and a sum of two cuts that come from one value: they may cancel."""
    rng = np.random.default_rng(seed)
    scale = (1.0, 1e-3, 30.0, 1e120, 1e-160)[seed % 5]
    op = (Relu(), LeakyRelu(0.3), Clip(-0.5, 0.75))[seed % 3]
    return Network(
        2,
        (
            Node("layer1", Affine(scale * rng.normal(size=(4, 2)), rng.normal(size=4)), ("input",)),
            Node("act1", op, ("layer1",)),
            Node("layer2", Affine(rng.normal(size=(4, 4)), rng.normal(size=4)), ("act1",)),
            Node("act2", op, ("layer2",)),
            Node("turned", Affine(rng.normal(size=(4, 4))), ("act1",)),
            Node("sum", Add(), ("act2", "turned")),
            Node("last", Affine(rng.normal(size=(3, 4)), rng.normal(size=3)), ("sum",)),
        ),
        "last",
    )


def known_roughly(form: Form, off: float) -> module.Range:
    """The floats of a form moved by `off`, relative, and counted as known no better."""
    middle, error = form.floats()
    moved = middle * (1 + off * np.sign(np.sin(np.arange(middle.size) + 1)).reshape(middle.shape))
    return moved, np.maximum(error, 1.001 * np.abs(moved - middle))


def bounded(
    network: Network, reaches: list[Cells] | list[Ranges], off: float = 0.0
) -> dict[str, module.Range]:
    """The ranges of all cuts and of the output over some boxes."""
    forms = Forms(network, {n: n for n in ("input", *CUTS)}, kernels=False)
    for name in CUTS:
        node = forms.nodes[name]
        bent = name != "sum"
        form = forms.whole(node.inputs[0]) if bent else forms.own(node)
        op, bend = (node.op, forms.bend(node)) if bent else (None, None)
        for reach in reaches:
            reach.add_cut(name, form, known_roughly(form, off), op, bend)
    form = forms.whole("last")
    found = {name: meet([reach.ranges[name] for reach in reaches], 0) for name in CUTS}
    return found | {
        "last": meet([reach.of_form(form, known_roughly(form, off)) for reach in reaches], 0),
        "exactly": meet([reach.exactly(form) for reach in reaches], 0),
    }


@pytest.mark.parametrize("seed", range(15))
def test_exact_values_are_inside_and_nothing_is_lost_to_box_by_box(seed, monkeypatch) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    network, rng = branching(seed), np.random.default_rng(seed)
    width = (1.0, 0.0, 1e-9)[seed // 5]
    cells = list(Box([-0.5, 0.25], [-0.5 + width, 1.0]).split((3, 2)))
    together = bounded(network, list(in_batches("input", cells)))
    apart = bounded(network, [Ranges("input", cell.lo, cell.hi) for cell in cells])
    for cell in cells:
        for point in (cell.lo, *cell.sample(1, rng)):
            exact = rational_values(network, point)
            exact["exactly"] = exact["last"]
            assert all(holds(together[name], exact[name]) for name in together)
    for name, (lo, hi) in together.items():
        room = 1e-12 * (np.abs(apart[name][0]) + np.abs(apart[name][1]))
        assert (lo >= apart[name][0] - room).all() and (hi <= apart[name][1] + room).all()


@pytest.mark.parametrize("seed", [0, 5, 10])
def test_what_is_known_roughly_is_charged(seed) -> None:
    """Lines through a thousandth of a box are nearly exact: what forms may be off by decides."""
    network, cells = branching(seed), list(Box([-0.5, 0.25], [-0.499, 0.251]).split((2, 1)))
    together = bounded(network, list(in_batches("input", cells)), off=1e-2)
    apart = bounded(network, [Ranges("input", cell.lo, cell.hi) for cell in cells], off=1e-2)
    for cell in cells:
        exact = rational_values(network, cell.lo)
        assert all(holds(together[name], exact[name]) for name in ("last", *CUTS))
    for end, other in zip(together["last"], apart["last"], strict=True):
        np.testing.assert_allclose(end, other, rtol=1e-9)


def test_a_grid_decides_what_the_box_does_not(tmp_path) -> None:
    """Shifts that rest on a grid need it; every cell counts, in whichever batch it is."""
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (2, 6, 6, 2)), Box(-1.0, 1.0).of_size(2)
    network = wide(target, box, rng, method=Split(parts=5))
    certified(tmp_path, target, network, box, bounds=Split(parts=5))
    report = check(tmp_path)
    assert report.accepted and "bound" in report.verified, report
    grid = document_of(tmp_path)["grid"]
    assert grid == [5, 5]
    edit(tmp_path, "grid", value=[2, 2])
    assert not check(tmp_path).accepted


def test_values_beyond_the_floats_bound_nothing() -> None:
    network = Network.mlp([1e200 * np.eye(2), 1e200 * np.eye(2)], None)
    cells = Cells("input", np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]))
    forms = Forms(network, {"input": "input", "act1": "act1"}, kernels=False)
    node, form = forms.nodes["act1"], forms.whole("layer1")
    cells.add_cut("act1", form, form.floats(), node.op, forms.bend(node))
    last = forms.whole("layer2")
    assert (cells.of_form(last, last.floats())[1] == np.inf).all()


def test_images_are_left_to_other_bounds() -> None:
    assert unit_by_unit(Network.mlp([np.eye(2)], None))
    assert not unit_by_unit(Network.mlp([np.eye(2)], None), small_network())
