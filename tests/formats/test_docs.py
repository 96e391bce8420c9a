"""docs/formats.md names what the code reads, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconstruct.formats import load
from reconstruct.formats.npz import SCHEMA
from reconstruct.networks.operation import KINDS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_every_operator_is_documented():
    pytest.importorskip("onnx")
    from reconstruct.formats.onnx.read import OPERATORS

    assert [name for name in OPERATORS if not re.search(rf"\b{name}\b", TEXT)] == []
    assert SCHEMA in TEXT
    assert [name for name in KINDS if f"`{name}`" not in TEXT] == []


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(code, {})
    assert load("target.npz").maps == ((3, 2), (1, 3))
