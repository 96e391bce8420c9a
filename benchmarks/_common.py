"""What every benchmark shares: rows with seed, versions and machine, timing, peak memory."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reconstruct.reports.document import blas, cpu
from reconstruct.version import __version__

Row: TypeAlias = dict[str, Any]
PACKAGES = ("numpy", "scipy", "sympy", "networkx", "threadpoolctl", "python-flint", "onnxruntime")


def environment() -> Row:
    """Versions and machine: the same in every row of a run."""
    return {"versions": _versions(), "machine": _machine()}


def _versions() -> dict[str, str]:
    found = {"reconstruct": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "blas": blas(),
    }


def best_time(action: Callable[[], object], repeats: int = 3) -> float:
    """Shortest of some runs, in seconds: the one with the least disturbance."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def in_fresh_process(function: Callable[..., Row], *arguments: Any) -> Row:
    """`function(*arguments)` in a process of its own, so that its peak memory is its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


def gemm_flops(dtype: Any, size: int = 1536) -> float:
    """Flops per second of a square matrix product with all threads."""
    A = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    return 2 * size**3 / best_time(lambda: A @ A, 4)


def run(
    name: str,
    question: str,
    measure: Callable[[bool], Iterable[Row]],
    argv: list[str] | None = None,
) -> list[Row]:
    """Command line of a benchmark: `python -m benchmarks.NAME [-o FILE.json] [--quick]`."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=question)
    parser.add_argument("-o", "--output", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    options = parser.parse_args(argv)
    rows = list(_shown(complete(name, measure(options.quick))))
    if options.output is not None:
        options.output.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")
    return rows


def complete(name: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows with the benchmark's name in front, and the environment behind."""
    around = environment()
    for row in rows:
        yield {"benchmark": name, **row, **around}


def _shown(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        shown = {key: row[key] for key in row if key not in ("versions", "machine")}
        print("  ".join(f"{key}={_brief(value)}" for key, value in shown.items()), flush=True)
        yield row


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def tell(
    name: str,
    rows: Iterable[Row],
    output: Path | None,
    earlier: Iterable[Row] = (),
    about: str = "network",
) -> None:
    """Print each row as it comes, and write all so far: a long benchmark may be interrupted.

    Rows that were measured `earlier` stay where no new one is `about` the same.
    """
    older, kept = list(earlier), list[Row]()
    for row in complete(name, rows):
        shown = {k: v for k, v in row.items() if k not in ("versions", "machine", "benchmark")}
        print(json.dumps(shown), flush=True)
        kept.append(row)
        older = [old for old in older if old.get(about) != row.get(about)]
        if output is not None:
            output.write_text(json.dumps(older + kept, indent=1, allow_nan=False) + "\n")
