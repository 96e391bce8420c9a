"""What the MPI tests run under mpiexec: `python ranks.py WHAT FOLDER`, every rank the same."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.cli import main
from reconstruct.equivalence import branch_and_bound
from reconstruct.equivalence.branch_and_bound import BoundLimits
from reconstruct.khatri_rao import Auto, ConjugateGradient, Direct, Exact, operator, solve
from reconstruct.khatri_rao.ranks import as_job, is_first, over_ranks, world
from reconstruct.progress import Step
from reconstruct.runs import run as whole_runs


def system(m: int, k: int, ratio: float, weights: str = "gaussian") -> tuple[Any, Any, Any]:
    """The same system on every rank."""
    rng = np.random.default_rng([m, k])
    n = int(np.ceil(ratio * m * k))
    draw = rng.random if weights == "positive" else rng.standard_normal
    M1, M2 = draw((n, k), dtype=np.float32), draw((m, n), dtype=np.float32)
    return M1, M2, rng.standard_normal((m, k))


CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "cg": ((20, 20, 1.5), ConjugateGradient()),
    "narrow": ((20, 20, 0.5), ConjugateGradient()),
    "whitened": ((9, 7, 1.6, "positive"), ConjugateGradient()),
    "direct": ((5, 4, 1.0), Direct()),
    "auto": ((6, 5, 1.5), Auto(dense_bytes=0)),
    "exact": ((3, 2, 1.0), Exact()),
}


def solve_all(folder: Path) -> None:
    """A list of systems by several solvers; rank 0 writes the answers."""
    found = {}
    for name, (given, solver) in CASES.items():
        solution = solve(*system(*given), solver)
        found[name] = solution.s
        found[f"{name}.status"] = np.array(solution.status.value)
    everywhere = world().allgather({name: part.tobytes() for name, part in found.items()})
    assert all(one == everywhere[0] for one in everywhere), "ranks disagree"
    if is_first():
        np.savez(folder / "found.npz", **found)  # type: ignore[arg-type]


def die(folder: Path) -> None:
    """The last rank dies in the middle of a solve, in the way that the folder's name says."""

    def watch(step: Step) -> None:
        if is_first() or (step.residual or 1) > 1e-3:
            return
        if folder.name == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ArithmeticError("a rank fell over")

    solve(*system(20, 20, 1.5), ConjugateGradient(), progress=watch)
    raise AssertionError("nobody died")


def refuse(folder: Path) -> None:
    """Refused input is refused on every rank, and nobody waits for ever."""
    M1, M2, W = system(4, 4, 1.5)
    W[0, 0] = np.nan
    solve(M1, M2, W)


def command(folder: Path, *words: str) -> int:
    """`reconstruct WORDS` with every sum shared out; `die-at-map-2` kills the last rank.

    No page is drawn: it takes a second and is rank 0's alone.
    """
    whole_runs.write_page = lambda folder: (folder / "report.html").write_text("a page")
    if "die-at-map-2" in words and os.environ.get("PMI_RANK") == "1":
        true, calls = ConjugateGradient.solve, [0]

        def dying(self: ConjugateGradient, *given: Any) -> Any:
            calls[0] += 1
            # Each map is solved, refined, and rounded in eight parts: a rank that meets the twelfth
            # call has shared a sum of map 2 with rank 0, which has therefore stored map 1.
            if calls[0] == 12:
                os.kill(os.getpid(), signal.SIGKILL)
            return true(self, *given)

        ConjugateGradient.solve = dying  # type: ignore[method-assign]
    os.chdir(folder)
    if "count-boxes" in words:
        bounded, count = branch_and_bound._Bounded.__call__, [0]

        def counting(self: Any, lo: Any, hi: Any, seconds: float) -> Any:
            count[0] += len(lo)
            return bounded(self, lo, hi, seconds)

        branch_and_bound._Bounded.__call__ = counting  # type: ignore[method-assign]
        branch_and_bound.LIMITS = BoundLimits(alone=0.0)
        atexit.register(lambda: print("boxes", count[0], file=sys.stderr))
    return main([word for word in words if word not in ("die-at-map-2", "count-boxes")])


def job(name: str, folder: Path) -> int:
    with over_ranks(world()):
        globals()[name](folder)
    return 0


if __name__ == "__main__":
    operator.TILES = operator.Tiles(shared=0.0)
    if sys.argv[1] == "command":
        sys.exit(command(Path(sys.argv[2]), *sys.argv[3:]))
    sys.exit(as_job(world(), lambda: job(sys.argv[1], Path(sys.argv[2]))))
