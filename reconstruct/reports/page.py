"""report.html: one file that needs nothing from outside, made from the run's files alone."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from reconstruct.formats.files import write_atomically
from reconstruct.reports.markup import Markup, element
from reconstruct.reports.numbers import domain_text
from reconstruct.reports.run_files import RunFiles, read_run
from reconstruct.reports.sections import (
    claim,
    differences,
    errors,
    inputs,
    layers,
    networks,
    norms,
    reproduce,
    solves,
)

# Nothing may be loaded or run, whatever a file's metadata holds: the browser enforces it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
PARTS = (
    ("witness", "witness"),
    ("errors", "errors"),
    ("inputs", "inputs"),
    ("networks", "networks"),
    ("layers", "layers"),
    ("norms", "γ and β"),
    ("solves", "solves"),
    ("difference", "difference"),
    ("reproduce", "do it again"),
)


def write_page(folder: Path) -> None:
    """Write report.html beside the report.json and norms.npz that it is made from."""
    write_atomically(folder / "report.html", render(read_run(folder)).encode())


def render(run: RunFiles) -> str:
    """The page as HTML text."""
    sections = [
        claim.witness_section(run),
        errors.section(run),
        inputs.section(run),
        networks.section(run),
        layers.section(run),
        norms.section(run),
        solves.section(run),
        differences.section(run),
        reproduce.section(run),
    ]
    body = element(
        "body",
        element(
            "main",
            claim.opening(run),
            _contents(sections),
            *sections,
        ),
        element("footer", f"Made by reconstruct {run.report['environment']['reconstruct']}."),
    )
    return f"<!doctype html>\n{element('html', _head(run), body, lang='en')}\n"


def _head(run: RunFiles) -> Markup:
    report = run.report
    title = f"{report['verdict']}: {report['target']['file']} on {domain_text(report['domain'])}"
    return element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style())),
    )


def _contents(sections: list[Markup | None]) -> Markup:
    there = "".join(part.text for part in sections if part is not None)
    links = [
        element("a", label, href=f"#{name}") for name, label in PARTS if f'id="{name}"' in there
    ]
    return element("nav", *links, aria_label="parts of this page")


def style() -> str:
    """The style sheet of every page."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")
