"""`rc.report`: the page again from the other files of a run."""

from __future__ import annotations

from pathlib import Path

from reconstruct.formats.files import as_path
from reconstruct.reports.page import write_page
from reconstruct.reports.reading import as_written
from reconstruct.runs.given import PathLike


def report(output: PathLike) -> Path:
    """`reconstruct report OUT`: make report.html again from the other files; its path."""
    folder = as_path(output, "the directory of a run")
    with as_written(folder):
        write_page(folder)
    return folder / "report.html"
