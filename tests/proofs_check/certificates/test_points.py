"""For these N inputs: proved again by an evaluation of the checker's own."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.points import Evaluation, apart
from proofs_check.certificates.report import NotCheckable
from reconstruct.certificates import Certificate, enclose
from reconstruct.constructions import draw
from reconstruct.formats import load, save, sha256_file
from reconstruct.networks import (
    Box,
    Convolution,
    Dense,
    Network,
    Node,
    Placement,
    Points,
    Relu,
    Select,
)
from reconstruct.networks.blocks import Tree, in_blocks
from reconstruct.pipeline import reconstruct
from tests.certificates.building import long_gap
from tests.certificates.test_at_points import deep, points
from tests.constructions.test_images import GEOMETRIES, one_convolution
from tests.networks.test_images import small_network
from tests.proofs_check.certificates.making import certified, document_of, edit, write

SHORT = Tree(block=4)
CHEAP = 130  # binary digits: enough for small networks


def gap(target: Network, network: Network, x: np.ndarray) -> float:
    """The largest difference, from rational values."""
    pairs = [zip(enclose(target, row), enclose(network, row), strict=True) for row in x]
    return max(float(max(b - c, d - a)) for pair in pairs for (a, b), (c, d) in pair)


def nearly(target: Network, network: Network, x: np.ndarray) -> float:
    """The same by long doubles, for networks whose rationals are too long."""
    return long_gap(target, network, x)


def bounds(target: Network, network: Network, cuts: set[str], x: np.ndarray) -> tuple[float, float]:
    """The largest difference of the outputs, from below and from above."""
    pairs = tuple((node.name, node.name) for node in target.nodes if node.name in cuts)
    return apart(SimpleNamespace(alignment=pairs), target, network, x, CHEAP)


def claim(folder, bound: float, **more: object) -> None:
    """The certificate there as one of a proof at its inputs."""
    document = document_of(folder) | {"method": "pointwise", "segments": [], "bound": bound.hex()}
    write(folder, document | {"float64_bound": None, "float32_bound": None} | more)


@pytest.fixture(scope="module")
def rebuilt() -> tuple[Network, Network, Points]:
    """A small CNN with pools, a placement and a residual sum, rebuilt for some images."""
    target = small_network()
    domain = Points(np.random.default_rng(0).uniform(-0.3, 0.4, (3, 72)))
    return target, reconstruct(target, draw(target, seed=1), domain=domain).network, domain


@pytest.fixture(scope="module")
def layers() -> tuple[Network, Network, Points]:
    """So many layers that intervals of floats know nothing of the output."""
    target, domain = deep(), points(2)
    return target, reconstruct(target, draw(target, seed=0), domain=domain).network, domain


@pytest.fixture(scope="module")
def proved(tmp_path_factory, layers) -> tuple[Path, Certificate]:
    """The certificate of the many layers, and its folder, which is copied before it is changed."""
    folder = tmp_path_factory.mktemp("layers")
    return folder, certified(folder, *layers)


def test_a_deep_network_is_accepted_and_less_than_its_difference_is_not(
    tmp_path, layers, proved
) -> None:
    target, network, domain = layers
    folder, certificate = proved
    copytree(folder, tmp_path, dirs_exist_ok=True)
    assert certificate.method == "pointwise" and not certificate.segments
    report = check(tmp_path)
    assert report.accepted and report.verified == ("bound",), report
    edit(tmp_path, "bound", value=(0.9 * nearly(target, network, domain.x)).hex())
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field == "bound", report


def test_a_changed_weight_is_rejected(tmp_path, layers, proved) -> None:
    _, network, _ = layers
    copytree(proved[0], tmp_path, dirs_exist_ok=True)
    assert proved[1].method == "pointwise"
    name = next(n.name for n in network.nodes if n.name.endswith("M2"))
    op = network.node(name).op
    weight = np.array(op.tile(0, op.shape[0]), dtype=np.float64)
    weight[0, 0] += 1e-6
    path = tmp_path / "network.npz"
    save(load(path).with_ops({name: Dense(weight, op.bias)}), path)
    assert check(tmp_path).field == "candidate.sha256"
    edit(tmp_path, "candidate", "sha256", value=sha256_file(path))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field == "bound", report


def test_images_are_evaluated_by_kernels_and_the_bound_is_sharp(tmp_path, rebuilt) -> None:
    target, network, domain = rebuilt
    certified(tmp_path, *rebuilt)
    true = gap(target, network, domain.x)
    claim(tmp_path, (1 + 1e-9) * true)
    assert check(tmp_path).accepted, check(tmp_path)
    claim(tmp_path, (1 - 1e-9) * true)
    assert check(tmp_path).field == "bound"


def test_any_cuts_are_sound_and_the_right_ones_sharp(rebuilt) -> None:
    target, network, domain = rebuilt
    acts = [n.name for n in network.activation_nodes()]
    right = {n for n in acts if n in target.sizes}
    true, rng = gap(target, network, domain.x), np.random.default_rng(2)
    assert 0 < len(right) < len(acts)
    for cuts in (
        right,
        set(),
        set(acts),
        *({n for n in acts if rng.random() < 0.5} for _ in "abc"),
    ):
        try:
            least, most = bounds(target, network, cuts, domain.x)
        except NotCheckable:
            assert not right <= cuts and cuts  # a maximum is no map that can be composed
            continue
        assert least <= true * (1 + 1e-15) and true <= most * (1 + 1e-15)  # true is a float
        if right <= cuts or not cuts:
            assert most - least <= 1e-9 * most


def test_a_hidden_unit_that_leaves_its_line_is_seen(rebuilt) -> None:
    """One shift of 0.5 less at a hidden channel: the true difference stays below the bound."""
    target, network, domain = rebuilt
    name = next(n.name for n in network.norm_nodes() if n.name.endswith("norm1"))
    norm = network.node(name).op
    beta = np.array(norm.beta)
    beta[0] -= 1.01 * np.abs(beta[0])
    wrong = network.with_ops({name: norm.tuned(norm.gamma, beta)})
    cuts = {n.name for n in network.activation_nodes() if n.name in target.sizes}
    true = gap(target, wrong, domain.x)
    least, most = bounds(target, wrong, cuts, domain.x)
    assert true > 1e-9 and most > least and least <= true <= most


def test_an_image_in_a_batch_of_others_is_not_overlooked(rebuilt, monkeypatch, tmp_path) -> None:
    target, network, domain = rebuilt
    certified(tmp_path, *rebuilt)
    monkeypatch.setattr("proofs_check.certificates.points.BATCH", 2)
    each = [gap(target, network, x[None]) for x in domain.x]
    order = [*np.argsort(each)]  # the worst image last, in a batch of its own
    rows = document_of(tmp_path)["domain"]
    sorted_ = {side: [rows[side][i] for i in order] for side in ("lo", "hi")}
    claim(tmp_path, (1 + 1e-9) * max(each), domain=rows | sorted_)
    assert check(tmp_path).accepted
    claim(tmp_path, 0.5 * (sorted(each)[-1] + sorted(each)[-2]), domain=rows | sorted_)
    assert check(tmp_path).field == "bound"


def test_a_box_is_not_proved_by_its_inputs(tmp_path, rebuilt) -> None:
    target, network, _ = rebuilt
    certified(tmp_path, target, network, Box(-0.01, 0.01).of_size(72), tolerance=10.0)
    claim(tmp_path, 9.0)
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field == "method", report


def test_a_refuted_network_may_have_a_bound_at_its_inputs(tmp_path, layers) -> None:
    target, network, domain = layers
    name = next(n.name for n in network.norm_nodes() if n.name.endswith("norm2"))
    norm = network.node(name).op
    beta = np.array(norm.beta)
    beta[0] += 1e-5
    wrong = network.with_ops({name: norm.tuned(norm.gamma, beta)})
    tolerance = nearly(target, wrong, domain.x) / 2
    found = certified(tmp_path, target, wrong, domain, tolerance=tolerance, bound_anyway=True)
    assert found.verdict == "refuted" and found.bound > tolerance and not found.segments
    report = check(tmp_path)
    assert report.accepted and report.verified == ("bound", "witness"), report


def test_convolutions_of_every_geometry_hold_their_rational_values() -> None:
    for name in GEOMETRIES:
        target = one_convolution(name)
        assert any(isinstance(n.op, Convolution) for n in target.nodes)
        x = np.random.default_rng(3).normal(size=(1, target.size_in))
        (value,) = Evaluation(target, x, CHEAP).outputs()
        pairs = zip(enclose(target, x[0]), value.intervals(), strict=True)
        for (low, high), (least, most) in pairs:
            assert least <= low and high <= most and most - least <= 2e-30


def test_sums_in_blocks_behind_hidden_units_are_sharp(tmp_path, rebuilt) -> None:
    """Blocks of hidden units are selected one by one: what is selected counts, and not all."""
    target, network, domain = rebuilt
    spelled = in_blocks(network, SHORT)
    assert sum(isinstance(n.op, Select) for n in spelled.nodes) == 3
    certified(tmp_path, target, spelled, domain)
    true = gap(target, spelled, domain.x)
    claim(tmp_path, (1 + 1e-9) * true)
    assert check(tmp_path).accepted, check(tmp_path)
    claim(tmp_path, (1 - 1e-9) * true)
    assert check(tmp_path).field == "bound"


@pytest.mark.parametrize("move", [Placement([1, 0, 2], 3), Placement([0, -1, 2], 3)])
def test_hidden_units_that_move_are_not_taken_where_they_were(move, tmp_path) -> None:
    """A forger lets hidden units change places, or drops one, where none of them bends."""
    weight = np.array([[1.0, 2.0, -3.0]])
    parts = (
        Node("m", Dense(np.eye(3), np.full(3, 5.0)), ("x",)),
        Node("h", Relu(), ("m",)),
        Node("w", Dense(weight), ("h",)),
        Node("r", Relu(), ("w",)),
    )
    target = Network(3, parts, "r", "x")
    behind = Node("w", Dense(weight), ("p",))
    network = Network(3, (*parts[:2], Node("p", move, ("h",)), behind, parts[3]), "r", "x")
    x = np.array([[0.5, 0.25, -2.0]])
    true = gap(target, network, x)
    least, most = bounds(target, network, {"r"}, x)
    assert true > 0.2 and abs(least - true) <= 1e-12 and abs(most - true) <= 1e-12
    certified(tmp_path, target, network, Points(x), tolerance=100.0)
    claim(tmp_path, 1e-3, alignment=[["r", "r"]])
    assert check(tmp_path).field == "bound"
