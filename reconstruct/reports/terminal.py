"""The summary of a run for a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.certificates.verdicts import Standing
from reconstruct.reports.numbers import at_least, at_most, duration, number
from reconstruct.reports.wording import (
    arithmetics,
    asked,
    domain_text,
    members,
    unseen_error,
    weight_count,
    witness_place,
)

COLUMNS = 80
LABEL = 23  # columns for the names of figures
MOST_LAYERS = 40  # a table with more rows than a screen is cut; report.json has them all

HEADINGS = {
    "certified": "CERTIFIED",
    "refuted": "REFUTED",
    "undecided": "UNDECIDED",
}


def summary(report: Mapping[str, Any]) -> str:
    """Verdict first, for each arithmetic, then the layers, then the figures."""
    lines = [headline(report), *standings(report), ""]
    if report.get("layers"):
        lines += [*layer_table(report["layers"]), ""]
    lines += figures(report)
    return "\n".join(lines)


def headline(report: Mapping[str, Any]) -> str:
    """The verdict line in the columns of a terminal."""
    return wrapped(verdict_line(report))


def verdict_line(report: Mapping[str, Any]) -> str:
    """The verdict in a sentence that says what is claimed, where, and how it is known."""
    verdict, rigor = report["verdict"], report["rigor"]
    domain = domain_text(report["domain"])
    error, details = report["error"], report["certificate"]
    if verdict == "certified":
        claim = f"|f − g| ≤ {at_most(error['certified_bound'])} for every x in {domain}"
    elif verdict == "refuted":
        difference = details["witness"]["difference"] if details["witness"] else None
        claim = f"|f − g| ≥ {at_least(difference)} at {witness_place(report['domain'])}"
    else:
        claim = (
            f"largest |f − g| found is {number(error['float64_max'])} on {domain}; "
            f"no proof of less than the tolerance {number(details['tolerance'])}"
        )
    return f"{HEADINGS[verdict]} ({rigor}){_in_float32(report)}: {claim}{_unchecked(report)}"


def _unchecked(report: Mapping[str, Any]) -> str:
    """Which files were read without another program's word for it."""
    parts = (report.get(role) or {} for role in ("target", "candidate"))
    names = [str(part["file"]) for part in parts if part.get("unchecked_reading")]
    return f"; the reading of {' and '.join(names)} was NOT compared" if names else ""


def _in_float32(report: Mapping[str, Any]) -> str:
    """What the verdict means for float32, where the run was for it; it is about real numbers."""
    known = asked(report)
    if known.name != "float32":
        return ""
    if known.standing is Standing.PROVED:
        return " in real arithmetic, and proved within tolerance in float32"
    tolerance = number(report["certificate"]["tolerance"])
    words = {Standing.BEYOND: "measured beyond tolerance", Standing.UNKNOWN: "not known"}
    return (
        f" in real arithmetic; in float32 {words[known.standing]} "
        f"({known.detail}, tolerance {tolerance})"
    )


def standings(report: Mapping[str, Any]) -> list[str]:
    """One line for each arithmetic."""
    lines = [f"tolerance {number(report['certificate']['tolerance'])}"]
    rows = [f"  {a.name:<{LABEL - 2}}{a.standing} ({a.detail})" for a in arithmetics(report)]
    return [*lines, *(wrapped(row, " " * LABEL) for row in rows)]


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most 80 columns; what follows the first line is indented."""
    return "\n".join(textwrap.wrap(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False))


def layer_table(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each system; a solve that failed says so in place of its method."""
    rows = [("map", "size", "width", "solver", "iter", "residual", "cond", "shift", "sec")]
    for layer in layers[:MOST_LAYERS]:
        solved = layer["status"] == "solved"
        rows.append(
            (
                str(layer["index"]),
                f"{layer['rows']}×{layer['cols']}",
                str(layer["width"]),
                str(layer["solver"] if solved else layer["status"].replace("_", " ")),
                str(layer["iterations"]),
                number(layer["residual"]),
                number(layer["condition"]),
                number(layer["shift_max"]),
                f"{layer['seconds']:.1f}",
            )
        )
    left = len(layers) - MOST_LAYERS
    more = [f"… and {left} more in report.json"] if left > 0 else []
    return [*columns(rows), *more]


def figures(report: Mapping[str, Any]) -> list[str]:
    """Names and numbers, the kind of knowledge beside each."""
    error, target = report["error"], report["target"]
    rows = [
        (
            "largest |f − g| found",
            f"{number(error['float64_max'])} in float64 (numerical, {_looked(report)})",
        ),
        ("in real arithmetic", proved(error["certified_bound"])),
        ("evaluated in float64", proved(error["float64_bound"])),
        (
            "evaluated in float32",
            f"{proved(error['float32_bound'])}; {number(error['float32_max'])} found "
            f"(the target itself: {number(error['target_float32_max'])})",
        ),
        ("target", f"{target['parameters']:,} parameters"),
    ]
    frozen = report.get("frozen")
    if frozen:
        weights, kept = weight_count(frozen), frozen["nonzeros"]
        rows.append(("frozen", f"{weights:,} weights, {kept:,} non-zero"))
        rows.append(("tunable", f"{frozen['tunable']:,} norm parameters"))
    rows.append(("time", duration(report["cost"]["seconds"])))
    return [wrapped(f"{name:<{LABEL}}{text}", " " * LABEL) for name, text in rows]


def accuracies(report: Mapping[str, Any]) -> list[str]:
    """How many inputs each network recognises, where labels are known."""
    known = report.get("inputs") or {}
    shares = known.get("accuracy")
    if not shares:
        return []
    names = {"target": "target", "frozen": "frozen as drawn", "network": "frozen, norms set"}
    lines = [f"{names[key]} {100 * shares[key]:.2f} %" for key in names]
    text = f"{', '.join(lines)} of {known['count']:,} inputs with labels (numerical)"
    return [wrapped(f"{'accuracy':<{LABEL}}{text}", " " * LABEL)]


def margins(report: Mapping[str, Any]) -> list[str]:
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
    return [wrapped(f"{'margin ≥ 0':<{LABEL}}{line}", " " * LABEL) for line in lines]


def _looked(report: Mapping[str, Any]) -> str:
    """At how many inputs, and that no difference was looked for where the proof excludes one."""
    count = report["error"]["samples"]
    samples = f"{count:,} sample{'' if count == 1 else 's'}"
    if report["verdict"] != "certified" or report["certificate"]["method"] != "layered":
        return samples
    return f"{samples}, no search: the proof is about every input"


def proved(bound: float | None) -> str:
    """A rigorous bound, or that there is none."""
    return "no bound is proved" if bound is None else f"at most {at_most(bound)} (rigorous)"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one length as aligned columns, two spaces apart, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
