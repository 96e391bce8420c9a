"""report.html: one file that needs nothing from outside, made from the run's files alone."""

from __future__ import annotations

from pathlib import Path

from reconstruct.formats.files import write_atomically
from reconstruct.reports import compared, difference, opening, systems
from reconstruct.reports.markup import Markup, element, html_page
from reconstruct.reports.plotting import MISSING, available
from reconstruct.reports.reading import RunFiles, read_run
from reconstruct.reports.words import domain_text

# The parts of the page in the order in which they are read: id, name in the navigation, section.
PARTS = (
    ("witness", "witness", opening.witness_section),
    ("errors", "errors", difference.errors_section),
    ("inputs", "inputs", difference.inputs_section),
    ("networks", "networks", compared.section),
    ("layers", "layers", systems.layers_section),
    ("norms", "γ and β", systems.norms_section),
    ("solves", "solves", systems.solves_section),
    ("difference", "difference", difference.differences_section),
    ("reproduce", "do it again", opening.again_section),
)


def write_page(folder: Path) -> None:
    """Write report.html beside the report.json and norms.npz that it is made from."""
    write_atomically(folder / "report.html", render(read_run(folder)).encode())


def render(run: RunFiles) -> str:
    """The page as HTML text."""
    report = run.report
    there = [(key, name, made) for key, name, part in PARTS if (made := part(run)) is not None]
    links = [element("a", name, href=f"#{key}") for key, name, _ in there]
    return html_page(
        f"{report['verdict']}: {report['target']['file']} on {domain_text(report['domain'])}",
        report["environment"]["reconstruct"],
        opening.opening(run),
        element("nav", *links, aria_label="parts of this page"),
        None if available() else missing(),
        *(made for _, _, made in there),
    )


def missing() -> Markup:
    """What a page says in place of its figures."""
    return element("p", MISSING, class_="note")
