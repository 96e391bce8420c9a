"""Sigmoid, Tanh, Softplus, SiLU and GELU: values, ranges, slopes; two arithmetics that agree."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import curves
from proofs_check.certificates.activations import Bend
from reconstruct.certificates.document import write_certificate
from reconstruct.networks import Affine, Network, Node, Relu
from reconstruct.networks.activations import SMOOTH, Smooth
from reconstruct.numbers.exact import Dyadic

RNG = np.random.default_rng(0)
Z = np.concatenate([RNG.normal(size=30) * 4, [0, -1.2784645, -0.75179, 1e-9, 50, -50, 100, -13]])


@pytest.fixture(params=SMOOTH)
def op(request: pytest.FixtureRequest) -> Smooth:
    return SMOOTH[request.param]()


def test_three_arithmetics_agree(op: Smooth) -> None:
    """Floats with a margin, decimals, and the checker's rationals hold the same number."""
    low, high = op.enclose(Z)
    ours = op.exact(Dyadic.exact(Z), 128).fractions()
    for place, z in enumerate(Z.tolist()):
        least, most = curves.value(op.kind, Fraction(z), 160)
        assert 0 <= most - least < Fraction(1, 2**120)
        assert low[place] <= least and most <= high[place]
        assert ours[place][0] <= most and least <= ours[place][1]
        assert ours[place][1] - ours[place][0] < 1e-23


def test_ranges_hold_and_slopes_are_differences(op: Smooth) -> None:
    centre = RNG.normal(size=(1, 400)) * 3
    for width in (1e-6, 0.1, 3.0):
        lo, hi = centre - width, centre + width
        low, high = op.image(lo, hi)
        bent = Bend(op).range(lo[0, :20], hi[0, :20])
        for part in np.linspace(0, 1, 41):
            value = op(np.clip(lo + part * (hi - lo), lo + 1e-9, hi - 1e-9))
            assert np.all(value >= low) and np.all(value <= high)
            assert np.all(value[0, :20] >= bent[0]) and np.all(value[0, :20] <= bent[1])
    there = (op(centre + 1e-5) - op(centre - 1e-5)) / 2e-5
    assert np.abs(op.derivative(centre) - there).max() < 1e-8
    fine = np.linspace(-12, 12, 100001)
    steepest = np.abs(op.derivative(fine)).max()
    assert steepest <= op.lipschitz <= 1.001 * steepest + 1e-3
    assert Fraction(op.lipschitz) <= curves.SLOPES[op.kind] + Fraction(1, 10**9)
    if op.dip is not None:
        least = op(fine).min()
        assert op.dip[2] < least < op.dip[2] + 1e-8
        falls, rises = op.derivative(np.array(op.dip[:2]))
        assert falls < 0 < rises
        left, right, floor = curves.DIPS[op.kind]
        assert (float(left), float(right), float(floor)) == op.dip


def mlp(op: Smooth) -> Network:
    rng = np.random.default_rng(1)
    nodes = [
        Node("a", Affine(rng.normal(size=(5, 3)), rng.normal(size=5)), ("input",)),
        Node("s", op, ("a",)),
        Node("b", Affine(rng.normal(size=(4, 5)), rng.normal(size=4)), ("s",)),
        Node("r", Relu(), ("b",)),
        Node("c", Affine(rng.normal(size=(2, 4)), rng.normal(size=2)), ("r",)),
    ]
    return Network(3, tuple(nodes), "c")


def test_a_target_is_rebuilt_certified_and_checked(op: Smooth, tmp_path: Path) -> None:
    target, box = mlp(op), rc.Box(-1, 1)
    result = rc.reconstruct(target, rc.draw(target, seed=3), domain=box)
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    rc.save(target, files["target"])
    rc.save(result.network, files["candidate"])
    certificate = rc.certify(target, rc.load(files["candidate"]), domain=result.domain)
    assert certificate.verdict.value == "certified" and certificate.bound < 1e-12
    write_certificate(tmp_path / "certificate.json", certificate, **files)
    assert rc.check(tmp_path / "certificate.json", **files).accepted


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnx_files_hold_them(op: Smooth, dtype, tmp_path: Path) -> None:
    made = mlp(op)
    if op.kind in ("Gelu", "HardSwish") and dtype is np.float64:
        with pytest.raises(
            rc.InputError, match=f"no program that evaluates ONNX has {op.kind} in float64"
        ):
            rc.save(made, tmp_path / "m.onnx", dtype=dtype)
        return
    rc.save(made, tmp_path / "m.onnx", dtype=dtype)
    back = rc.load(tmp_path / "m.onnx")
    assert back.node("s").op == op
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert np.abs(back(x) - made(x)).max() < (1e-14 if dtype is np.float64 else 1e-5)


def test_torch_has_them(op: Smooth) -> None:
    torch = pytest.importorskip("torch")
    made = mlp(op)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 3)))
    module = rc.to_torch(made)
    assert np.abs(module(x).numpy() - made(x.numpy())).max() < 1e-13
    if op.kind in ("Gelu", "HardSwish"):
        with pytest.raises(rc.InputError, match="in float32"):
            rc.from_torch(module, x)
        module = module.float()
    found = rc.from_torch(module, x)
    assert found.node([n.name for n in found.nodes][1]).op == op
    assert np.abs(found(x.numpy()) - made(x.numpy())).max() < 1e-5
