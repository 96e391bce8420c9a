"""LayerNorm and RMSNorm by live statistics: values, bounds, gradients, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.networks import Affine, LayerNorm, LiveNorm, Network, Node, Relu, RMSNorm
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.precision import Precision

KINDS = (LayerNorm, RMSNorm)


def plain(op: LiveNorm, z: np.ndarray) -> np.ndarray:
    """The definition, in extended precision."""
    rows = z.astype(np.longdouble).reshape(len(z), op.positions, op.channels)
    if op.kind == "LayerNorm":
        rows = rows - rows.sum(axis=2, keepdims=True) / op.channels
    root = np.sqrt((rows**2).sum(axis=2, keepdims=True) / op.channels + np.longdouble(op.eps))
    return ((rows / root) * op.gamma + op.beta).reshape(z.shape)


def drawn(kind: type[LiveNorm], eps: float = 1e-3, seed: int = 1) -> LiveNorm:
    rng = np.random.default_rng(seed)
    return kind(rng.normal(size=6), rng.normal(size=6), eps, 2)


def networks() -> Network:
    rng = np.random.default_rng(3)
    nodes = [
        Node("a", Affine(rng.normal(size=(6, 4)), rng.normal(size=6)), ("input",)),
        Node("n", LayerNorm(rng.normal(size=6), rng.normal(size=6)), ("a",)),
        Node("r", Relu(), ("n",)),
        Node("b", Affine(rng.normal(size=(6, 6)), rng.normal(size=6)), ("r",)),
        Node("t", RMSNorm(rng.normal(size=3), rng.normal(size=3), 0.01, 2), ("b",)),
        Node("c", LayerNorm(rng.normal(size=6), rng.normal(size=6), 2.0**-10), ("t",)),
    ]
    return Network(4, tuple(nodes), "c")


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_the_definition(kind: type[LiveNorm]) -> None:
    op = drawn(kind)
    z = np.random.default_rng(0).normal(size=(20, 12)) * 3 + 1
    assert np.abs(op(z) - plain(op, z)).max() < 1e-14
    assert np.abs(op(z.astype(np.float32)) - plain(op, z)).max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_differences(kind: type[LiveNorm]) -> None:
    op, rng = drawn(kind), np.random.default_rng(2)
    z, rows, step = rng.normal(size=(1, 12)), rng.normal(size=(1, 12)), 1e-6
    there = [((op(z + step * e) - op(z - step * e)) * rows).sum() / (2 * step) for e in np.eye(12)]
    assert np.abs(op.pull(rows, z)[0] - there).max() < 1e-7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("eps", [1e-3, 0.0])
def test_bounds_hold_on_boxes(kind: type[LiveNorm], width: float, eps: float) -> None:
    """At random points, corners and edges of boxes; on points the bounds are next to the value."""
    op, rng = drawn(kind, eps), np.random.default_rng(5)
    centre = rng.normal(size=(60, 12))
    lo, hi = centre - width, centre + width
    low, high = op.image(lo, hi)
    u_low, u_high = op.units(lo, hi)
    root_low, root_high = op.deviation(lo, hi)
    error = np.full(12, width)
    moved = np.stack([op.carried_near(error, row, row) for row in centre])
    for _ in range(100):
        part = rng.choice([0.0, 1.0, rng.random()], size=lo.shape)
        z = np.clip(lo + part * (hi - lo), lo, hi)
        value = plain(op, z)
        assert np.all(value >= low) and np.all(value <= high)
        rows = z.reshape(60, 2, 6)
        rows = rows - rows.mean(axis=2, keepdims=True) if op.centred else rows
        root = np.sqrt((rows**2).mean(axis=2, keepdims=True) + eps)
        assert np.all(root * (1 + 1e-12) >= root_low) and np.all(root * (1 - 1e-12) <= root_high)
        assert np.all(np.abs(value - plain(op, centre)) <= moved * (1 + 1e-9) + 1e-13)
    assert np.all(np.abs([u_low, u_high]) <= op.cap)
    if width == 0:
        assert np.max(high - low) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_moves_the_value_beyond_its_range(kind: type[LiveNorm]) -> None:
    """carried(e) is Lipschitz for small e, 0 for none, and bounded for any."""
    op = drawn(kind)
    small = op.carried(np.full(12, 1e-9))
    assert (
        np.all(small <= op.lipschitz * 1e-9 * (1 + 1e-6))
        and not op.carried(np.zeros(12)).max() > 1e-290
    )
    reach = np.tile(2 * np.abs(op.gamma) * op.cap, 2)
    assert np.all(op.carried(np.full(12, 1e9)) <= reach * (1 + 1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_exact_arithmetic_encloses_the_value(kind: type[LiveNorm]) -> None:
    op = drawn(kind)
    z = np.random.default_rng(7).normal(size=(1, 12))
    found = op.exact(Dyadic.exact(z[0]), 128).fractions()
    for (low, high), value in zip(found, plain(op, z)[0], strict=True):
        assert low <= high and high - low < 2**-100
        assert abs(float(low) - float(value)) < 1e-14


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_covers_evaluation_in_one_pass_and_in_two(kind: type[LiveNorm], dtype) -> None:
    op, rng = drawn(kind), np.random.default_rng(8)
    z = (rng.normal(size=(50, 12)) + 3).astype(dtype)
    allowed = op.rounding(np.abs(z.astype(float)), Precision(dtype))
    rows = z.reshape(50, 2, 6)
    mean = rows.mean(axis=2, keepdims=True) if op.centred else dtype(0)
    square = (rows * rows).mean(axis=2, keepdims=True) - mean * mean
    once = (rows - mean) / np.sqrt(square + dtype(op.eps)) * op.gamma.astype(dtype)
    once = (once + op.beta.astype(dtype)).reshape(z.shape)
    for value in (op(z), once):
        assert np.all(np.abs(value - plain(op, z)) <= allowed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [2.0**-60, 2.0**-20, 1e-3, 1.0])
def test_a_norm_is_its_line_up_to_the_defect(kind: type[LiveNorm], scale: float) -> None:
    """gamma∘P z/√eps + beta, what errors become on it, and how far the norm is off it."""
    rng = np.random.default_rng(7)
    op = kind(rng.normal(size=40) / scale, rng.normal(size=40), 1e-5)
    size = scale * rng.uniform(size=(1, 40))
    line = kind(op.gamma, 0 * op.beta, 1e30)  # its root does not see z

    def on_line(z: np.ndarray) -> np.ndarray:
        return np.sqrt(1e30) * line(z) / np.sqrt(op.eps)

    z = size * rng.choice([-1.0, 1.0], size=(500, 40))
    gap = np.abs(op(z) - op.beta - on_line(z))
    noise = 1e-13 * np.abs(on_line(z)).max()
    assert (gap <= op.off_line(size) + noise).all()
    if scale == 1e-3:  # a² of (1 + a²)^(-1/2), where a is well below 1
        assert op.off_line(size).max() < 20 * gap.max()
    assert (np.abs(on_line(z)) <= op.on_line(size) * (1 + 1e-12)).all()
    assert np.abs(on_line(z)).max() > op.on_line(size).max() / 3
    assert (np.abs(op(z)) <= op.magnitude(size) * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_of_small_inputs_is_small_beside_what_gamma_makes_of_them(
    kind: type[LiveNorm],
) -> None:
    """As in hidden layers whose frozen weights are 2^-60; no bound where eps is lost."""
    rng, n = np.random.default_rng(8), 300
    op = kind(rng.normal(size=n) * 2.0**50, rng.normal(size=n), float(np.float32(1e-5)))
    z = (2.0**-60 * (rng.normal(size=(200, n)) + 3)).astype(np.float32)
    op = op.tuned(*(part.astype(np.float32) for part in (op.gamma, op.beta)))
    wanted, bound = plain(op, z), op.rounding(np.abs(z).astype(np.float64), Precision(np.float32))
    d = z - z.mean(axis=1, keepdims=True) if op.centred else z
    square = (z * z).mean(axis=1, keepdims=True)
    square = square - z.mean(axis=1, keepdims=True) ** 2 if op.centred else square
    scale = op.gamma.astype(np.float32) / np.sqrt(square + np.float32(op.eps))
    shift = op.beta.astype(np.float32) - scale * (z - d)
    for made in (op(z), d * scale + op.beta.astype(np.float32), z * scale + shift):
        assert made.dtype == np.float32
        assert (np.abs(made - wanted) <= bound).all()
    assert bound.max() < 1e-3 * np.abs(wanted).max()
    lost = kind(np.ones(n), np.zeros(n), 1e-40)
    assert np.isinf(lost.rounding(np.abs(z), Precision(np.float32))).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_there_is_no_bound_where_a_variance_in_one_pass_may_have_no_root(dtype) -> None:
    """LayerNorm at a large common offset: E z² − (E z)² is then below −eps, as in onnxruntime."""
    op, rng = LayerNorm([1.0] * 4, [0.0] * 4, 2.0**-10), np.random.default_rng(0)
    unit = float(np.finfo(dtype).eps) / 2
    for part, known in ((0.2 / 20, True), (256.0, False)):  # of eps, by u times the square
        offset = np.sqrt(part * op.eps / unit)
        z = (offset * (1 + 2 * unit * rng.integers(-3, 4, size=(500, 4)))).astype(dtype)
        bound = op.rounding(np.abs(z).max(axis=0)[None].astype(np.float64), Precision(dtype))
        mean = z.mean(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            root = np.sqrt((z * z).mean(axis=1, keepdims=True) - mean * mean + dtype(op.eps))
        made = (z - mean) / root
        assert np.isfinite(bound).all() == known == bool(np.isfinite(made).all())
        if known:
            assert (np.abs(made - plain(op, z)) <= bound).all()


def test_what_is_no_norm_is_refused_in_one_sentence() -> None:
    with pytest.raises(rc.InputError, match="needs 2 or more units, but has 1"):
        LayerNorm([1.0], [0.0])
    with pytest.raises(rc.InputError, match="finite eps ≥ 0, but got -1"):
        RMSNorm([1.0], [0.0], -1)
    none = LayerNorm(np.ones(3), np.zeros(3), 0.0)
    with pytest.raises(rc.InputError, match="not defined where its input has no variance"):
        none.exact(Dyadic.exact(np.ones(3)), 64)


@pytest.mark.parametrize("suffix", ["npz", "onnx"])
def test_files_hold_live_norms(suffix: str, tmp_path: Path) -> None:
    """onnxruntime evaluates what is written, whether eps is a float32 number or not."""
    made = networks()
    x = np.random.default_rng(0).normal(size=(20, 4))
    rc.save(made, tmp_path / f"net.{suffix}")
    back = rc.load(tmp_path / f"net.{suffix}")
    assert [n.op.kind for n in back.nodes if isinstance(n.op, LiveNorm)] == [
        "LayerNorm",
        "RMSNorm",
        "LayerNorm",
    ]
    assert np.abs(back(x) - made(x)).max() < 1e-14
    if suffix == "onnx":
        import onnxruntime as ort

        session = ort.InferenceSession(tmp_path / "net.onnx")
        (found,) = session.run(None, {"input": x})
        assert np.abs(found - made(x)).max() < 1e-13


def test_torch_modules_there_and_back() -> None:
    torch = pytest.importorskip("torch")
    made = networks()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 4)))
    module = rc.to_torch(made)
    assert np.abs(module(x).numpy() - made(x.numpy())).max() < 1e-14
    again = rc.from_torch(module, x)
    assert np.abs(again(x.numpy()) - made(x.numpy())).max() < 1e-14
    assert sum(isinstance(n.op, LiveNorm) for n in again.nodes) == 3


@pytest.mark.parametrize("opset", [13, 17])
def test_exporters_patterns_are_read(opset: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch import nn

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        module[1].weight.normal_()
        module[1].bias.normal_()
    x = torch.randn(5, 4)
    torch.onnx.export(module, x[:1], tmp_path / "m.onnx", opset_version=opset, dynamo=False)
    network = rc.load(tmp_path / "m.onnx")
    (norm,) = [n.op for n in network.nodes if isinstance(n.op, LiveNorm)]
    assert np.array_equal(norm.gamma, module[1].weight.detach().double().numpy())
    assert np.abs(network(x.numpy()) - module(x).detach().numpy()).max() < 1e-5


@pytest.mark.parametrize(("groups", "says"), [(1, None), (2, "2 groups")])
def test_one_group_is_layer_norm(groups: int, says: str | None) -> None:
    torch = pytest.importorskip("torch")
    from torch import nn

    module = nn.Sequential(nn.Linear(4, 6), nn.GroupNorm(groups, 6))
    if says is None:
        network = rc.from_torch(module, torch.zeros(1, 4))
        assert network.nodes[-1].op.kind == "LayerNorm"
    else:
        with pytest.raises(rc.InputError, match=says):
            rc.from_torch(module, torch.zeros(1, 4))
