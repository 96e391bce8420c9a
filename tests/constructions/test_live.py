"""Frozen layers with live norms: exact for targets that have them, approximate for others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.certificates.document import write_certificate
from reconstruct.formats.onnx.write import write_guarded
from reconstruct.khatri_rao import SOLVERS
from reconstruct.networks import Affine, Dense, LayerNorm, LiveNorm, Network, Node, Relu, RMSNorm
from reconstruct.networks.activations import Gelu
from tests.constructions.targets import mlp

X = np.random.default_rng(1).normal(size=(12, 4))


def normed_mlp(
    eps: float, kind: type[LiveNorm] = LayerNorm, widths: tuple[int, ...] = (4, 6, 5, 3)
) -> Network:
    """Linear, live norm, ReLU, …, ending in a live norm."""
    rng, nodes, last = np.random.default_rng(0), [], "input"
    for i, (k, m) in enumerate(pairwise(widths), start=1):
        nodes.append(
            Node(f"l{i}", Affine(rng.normal(size=(m, k)), rng.normal(size=m) / 2), (last,))
        )
        gamma, beta = 1 + rng.normal(size=m) / 5, rng.normal(size=m) / 5
        nodes.append(Node(f"n{i}", kind(gamma, beta, eps), (f"l{i}",)))
        nodes.append(Node(f"r{i}", Relu(), (f"n{i}",)))
        last = f"r{i}"
    return Network(widths[0], tuple(nodes[:-1]), f"n{len(widths) - 1}")


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_without_eps_live_norms_rebuild_live_norms_at_every_scale(kind: type[LiveNorm]) -> None:
    """A positive factor that all hidden units share is lost behind the second norm."""
    target = normed_mlp(0.0, kind)
    frozen = rc.draw(target, rc.Wide(1.5), seed=2)
    assert {type(n.op) for n in frozen.network.nodes if hasattr(n.op, "gamma")} == {kind}
    network = rc.reconstruct(target, frozen, domain=rc.Points(X)).network
    assert np.abs(network(X) - target(X)).max() < 1e-12


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("change", [None, "gamma", "shift", "frozen", "eps", "pair"])
def test_without_eps_rational_norms_are_the_target_for_every_input(
    kind: type[LiveNorm], change: str | None, tmp_path: Path
) -> None:
    """The identity knows no domain; the file's rounded norms are certified at inputs."""
    target, domain = normed_mlp(0.0, kind, (3, 4, 3)), rc.Points(X[:3, :3])
    frozen = rc.draw(target, rc.Wide(1.5), seed=2)
    result = rc.reconstruct(target, frozen, domain=domain, solver=SOLVERS["exact"]())
    far = 1e6 * np.random.default_rng(5).normal(size=(50, 3))
    assert np.abs(result.network(far) - target(far)).max() < 1e-9
    certificate = rc.certify(target, result.network, domain=domain, exact_norms=result.exact)
    assert certificate.verdict.value == "certified" and certificate.rigor.value == "exact"
    assert "for every input" in certificate.tried[-1]
    norms, network = dict(result.exact or {}), result.network
    first = norms["l1.norm1"]
    if change == "gamma":
        wrong = (first.gamma[0] * (1 + Fraction(1, 10**30)), *first.gamma[1:])
        norms["l1.norm1"] = replace(first, gamma=wrong)
    if change == "shift":  # all by one number, which M2 does not cancel
        norms["l1.norm1"] = replace(first, beta=tuple(t - 10**6 for t in first.beta))
    if change == "frozen":
        op = network.node("l2.M1").op
        moved = Affine(op.weight * (1 + 2.0**-40 * np.eye(*op.weight.shape)), op.bias)
        network = network.with_ops({"l2.M1": moved})
    if change == "eps":
        op = network.node("l2.norm1").op
        network = network.with_ops({"l2.norm1": replace(op, eps=1e-30)})
    if change == "pair":
        certificate = replace(certificate, alignment=certificate.alignment[1:])
    if change not in (None, "pair"):
        other = rc.certify(target, network, domain=domain, exact_norms=norms)
        assert not other.exact_identity
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    rc.save(target, files["target"])
    rc.save(network, files["candidate"])
    path = tmp_path / "certificate.json"
    certificate = replace(
        certificate, bound=1e-3, tolerance=1e-2
    )  # so that the identity alone decides
    write_certificate(path, certificate, **files, exact_norms=norms)
    report = rc.check(path, **files)
    assert report.accepted == (change is None), report
    assert change is None or report.field in ("exact_norms", "alignment"), report


def test_eps_alone_is_not_invariant() -> None:
    """The error falls with eps, and is not zero."""
    errors = []
    for eps in (1e-4, 1e-6, 1e-8):
        target = normed_mlp(eps)
        frozen = rc.draw(target, rc.Wide(live_error=0.5), seed=2)
        network = rc.reconstruct(target, frozen, domain=rc.Points(X)).network
        errors.append(np.abs(network(X) - target(X)).max())
    assert 1e-9 < errors[0] < 1e-3 and errors[1] < errors[0] / 20 and errors[2] < errors[1] / 20


def test_what_eps_may_leave_decides_how_large_frozen_biases_are() -> None:
    """ρ is the nearer to one number the larger they are; without eps it may be any number."""

    def rebuilt(eps: float, **said: float) -> tuple[float, float]:
        target = normed_mlp(eps)
        frozen = rc.draw(target, rc.Wide(1.5, **said), seed=2)
        first = frozen.network.node("l2.M1").op
        assert isinstance(first, Dense)
        network = rc.reconstruct(target, frozen, domain=rc.Points(X)).network
        error = float(np.abs(network(X) - target(X)).max())
        return error, float(np.abs(first.bias).mean() / np.abs(first.weight).mean())

    assert rebuilt(1e-2, live_error=0.5)[0] > 1e-4 and rebuilt(1e-2)[0] < 1e-6
    assert rebuilt(1e-5, live_error=1e-9)[0] < rebuilt(1e-5)[0] / 30
    for eps, said, power in ((0.0, {}, 0), (1e-8, {}, 0), (1e-5, {}, 6), (1e-2, {}, 16)):
        assert 2.0 ** (power - 2) < rebuilt(eps, **said)[1] < 2.0 ** (power + 2)
    assert rebuilt(1e-2, live_error=1e-300)[1] < 2.0**22
    with pytest.raises(rc.InputError, match=r"between 0 and 1, but is 1; 2\.4e-07 is"):
        rc.Wide(1.5, live_error=1.0)


def test_as_few_hidden_units_as_equations() -> None:
    """(m − 1)(k + 1) equations of a map ahead of LayerNorm, fewer than m·k for narrow ones."""
    target = normed_mlp(0.0, widths=(4, 3, 4))
    frozen = rc.draw(target, rc.Wide(1.0), seed=0)
    assert frozen.network.sizes["l1.norm1"] == (3 - 1) * (4 + 1) + 1 < 3 * 4
    network = rc.reconstruct(target, frozen, domain=rc.Points(X)).network
    assert np.abs(network(X) - target(X)).max() < 1e-9


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_any_relu_target_in_live_norms(norm: str) -> None:
    rng = np.random.default_rng(3)
    shapes = [(6, 4), (5, 6), (3, 5)]
    target = Network.mlp(
        [rng.normal(size=s) for s in shapes], [rng.normal(size=s[0]) for s in shapes]
    )
    frozen = rc.draw(target, rc.Wide(1.5, norm), seed=1)
    assert not frozen.network.norm_nodes()
    network = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1)).network
    x = rng.uniform(-1, 1, size=(200, 4))
    size = np.abs(target(x)).max()
    assert np.abs(network(x) - target(x)).max() < 1e-12 * size
    assert np.abs(network(x, dtype=np.float32) - target(x)).max() < 1e-3 * size


def test_layer_norm_beside_gelu_is_written_and_rebuilt(tmp_path: Path) -> None:
    """The usual block of today; an eps that float32 does not hold is written in steps."""
    runtime = pytest.importorskip("onnxruntime")
    plain = normed_mlp(1e-5, widths=(4, 6, 3))
    target = plain.with_ops({"r1": Gelu()})
    rc.save(target, tmp_path / "target.onnx", dtype=np.float32)
    target = rc.load(tmp_path / "target.onnx")
    assert target.node("r1").op == Gelu()
    session = runtime.InferenceSession(tmp_path / "target.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: X[:1].astype(np.float32)})
    assert np.abs(found - target(X[:1])).max() < 1e-5
    domain = rc.Points(X)
    frozen = rc.draw(target, seed=2, activation=Gelu())
    network = rc.reconstruct(target, frozen, domain=domain).network
    certificate = rc.certify(target, network, domain=domain, tolerance=1e-4)
    assert certificate.verdict.value == "certified"
    watched = {"l1.norm1": Gelu().piece}
    write_guarded(network, watched, tmp_path / "guarded.onnx", np.float32)
    session = runtime.InferenceSession(tmp_path / "guarded.onnx")
    _, margin = session.run(None, {session.get_inputs()[0].name: X[:1].astype(np.float32)})
    assert margin[0, 0] >= 0


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_float32_norms_are_rounded_with_feedback(norm: str) -> None:
    """What rounding all γ and β to nearest leaves is several times as much."""
    target, x = mlp([4, 6, 5, 3], 1), np.random.default_rng(0).uniform(-1, 1, size=(100, 4))
    frozen = rc.draw(target, rc.Wide(1.5, norm))
    whole, short = (
        rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), dtype=dtype).network
        for dtype in (np.float64, np.float32)
    )
    for node in short.nodes:
        if isinstance(node.op, LiveNorm):
            assert (node.op.beta.astype(np.float32) == node.op.beta).all()
    rounded = whole.with_ops(
        {
            n.name: n.op.tuned(n.op.gamma.astype(np.float32), n.op.beta.astype(np.float32))
            for n in whole.nodes
            if isinstance(n.op, LiveNorm)
        }
    )
    errors = [np.abs(f(x) - target(x)).max() for f in (short, rounded)]
    assert errors[0] < errors[1] / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm", [None, "layer", "rms"])
def test_other_programs_agree_with_what_is_written(
    norm: str | None, dtype: type, tmp_path: Path
) -> None:
    """onnxruntime and torch evaluate the file as this package does, up to rounding."""
    runtime = pytest.importorskip("onnxruntime")
    target = normed_mlp(1e-5) if norm is None else mlp([4, 6, 5, 3], 1)
    result = rc.reconstruct(
        target, rc.draw(target, rc.Wide(1.5, norm)), domain=rc.Points(X), dtype=dtype
    )
    rc.save(result.network, tmp_path / "network.onnx", dtype=dtype)
    network = rc.load(tmp_path / "network.onnx")
    size = np.abs(target(X)).max()
    close = (1e-12 if dtype is np.float64 else 2e-4) * size
    session = runtime.InferenceSession(tmp_path / "network.onnx")
    name = session.get_inputs()[0].name
    for row, ours in zip(X.astype(dtype), network(X), strict=True):
        (theirs,) = session.run(None, {name: row[None]})
        assert np.abs(theirs[0] - ours).max() < close
    torch = pytest.importorskip("torch")
    module = rc.to_torch(network, dtype)
    with torch.no_grad():
        found = module(torch.from_numpy(X.astype(dtype))).numpy()
    assert np.abs(found - network(X)).max() < close


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("change", [None, "eps", "gamma", "bound"])
def test_boxes_are_certified_where_variances_are_far_below_eps(
    norm: str, change: str | None, tmp_path: Path
) -> None:
    """Live norms are maps there, up to R²/(2·n·eps)."""
    target, domain = mlp([4, 6, 5, 3], 1), rc.Box(-1, 1)
    network = rc.reconstruct(target, rc.draw(target, rc.Wide(1.5, norm)), domain=domain).network
    certificate = rc.certify(target, network, domain=domain)
    assert certificate.verdict.value == "certified" and certificate.method == "layered"
    assert certificate.bound < 1e-12
    x = domain.of_size(4).sample(500, np.random.default_rng(0))
    bounds = certificate.float64_bound, certificate.float32_bound
    for bound, dtype, most in zip(bounds, (np.float64, np.float32), (1e-9, 1.0), strict=True):
        seen = np.abs(network(x, dtype=dtype).astype(np.float64) - target(x)).max()
        assert bound is not None and seen < bound < most
    norms = {n.name: n.op for n in network.nodes if isinstance(n.op, LiveNorm)}
    name, op = list(norms.items())[1]
    if change == "eps":  # all but √eps, but not this one
        network = network.with_ops({name: replace(op, eps=op.eps * (1 + 1e-9))})
    if change == "gamma":
        network = network.with_ops({name: op.tuned(op.gamma * (1 + 1e-9), op.beta)})
    if change == "bound":
        certificate = replace(certificate, bound=1e-18)
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    rc.save(target, files["target"])
    rc.save(network, files["candidate"])
    write_certificate(tmp_path / "certificate.json", certificate, **files)
    report = rc.check(tmp_path / "certificate.json", **files)
    assert report.accepted == (change is None), report
    if change is None:
        assert not report.unverified
        for name in ("float64_bound", "float32_bound"):
            assert 0.2 < report.figures[name] / getattr(certificate, name) <= 1


def test_on_a_box_a_live_norm_that_varies_is_not_taken_for_a_map() -> None:
    """Frozen weights of size 1: ρ is far from √eps, and no proof says otherwise."""
    target, domain = normed_mlp(1e-5), rc.Box(-1, 1)
    network = rc.reconstruct(target, rc.draw(target, seed=2), domain=domain).network
    certificate = rc.certify(target, network, domain=domain, time_limit=2, tolerance=1e-2)
    assert certificate.verdict.value == "undecided"
    assert any("a live norm is a map only where" in line for line in certificate.tried)


@pytest.mark.parametrize("change", [None, "network", "bound"])
def test_certificates_at_inputs_are_checked(change: str | None, tmp_path: Path) -> None:
    target = normed_mlp(1e-5)
    domain = rc.Points(X)
    result = rc.reconstruct(target, rc.draw(target, seed=2), domain=domain)
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    rc.save(target, files["target"])
    rc.save(result.network, files["candidate"])
    network = rc.load(files["candidate"])
    certificate = rc.certify(target, network, domain=domain)
    assert certificate.verdict.value == "certified" and certificate.method == "pointwise"
    seen = np.abs(network(X) - target(X)).max()
    assert seen * 0.99 < certificate.bound < 2 * seen + 1e-9
    path = tmp_path / "certificate.json"
    if change == "network":  # one frozen bias of a hidden unit moved by a little
        op = network.node("l2.M1").op
        moved = Affine(op.weight, op.bias + 1e-3 * np.eye(len(op.bias))[0])
        rc.save(network.with_ops({"l2.M1": moved}), files["candidate"])
    if change == "bound":
        certificate = replace(certificate, bound=seen / 2)
    write_certificate(path, certificate, **files)
    report = rc.check(path, **files)
    assert report.accepted == (change is None), report


def test_a_wrong_network_is_refuted_and_the_witness_is_checked(tmp_path: Path) -> None:
    target = normed_mlp(1e-5)
    domain = rc.Points(X)
    network = rc.reconstruct(target, rc.draw(target, seed=2), domain=domain).network
    norm = network.node("l2.norm1").op
    gamma = norm.gamma.copy()
    gamma[0] *= 1.01  # of one unit: a factor of all would be lost behind the next norm
    other = network.with_ops({"l2.norm1": norm.tuned(gamma, norm.beta)})
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    rc.save(target, files["target"])
    rc.save(other, files["candidate"])
    certificate = rc.certify(target, rc.load(files["candidate"]), domain=domain)
    assert certificate.verdict.value == "refuted"
    write_certificate(tmp_path / "certificate.json", certificate, **files)
    assert rc.check(tmp_path / "certificate.json", **files).accepted


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_inputs_without_variance_are_refused_where_eps_is_zero(kind: type[LiveNorm]) -> None:
    W = np.random.default_rng(0).normal(size=(5, 3))
    norm = kind(np.ones(5), np.zeros(5), 0.0)
    nodes = Node("l", Affine(W, np.zeros(5)), ("input",)), Node("n", norm, ("l",))
    target = Network(3, nodes, "n")
    frozen = rc.draw(target, seed=0)
    for domain in (rc.Points(np.array([[1.0, 2, 3], [0, 0, 0]])), rc.Box(-1, 1)):
        with pytest.raises(rc.InputError, match=r"eps = 0.* but at x = \[0. 0. 0.\] of the domain"):
            rc.reconstruct(target, frozen, domain=domain)
    rc.reconstruct(target, frozen, domain=rc.Points(np.array([[1.0, 2, 3]])))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(rc.InputError, match="one of batch, layer, rms, but is 'group'"):
        rc.Wide(1.5, "group")
    target = normed_mlp(1e-5)
    batch = rc.draw(target, rc.Wide(1.5, "batch"), seed=0)
    assert batch.network.norm_nodes()
    network = rc.reconstruct(target, batch, domain=rc.Points(X)).network
    assert np.abs(network(X) - target(X)).max() < 1e-10
