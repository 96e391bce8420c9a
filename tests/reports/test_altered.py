"""Files that were altered: refused in a sentence, or shown as they are, never a crash."""

from __future__ import annotations

import copy
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.errors import InputError
from reconstruct.reports.page import render
from reconstruct.reports.reading import RunFiles, read_norms, read_run
from tests.reports.conftest import refuted

LARGEST = sys.float_info.max
SIZES = (1e308, 5e-324, 1.0, 1e-300, -1e308, 0.0)
JUNK = (None, True, 0, -1, 3.5, *SIZES, math.nan, math.inf, 10**400, "x", "", [], [1], {}, [[1]])


def with_norms(folder: Path, change: Callable[[Any], Any]) -> None:
    with np.load(folder / "norms.npz") as archive:
        arrays = {name: change(archive[name]) for name in archive.files}
    np.savez(folder / "norms.npz", allow_pickle=False, **arrays)


def with_report(folder: Path, report: Any) -> None:
    (folder / "report.json").write_text(json.dumps(report))


def floats(value: Any, change: Callable[[], float]) -> Any:
    """The value with every float in it replaced."""
    if isinstance(value, dict):
        return {key: floats(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [floats(part, change) for part in value]
    return change() if isinstance(value, float) else value


def readable(page: str) -> None:
    """No inf and no nan, neither in a drawing nor in the words."""
    page.encode()
    shown = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"(?<!\w)(inf|nan)(?!\w)", shown)
    assert "e+02" not in shown


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_norms_that_are_not_finite_are_refused(
    folder: Path, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with_norms(folder, lambda v: np.full_like(v, value))
    assert main(["report", str(folder)]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"norms\.npz: \S+ must be finite numbers, but entry 0 is {value};", said)
    assert said.count("\n") == 1 and not (folder / "report.html").exists()


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([1j])])
def test_norms_that_are_no_numbers_are_refused(tmp_path: Path, values: Any) -> None:
    np.savez(tmp_path / "norms.npz", weight=values)
    with pytest.raises(InputError, match="weight must be finite numbers, but they are of type"):
        read_norms(tmp_path / "norms.npz")


def test_an_array_alone_is_no_norm_parameters(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    (tmp_path / "norms.npz").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="not readable norm parameters"):
        read_norms(tmp_path / "norms.npz")


@pytest.mark.parametrize(
    "values", [[5e-324], [1e-310, 2e-310], [LARGEST], [-LARGEST, LARGEST, 5e-324, 0.0], [0.0]]
)
def test_finite_norms_of_any_size_have_a_page(
    folder: Path, values: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with_norms(folder, lambda v: np.resize(values, v.shape))
    assert main(["report", str(folder)]) == 0 and not capsys.readouterr().err
    readable((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("value", [*SIZES, None])
@pytest.mark.parametrize("change", [lambda r: r, refuted])
def test_finite_figures_of_any_size_have_a_page(
    report: dict[str, Any], value: float | None, change: Any
) -> None:
    rng = np.random.default_rng(0)
    changed = floats(change(report), lambda: float(rng.choice(SIZES)) if value is None else value)
    readable(render(RunFiles(changed)))


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("error", "float64_max"), math.nan, "not a readable report (NaN is no finite number)"),
        (("layers",), {"a": 1}, "some part is missing or of another kind (TypeError"),
        (("error",), ..., "of another kind (KeyError: 'error'); take the file as the run wrote"),
        (("error", "samples"), "many", "some part is missing or of another kind (ValueError"),
        (("verdict",), "proved", "some part is missing or of another kind (KeyError: 'proved')"),
        (("error",), {}, "some part is missing or of another kind (KeyError"),
        (("measurements", "sites", "first"), ["gone"], "of another kind (KeyError: 'gone')"),
    ],
)
def test_a_broken_report_is_refused_in_a_sentence(
    folder: Path,
    report: dict[str, Any],
    place: tuple[Any, ...],
    value: Any,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_report(folder, altered(report, place, value))
    assert main(["report", str(folder)]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places of a document; of long lists the first two items."""
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value[:2])
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


def altered(report: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(report)
    part: Any = changed
    for key in place[:-1]:
        part = part[key]
    if value is Ellipsis:
        del part[place[-1]]
    else:
        part[place[-1]] = copy.deepcopy(value)
    return changed


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_change_is_refused_or_shown(
    finished: tuple[dict[str, Any], bytes],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    report, folder = refuted(finished[0]), tmp_path_factory.mktemp("altered")
    place = data.draw(st.sampled_from([p for p in places(report) if p != ("schema",)]))
    with_report(folder, altered(report, place, data.draw(st.sampled_from([*JUNK, ...]))))
    try:
        page = rc.report(folder)
    except InputError:
        return
    readable(page.read_text(encoding="utf-8"))


def test_a_run_s_own_files_are_whole(folder: Path) -> None:
    assert read_run(folder).gammas
