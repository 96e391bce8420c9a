"""The arithmetic of a tile: blocks of rows, remainders of them, and what a tile is rounded to."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.khatri_rao import ConjugateGradient, Drawn, KhatriRao, Threads, solve
from reconstruct.khatri_rao import operator as operator_module
from reconstruct.khatri_rao import tiles as tiles_module
from reconstruct.khatri_rao.scratch import Scratch
from reconstruct.khatri_rao.tiles import Tile, block_rows, summed_rows, tiles, unit_rows

from .planted import Planted, dense, plant, relative, residual, tolerance

SHAPES = [(5, 6), (6, 5), (1, 4), (7, 7)]


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor whose small products are made where the matrices are, whatever this one is."""
    monkeypatch.setattr(tiles_module, "blas_kernels", lambda: frozenset({"SkylakeX"}))


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch, in_place: None) -> None:
    """Blocks of at most 24 rows, as small maps have them: what is large for them is tiny here."""
    monkeypatch.setattr(tiles_module, "SMALL_PRODUCT", 1000)
    monkeypatch.setattr(tiles_module, "BLOCK_ROWS", 24)
    monkeypatch.setattr(tiles_module, "BLOCK_UNIT", 4)
    monkeypatch.setattr(tiles_module, "SUMMED_ROWS", 16)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stored", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k"), SHAPES)
@pytest.mark.parametrize("n", [3, 24, 25, 48, 70, 200])
@pytest.mark.parametrize("summed", [1, 100], ids=["summed by blocks", "summed at once"])
def test_blocks_are_the_products_of_the_definition(
    m: int,
    k: int,
    n: int,
    stored: type,
    dtype: type,
    summed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator_module, "tile_rows", lambda *_: 56)
    monkeypatch.setattr(tiles_module, "SUMMED_ROWS", summed)
    planted = plant(m, k, n / (m * k))
    n = len(planted.s)
    K = KhatriRao(planted.M1, planted.M2.astype(stored), engine=Threads(1))
    Y = np.random.default_rng(1).standard_normal((m, k)).astype(dtype)
    allowed = tolerance(size=n * m * k, dtype=dtype)
    z, image = K.round_trip(Y, dtype)
    back = planted.K.T @ Y.ravel()
    assert relative(z - back, back) <= allowed
    assert np.array_equal(K.apply_transposed(Y, dtype), z)
    again = planted.K @ back
    assert relative(image.ravel() - again, again) <= allowed
    assert relative(K.apply(planted.s, dtype) - planted.W, planted.W) <= allowed
    gap = np.vdot(image, Y.astype(float)) - np.vdot(z, z.astype(float))  # ⟨K z, Y⟩ = ⟨z, Kᵀ Y⟩
    assert abs(gap) <= allowed * np.linalg.norm(image) * np.linalg.norm(Y)


@pytest.mark.usefixtures("short_blocks")
def test_there_are_blocks_and_a_remainder(monkeypatch: pytest.MonkeyPatch) -> None:
    M1, M2T = np.ones((70, 5)), np.ones((70, 6))
    shapes = []
    matmul = np.matmul

    def seen(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
        shapes.append(out.shape)
        return matmul(a, b, out=out)

    monkeypatch.setattr(tiles_module.np, "matmul", seen)
    z, out = np.empty(70), np.empty((6, 5))
    Tile(M1, M2T, Scratch()).round_trip(np.ones((6, 5)), z, out)
    assert shapes == [(2, 24, 5), (22, 5), (2, 6, 5), (6, 5)]
    assert np.array_equal(z, np.full(70, 30.0))
    assert np.array_equal(out, np.full((6, 5), 2100.0))


@pytest.mark.parametrize("across", [32, 33, 64])
@pytest.mark.parametrize("blas", [True, False])
def test_rows_are_multiplied_by_blas_or_by_numpy(
    across: int, blas: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not blas:
        monkeypatch.setattr(tiles_module, "_vecdot", None)
    planted = plant(across, across, 0.1)
    K = KhatriRao(planted.M1, planted.M2, engine=Threads(1))
    back = planted.K.T @ planted.W.ravel()
    assert relative(K.apply_transposed(planted.W) - back, back) <= tolerance(size=across**2)


def test_a_thread_makes_a_tile_of_stored_weights_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    start = Tile.__init__

    def counted(tile: Tile, *arguments: object) -> None:
        made.append(tile)
        start(tile, *arguments)

    monkeypatch.setattr(Tile, "__init__", counted)
    planted = plant(5, 6, 3.0)
    K = KhatriRao(planted.M1, planted.M2, engine=Threads(1))
    first, _ = (K.round_trip(planted.W, np.float32) for _ in range(2))
    assert len(made) == 1
    K.prepare(np.float64)
    K.apply(planted.s)
    assert len(made) == 2
    again = K.round_trip(planted.W, np.float32)
    assert len(made) == 2
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.usefixtures("short_blocks")
def test_blocks_may_be_too_short_for_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles_module, "SUMMED_ROWS", 25)
    scratch = Scratch()
    z, out = np.empty(70), np.empty((6, 5))
    Tile(np.ones((70, 5)), np.ones((70, 6)), scratch).round_trip(np.ones((6, 5)), z, out)
    assert np.array_equal(z, np.full(70, 30.0))
    assert np.array_equal(out, np.full((6, 5), 2100.0))
    assert set(scratch._arrays) == {"product"}  # and no place for sums of blocks


@pytest.mark.usefixtures("in_place")
def test_blocks_of_small_maps_alone() -> None:
    assert block_rows(2048, 64, 64) == 120
    assert block_rows(2048, 96, 96) == 108
    assert block_rows(1024, 128, 128) == 60
    assert block_rows(1024, 256, 256) == 12
    assert block_rows(1024, 300, 300) == 1024
    assert block_rows(100, 64, 64) == 100
    assert [summed_rows(1024, d, d) for d in (5, 64, 96, 128, 256)] == [120, 120, 108, 1024, 1024]
    assert [unit_rows(1024, d, d) for d in (64, 256, 300)] == [120, 12, 12]


def test_no_blocks_where_every_product_is_rearranged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles_module, "blas_kernels", lambda: frozenset({"Haswell", "None"}))
    assert block_rows(2048, 64, 64) == summed_rows(2048, 64, 64) == 2048
    parts = tiles(slice(5, 5005), 2048, unit_rows(2048, 64, 64))
    assert [part.stop - part.start for part in parts] == [1668, 1668, 1664]


@pytest.mark.parametrize(("m", "k"), [(5, 6), (6, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_read_the_map_from_a_line_of_the_cache_on(
    m: int, k: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant(m, k, 3.0)
    K = KhatriRao(planted.M1, planted.M2, engine=Threads(1))
    adjoint, seen = Tile.adjoint, []

    def watched(tile: Tile, Y: np.ndarray, out: np.ndarray) -> None:
        seen.append(Y)
        adjoint(tile, Y, out)

    monkeypatch.setattr(Tile, "adjoint", watched)
    raw = np.random.default_rng(2).standard_normal(m * k + 1).astype(dtype)
    for Y in (raw[1:].reshape(m, k), raw[:-1].reshape(k, m).T):
        for product in (K.apply_transposed, lambda Y, dtype: K.round_trip(Y, dtype)[0]):
            back = planted.K.T @ Y.ravel()
            assert relative(product(Y, dtype) - back, back) <= tolerance(size=m * k, dtype=dtype)
    assert len(seen) == 4
    assert all(Y.ctypes.data % 64 == 0 and Y.flags.c_contiguous for Y in seen)


@pytest.mark.parametrize("start", [0, 77])
@pytest.mark.parametrize("length", [0, 1, 11, 12, 119, 120, 121, 1000, 5402, 49_152])
@pytest.mark.parametrize(("size", "block"), [(1706, 120), (512, 12), (1024, 1024)])
def test_tiles_of_a_share_are_equal_and_of_whole_blocks(
    start: int, length: int, size: int, block: int
) -> None:
    found = tiles_module.tiles(slice(start, start + length), size, block)
    edges = [start, *(tile.stop for tile in found)]
    assert [tile.start for tile in found] == edges[:-1]
    assert edges[-1] == start + length
    *others, last = [tile.stop - tile.start for tile in found] or [0]
    assert len({*others}) <= 1
    assert all(rows % block == 0 and rows <= size + -size % block for rows in others)
    assert last <= (others or [size + block])[0]


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("threads", [1, 2])
def test_drawn_tiles_have_the_bits_of_stored_ones(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconstruct.khatri_rao.engines.threads.PARALLEL_FLOPS", 0)
    planted = plant(6, 5, 5.0)
    drawn = drawn_from(planted)
    solver = ConjugateGradient()
    held = solve(planted.M1, planted.M2, planted.W, solver, engine=Threads(threads))
    found = solve(*drawn, planted.W, solver, engine=Threads(threads))
    assert np.array_equal(found.s, held.s)
    assert found.history == held.history
    assert residual(planted, found.s) <= 1e-14


def drawn_from(planted: Planted) -> tuple[Drawn, object]:
    """The same weights, drawn 32 units at a time."""
    rows = [np.asarray(one, np.float32) for one in (planted.M1, dense(planted.M2).T)]
    sources = [
        Drawn(one.shape, lambda i, one=one: one[32 * i : 32 * (i + 1)], tile=32) for one in rows
    ]
    return sources[0], sources[1].T


def test_scratch_begins_at_a_line_of_the_cache() -> None:
    scratch = Scratch()
    for rows in (3, 50, 7):
        for dtype in (np.float32, np.float64):
            array = scratch.array("any", (rows, 5), dtype)
            assert array.shape == (rows, 5)
            assert array.dtype == dtype
            assert array.ctypes.data % 64 == 0
            assert array.flags.c_contiguous
            assert array.flags.writeable


@pytest.mark.parametrize(("m", "k"), [(64, 64), (96, 128), (150, 150)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_fill_the_cache(m: int, k: int, dtype: type) -> None:
    kind = np.dtype(dtype)
    row_bytes = (m + k + min(m, k)) * kind.itemsize**2 // 4  # a copy counts twice
    rows = tiles_module.tile_rows(m, k, kind)
    assert 0 <= tiles_module.TILE_BYTES - rows * row_bytes < row_bytes or rows == 2 * max(m, k)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_are_neither_too_short_nor_too_long(dtype: type) -> None:
    kind = np.dtype(dtype)
    assert tiles_module.tile_rows(2, 2, kind) == 4096
    assert tiles_module.tile_rows(256, 256, kind) == 512
    assert tiles_module.tile_rows(784, 256, kind) == 4096 // kind.itemsize
    assert tiles_module.tile_rows(2000, 2000, kind) == 4096 // kind.itemsize
