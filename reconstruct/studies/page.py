"""report.html of a study: the question, what the rows say, the plot, the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reconstruct.formats.files import write_atomically
from reconstruct.reports.markup import Markup, element, figure, html_page, table
from reconstruct.reports.page import missing
from reconstruct.reports.plotting import WIDE, drawing
from reconstruct.studies.study import Finding, Rows, Study, mean, trials
from reconstruct.version import __version__

MOST_ROWS = 400  # of the table; all of them are in rows.jsonl


def write_page(path: Path, study: Study, rows: Rows) -> None:
    """Write the page of the rows."""
    write_atomically(path, render(study, rows).encode())


def render(study: Study, rows: Rows) -> str:
    """The page as HTML text."""
    findings = study.findings(rows)
    picture = drawing(
        study.name,
        findings[0].sentence,
        lambda figure: study.draw(rows, figure),
        (WIDE[0], 3.6),
    )
    return html_page(
        f"study {study.name}",
        __version__,
        element("h1", study.question, class_="alone"),
        element("p", study.about) if study.about else None,
        *(_finding(finding) for finding in findings),
        figure(picture, f"{len(rows)} trials.") or missing(),
        _table(study, rows),
    )


def _finding(finding: Finding) -> Markup:
    return element(
        "section",
        element("p", element("strong", finding.sentence)),
        element("p", f"How it is known: {finding.evidence.value}."),
        element("p", f"Refuted by: {finding.refuted_by}."),
    )


def _table(study: Study, rows: Rows) -> Markup:
    names = [parameter.name for parameter in study.parameters]
    body = list(means(study, rows))[:MOST_ROWS]
    return table("Means over the seeds", (*names, *study.columns), body)


def means(study: Study, rows: Rows) -> Iterator[tuple[str, ...]]:
    """For each point of the grid that has rows: its values, and the means of the columns."""
    seen = {p.name: sorted({row[p.name] for row in rows}, key=_order) for p in study.parameters}
    for point, _ in trials(seen, 1):
        own = [row for row in rows if all(row[n] == v for n, v in point.items())]
        if own:
            yield (
                *(str(v) for v in point.values()),
                *(_shown(mean(own, c)) for c in study.columns),
            )


def _order(value: Any) -> tuple[int, Any]:
    return (1, value) if isinstance(value, str) else (0, value)


def _shown(value: float) -> str:
    return "–" if value != value else f"{value:.3g}"
