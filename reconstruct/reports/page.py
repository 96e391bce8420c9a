"""report.html: one file that needs nothing from outside, made from the run's files alone."""

from __future__ import annotations

from pathlib import Path

from reconstruct.formats.files import write_atomically
from reconstruct.reports.markup import Markup, element, html_page
from reconstruct.reports.plotting import MISSING, available
from reconstruct.reports.reading import RunFiles, read_run
from reconstruct.reports.sections import claim, errors, networks, reproduce, samples, systems
from reconstruct.reports.wording import domain_text

PARTS = {
    "witness": "witness",
    "errors": "errors",
    "inputs": "inputs",
    "networks": "networks",
    "layers": "layers",
    "norms": "γ and β",
    "solves": "solves",
    "difference": "difference",
    "reproduce": "do it again",
}


def write_page(folder: Path) -> None:
    """Write report.html beside the report.json and norms.npz that it is made from."""
    write_atomically(folder / "report.html", render(read_run(folder)).encode())


def render(run: RunFiles) -> str:
    """The page as HTML text."""
    report = run.report
    sections = {
        "witness": claim.witness_section(run),
        "errors": errors.section(run),
        "inputs": samples.inputs_section(run),
        "networks": networks.section(run),
        "layers": systems.layers_section(run),
        "norms": systems.norms_section(run),
        "solves": systems.solves_section(run),
        "difference": samples.differences_section(run),
        "reproduce": reproduce.section(run),
    }
    there = {name: part for name, part in sections.items() if part is not None}
    links = [element("a", PARTS[name], href=f"#{name}") for name in there]
    return html_page(
        f"{report['verdict']}: {report['target']['file']} on {domain_text(report['domain'])}",
        report["environment"]["reconstruct"],
        claim.opening(run),
        element("nav", *links, aria_label="parts of this page"),
        None if available() else missing(),
        *there.values(),
    )


def missing() -> Markup:
    """What a page says in place of its figures."""
    return element("p", MISSING, class_="note")
