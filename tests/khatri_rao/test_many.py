"""Systems side by side, and engines: the same bits as one after the other."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from reconstruct.errors import InputError
from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    Direct,
    Exact,
    KhatriRao,
    Solution,
    Solver,
    Status,
    Threads,
    solve,
    solve_many,
)
from reconstruct.khatri_rao import many as many_module
from reconstruct.khatri_rao.engines import Turns, one_blas_thread
from reconstruct.khatri_rao.engines import threads as threads_module
from reconstruct.numbers import threads as blas_module
from reconstruct.progress import Step

from .planted import plant, sparsify

SHAPES = [(5, 50), (12, 12), (1, 3), (9, 7), (30, 20), (12, 12), (4, 4)]


def some_systems() -> list[tuple[Any, Any, np.ndarray]]:
    planted = [plant(*shape, 1.5, seed=i) for i, shape in enumerate(SHAPES)]
    planted.append(sparsify(plant(16, 16, 1.5), 0.2))
    return [(one.M1, one.M2, one.W) for one in planted]


@pytest.mark.parametrize("solver", [Auto(), ConjugateGradient(), Direct()], ids=repr)
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_same_bits_as_one_after_the_other(
    solver: Solver, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads_module, "PARALLEL_FLOPS", 0)  # threads share every sum
    systems = some_systems()
    alone = [solve(*system, solver) for system in systems]
    found = solve_many(systems, solver, workers=workers)
    for one, other in zip(alone, found, strict=True):
        assert np.array_equal(one.s, other.s)
        assert one.message == other.message


def test_large_systems_take_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    systems = some_systems()
    alone = [solve(*system) for system in systems]
    names: list[str] = []

    def heard(i: int, _: Solution) -> None:
        names.append(f"{i} {threading.current_thread().name.split('_')[0]}")

    costs = sorted(Auto().cost(*W.shape, M1.shape[0]).work for M1, _, W in systems)
    monkeypatch.setattr(many_module, "SMALL", costs[4])
    found = solve_many(systems, workers=2, solved=heard)
    assert sum("systems" in name for name in names) == 5
    assert sum("Main" in name for name in names) == 3
    assert all(np.array_equal(a.s, b.s) for a, b in zip(alone, found, strict=True))


def test_failures_stay_with_their_system() -> None:
    planted, other = plant(4, 4, 1.5), plant(5, 5, 1.5)
    M2 = planted.M2.copy()
    M2[1] = M2[0]
    W = np.random.default_rng(9).standard_normal((4, 4))
    found = solve_many([(planted.M1, M2, W), (other.M1, other.M2, other.W)], workers=2)
    assert [one.status for one in found] == [Status.RANK_DEFICIENT, Status.SOLVED]


def test_bad_input_is_refused_before_any_work() -> None:
    planted = plant(4, 4, 1.5)
    heard: list[int] = []
    bad = planted.W.copy()
    bad[0, 0] = np.nan
    systems = [(planted.M1, planted.M2, planted.W), (planted.M1, planted.M2, bad)]
    with pytest.raises(InputError, match="W of shape"):
        solve_many(systems, solved=lambda i, _: heard.append(i))
    assert heard == []
    assert solve_many([]) == []
    assert solve_many(systems[:1], Exact())[0].rationals is not None


def test_an_interrupt_ends_the_other_solves() -> None:
    systems = some_systems() * 4
    heard: list[int] = []

    def interrupt(step: Step) -> None:
        heard.append(int(step.done))
        if step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_many(systems, ConjugateGradient(), workers=2, progress=interrupt)
    assert len(heard) < len(systems)
    assert not any(thread.name.startswith("systems") for thread in threading.enumerate())


class TestEngines:
    def test_turns_have_the_bits_of_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(threads_module, "PARALLEL_FLOPS", 0)
        planted = plant(5, 6, 10.0)
        one = KhatriRao(planted.M1, planted.M2, engine=Threads(3)).apply(planted.s)
        other = KhatriRao(planted.M1, planted.M2, engine=Turns(3)).apply(planted.s)
        assert np.array_equal(one, other)

    @pytest.mark.parametrize("failing", [0, 1, 2])
    def test_an_error_in_any_share_is_raised_when_all_have_ended(self, failing: int) -> None:
        engine, ended = Threads(3), []

        def work(share: slice) -> int:
            if share.start == failing:
                raise ArithmeticError(f"share {failing}")
            ended.append(share.start)
            return int(share.start)

        shares = [slice(i, i + 1) for i in range(3)]
        with pytest.raises(ArithmeticError, match=f"share {failing}"):
            engine.map(work, shares)
        assert sorted(ended) == [i for i in range(3) if i != failing]
        assert engine.map(lambda share: share.stop, shares) == [1, 2, 3]

    def test_an_interrupted_caller_stops_the_workers_at_their_next_tile(self) -> None:
        engine = Threads(2)
        begun, tiles = threading.Event(), []

        def work(share: slice) -> None:
            if share.start == 0:
                begun.wait(10)
                raise KeyboardInterrupt
            begun.set()
            while not engine.stopping:
                tiles.append(1)

        with pytest.raises(KeyboardInterrupt):
            engine.map(work, [slice(0, 1), slice(1, 2)])
        assert tiles
        assert not engine.stopping

    def test_threads_end_with_the_engine(self) -> None:
        engine = Threads(4)
        engine.map(lambda share: share, [slice(i, i + 1) for i in range(4)])
        mine = [thread for thread in engine._workers if thread.is_alive()]
        assert len(mine) == 3
        del engine
        for thread in mine:
            thread.join(timeout=10)
            assert not thread.is_alive()

    def test_one_blas_thread_is_counted_and_restored(self) -> None:
        libraries = blas_module._libraries()
        before = [library.get_num_threads() for library in libraries]
        with one_blas_thread():
            with one_blas_thread():
                assert {library.get_num_threads() for library in libraries} == {1}
            assert {library.get_num_threads() for library in libraries} == {1}
        assert [library.get_num_threads() for library in libraries] == before
