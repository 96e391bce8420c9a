"""Weights that are drawn on demand: the same bits as stored ones, without storing them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from reconstruct.errors import InputError
from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    Direct,
    Drawn,
    Exact,
    KhatriRao,
    Solver,
    Status,
    Threads,
    solve,
    structural_obstruction,
)


class Counter:
    """Tiles from a counter-based generator, and how often they were asked for."""

    def __init__(self, n: int, across: int, key: int, tile: int) -> None:
        self.n, self.across, self.key, self.tile = n, across, key, tile
        self.calls = 0

    def __call__(self, index: int) -> np.ndarray:
        self.calls += 1
        rows = min(self.tile, self.n - index * self.tile)
        bits = np.random.Philox(key=self.key, counter=[0, 0, 0, index])
        return np.random.Generator(bits).standard_normal((rows, self.across), dtype=np.float32)


def sources(m: int, k: int, n: int, tile: int = 64, keep: int = 0) -> tuple[Drawn, Drawn]:
    M1 = Drawn((n, k), Counter(n, k, 1, tile), tile=tile, keep_bytes=keep)
    M2T = Drawn((n, m), Counter(n, m, 2, tile), tile=tile, keep_bytes=keep)
    return M1, M2T


def stored(source: Drawn) -> np.ndarray:
    tiles = range(-(-source.shape[0] // source.tile))
    return np.concatenate([source._draw(index) for index in tiles])


@pytest.mark.parametrize("keep", [0, 1 << 20])
def test_tiles_lie_row_by_row_however_they_were_drawn(keep: int) -> None:
    columns = np.asfortranarray(np.arange(600.0, dtype=np.float32).reshape(150, 4))
    source = Drawn((150, 4), lambda i: columns[64 * i : 64 * (i + 1)], tile=64, keep_bytes=keep)
    for rows in (slice(0, 64), slice(10, 140)):
        assert np.array_equal(source[rows], columns[rows])
        assert source[rows].flags.c_contiguous


@pytest.mark.parametrize("keep", [0, 1, 3, 5, 6, 100], ids=lambda tiles: f"keep {tiles}")
@pytest.mark.parametrize("rows", [slice(0, 5), slice(60, 70), slice(100, 333), slice(64, 128)])
def test_slices(rows: slice, keep: int) -> None:
    source = sources(3, 4, 333, keep=keep * 64 * 4 * 4)[0]
    whole = stored(source)
    for _ in range(2):
        assert np.array_equal(source[rows], whole[rows])
    assert np.array_equal(source[:], whole)
    part = source.part(slice(50, 300))
    assert part.shape == (250, 4)
    for _ in range(2):
        assert np.array_equal(part[10:90], whole[60:140])
        assert np.array_equal(part[200:], whole[250:300])
    assert np.array_equal(part.part(slice(7, 9))[:], whole[57:59])
    assert source[10:10].shape == (0, 4)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_operator_has_the_same_bits(
    workers: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconstruct.khatri_rao.engines.threads.PARALLEL_FLOPS", 0)
    M1, M2T = sources(7, 5, 2500)
    drawn = KhatriRao(M1, M2T.T, engine=Threads(workers))
    kept = KhatriRao(stored(M1), stored(M2T).T, engine=Threads(workers))
    rng = np.random.default_rng(0)
    s, Y = rng.standard_normal(2500), rng.standard_normal((7, 5))
    assert np.array_equal(drawn.apply(s, dtype), kept.apply(s, dtype))
    assert np.array_equal(drawn.apply_transposed(Y, dtype), kept.apply_transposed(Y, dtype))
    for one, other in zip(drawn.round_trip(Y, dtype), kept.round_trip(Y, dtype), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(drawn.magnitude(s), kept.magnitude(s))
    assert drawn.squared_norm() == kept.squared_norm()


@pytest.mark.parametrize("solver", [Auto(), ConjugateGradient(), Direct(), Exact()], ids=repr)
def test_solutions_have_the_same_bits(solver: Solver) -> None:
    M1, M2T = sources(4, 3, 30, tile=8)
    W = np.random.default_rng(0).standard_normal((4, 3))
    drawn = solve(M1, M2T.T, W, solver)
    kept = solve(stored(M1), stored(M2T).T, W, solver)
    assert drawn.status is Status.SOLVED
    assert np.array_equal(drawn.s, kept.s)
    assert drawn.message == kept.message


def test_each_tile_is_drawn_once_per_sweep() -> None:
    M1, M2T = sources(7, 5, 2500, tile=100)
    K = KhatriRao(M1, M2T.T, engine=Threads(1))
    K.apply(np.ones(2500))
    counter = M1._draw
    assert isinstance(counter, Counter)
    assert counter.calls == 25
    K.round_trip(np.ones((7, 5)))
    assert counter.calls == 50


def test_tiles_are_kept_within_the_bytes_given() -> None:
    M1, M2T = sources(7, 5, 1000, tile=100, keep=4 * 100 * 5 * 4)
    K = KhatriRao(M1, M2T.T, engine=Threads(1))
    K.apply(np.ones(1000))
    counter = M1._draw
    assert isinstance(counter, Counter)
    assert M1._store is not None and M1._store.nbytes == M1.keep_bytes
    before = counter.calls
    K.apply(np.ones(1000))
    assert counter.calls - before == 6


def test_rows_that_are_kept_are_not_copied() -> None:
    M1 = sources(7, 5, 1000, tile=100, keep=8 * 100 * 5 * 4)[0]
    whole = M1[:].copy()
    places = [M1._place(index) for index in range(10)]
    assert places == [None, 0, 100, 200, 300, None, 400, 500, 600, 700]  # spread evenly
    assert M1[130:480].base is M1._store and M1[600:].base is M1._store
    assert np.array_equal(M1[130:480], whole[130:480]) and np.array_equal(M1[600:], whole[600:])
    assert M1[480:620].base is not M1._store  # the sixth tile lies between


@pytest.mark.parametrize("keep", [0, 8 * 100 * 5 * 4])
def test_rows_that_are_given_again_cannot_be_written(keep: int) -> None:
    M1 = sources(7, 5, 1000, tile=100, keep=keep)[0]
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            M1[100:200] *= 2
    own = np.ones((100, 5), np.float32)
    Drawn((100, 5), lambda _: own, tile=100)[:]
    own *= 2  # what a source gave remains its own


def test_memory_is_that_of_vectors_and_tiles() -> None:
    m, k, n = 40, 60, 40_000
    M1, M2T = sources(m, k, n, tile=1024)
    W = np.random.default_rng(0).standard_normal((m, k))
    tracemalloc.start()
    found = solve(M1, M2T.T, W, ConjugateGradient(tolerance=1e-6), engine=Threads(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.status is Status.SOLVED
    weights = 4 * n * (m + k)
    assert peak < 0.6 * weights


def test_far_scales_are_drawn_scaled() -> None:
    counter = Counter(60, 5, 1, 16)
    M1 = Drawn(
        (60, 5), lambda i: np.ldexp(counter(i).astype(np.float64), 200), tile=16, dtype=float
    )
    M2T = sources(4, 5, 60, tile=16)[1]
    W = np.random.default_rng(0).standard_normal((4, 5))
    found = solve(M1, M2T.T, W, ConjugateGradient())
    kept = solve(M1[:], stored(M2T).T, W, ConjugateGradient())
    assert found.status is Status.SOLVED
    assert np.array_equal(found.s, kept.s)


def test_a_source_of_nan_is_refused() -> None:
    M1, M2T = sources(4, 3, 30, tile=8)

    def broken(index: int) -> np.ndarray:
        tile = M1._draw(index).copy()
        tile[0, 0] = np.nan if index == 2 else tile[0, 0]
        return tile

    bad = Drawn((30, 3), broken, tile=8)
    with pytest.raises(InputError, match="M1 drew an entry of size nan"):
        solve(bad, M2T.T, np.ones((4, 3)))
    with pytest.raises(InputError, match=r"M1 has shape \(30, 3\) and M2 has shape \(4, 29\)"):
        solve(M1, sources(4, 3, 29, tile=8)[1].T, np.ones((4, 3)))


def test_zeros_are_found_in_what_is_drawn() -> None:
    M1 = Drawn((30, 3), lambda i: np.zeros((8 if i < 3 else 6, 3)), tile=8)
    M2T = sources(4, 3, 30, tile=8)[1]
    found = solve(M1, M2T.T, np.ones((4, 3)))
    assert found.status is Status.RANK_DEFICIENT
    obstruction = structural_obstruction(M1, M2T.T)
    assert obstruction is not None
    assert obstruction.rank == 0
    assert repr(M1) == "Drawn(30 × 3, float32)"


def test_weights_of_a_frozen_network_are_drawn_tile_by_tile() -> None:
    """The same bits as the matrices that a network is drawn with."""
    from functools import partial

    from reconstruct.networks.draw import TILE, Pencil

    m, k, n = 6, 5, 1100
    pencil = Pencil(seed=3)
    M1, M2 = pencil.matrix(2, 0, n, k), pencil.matrix(2, 1, m, n, hidden=1)

    def tile(label: int, across: int, fan_in: int, index: int) -> np.ndarray:
        length = min(TILE, n - index * TILE)
        return pencil.tile(2, label, index, length, across, fan_in=fan_in)

    drawn1 = Drawn((n, k), partial(tile, 0, k, k), tile=TILE)
    drawn2 = Drawn((n, m), partial(tile, 1, m, n), tile=TILE).T
    W = np.random.default_rng(0).standard_normal((m, k))
    stored_ = solve(M1, M2, W, ConjugateGradient())
    assert np.array_equal(solve(drawn1, drawn2, W, ConjugateGradient()).s, stored_.s)


def test_a_source_can_be_sent_to_another_process() -> None:
    import pickle

    M1 = sources(4, 3, 30, tile=8)[0]
    M1[0:5]
    again = pickle.loads(pickle.dumps(M1.part(slice(10, 25))))
    assert np.array_equal(again[:], M1[10:25])
