"""The examples run as they are, and stay short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


# One process for all of them, each in a directory of its own: half of their time is its start.
RUNNING = """
import contextlib, io, json, pathlib, runpy, sys, traceback
found = {}
for path in sys.argv[1:]:
    here, out = pathlib.Path(pathlib.Path(path).stem), io.StringIO()
    here.mkdir()
    with contextlib.chdir(here), contextlib.redirect_stdout(out):
        try:
            runpy.run_path(path, run_name="__main__")
            error = ""
        except BaseException:
            error = traceback.format_exc()
    found[path] = error, out.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What went wrong and what was printed, by example."""
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", RUNNING, *map(str, EXAMPLES)],
        cwd=tmp_path_factory.mktemp("examples"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(path: Path, found: dict[str, tuple[str, str]]) -> None:
    error, printed = found[str(path)]
    assert not error, error
    assert printed.strip()


def test_there_are_five_short_ones() -> None:
    assert len(EXAMPLES) == 5
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 80 for path in EXAMPLES)
