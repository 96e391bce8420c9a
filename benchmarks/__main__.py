"""`python -m benchmarks`: every benchmark after the other, one JSON file of rows each.

    python -m benchmarks [NAME …] [--quick] [-o FOLDER]

The benchmark of real networks (`benchmarks.targets`) needs a folder of them, that of a very large
map (`benchmarks.large`) ten minutes: they are run by themselves.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks._common import run

NAMES = (
    "operator",
    "solvers",
    "growth",
    "ranks",
    "sparse",
    "deep",
    "runs",
    "honesty",
    "refusal",
)
LOCAL = Path(__file__).resolve().parent / "results" / "local"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("-o", "--output", type=Path, default=LOCAL, help="folder for the rows")
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        question = (module.__doc__ or name).splitlines()[0]
        print(f"\n{name}: {question}", flush=True)
        words = ["--quick"] if options.quick else []
        run(name, question, module.measure, ["-o", str(options.output / f"{name}.json"), *words])
    print(f"\nrows are in {options.output}")


if __name__ == "__main__":
    main()
