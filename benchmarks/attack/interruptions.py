"""Runs that are killed at any moment, and resumed: the same numbers as without interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.attack.registry import Outcome, attack
from proofs_check.certificates import check

LAST = 900.0  # seconds that a run may take, on a machine that does much else


@attack("kill-and-resume")
def kill_and_resume(rng: np.random.Generator) -> Outcome:
    """One run of a small network, killed at a random moment, then resumed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sizes = rng.integers(3, 9, size=4)
        pairs = enumerate(pairwise(sizes), start=1)
        weights = {f"W{i}": rng.standard_normal((m, k)) for i, (k, m) in pairs}
        np.savez(place / "target.npz", **weights)  # type: ignore[arg-type]
        whole = _run(place, "whole")
        _wait_for(place / "whole", whole)
        start = time.monotonic()
        _wait_for(place / "whole" / "report.json", whole)
        busy = time.monotonic() - start
        code = whole.wait(LAST)
        if code not in (0, 3):
            return Outcome("failed", f"a run ended with exit code {code}")
        seconds = float(rng.uniform(0.0, 1.0)) * busy
        cut = _run(place, "cut")
        _wait_for(place / "cut", cut)  # imports take longer than the work that is to be hit
        hit = _kill(cut, seconds)
        again = _run(place, "cut", "--resume")
        ended = again.wait(LAST)
        return _compared(place, code, ended, "killed and resumed" if hit else "was done by then")


def _wait_for(place: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the run has written that, or has ended."""
    while not place.exists() and process.poll() is None:
        time.sleep(0.005)


def _run(place: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    words = ["run", "target.npz", "-o", out, "--domain=-1,1", "--quiet", "--samples", "500", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "reconstruct", *words],
        cwd=place,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _kill(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Ends the process in the middle of whatever it does; false where it was done by then."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return process.returncode == -signal.SIGKILL


def _compared(place: Path, code: int, ended: int, word: str) -> Outcome:
    if ended == 2 and (place / "cut" / "report.json").exists():
        return Outcome("done before it was killed")  # an existing OUT is refused, rightly
    if ended != code:
        return Outcome("failed", f"{word}: exit code {ended}, without interruption {code}")
    first, second = (np.load(place / out / "norms.npz") for out in ("whole", "cut"))
    if any(not np.array_equal(first[key], second[key]) for key in first.files):
        return Outcome("other numbers", f"{word}: norms.npz is not the same")
    report = check(place / "cut")
    if not report.accepted:
        return Outcome("rejected", f"{word}: {report}")
    return Outcome(word)
