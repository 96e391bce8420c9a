"""The page: self-contained, escaped, clear about every verdict, made from the run's files."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconstruct.cli import main
from reconstruct.errors import InputError
from reconstruct.reports import sections
from reconstruct.reports.page import command, render
from reconstruct.reports.reading import RunFiles, read_run
from tests.reports.conftest import (
    EVIL,
    refuted,
    run_in_memory,
    small_target,
    undecided,
    write_folder,
)


class Outline(html.parser.HTMLParser):
    """Collects tags, ids and everything that could load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href", "xlink:href", "data", "action"):
                self.links.append(value or "")
            if key.startswith("on"):
                self.handlers.append(key)


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    return parsed


def test_nothing_from_outside(page: str) -> None:
    seen = outline(page)
    assert "script" not in seen.tags and "link" not in seen.tags and "iframe" not in seen.tags
    assert seen.links and all(link.startswith("#") for link in seen.links)
    assert not seen.handlers
    assert "@import" not in page and "url(http" not in page
    outside = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    seen = outline(page)
    assert len(seen.ids) == len(set(seen.ids))
    assert {link[1:] for link in seen.links} <= set(seen.ids)


def test_every_part_is_there(page: str) -> None:
    seen = outline(page)
    parts = {"errors", "networks", "layers", "norms", "reproduce"}
    assert parts <= set(seen.ids)
    assert {"errors-title"} <= set(seen.ids)
    assert "Inputs with the largest difference found" in page


def test_the_same_files_give_the_same_page(folder: Path, page: str) -> None:
    assert render(read_run(folder)) == page


def test_a_layer_named_like_a_script_shows_as_text(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, *run_in_memory(small_target(EVIL)))
    text = render(read_run(folder))
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5  # title, tables, diagram


def test_text_that_would_mislead_is_written_out(report: dict[str, Any]) -> None:
    report["target"]["file"] = "safe\u202exnno.exe\x00\ud800"
    text = render(RunFiles(report))
    assert "safe\\u202exnno.exe\\u0000\\ud800" in text
    text.encode()  # no half of a surrogate pair is left


def test_certified_says_what_where_and_how(report: dict[str, Any]) -> None:
    text = render(RunFiles(report))
    assert "Certified: the two networks agree" in text
    assert "for every x in [-1, 1]^4." in text
    assert "first.onnx" in text and "Rigorous: a proof" in text


def test_refuted_shows_its_witness(report: dict[str, Any]) -> None:
    text = render(RunFiles(refuted(report)))
    assert "Refuted: the two networks differ" in text
    assert "|f − g| ≥ 0.25 at an input inside" in text
    assert "0.5, -0.25, 0.125, 1.0" in text and 'id="witness"' in text
    assert "Certified" not in outline_text(text)


def test_undecided_does_not_claim(report: dict[str, Any]) -> None:
    text = render(RunFiles(undecided(report)))
    assert "Undecided: no proof, and no counterexample" in text
    assert "other inputs may differ by more" in text
    assert "Numerical: an observation" in text


def outline_text(text: str) -> str:
    """The headings of the page."""
    return " ".join(re.findall(r"<h[12]>(.*?)</h[12]>", text)).replace(
        "Measured, predicted, certified", ""
    )


def test_a_failed_solve_is_named(report: dict[str, Any]) -> None:
    report["layers"][0]["status"] = "rank_deficient"
    report["layers"][0]["message"] = "rank 20 of 24 needed"
    assert "was not solved. rank 20 of 24 needed" in render(RunFiles(report))


def test_shares_of_all_norms_read_as_such(report: dict[str, Any]) -> None:
    zeros = {"a": np.zeros(4), "b": np.zeros(2)}
    text = str(sections.norms_section(RunFiles(report, zeros, zeros)))
    assert "100 % of the γ are near zero" in text and text.count("<td>100 %</td>") == 2
    assert "e+02" not in text


def test_what_is_not_known_is_never_inf_or_none(report: dict[str, Any]) -> None:
    report["certificate"]["tried"] = ["difference with its signs: 0 boxes in 5.1 s, bound inf"]
    report["error"]["seed"] = report["environment"]["threads"] = None
    text = render(RunFiles(report))
    assert "0 boxes in 5.1 s, no bound" in text
    assert not re.search(r"(?<!\w)(inf|nan|None)(?!\w)", re.sub(r"<style.*?</style>", "", text))


def test_comparison_of_two_networks_has_a_page(report: dict[str, Any]) -> None:
    report.update(frozen=None, layers=[], measurements=None, candidate={"file": "b.onnx"})
    report["options"] = {"target": "a.onnx", "candidate": "b.onnx", "domain": "0,1"}
    text = render(RunFiles(report))
    assert "Here g is first.onnx and f is b.onnx;" in text
    assert "reconstruct verify a.onnx b.onnx --domain 0,1" in text


def test_command_spells_out_what_was_asked(report: dict[str, Any]) -> None:
    expected = "reconstruct run 'net & co.onnx' --output out --domain=-1,1 --seed 3 --force"
    assert command(report) == expected


def test_command_of_the_demo(report: dict[str, Any]) -> None:
    report["options"] = {"command": "demo", "seed": 0, "output": "demo-out"}
    assert command(report) == "reconstruct demo --seed 0 --output demo-out --force"


def test_report_command_rebuilds_the_page(
    folder: Path, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == page.encode()
    assert capsys.readouterr().out.strip().endswith("report.html")
    assert len(page.encode()) < 2_000_000


def test_report_command_refuses_other_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "is this the output of a run?" in capsys.readouterr().err


def test_damaged_norms_are_refused(folder: Path) -> None:
    (folder / "norms.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InputError, match="not readable norm parameters"):
        read_run(folder)


def test_iterations_stand_beside_what_the_law_predicts(report: dict[str, Any]) -> None:
    report["layers"][0].update(iterations=171, expected_iterations=174.2)
    report["layers"][1].update(iterations=3, expected_iterations=None)
    text = render(RunFiles(report))
    assert "<td>171 (law: 174)</td>" in text and "<td>3</td>" in text
