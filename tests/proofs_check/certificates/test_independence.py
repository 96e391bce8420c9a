"""The checker stands alone: nothing that makes certificates is loaded when one is checked."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np

import proofs_check
from reconstruct.networks import Box
from tests.certificates.building import random_target, wide
from tests.proofs_check.certificates.making import certified

FOLDER = Path(proofs_check.__file__).parent / "certificates"
FILES = sorted([*FOLDER.glob("*.py"), *(FOLDER.parent / "reader").glob("*.py")])
ALLOWED = ("reconstruct.formats", "reconstruct.networks", "reconstruct.errors")
"""What the checker names."""

LOADED = (*ALLOWED, "reconstruct.numbers", "reconstruct.version")
"""What is loaded with it: the types of networks know their arithmetic."""


def test_the_checker_names_readers_and_network_types_and_nothing_else() -> None:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] != "reconstruct" or name.startswith(ALLOWED), (file, name)


def test_nothing_else_is_loaded_in_a_fresh_process(tmp_path) -> None:
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (2, 3, 2)), Box(-0.5, 0.5).of_size(2)
    certified(tmp_path, target, wide(target, box, rng), box)
    code = (
        "import sys; from proofs_check.cli import main; code = main(['certificate', sys.argv[1]]);"
        "print(*[m for m in sys.modules if m.startswith('reconstruct.')], file=sys.stderr);"
        "sys.exit(code)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=FOLDER.parents[1], check=False
    )
    assert run.returncode == 0 and run.stdout.startswith("ACCEPTED"), run.stderr
    loaded = run.stderr.split()
    assert "reconstruct.formats" in loaded
    strangers = [m for m in loaded if not any(m == a or m.startswith(a + ".") for a in LOADED)]
    assert strangers == []


def test_trust_is_typed() -> None:
    for file in FILES:
        assert "import Any" not in file.read_text("utf-8"), file
        assert "type: ignore" not in file.read_text("utf-8"), file
