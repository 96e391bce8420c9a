"""Interrupted solves: wherever they stop, they go on to the same solution, bit by bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    Direct,
    FolderCheckpoint,
    KhatriRao,
    Solver,
    Status,
    solve,
)
from reconstruct.khatri_rao.engines import Turns
from reconstruct.khatri_rao.solvers import cgls
from reconstruct.khatri_rao.solvers.preconditioned import Plain
from reconstruct.khatri_rao.solvers.rounds_state import RoundsState
from reconstruct.khatri_rao.using import surroundings, using
from reconstruct.progress import Step

from .planted import Planted, plant, sparsify


class Memory:
    """A checkpoint that keeps every state it is offered."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.states: list[tuple[str, Mapping[str, np.ndarray]]] = []
        self.cleared: list[str] = []

    def load(self, key: str) -> Mapping[str, np.ndarray] | None:
        return next((state for name, state in reversed(self.states) if name == key), None)

    def save(self, key: str, state: Mapping[str, np.ndarray]) -> None:
        self.states.append((key, {name: part.copy() for name, part in state.items()}))

    def clear(self, key: str) -> None:
        self.cleared.append(key)


def systems() -> dict[str, tuple[Planted, Solver]]:
    return {
        "plain": (plant(9, 7, 1.5), ConjugateGradient()),
        "whitened": (plant(9, 7, 1.5, "positive"), ConjugateGradient()),
        "sparse": (sparsify(plant(16, 16, 1.5), 0.17), ConjugateGradient()),
        "float64": (plant(6, 8, 2.0), ConjugateGradient(inner_dtype=np.float64)),
        "auto": (plant(9, 7, 1.5), Auto(dense_bytes=0)),
    }


@pytest.mark.parametrize("name", list(systems()))
def test_every_state_leads_to_the_same_bits(name: str) -> None:
    planted, solver = systems()[name]
    whole = solve(planted.M1, planted.M2, planted.W, solver)
    memory = Memory()
    watched = solve(planted.M1, planted.M2, planted.W, solver, checkpoint=memory)
    assert whole.status is Status.SOLVED
    assert np.array_equal(watched.s, whole.s)
    assert len(memory.states) == whole.iterations
    assert memory.cleared == [memory.states[0][0]]
    for state in memory.states[:: max(1, len(memory.states) // 9)]:
        again = Memory(seconds=1e9)
        again.states = [state]
        resumed = solve(planted.M1, planted.M2, planted.W, solver, checkpoint=again)
        assert np.array_equal(resumed.s, whole.s)
        assert resumed.message == whole.message
        assert resumed.history == whole.history


@pytest.mark.parametrize(
    ("product", "after", "done"),
    [("round_trip", after, after) for after in (1, 2, 20, 51)] + [("apply", 2, 0), ("apply", 3, 9)],
)
def test_an_interrupt_in_the_middle_of_a_product(
    product: str, after: int, done: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing was due yet: the interrupt itself saves, at least `done` iterations."""
    planted = plant(9, 7, 1.5)
    whole = solve(planted.M1, planted.M2, planted.W, ConjugateGradient())
    file = FolderCheckpoint(tmp_path, seconds=1e9)
    with monkeypatch.context() as patch:
        _interrupt_product(patch, product, after)
        with pytest.raises(KeyboardInterrupt):
            solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), checkpoint=file)
    assert len(list(tmp_path.glob("solve-*.npz"))) == 1
    counted: list[Step] = []
    resumed = solve(
        *(planted.M1, planted.M2, planted.W, ConjugateGradient()),
        checkpoint=file,
        progress=counted.append,
    )
    assert np.array_equal(resumed.s, whole.s)
    assert len(counted) <= whole.iterations - done + 2
    assert list(tmp_path.iterdir()) == []


def _interrupt_product(patch: pytest.MonkeyPatch, product: str, after: int) -> None:
    from reconstruct.khatri_rao.operator import KhatriRao

    true, calls = getattr(KhatriRao, product), [0]

    def interrupted(self: KhatriRao, *given: Any) -> Any:
        found = true(self, *given)
        calls[0] += 1
        if calls[0] == after:
            raise KeyboardInterrupt
        return found

    patch.setattr(KhatriRao, product, interrupted)


def test_an_interrupt_between_two_assignments() -> None:
    """The lists of coefficients may be one ahead of the iterate; the state is cut to it."""
    planted = plant(9, 7, 1.5)
    K = Plain(KhatriRao(planted.M1, planted.M2))
    inner = cgls.begin(K, planted.W, np.float32)

    def stop(now: cgls.Inner) -> None:
        if now.now.steps == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cgls.cgls(K, inner, 1e-30, 20, stop)
    state = RoundsState(np.zeros(len(planted.s)), np.dtype(np.float32), inner=inner)
    whole = state.arrays()
    assert not whole["turned"]
    assert [len(whole[name]) for name in ("residuals", "alphas", "betas")] == [12, 12, 11]
    for ahead in (inner.residuals, inner.alphas, inner.betas):
        ahead.append(99.0)
    cut = state.arrays()
    assert all(cut[name].tobytes() == whole[name].tobytes() for name in whole)
    back = RoundsState.from_arrays(cut).inner
    assert back is not None
    assert back.now.steps == 12
    on, again = (cgls.cgls(K, one, 1e-30, 20) for one in (inner, back))
    assert np.array_equal(on.d, again.d)
    assert (on.residuals, on.alphas, on.betas) == (again.residuals, again.alphas, again.betas)


def test_the_state_of_another_system_is_not_used() -> None:
    planted, other = plant(9, 7, 1.5), plant(9, 7, 1.5, seed=1)
    memory = Memory()
    solve(other.M1, other.M2, other.W, ConjugateGradient(), checkpoint=memory)
    again = Memory(seconds=1e9)
    again.states = memory.states[-1:]
    whole = solve(planted.M1, planted.M2, planted.W, ConjugateGradient())
    fresh = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), checkpoint=again)
    assert np.array_equal(fresh.s, whole.s)
    same_W = solve(other.M1 * 2, other.M2, other.W, ConjugateGradient(), checkpoint=again)
    doubled = solve(other.M1 * 2, other.M2, other.W, ConjugateGradient())
    assert np.array_equal(same_W.s, doubled.s)


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    planted = plant(5, 4, 1.5)
    whole = solve(planted.M1, planted.M2, planted.W, ConjugateGradient())
    memory = Memory()
    solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), checkpoint=memory)
    file = FolderCheckpoint(tmp_path)
    path = file.path(memory.cleared[0])
    for damage in (b"", b"PK\x03\x04 cut off", b"no archive at all"):
        path.write_bytes(damage)
        assert file.load(memory.cleared[0]) is None
        found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), checkpoint=file)
        assert np.array_equal(found.s, whole.s)
        assert not path.exists()


def test_a_failed_save_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FolderCheckpoint(tmp_path / "made" / "when needed")
    file.save("a", {"x": np.arange(3)})
    file.save("b", {"x": np.arange(9)})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.save("a", {"x": np.arange(4)})
    kept = file.load("a")
    assert kept is not None
    assert kept["x"].tolist() == [0, 1, 2]
    file.clear("b")
    assert [path.name for path in file.folder.iterdir()] == ["solve-a.npz"]


def test_methods_without_a_state_leave_the_checkpoint_alone(tmp_path: Path) -> None:
    planted = plant(5, 4, 1.5)
    file = FolderCheckpoint(tmp_path, seconds=0)
    found = solve(planted.M1, planted.M2, planted.W, Direct(), checkpoint=file)
    assert found.status is Status.SOLVED
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import signal
import sys
import time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what was started with &
import numpy as np
from reconstruct.khatri_rao import ConjugateGradient, FolderCheckpoint, solve
rng = np.random.default_rng(0)
M1 = rng.standard_normal((3600, 48), dtype=np.float32)
M2 = rng.standard_normal((48, 3600), dtype=np.float32)
W = rng.standard_normal((48, 48))
told = []
def tell(step):
    told.append(step)
    print(step.residual, flush=True)
    if len(told) == int(sys.argv[3]):
        time.sleep(60)  # the signal comes by then
file = FolderCheckpoint(sys.argv[1], seconds=0.05)
solver = ConjugateGradient(inner_dtype=np.float64)
try:
    found = solve(M1, M2, W, solver, checkpoint=file, progress=tell)
except KeyboardInterrupt:
    sys.exit(130)
np.save(sys.argv[2], found.s)
"""


def run_until(tmp_path: Path, steps: int | None, how: int) -> int:
    """Run the script, and send the signal after some steps; its exit code.

    A few steps further on it waits for the signal, or it might be done before on a busy machine.
    """
    last = "0" if steps is None else str(steps + 10)
    words = [str(tmp_path / "kept"), str(tmp_path / "s.npy"), last]
    command = [sys.executable, "-c", SCRIPT, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for count, _ in enumerate(process.stdout):
            if steps is not None and count == steps:
                started = time.monotonic()
                process.send_signal(how)
                process.communicate(timeout=60)
                if how == signal.SIGINT:
                    assert time.monotonic() - started < 60  # it ends; how soon depends on load
                break
        process.wait(timeout=120)
        return process.returncode


def test_killed_and_interrupted_at_many_moments_and_resumed(tmp_path: Path) -> None:
    """Killed four times and interrupted once, each time further on."""
    moments = (30, signal.SIGKILL), (40, signal.SIGINT), (25, signal.SIGKILL)
    for steps, how in (*moments, (12, signal.SIGKILL), (18, signal.SIGKILL)):
        code = run_until(tmp_path, steps, how)
        assert code == (130 if how == signal.SIGINT else -signal.SIGKILL)
        assert not (tmp_path / "s.npy").exists()
    assert run_until(tmp_path, None, 0) == 0
    resumed = np.load(tmp_path / "s.npy")
    assert not list((tmp_path / "kept").glob("solve-*.npz"))
    assert run_until(tmp_path, None, 0) == 0
    assert np.array_equal(np.load(tmp_path / "s.npy"), resumed)


def test_a_growing_residual_ends_the_round() -> None:
    """Float32 least squares out of reach: rounding takes over, and the iteration notices."""
    rng = np.random.default_rng([9, 6, 7, ord("p")])
    M1, M2 = (rng.uniform(0, 1, shape).astype(np.float32) for shape in ((38, 6), (9, 38)))
    found = solve(M1, M2, rng.standard_normal((9, 6)), ConjugateGradient())
    assert found.status is Status.TOO_NARROW
    assert max(found.history) <= 2 * cgls.GROWN


def test_a_checkpoint_in_use_serves_calls_that_name_none(tmp_path: Path) -> None:
    """A list of systems: each goes on from the state that it left, and clears no other."""
    first, second = plant(9, 7, 1.5), plant(8, 8, 1.5)
    whole = [solve(one.M1, one.M2, one.W, ConjugateGradient()) for one in (first, second)]
    memory = Memory()
    with using(checkpoint=memory):
        solve(second.M1, second.M2, second.W, ConjugateGradient())
    folder = FolderCheckpoint(tmp_path, seconds=1e9)
    folder.save(*memory.states[-3])
    counts: list[list[Step]] = [[], []]
    with using(checkpoint=folder), using(engine=Turns(2)):
        found = [
            solve(one.M1, one.M2, one.W, ConjugateGradient(), progress=heard.append)
            for one, heard in zip((first, second), counts, strict=True)
        ]
    assert all(np.array_equal(a.s, b.s) for a, b in zip(found, whole, strict=True))
    assert len(counts[0]) == whole[0].iterations
    assert len(counts[1]) <= 3
    assert surroundings().checkpoint is None
    assert surroundings().engine is None


def test_a_state_of_another_make_is_not_taken_up(tmp_path: Path, monkeypatch: Any) -> None:
    planted = plant(9, 7, 1.5)
    whole = solve(planted.M1, planted.M2, planted.W, ConjugateGradient())
    file = FolderCheckpoint(tmp_path, seconds=1e9)
    with monkeypatch.context() as patch:
        patch.setattr("reconstruct.khatri_rao.solvers.rounds_state.FORMAT", "s d r p")
        _interrupt_product(patch, "round_trip", 20)
        with pytest.raises(KeyboardInterrupt):
            solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), checkpoint=file)
    (kept,) = tmp_path.glob("solve-*.npz")
    again = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), checkpoint=file)
    assert np.array_equal(again.s, whole.s) and kept.exists()
