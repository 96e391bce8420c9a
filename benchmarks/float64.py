"""What is proved of f evaluated in float64, and what of g itself by the same analysis?

Runs the command line with sums in blocks and a time for bounds on networks of a folder laid out by
family, then the checker. No order of summation is excluded, so that every rounding counts with the
worst that it can be: `float64_bound` is far above what is met.

    python -m benchmarks.float64 FOLDER [-o FILE.json] [--only acasxu] [--names 1_1 2_3]
        [--options "--bounds-seconds 15"] [--add]
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from pathlib import Path

from benchmarks._common import Row, tell
from benchmarks.targets import DOMAINS, command, earlier, networks

OPTIONS = "--ratio 1.5 --seed 0 --bounds-seconds 15"


def measure_one(family: str, path: Path, options: str) -> Row:
    """One run, and one check of it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [str(path), "-o", str(out), "--domain", DOMAINS[family], *shlex.split(options)]
        code, seconds = command("run", *words, "--quiet")
        row: Row = {"network": path.name, "options": options, "exit": code}
        if not (out / "report.json").is_file():
            return {**row, "seconds": seconds}
        check, check_seconds = command("check", str(out))
        error = json.loads((out / "report.json").read_text())["error"]
        tree = json.loads((out / "certificate.json").read_text()).get("tree")
    own = error["target_float64_bound"]
    return {
        **row,
        "check_exit": check,
        "float64_max": error["float64_max"],
        "certified_bound": error["certified_bound"],
        "float64_bound": error["float64_bound"],
        "target_float64_bound": own,
        "factor": error["float64_bound"] / own if own else None,
        "boxes": None if tree is None else bytes.fromhex(tree).count(0),
        "seconds": seconds,
        "check_seconds": check_seconds,
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.float64", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(DOMAINS), default=["acasxu"])
    parser.add_argument("--names", nargs="*", help="networks whose names hold one of these")
    parser.add_argument("--add", action="store_true", help="keep other rows of the file")
    parser.add_argument("--options", default=OPTIONS, help="options of `reconstruct run`")
    options = parser.parse_args(argv)
    chosen = [
        (family, path)
        for family, path in networks(options.folder, options.only)
        if path.suffix == ".onnx" and any(name in path.name for name in options.names or [""])
    ]
    rows = (measure_one(family, path, options.options) for family, path in chosen)
    tell("float64", rows, options.output, earlier(options.output) if options.add else [])


if __name__ == "__main__":
    main()
