"""With little memory the same network comes out: drawn, written and read a tile at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import check
from reconstruct.constructions.allowance import Allowance, check_memory
from reconstruct.errors import InputError
from reconstruct.formats import load, save
from reconstruct.formats.limits import memory_size
from reconstruct.networks import Dense, Network, Tiled
from reconstruct.networks.draw import Pencil
from reconstruct.runs.job import Job, run

MEMORY = 2**30


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large: matrices are drawn in tiles, and stay in their files."""
    monkeypatch.setattr("reconstruct.constructions.frozen.HELD", 0)
    monkeypatch.setattr("reconstruct.formats.limits.MANY", 2**40)
    monkeypatch.setattr("reconstruct.networks.maps.tiled.BLOCK", 1)


def target() -> Network:
    rng = np.random.default_rng(0)
    return Network.mlp([rng.normal(size=s) for s in ((9, 6), (8, 9), (2, 8))])


def made(folder: Path, memory: int | None, dtype: str = "float64"):
    path = folder.parent / "target.onnx"
    if not path.exists():
        save(target(), path)
    net = load(path)
    frozen = rc.draw(net, rc.Wide(ratio=14.5), seed=3, memory=memory)
    how = {"memory": memory, "dtype": dtype, "blocks": False}  # what is never held is not cut
    return run(Job(net, path, frozen, rc.Box(-1.0, 1.0).of_size(6), folder, **how))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_same_bits_either_way(tiny: None, tmp_path: Path, dtype: str) -> None:
    held = made(tmp_path / "held", None, dtype)
    lean = made(tmp_path / "lean", MEMORY, dtype)
    assert any(isinstance(n.op, Tiled) for n in lean.network.nodes)
    assert held.report["frozen"]["sha256"] == lean.report["frozen"]["sha256"]
    for name, norm in held.result.norms.items():
        other = lean.result.norms[name]
        assert np.array_equal(norm.gamma, other.gamma) and np.array_equal(norm.beta, other.beta)
    stored = load(tmp_path / "lean" / "network.onnx")
    for node in load(tmp_path / "held" / "network.onnx").nodes:
        assert node.op.same(stored.node(node.name).op)
    assert held.certificate.bound == lean.certificate.bound
    assert held.report["error"] == lean.report["error"]
    assert held.report["frozen"]["nonzeros"] == lean.report["frozen"]["nonzeros"]
    assert check(tmp_path / "lean", memory=MEMORY).accepted
    assert check(tmp_path / "lean").accepted
    assert not (tmp_path / "lean" / "network_folded.onnx").exists()


def test_weights_that_were_never_held_are_rebuilt(tiny: None, tmp_path: Path) -> None:
    lean = tmp_path / "lean"
    made(lean, MEMORY)
    before = {name: (lean / name).read_bytes() for name in ("network.onnx", "network.onnx.data")}
    for name in before:
        (lean / name).unlink()
    rc.rebuild(lean)
    assert {name: (lean / name).read_bytes() for name in before} == before


def test_a_tiled_map_is_the_dense_one(tiny: None) -> None:
    rng = np.random.default_rng(1)
    for rows, cols, hidden in ((2500, 3, 0), (3, 2500, 1)):
        blocks = Pencil(5).blocks(0, 4, rows, cols, hidden=hidden, share=0.5)
        bias = rng.normal(size=rows)
        lean, held = (
            Tiled(blocks, bias),
            Dense(Pencil(5).matrix(0, 4, rows, cols, hidden=hidden), bias),
        )
        x, y = rng.normal(size=(4, cols)), rng.normal(size=(2, 4, rows))
        assert np.allclose(lean(x), held(x), rtol=1e-12, atol=1e-12)
        assert np.allclose(lean.pull(y, cols), held.pull(y, cols), rtol=1e-12, atol=1e-12)
        assert np.allclose(lean.absolute(abs(x)), held.absolute(abs(x)), rtol=1e-12)
        for ours, theirs in zip(lean.signs(), held.signs(), strict=True):
            assert np.array_equal(ours.matrix, theirs.matrix)
        assert np.array_equal(lean.tile(1, 3), held.tile(1, 3))
        assert np.array_equal(lean.columns(1, 3), held.columns(1, 3))
        assert (lean.least, lean.largest) == (held.least, held.largest)
        assert lean.nonzeros == held.nonzeros and lean.same(held)
        assert not lean.same(Dense(held.weight, bias + 1))


def test_a_data_file_that_changes_while_it_is_read(tiny: None, tmp_path: Path) -> None:
    made(tmp_path / "lean", MEMORY)
    network = load(tmp_path / "lean" / "network.onnx", memory=MEMORY)
    data = tmp_path / "lean" / "network.onnx.data"
    content = bytearray(data.read_bytes())
    content[4096] ^= 1
    data.write_bytes(content)
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(InputError, match=r"network.onnx.data was changed while it was read"),
    ):
        patch.setattr("reconstruct.formats.mapped.RELEASE", 0)
        network(np.zeros(6))
    with pytest.raises(InputError, match="not those that the model was written with"):
        load(tmp_path / "lean" / "network.onnx", memory=MEMORY)


def test_sizes_are_words(tiny: None) -> None:
    assert memory_size("2G") == 2**31 and memory_size("1500M") == 1500 * 2**20
    assert memory_size("1.5 GiB") == 3 * 2**29 and memory_size("4096") == 4096
    with pytest.raises(InputError, match="--memory must be a size such as 2G or 1500M, but is 'x'"):
        memory_size("x")
    with pytest.raises(
        InputError, match="at least 512M of memory by itself, but --memory allows 8M"
    ):
        check_memory(2**23)


def test_what_is_kept_is_what_is_left() -> None:
    assert Allowance(2**31, ((256, 784, 301056),)).share == 1.0
    less = Allowance(2**30, ((256, 784, 301056),)).share
    assert 0.3 < less < 0.5
    assert Allowance(2**29, ((512, 512, 393216),)).share == 0.0


def test_a_file_of_large_weights_is_read_in_blocks(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconstruct.formats.onnx.write.PROTOBUF_LIMIT", 0)
    rng = np.random.default_rng(2)
    net = Network.mlp([rng.normal(size=(40, 30)), rng.normal(size=(20, 40))], [np.ones(40), None])
    save(net, tmp_path / "net.onnx")
    lean = load(tmp_path / "net.onnx", memory=MEMORY)
    assert [type(n.op) for n in lean.mixing_nodes()] == [Tiled, Tiled]
    assert "large weights stay in their file" in lean.metadata["notes"][0]
    x = rng.normal(size=(5, 30))
    assert np.allclose(lean(x), net(x), rtol=1e-13)
    assert np.array_equal(lean.mixing_nodes()[0].op.bias, np.ones(40))
    box = rc.Box(-1.0, 1.0)
    assert rc.certify(net, lean, domain=box).bound <= 1e-12
    held = load(tmp_path / "net.onnx")
    assert [type(n.op) for n in held.mixing_nodes()] == [Dense, Dense]


def test_square_matrices_are_cut_either_way(tiny: None) -> None:
    rng = np.random.default_rng(3)
    net = Network.mlp([rng.normal(size=s) for s in ((1, 6), (5, 1))])
    how = {"domain": rc.Box(-1.0, 1.0)}
    held = rc.reconstruct(net, rc.draw(net, rc.Wide(1.0), seed=1), **how)
    lean = rc.reconstruct(net, rc.draw(net, rc.Wide(1.0), seed=1, memory=MEMORY), **how)
    assert {n.op.shape for n in lean.network.mixing_nodes()} >= {(6, 6), (5, 5)}
    for name, norm in held.norms.items():
        assert np.array_equal(norm.gamma, lean.norms[name].gamma)
        assert np.array_equal(norm.beta, lean.norms[name].beta)
