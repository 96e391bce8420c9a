"""Networks on images: convolutions, pools and placements are checked by what they declare."""

from __future__ import annotations

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, affine, check
from proofs_check.certificates.activations import Windows
from proofs_check.certificates.affine import Forms
from proofs_check.certificates.points import evaluate
from proofs_check.certificates.ranges import unrolled
from reconstruct.certificates import Verdict, enclose
from reconstruct.constructions import draw
from reconstruct.formats import load, save, sha256_file
from reconstruct.networks import Box, Convolution, MaxPool, Network, Node, Placement
from reconstruct.networks.maps.convolution import Geometry
from reconstruct.pipeline import reconstruct
from tests.networks.test_images import small_network
from tests.proofs_check.certificates.making import certified, edit

BOX = Box(-0.3, 0.4)


@pytest.fixture(scope="module")
def rebuilt() -> tuple[Network, Network]:
    target = small_network()
    return target, reconstruct(target, draw(target, seed=1), domain=BOX).network


def test_a_rebuilt_cnn_is_accepted_and_a_changed_kernel_is_not(tmp_path, rebuilt) -> None:
    target, network = rebuilt
    kinds = {type(node.op).__name__ for node in target.nodes}
    assert {"Convolution", "MaxPool", "SumPool", "Placement"} <= kinds
    certificate = certified(tmp_path, target, network, BOX.of_size(72))
    assert certificate.verdict is Verdict.CERTIFIED
    assert check(tmp_path).accepted, check(tmp_path)
    op = load(tmp_path / "network.npz").node("c2.M2").op
    assert isinstance(op, Convolution)
    kernel = np.array(op.kernel, dtype=np.float64)
    kernel.flat[0] += 1e-6
    changed = Convolution(kernel, op.geometry, op.offsets, op.groups)
    save(network.with_ops({"c2.M2": changed}), tmp_path / "network.npz")
    edit(tmp_path, "candidate", "sha256", value=sha256_file(tmp_path / "network.npz"))
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED and report.field.startswith("segments["), report


def test_what_would_take_hours_is_not_checkable(tmp_path, rebuilt, monkeypatch) -> None:
    certified(tmp_path, *rebuilt, BOX.of_size(72))
    monkeypatch.setattr(affine, "MOST_WORK", 1000)
    report = check(tmp_path)
    assert report.status is CheckStatus.NOT_CHECKABLE and "n1.M2" in report.reason, report


def test_both_exact_evaluations_of_a_cnn_agree(rebuilt) -> None:
    for network in rebuilt:
        x = BOX.of_size(72).sample(1, np.random.default_rng(1))[0]
        for (low, high), (least, most) in zip(
            enclose(network, x), evaluate(network, x), strict=True
        ):
            assert low <= most and least <= high


GEOMETRY = Geometry(2, 4, 5, (2, 3), (1, 2), (1, 1, 0, 1))


def pool() -> MaxPool:
    return MaxPool(GEOMETRY)


def test_the_lines_around_a_maximum_hold_and_so_does_its_range() -> None:
    op, rng = pool(), np.random.default_rng(2)
    windows = Windows(op, GEOMETRY.size)
    for spread in (0.01, 1.0):
        lo = rng.normal(size=GEOMETRY.size)
        hi = lo + spread * rng.uniform(size=GEOMETRY.size)
        places = windows.chosen(lo[None], hi[None])
        band, chosen = windows.band(lo[None], hi[None], places), places[0]
        low, high = windows.range(lo[None], hi[None])
        for part in (0.0, 1.0, *rng.uniform(size=(40, GEOMETRY.size))):
            z = lo + part * (hi - lo)
            y = op(z[None])[0]
            assert (band.below * z[chosen] + band.low <= y).all()
            assert (y <= band.above * z[chosen] + band.high).all()
            assert (low <= y).all() and (y <= high).all()
    exact = windows.band(lo[None], lo[None], windows.chosen(lo[None], lo[None]))
    assert (band.above == 0).any() and (exact.above == 1).all()


def test_what_a_window_does_not_know_is_infinite() -> None:
    windows = Windows(pool(), GEOMETRY.size)
    unknown = np.full((1, GEOMETRY.size), np.nan)
    assert (windows.largest(unknown) == np.inf).all()
    low, high = windows.range(unknown, unknown)
    assert (low == -np.inf).all() and (high == np.inf).all()
    assert (windows.band(unknown, unknown, windows.chosen(unknown, unknown)).above == 0).all()


def test_maxima_over_other_windows_are_notalike(tmp_path, rebuilt) -> None:
    target, network = rebuilt
    certified(tmp_path, target, network, BOX.of_size(72))
    op = network.node("p").op
    assert isinstance(op, MaxPool)
    other = MaxPool.__new__(MaxPool)
    object.__setattr__(other, "geometry", op.geometry)
    places = np.array(op.windows)
    places[:, [0, 1]] = places[:, [1, 0]]
    other.__dict__["windows"] = places
    from proofs_check.certificates.cuts import alike

    ours = Node("p", op, ("r1",))
    assert alike(ours, ours) and not alike(ours, Node("p", other, ("r1",)))


def test_placements_move_rows_and_leave_zeros() -> None:
    index = np.array([2, -1, 0, 2])
    network = Network(3, (Node("m", Placement(index, 3), ("input",)),), "m")
    form = Forms(network, {"input": "x"}).whole("m")
    (term,) = unrolled(form, form.floats(), {"x": 3}).terms
    assert term.error is None
    assert np.array_equal(term.matrix, np.where(index[:, None] == np.arange(3), 1.0, 0.0))
