"""The summary of a run for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.words import (
    arithmetics,
    asked,
    at_least,
    at_most,
    domain_text,
    duration,
    in_words,
    members,
    number,
    same_file,
    unseen_error,
    weight_count,
    witness_place,
)


def summary(report: Mapping[str, Any]) -> str:
    """Verdict first, for each arithmetic, then the layers, then the figures."""
    lines = [headline(report), *(_named(a.name, a.sentence) for a in arithmetics(report)), ""]
    if report.get("layers"):
        lines += [*layer_table(report["layers"]), ""]
    return "\n".join([*lines, *figures(report)])


def headline(report: Mapping[str, Any]) -> str:
    """The verdict line in the columns of a terminal."""
    return wrapped(verdict_line(report))


def verdict_line(report: Mapping[str, Any]) -> str:
    """The verdict in a sentence that says what is claimed, where, and how it is known."""
    verdict, error, details = report["verdict"], report["error"], report["certificate"]
    domain = domain_text(report["domain"])
    if same_file(report):
        claim = f"|f − g| = 0 for every x in {domain}: both networks are the same file"
    elif verdict == "certified":
        claim = f"|f − g| ≤ {at_most(error['certified_bound'])} for every x in {domain}"
    elif verdict == "refuted":
        difference = details["witness"]["difference"] if details["witness"] else None
        claim = f"|f − g| ≥ {at_least(difference)} at {witness_place(report['domain'])}"
    else:
        claim = (
            f"largest |f − g| found is {number(error['float64_max'])} on {domain}; "
            f"no proof of less than the tolerance {number(details['tolerance'])}"
        )
    known = asked(report)
    other = f" in real arithmetic; in float32 {known.sentence}" if known.name == "float32" else ""
    parts = (report.get(role) or {} for role in ("target", "candidate"))
    names = [str(part["file"]) for part in parts if part.get("unchecked_reading")]
    unread = f"; the reading of {' and '.join(names)} was NOT compared" if names else ""
    return f"{verdict.upper()} ({report['rigor']}){other}: {claim}{unread}"


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


def figures(report: Mapping[str, Any]) -> list[str]:
    """Names and numbers, the kind of knowledge beside each."""
    error, frozen = report["error"], report.get("frozen")
    count = error["samples"]
    looked = f"{count:,} sample{'' if count == 1 else 's'}"
    if report["verdict"] == "certified" and report["certificate"]["method"] == "layered":
        looked += ", no search: the proof is about every input"
    rows = [
        (
            "largest |f − g| found",
            f"{number(error['float64_max'])} in float64 (numerical, {looked})",
        ),
        ("g itself in float32", f"{number(error['target_float32_max'])} found (numerical)"),
        ("target", f"{report['target']['parameters']:,} parameters"),
    ]
    if frozen:
        weights, kept = weight_count(frozen), frozen["nonzeros"]
        rows.append(("frozen", f"{weights:,} weights, {kept:,} non-zero"))
        rows.append(("tunable", f"{frozen['tunable']:,} norm parameters"))
    rows.append(("time", duration(report["cost"]["seconds"])))
    return [_named(*row) for row in (*rows, *_accuracies(report), *_margins(report))]


def _accuracies(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How many inputs each network recognises, where labels are known."""
    known = report.get("inputs") or {}
    shares = known.get("accuracy")
    if not shares:
        return []
    names = {"target": "target", "frozen": "frozen as drawn", "network": "frozen, norms set"}
    lines = [f"{names[key]} {100 * shares[key]:.2f} %" for key in names]
    part = f" (the first of {known['of']:,})" if known["count"] < known["of"] else ""
    text = f"{', '.join(lines)} of {known['count']:,} inputs with labels{part} (numerical)"
    return [("accuracy", text)]


def _margins(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the guard says of the domain's inputs, and of others where a user brought them."""
    guard = report.get("guard")
    if not guard:
        return []
    tried = members(report["domain"], guard["inputs"])
    lines = [f"{100 * guard['share']:.2f} % of {tried} (numerical)"]
    unseen = guard.get("unseen")
    if unseen:
        share = 100 * unseen["covered"] / unseen["inputs"]
        lines.append(
            f"{share:.2f} % of {unseen['inputs']:,} unseen inputs; largest |f − g| on these "
            f"{unseen_error(unseen, 'covered')}, on the others {unseen_error(unseen, 'others')} "
            f"(numerical)"
        )
    return [("margin ≥ 0", line) for line in lines]


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
