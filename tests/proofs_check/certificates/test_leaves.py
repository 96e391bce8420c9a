"""Certificates that rest on a tree of cuts: proved again on its leaves, whatever the tree."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from proofs_check.certificates import checker, recursion
from proofs_check.certificates.activations import Bend
from proofs_check.certificates.checker import check
from reconstruct.bounds import Adaptive, Crown
from reconstruct.certificates import Verdict
from reconstruct.constructions import Wide
from reconstruct.constructions.frozen import draw
from reconstruct.networks import Affine, Box, LeakyRelu, Network, Node, Relu
from reconstruct.pipeline import reconstruct
from tests.certificates.building import random_target

from .making import certified, document_of, edit


def tight(folder, seed: int = 0, activation=None, sizes=(2, 6, 6, 5, 2)) -> Network:
    """A reconstruction whose shifts rest on a tree, with its certificate."""
    rng = np.random.default_rng(seed)
    target = random_target(rng, sizes, activation=activation or Relu())
    box = Box(-1.0, 1.0).of_size(sizes[0])
    frozen = draw(target, Wide(ratio=1.5), seed=seed)
    result = reconstruct(target, frozen, domain=box, bounds=Adaptive(boxes=200))
    rest = {"bounds": Adaptive(), "known": result.known}
    certificate = certified(folder, target, result.network, box, **rest)
    assert certificate.verdict is Verdict.CERTIFIED
    assert certificate.tree is not None and certificate.tree.count(0) > 20
    return target


@pytest.mark.parametrize(("seed", "activation"), [(0, Relu()), (1, LeakyRelu(0.1))])
def test_a_certificate_on_leaves_is_proved_again(tmp_path, seed, activation) -> None:
    tight(tmp_path, seed, activation)
    report = check(tmp_path)
    assert report.accepted and "bound" in report.verified


def test_shifts_that_rest_on_a_tree_need_it(tmp_path) -> None:
    """Without the tree, or with a coarser one, the units cannot be shown to stay active."""
    tight(tmp_path)
    edit(tmp_path, "tree", value=None)
    assert not check(tmp_path).accepted
    edit(tmp_path, "tree", value="00")
    assert not check(tmp_path).accepted


@pytest.mark.parametrize("tree", ["", "01", "0000", "03000000", "0g", "0", 5])
def test_what_is_no_tree_is_rejected_by_name(tmp_path, tree) -> None:
    tight(tmp_path)
    edit(tmp_path, "tree", value=tree)
    assert check(tmp_path).field == "tree"


def test_crown_needs_no_tree(tmp_path) -> None:
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (2, 4, 2)), Box(-1.0, 1.0).of_size(2)
    network = reconstruct(target, draw(target, Wide()), domain=box).network
    certified(tmp_path, target, network, box, bounds=Crown())
    assert document_of(tmp_path)["tree"] is None and check(tmp_path).accepted


def lattice(seed: int = 0) -> Network:
    """The largest of four minima of four linear functions each, in maps that follow one another.

    Functions are chosen more than once, so that many differences are zero but for rounding.
    """
    rng = np.random.default_rng(seed)
    pair = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    signs = {"min": np.array([[0.5, -0.5, -0.5, -0.5]]), "max": np.array([[0.5, -0.5, 0.5, 0.5]])}
    chosen = np.eye(5)[rng.integers(0, 5, size=16)]
    nodes = [
        Node("linear", Affine(rng.normal(size=(5, 2)).astype(np.float32)), ("input",)),
        Node("chosen", Affine(chosen), ("linear",)),
    ]
    size, last = 16, "chosen"
    for number, kind in enumerate(("min", "min", "max", "max")):
        size //= 2
        names = [f"{part}{number}" for part in ("pairs", "act", "bank")]
        ops = (
            Affine(np.kron(np.eye(size), pair)),
            Relu(),
            Affine(np.kron(np.eye(size), signs[kind])),
        )
        for name, op in zip(names, ops, strict=True):
            nodes.append(Node(name, op, (last,)))
            last = name
    return Network(2, tuple(nodes), last)


@pytest.mark.parametrize("seed", range(3))
def test_a_lattice_of_equal_functions_is_proved_again(tmp_path, seed) -> None:
    """Which lines units take must not hang on rounding, here or there."""
    target, box = lattice(seed), Box(-2.0, 2.0).of_size(2)
    method = Adaptive(boxes=60)
    result = reconstruct(target, draw(target, Wide(1.5), seed=seed), domain=box, bounds=method)
    rest = {"bounds": method, "known": result.known}
    found = certified(tmp_path, target, result.network, box, **rest)
    assert found.verdict == "certified" and found.method == "layered" and found.bound < 1e-11
    assert check(tmp_path).accepted


@pytest.mark.parametrize("end", [0.0, 1e-15, -1e-15])
def test_a_range_that_ends_at_a_kink_loses_no_more_than_one_across_it(end: float) -> None:
    """Boxes are cut where a unit is 0: with a slope of 1 and no room errors would count twice."""
    step, error = mock.Mock(bend=Bend(Relu())), np.full((1, 1, 1), 1e-12)
    for lo, hi in ((end, 2.0), (-2.0, end)):
        chords = recursion.chords(step.bend, np.array([[lo]]), np.array([[hi]]))
        passed = np.abs(chords.middle) * error[..., 0] + chords.noise(error)[..., 0]
        assert passed <= 1e-12 * (1 + 1e-9)
    far = recursion.chords(step.bend, np.array([[1e-3]]), np.array([[2.0]]))
    assert far.middle == 1 and far.radius == 0 and far.noise(error) <= 1e-300


def test_figures_are_the_same_a_few_boxes_at_a_time(tmp_path) -> None:
    """Wide layers take fewer boxes together; what is proved is the worst of all of them."""
    tight(tmp_path)
    proved, walks = [], []
    plain, walk = recursion.figures, recursion.Walk

    def figures(*given):
        proved.append(plain(*given))
        return proved[-1]

    def counted(found, names, rows):
        walks[-1] += 1
        return walk(found, names, rows)

    for held in (recursion.HELD, 1):
        walks.append(0)
        with (
            mock.patch.object(recursion, "HELD", held),
            mock.patch.object(recursion, "Walk", counted),
            mock.patch.object(checker, "figures", figures),
        ):
            assert check(tmp_path).accepted
    assert walks[0] < walks[1] and proved[0] == pytest.approx(proved[1], rel=1e-9)
