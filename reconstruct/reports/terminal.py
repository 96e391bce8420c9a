"""The summary of a run for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.words import (
    arithmetics,
    claim,
    figures,
    in_words,
    number,
    same_file,
    wanted_verdict,
)


def summary(report: Mapping[str, Any]) -> str:
    """Verdict first, for each arithmetic, then the layers, then the figures; what was tried where
    two networks are compared, and where nothing was decided."""
    lines = [headline(report), *(_named(a.name, a.sentence) for a in arithmetics(report)), ""]
    if report.get("layers"):
        lines += [*layer_table(report["layers"]), ""]
    lines += [_named(*row) for row in figures(report)]
    compared = not report.get("layers") and not same_file(report)
    explained = report["verdict"] == "undecided" or compared
    return "\n".join([*lines, *(tried(report) if explained else [])])


def headline(report: Mapping[str, Any]) -> str:
    """The verdict line in the columns of a terminal."""
    return wrapped(verdict_line(report))


def verdict_line(report: Mapping[str, Any]) -> str:
    """The verdict in a sentence that says what is claimed, where, and how it is known."""
    known = wanted_verdict(report)
    other = f" in real arithmetic; in float32: {known.sentence}" if known.name == "float32" else ""
    parts = [report.get(role) or {} for role in ("target", "candidate")]
    names = [str(part["file"]) for part in parts if part.get("unchecked_reading")]
    unread = f"; the reading of {' and '.join(names)} was NOT compared" if names else ""
    kinds = sorted({kind for part in parts for kind in part.get("casts", {}).values()})
    exact = f"; casts to {' and '.join(kinds)} are the identity in real arithmetic" if kinds else ""
    head = f"{report['verdict'].upper()} ({report['rigor']})"
    return f"{head}: {claim(report)}{other}{unread}{exact}"


def _named(name: str, text: str) -> str:
    """A name in 23 columns and what is said of it beside it."""
    return wrapped(f"{name:<23}{text}", " " * 23)


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most 80 columns; what follows the first line is indented."""
    return "\n".join(textwrap.wrap(text, 80, subsequent_indent=indent, break_on_hyphens=False))


def layer_table(layers: Sequence[Mapping[str, Any]], most: int = 40) -> list[str]:
    """One line for each system; a solve that failed says so in place of its method.

    A table with more rows than a screen is cut: report.json has them all.
    """
    head = ("map", "size", "width", "solver", "iter", "residual", "cond", "shift", "sec")
    rows: list[tuple[str, ...]] = [head]
    for layer in layers[:most]:
        solved = layer["status"] == "solved"
        rows.append(
            (
                str(layer["index"]),
                f"{layer['rows']}×{layer['cols']}",
                str(layer["width"]),
                str(layer["solver"] if solved else layer["status"].replace("_", " ")),
                str(layer["iterations"]),
                *(number(layer[key]) for key in ("residual", "condition", "shift_max")),
                f"{layer['seconds']:.1f}",
            )
        )
    left = len(layers) - most
    return [*columns(rows), *([f"… and {left} more in report.json"] if left > 0 else [])]


def tried(report: Mapping[str, Any]) -> list[str]:
    """What was tried on the way to a verdict, a line each."""
    lines = report["certificate"]["tried"]
    return [wrapped(f"tried: {in_words(line)}", indent="       ") for line in lines]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one length as aligned columns, two spaces apart, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
