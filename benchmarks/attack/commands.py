"""Commands with odd arguments on odd files: a sentence and exit code 0 to 3, never 4, in time.

Runs with a guard, exports, reports and small studies are among them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.attack.pair_networks import draw_image_network, draw_network
from benchmarks.attack.registry import Outcome, attack
from reconstruct.formats import save

SECONDS = 120  # for one command, on a machine that does much else
ODD = (
    ["--samples", "-5"],
    ["--samples", "1e99"],
    ["--memory", "9" * 40 + "G"],
    ["--memory", "-1"],
    ["--tolerance", "nan"],
    ["--domain=1,-1"],
    ["--domain", "x" * 400],
    ["--seed", "-1"],
    ["--rank", "0"],
    ["--block", "0"],
    ["--ratio", "0.1"],
)
STARTS = (
    ["run", "a.npz", "-o", "out", "--samples", "200"],
    ["run", "a.npz", "-o", "out", "--samples", "200", "--dtype", "float32", "--guard"],
    ["run", "a.npz", "-o", "out", "--samples", "200", "--construction", "deep"],
    ["verify", "a.npz", "b.npz", "-o", "out"],
    ["export", "a.npz", "b.npz", "-o", "out", "--tolerance", "1e-3"],
    ["inspect", "a.npz"],
    ["study", "sparsity", "-o", "out", "--seeds", "1", "--grid", "d=4", "--quiet"],
    ["study", "conditioning", "-o", "out", "--seeds", "1", "--quiet"],
    ["train", "-o", "out", "--data", "d.npz", "--model", "mlp", "--width", "4", "--epochs", "1"],
)


@attack("commands")
def commands(rng: np.random.Generator) -> Outcome:
    """A command, sometimes with an odd argument, and what can be asked of its folder after it."""
    network = draw_image_network(rng) if rng.random() < 0.3 else draw_network(rng)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("a.npz", "b.npz"):
            save(network, place / name, dtype=None)
        words = list(STARTS[int(rng.integers(len(STARTS)))])
        x = rng.normal(size=(12, 1, 2, 2)).astype(np.float32)
        np.savez(place / "d.npz", x=x, y=np.arange(12) % 3)
        if words[0] in ("run", "verify", "export"):
            words.append("--domain=-1,1")
        if rng.random() < 0.5:
            words += ODD[int(rng.integers(len(ODD)))]
        told = []
        for more in (words, ["check", "out"], ["report", "out"]):
            if more is not words and not (place / "out" / "certificate.json").exists():
                break
            code, text = _run(place, more)
            told.append(f"{more[0]} {code}")
            if code not in (0, 1, 2, 3):
                files = {"a.npz": (place / "a.npz").read_bytes()}
                return Outcome("internal error", f"{more}: exit {code}, {text}", files)
    return Outcome(", ".join(told))


def _run(place: Path, words: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "reconstruct", *words],
            cwd=place,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 4, f"no end after {SECONDS} s"
    return done.returncode, done.stderr.decode(errors="replace")[-300:]
