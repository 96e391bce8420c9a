"""Every command and every Python block of README and docs runs, page by page, in a directory."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from reconstruct.cli import main
from reconstruct.formats import save
from tests.constructions.targets import mlp
from tests.docs.commands import ROOT, Block, blocks, commands

# Blocks of these pages are parts of a larger file, shown to explain it; other tests cover them.
FRAGMENTS = {"adding-a-statement.md"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_BLOCKS = [p for p in PAGES if p.name not in FRAGMENTS and blocks(p)]
MADE = ("tables", "picture")  # scripts that show figures; the others measure, some for minutes
WITH_TORCH = re.compile(r"^import torch|^ *reconstruct train|rc\.training", flags=re.MULTILINE)
FOR_A_SHELL = set("|&;<>$*~`")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def environment() -> dict[str, str]:
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make demo` leaves once everything is set up: the same on every page that shows it."""
    folder = tmp_path_factory.mktemp("demo")
    call(["demo", "-o", "demo-out", "--force"], 0, folder)
    return folder / "demo-out"


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda p: p.name)
def test_blocks_run(page: Path, tmp_path: Path, demo: Path) -> None:
    for name in ("mine.onnx", "target.onnx"):  # the reader's own network; `demo` is the shipped one
        save(mlp([20, 8, 4], 0), tmp_path / name)
    for name in ("benchmarks", "docs", "examples", "proofs_check", "reconstruct"):
        os.symlink(ROOT / name, tmp_path / name)
    left = 0
    for block in blocks(page):
        if WITH_TORCH.search(block.text) and not importlib.util.find_spec("torch"):
            left += 1
        elif block.language == "python":
            execute(block.text, tmp_path)
        else:
            run_shell(block, tmp_path, demo)
    if left:
        pytest.skip(f"all blocks ran but {left}, which need torch")


def run_shell(block: Block, folder: Path, demo: Path) -> None:
    for command in commands(block):
        if found := re.match(r"make (\w+)", command.line):
            assert re.search(rf"^{found[1]}:", MAKEFILE, flags=re.MULTILINE), command.line
            if found[1] == "demo":
                shutil.copytree(demo, folder / "demo-out")
        elif found := re.match(r"python -m benchmarks\.(\w+)", command.line):
            assert hasattr(
                importlib.import_module(f"benchmarks.{found[1]}"),
                "main" if found[1] in MADE else "measure",
            )
        elif not command.line.startswith((". .venv", "git ", "pip ")):
            words = shlex.split(command.line, comments=True)
            if words[0] == "reconstruct" and not FOR_A_SHELL & set("".join(words)):
                call(words[1:], command.code, folder)
            else:
                run(["bash", "-c", command.line], command.code, folder)


def execute(text: str, folder: Path) -> None:
    """A block of Python by itself, without the start of a process, which takes longer than most."""
    with chdir(folder), redirect_stdout(io.StringIO()):
        exec(compile(text, "<block>", "exec"), {"__name__": "__main__"})


def call(words: list[str], code: int, folder: Path) -> None:
    """The program without its start, which takes longer than many commands do."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        try:
            ended = main(words)
        except SystemExit as stopped:  # --version
            ended = int(stopped.code or 0)
    assert ended == code, f"{words}\n{out.getvalue()[-2000:]}\n{err.getvalue()[-2000:]}"


def run(words: list[str], code: int, folder: Path) -> None:
    done = subprocess.run(
        words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )
    shown = f"{words[-1]}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == code, shown


def test_every_page_is_looked_at() -> None:
    assert {"README.md", "tutorial.md"} <= {page.name for page in WITH_BLOCKS}
