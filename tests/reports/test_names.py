"""Names of any length: short in tables and drawings, and whole where one points at them."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconstruct.reports.markup import elided, named, visible
from reconstruct.reports.page import render
from reconstruct.reports.reading import read_run
from tests.reports.conftest import run_in_memory, small_target, write_folder

LONG = "N" * 10_000


@given(st.text(), st.integers(4, 60))
def test_a_name_is_cut_in_its_middle(name: str, most: int) -> None:
    shown, whole = elided(name, most), visible(name)
    if len(whole) <= most:
        assert shown == whole
        return
    start, _, end = shown.partition("…") if "…" not in whole else (shown[:1], "", shown[-1:])
    assert len(shown) == most and whole.startswith(start) and whole.endswith(end)


def test_the_whole_name_is_behind_a_long_one() -> None:
    assert named("short") == "short"
    text = str(named("a<b" * 40))
    assert f'title="{"a&lt;b" * 40}"' in text and "…" in text


def test_names_of_ten_thousand_characters_leave_the_tables_narrow(tmp_path: Path) -> None:
    report, norms = run_in_memory(small_target(LONG))
    report["layers"][0]["status"] = "rank_deficient"
    page = render(read_run(write_folder(tmp_path, report, norms)))
    inside = page.partition("</h1>")[2].partition('id="reproduce"')[0]
    said = re.sub(r"<[^>]*>", "\n", inside)
    assert max(map(len, re.findall(r"N+", said))) < 40
    assert page.count(f'title="{LONG}') >= 3  # systems, norms, errors behind each layer
