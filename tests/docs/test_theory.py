"""Every number of the worked example in theory.md, recomputed in exact arithmetic."""

from __future__ import annotations

import ast
import itertools
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import reconstruct as rc
from docs.diagrams import DRAWINGS, IMAGES, REACH
from tests.docs.commands import ROOT

PAGE = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```text\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
CORNERS = np.array(list(itertools.product((-1, 1), repeat=2)), dtype=object)


def rational(value: Any) -> Any:
    """Lists of decimals as an array of fractions: 0.1 is one tenth."""
    if isinstance(value, list):
        return np.array([rational(entry) for entry in value], dtype=object)
    return Fraction(str(value))


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """What the page says each quantity is, by name."""
    lines = [line for block in BLOCK.findall(PAGE) for line in block.splitlines()]
    pairs = [re.fullmatch(r"(\w+)\s* = (\[.*\])", line) for line in lines]
    return {found[1]: rational(ast.literal_eval(found[2])) for found in pairs if found}


def relu(z: Any) -> Any:
    return np.maximum(z, 0)


def frozen(said: dict[str, Any], x: Any, s: Any) -> Any:
    """f before the last ReLU."""
    return said["M2"] @ relu(s * (said["M1"] @ x) + said["t"]) + said["t2"]


def target(said: dict[str, Any], x: Any) -> Any:
    return said["W"] @ x + said["b"]


def test_nothing_on_the_page_is_left_unchecked(said: dict[str, Any]) -> None:
    assert set(said) == {
        *("W", "b", "M1", "M2", "K", "vec_W", "s", "diag_s_M1", "t", "M2_t", "t2"),
        *("x", "hidden", "f", "g", "x_outside", "f_outside", "g_outside"),
        *("s_stored", "R", "r", "below_zero", "bound", "true_difference"),
    }


def test_scales(said: dict[str, Any]) -> None:
    M1, M2, K = said["M1"], said["M2"], said["K"]
    for (i, j), row in zip(itertools.product(range(2), repeat=2), K, strict=True):
        assert (row == M2[i] * M1[:, j]).all()
    assert (said["vec_W"] == said["W"].reshape(-1)).all()
    assert (K @ said["s"] == said["vec_W"]).all()
    assert (said["diag_s_M1"] == said["s"][:, None] * M1).all()
    assert (M2 @ said["diag_s_M1"] == said["W"]).all()
    determinant = round(np.linalg.det(K.astype(float)))
    assert f"its determinant is {determinant})" in PAGE


def test_the_solver_finds_the_same_scales(said: dict[str, Any]) -> None:
    M1, M2, W = (said[name].astype(float) for name in ("M1", "M2", "W"))
    found = rc.khatri_rao.solve_exact(M1, M2, W)
    assert list(found.s) == list(said["s"])


def test_shift_is_the_least_that_keeps_every_neuron_active(said: dict[str, Any]) -> None:
    values = np.array([said["diag_s_M1"] @ corner for corner in CORNERS])
    assert (said["t"] == -values.min(axis=0)).all()
    assert (said["M2_t"] == said["M2"] @ said["t"]).all()
    assert (said["t2"] == said["b"] - said["M2_t"]).all()
    assert said["t"][1] == Fraction(REACH)


def test_points(said: dict[str, Any]) -> None:
    x, outside = said["x"], said["x_outside"]
    assert (said["hidden"] == relu(said["diag_s_M1"] @ x + said["t"])).all()
    assert (said["f"] == frozen(said, x, said["s"])).all()
    assert (said["g"] == target(said, x)).all() and (said["f"] == said["g"]).all()
    assert (outside == 2 * x).all()
    assert (said["f_outside"] == frozen(said, outside, said["s"])).all()
    assert (said["g_outside"] == target(said, outside)).all()
    added = said["M2"][:, 1] * Fraction(3, 2)
    assert (said["f_outside"] == said["g_outside"] + added).all()


def test_certificate_of_the_stored_scales(said: dict[str, Any]) -> None:
    M1, M2, s, t = (said[name] for name in ("M1", "M2", "s_stored", "t"))
    assert (said["R"] == M2 @ (s[:, None] * M1) - said["W"]).all()
    assert (said["r"] == M2 @ t + said["t2"] - said["b"]).all()
    least = t - abs(s[:, None] * M1).sum(axis=1)
    assert (said["below_zero"] == relu(-least)).all()
    bound = abs(said["R"]).sum(axis=1) + abs(said["r"]) + abs(M2) @ said["below_zero"]
    assert (said["bound"] == bound).all()


def test_true_difference_is_below_the_bound(said: dict[str, Any]) -> None:
    """f − g is piecewise affine with one kink, so its largest value lies on the box's edge."""
    points = [Fraction(i, 500) for i in range(-500, 501)]
    edges = [(x, y) for x in points for y in (-1, 1)] + [(x, y) for x in (-1, 1) for y in points]
    grid = np.array(edges, dtype=object)
    worst = np.max([abs(frozen(said, p, said["s_stored"]) - target(said, p)) for p in grid], axis=0)
    assert (worst == said["true_difference"]).all()
    assert (worst <= said["bound"]).all()


def test_words_are_explained_where_they_first_appear() -> None:
    for word in ("shift", "cut", "layered"):
        assert f"*{word}*" in PAGE


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_those_of_the_script(name: str) -> None:
    shipped = (IMAGES / name).read_text(encoding="utf-8")
    assert shipped == DRAWINGS[name](), "run python -m docs.diagrams"
