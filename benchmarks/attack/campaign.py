"""`python -m benchmarks.attack --minutes M --seed S`: every attack in turn, for that long.

    python -m benchmarks.attack [NAME …] [--minutes M | --cases N] [--seed S] [--jobs J] [-o FOLDER]

With J jobs there are J processes, with the seeds S … S + J − 1. Counts by class go to
`attack.json` in the folder, each violation to a folder of its own beside it.
Exit code 1 when there is a violation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import pkgutil
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import benchmarks.attack
from benchmarks._common import environment
from benchmarks.attack.registry import ATTACKS, Outcome, generator

LOCAL = Path(__file__).resolve().parents[1] / "results" / "local" / "attack"
SLICE = 5.0  # seconds of one attack before the next one has its turn


@dataclass
class Tally:
    """What became of the cases of one class."""

    cases: int = 0
    seconds: float = 0.0
    violations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.cases + other.cases,
            self.seconds + other.seconds,
            self.violations + other.violations,
            self.outcomes + other.outcomes,
        )

    def row(self) -> dict[str, Any]:
        told = dict(self.outcomes.most_common())
        return {
            "cases": self.cases,
            "violations": self.violations,
            "seconds": round(self.seconds, 1),
            "outcomes": told,
        }


def attempt(name: str, seed: int, index: int) -> Outcome:
    """One case; whatever it raises is a violation too."""
    try:
        return ATTACKS[name](generator(name, seed, index))
    except Exception:  # an attack expects the package's own errors and catches them itself
        return Outcome("crashed", traceback.format_exc())


def run_slice(name: str, tally: Tally, seed: int, until: float, most: int, folder: Path) -> None:
    """Cases of one class until the time is up or `most` have been tried."""
    start = time.monotonic()
    while tally.cases < most and time.monotonic() < until:
        outcome = attempt(name, seed, tally.cases)
        if outcome.violation is not None:
            tally.violations += 1
            keep(folder / f"{name}-{seed}-{tally.cases}", name, seed, tally.cases, outcome)
        tally.outcomes[outcome.word] += 1
        tally.cases += 1
    tally.seconds += time.monotonic() - start


def keep(folder: Path, name: str, seed: int, index: int, outcome: Outcome) -> None:
    """Everything about one violation, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "attack": name,
        "seed": seed,
        "index": index,
        "outcome": outcome.word,
        "violation": outcome.violation,
    }
    (folder / "violation.json").write_text(json.dumps(told, indent=1) + "\n")
    for file, content in outcome.files.items():
        (folder / file).write_bytes(content)


def discover() -> None:
    """Imports every file of this folder: each registers its attack."""
    for module in pkgutil.iter_modules(benchmarks.attack.__path__):
        if module.name != "__main__":
            importlib.import_module(f"benchmarks.attack.{module.name}")


def run(
    names: list[str], minutes: float, seed: int, cases: int | None, folder: Path
) -> dict[str, Tally]:
    """All attacks in turns; writes the counts after each round and gives them."""
    tallies = {name: Tally() for name in names}
    most = sys.maxsize if cases is None else cases
    end = time.monotonic() + 60 * minutes
    open_names = list(names)
    while open_names and time.monotonic() < end:
        name = min(open_names, key=lambda name: tallies[name].seconds)  # every class has its share
        until = min(end, time.monotonic() + SLICE)
        run_slice(name, tallies[name], seed, until, most, folder)
        open_names = [name for name in open_names if tallies[name].cases < most]
        write(folder, seed, tallies)
        tell(tallies, end - time.monotonic())
    write(folder, seed, tallies)
    return tallies


def tell(tallies: dict[str, Tally], left: float) -> None:
    """A line of progress on stderr."""
    cases = sum(tally.cases for tally in tallies.values())
    violations = sum(tally.violations for tally in tallies.values())
    print(
        f"{cases} cases, {violations} violations, {max(left, 0.0) / 60:.1f} min left",
        file=sys.stderr,
        flush=True,
    )


def share(
    names: list[str], minutes: float, seed: int, cases: int | None, folder: Path, jobs: int
) -> dict[str, Tally]:
    """As `run`, by several processes with a seed each; their counts are added up."""
    context = multiprocessing.get_context("spawn")
    work = [(names, minutes, seed + j, cases, folder / f"job-{j}") for j in range(jobs)]
    with context.Pool(jobs, initializer=discover) as pool:
        parts = pool.starmap(run, work)
    tallies = {name: sum((part[name] for part in parts), Tally()) for name in names}
    write(folder, seed, tallies, jobs)
    return tallies


def write(folder: Path, seed: int, tallies: dict[str, Tally], jobs: int = 1) -> None:
    """One row for each class of attack, as every benchmark writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    around = environment()
    rows = [
        {"benchmark": "attack", "class": name, "seed": seed, "jobs": jobs, **tally.row(), **around}
        for name, tally in tallies.items()
    ]
    (folder / "attack.json").write_text(json.dumps(rows, indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    discover()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(sorted(ATTACKS))}; all")
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long (1)")
    parser.add_argument("--cases", type=int, help="at most this many of each class")
    parser.add_argument("--seed", type=int, default=0, help="which random cases (0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    parser.add_argument("-o", "--output", type=Path, default=LOCAL, help="folder for the results")
    options = parser.parse_args(argv)
    unknown = set(options.names) - set(ATTACKS)
    if unknown:
        parser.error(f"no attack is called {sorted(unknown)[0]!r}; known are {sorted(ATTACKS)}")
    names = options.names or sorted(ATTACKS)
    settings = (names, options.minutes, options.seed, options.cases, options.output)
    found = share(*settings, options.jobs) if options.jobs > 1 else run(*settings)
    for name, tally in found.items():
        words = ", ".join(f"{count} {word}" for word, count in tally.outcomes.most_common())
        print(f"{name}: {tally.cases} cases, {tally.violations} violations ({words})")
    return 1 if any(tally.violations for tally in found.values()) else 0
