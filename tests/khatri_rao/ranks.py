"""What the MPI tests run under mpiexec: `python ranks.py WHAT FOLDER`, every rank the same.

`ONE+OTHER` does one after the other: half of a job's time is its start.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.cli import main
from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    Direct,
    Drawn,
    Exact,
    FolderCheckpoint,
    Mpi,
    ensemble,
    solve,
)
from reconstruct.khatri_rao.engines.mpi import one_job
from reconstruct.khatri_rao.using import using
from reconstruct.progress import Step
from reconstruct.runs import job as whole_runs


def system(m: int, k: int, ratio: float, weights: str = "gaussian") -> tuple[Any, Any, Any]:
    """The same system on every rank."""
    rng = np.random.default_rng([m, k])
    n = int(np.ceil(ratio * m * k))
    draw = rng.random if weights == "positive" else rng.standard_normal
    M1, M2 = draw((n, k), dtype=np.float32), draw((m, n), dtype=np.float32)
    if weights == "uneven":  # more so for one half of the units than for the other
        M1 = M1 * np.float32(2) ** np.linspace(0, 20, n, dtype=np.float32).round()[:, None]
    return M1, M2, rng.standard_normal((m, k))


def drawn(M1: Any, M2: Any, rank: int, log: Path) -> tuple[Any, Any]:
    """Sources over stored matrices that write down which tiles their rank asked for."""

    def source(matrix: Any) -> Drawn:
        def draw(index: int) -> Any:
            with (log / f"tiles-{rank}").open("a") as file:
                file.write(f"{index}\n")
            return matrix[index * 64 : (index + 1) * 64]

        return Drawn(matrix.shape, draw, tile=64)

    return source(M1), source(M2.T).T


def solve_all(engine: Mpi, folder: Path) -> None:
    """A list of systems by several solvers; rank 0 writes the answers."""
    cases: dict[str, tuple[tuple[Any, Any, Any], Any]] = {
        "cg": (system(20, 20, 1.5), ConjugateGradient()),
        "narrow": (system(20, 20, 0.5), ConjugateGradient()),
        "whitened": (system(9, 7, 1.6, "positive"), ConjugateGradient()),
        "uneven": (system(9, 7, 1.6, "uneven"), ConjugateGradient()),
        "direct": (system(5, 4, 1.0), Direct()),
        "uneven direct": (system(5, 4, 1.5, "uneven"), Direct()),
        "auto": (system(6, 5, 1.5), Auto(dense_bytes=0)),
        "exact": (system(3, 2, 1.0), Exact()),
    }
    found = {}
    for name, (given, solver) in cases.items():
        solution = solve(*given, solver, engine=engine)
        found[name] = solution.s
        found[f"{name}.status"] = np.array(solution.status.value)
    M1, M2, W = system(20, 20, 1.5)
    sources = drawn(M1, M2, engine.rank, folder)
    found["drawn"] = solve(*sources, W, ConjugateGradient(), engine=engine).s
    everywhere = engine.comm.allgather({name: part.tobytes() for name, part in found.items()})
    assert all(one == everywhere[0] for one in everywhere), "ranks disagree"
    if engine.first:
        np.savez(folder / f"found-{engine.holders}.npz", **found)  # type: ignore[arg-type]


def die(engine: Mpi, folder: Path) -> None:
    """The last rank dies in the middle of a solve, in the way that the folder's name says."""
    how = folder.name

    def watch(step: Step) -> None:
        if engine.rank != engine.holders - 1 or (step.residual or 1) > 1e-3:
            return
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt if how == "interrupted" else ArithmeticError("a rank fell over")

    file = FolderCheckpoint(folder / "kept", seconds=0.0)
    solve(*system(20, 20, 1.5), ConjugateGradient(), engine=engine, progress=watch, checkpoint=file)
    raise AssertionError("nobody died")


def resume(engine: Mpi, folder: Path) -> None:
    """Go on with what `die` left, in every folder there."""
    for left in sorted(folder.iterdir()):
        resume_one(engine, left)


def resume_one(engine: Mpi, folder: Path) -> None:
    steps: list[Step] = []
    file = FolderCheckpoint(folder / "kept", seconds=1e9)
    assert list(file.folder.glob("solve-*.npz"))
    engine.comm.Barrier()
    given = system(20, 20, 1.5)
    found = solve(
        *given, ConjugateGradient(), engine=engine, progress=steps.append, checkpoint=file
    )
    if engine.first:
        np.savez(folder / "resumed.npz", s=found.s, steps=len(steps), total=found.iterations)


def hang(engine: Mpi, folder: Path) -> None:
    """Refused input is refused on every rank, and nobody waits for ever."""
    M1, M2, W = system(4, 4, 1.5)
    W[0, 0] = np.nan
    solve(M1, M2, W, engine=engine)
    time.sleep(600)


def conduct(engine: Mpi, folder: Path) -> None:
    """Rank 0 solves as if it were alone; the other ranks join in where it pays."""
    if not engine.first:
        ensemble.serve(engine)
        return
    found: dict[str, Any] = {}
    conductor = ensemble.Ensemble(engine)
    ensemble.SHARED_FLOPS = 0.0
    with using(engine=conductor):
        for name, ratio in (("cg", 1.5), ("narrow", 0.5)):
            found[name] = solve(*system(20, 20, ratio), ConjugateGradient()).s
            assert not conductor.busy
        found["direct"] = solve(*system(5, 4, 1.0), Direct()).s
        for name, kind in (("drawn", "gaussian"), ("uneven", "uneven")):
            M1, M2, W = system(20, 20, 1.5, kind)
            M1, M2 = Drawn(M1.shape, Rows(M1), tile=64), Drawn(M2.T.shape, Rows(M2.T), tile=64).T
            found[name] = solve(M1, M2, W, ConjugateGradient()).s
        large = [np.ldexp(one.astype(np.float64), 60) for one in system(9, 7, 1.5)]
        found["scaled"] = solve(*large, ConjugateGradient()).s
    conductor.dismiss()
    np.savez(folder / "conducted.npz", **found)


class Rows:
    """Draws tiles of 64 rows of a matrix that goes along to other ranks."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __call__(self, index: int) -> Any:
        return self.matrix[index * 64 : (index + 1) * 64]


def command(folder: Path, *words: str) -> int:
    """`reconstruct WORDS` with every iteration shared out; `die-at-map-2` kills the last rank.

    No page is drawn: rank 0 does that alone, while the others wait at full speed.
    """
    ensemble.SHARED_FLOPS = 0.0
    whole_runs.write_page = lambda folder: (folder / "report.html").write_text("a page")
    if "die-at-map-2" in words and os.environ.get("PMI_RANK") == "1":
        true, calls = ConjugateGradient.iterate, [0]

        def dying(self: ConjugateGradient, *given: Any) -> Any:
            calls[0] += 1
            if calls[0] == 3:  # each map is solved, and then refined
                os.kill(os.getpid(), signal.SIGKILL)
            return true(self, *given)

        ConjugateGradient.iterate = dying  # type: ignore[method-assign]
    os.chdir(folder)
    return main([word for word in words if word != "die-at-map-2"])


if __name__ == "__main__":
    if sys.argv[1] == "command":
        sys.exit(command(Path(sys.argv[2]), *sys.argv[3:]))
    job = Mpi(threads=1)
    with one_job(job):
        for name in sys.argv[1].split("+"):
            globals()[name](job, Path(sys.argv[2]))
