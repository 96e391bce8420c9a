"""The examples and notebooks run as they are, and stay short."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
EXAMPLES = [path for path in EXAMPLES if path.stem != "tiny_check"]  # it takes the result of a run
NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    """Its code cells in order, in one namespace: no package of notebooks is needed for that."""
    codes = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if "outputs" in cell]
    assert codes and not any(cell["outputs"] or cell["execution_count"] for cell in codes)
    sources = ["".join(cell["source"]) for cell in codes]
    if any("import torch" in text for text in sources) and not importlib.util.find_spec("torch"):
        pytest.skip("this notebook needs torch")
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(io.StringIO()):
        for number, text in enumerate(sources):
            exec(compile(text, f"{path.name}, code cell {number + 1}", "exec"), names)
