"""The summary of a run for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEADINGS = {
    "certified": "CERTIFIED",
    "refuted": "REFUTED",
    "undecided": "UNDECIDED",
}


def summary(report: Mapping[str, Any]) -> str:
    """Verdict first, then the layers, then the figures."""
    lines = [headline(report), ""]
    if report.get("layers"):
        lines += [*layer_table(report["layers"]), ""]
    lines += figures(report)
    return "\n".join(lines)


def headline(report: Mapping[str, Any]) -> str:
    """The verdict in a sentence that says what is claimed, where, and how it is known."""
    verdict, rigor = report["verdict"], report["rigor"]
    domain = domain_text(report["domain"])
    error, details = report["error"], report["certificate"]
    if verdict == "certified":
        claim = f"|f − g| ≤ {number(error['certified_bound'])} for every x in {domain}"
    elif verdict == "refuted":
        difference = details["witness"]["difference"] if details["witness"] else None
        claim = f"|f − g| = {number(difference)} at an input inside {domain}"
    else:
        claim = (
            f"largest |f − g| found is {number(error['float64_max'])} on {domain}; "
            f"no proof of less than the tolerance {number(details['tolerance'])}"
        )
    return f"{HEADINGS[verdict]} ({rigor}): {claim}"


def layer_table(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [("map", "size", "width", "solver", "iter", "residual", "cond", "shift", "sec")]
    for layer in layers:
        status = "" if layer["status"] == "solved" else f" {layer['status']}"
        rows.append(
            (
                str(layer["index"]),
                f"{layer['rows']}×{layer['cols']}",
                str(layer["width"]),
                layer["solver"] + status,
                str(layer["iterations"]),
                number(layer["residual"]),
                number(layer["condition"]),
                number(layer["shift_max"]),
                f"{layer['seconds']:.1f}",
            )
        )
    return columns(rows)


def figures(report: Mapping[str, Any]) -> list[str]:
    error, target = report["error"], report["target"]
    rows = [
        (
            "largest |f − g| found",
            f"{number(error['float64_max'])} (float64, numerical, "
            f"{error['samples']} samples and a search)",
        ),
        ("certified bound", f"{number(error['certified_bound'])} (real arithmetic, rigorous)"),
        ("evaluated in float64", f"≤ {number(error['float64_bound'])} (rigorous)"),
        (
            "evaluated in float32",
            f"{number(error['float32_max'])} found, "
            f"≤ {number(error['float32_bound'])} (rigorous); "
            f"target itself {number(error['target_float32_max'])}",
        ),
        ("target", f"{target['parameters']:,} parameters"),
    ]
    frozen = report.get("frozen")
    if frozen:
        weights = sum(m * k for m, k in frozen["maps"])
        rows.append(("frozen", f"{weights:,} weights, {frozen['nonzeros']:,} non-zero"))
        rows.append(("tunable", f"{frozen['tunable']:,} norm parameters"))
    rows.append(("time", f"{report['cost']['seconds']:.1f} s"))
    return [f"{name:<22} {text}" for name, text in rows]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one length as aligned columns, two spaces apart, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def domain_text(domain: Mapping[str, Sequence[float]]) -> str:
    """`[lo, hi]^d` for a cube, else the hull."""
    lo, hi = domain["lo"], domain["hi"]
    if len(set(lo)) == 1 and len(set(hi)) == 1:
        return f"[{lo[0]:g}, {hi[0]:g}]^{len(lo)}"
    return f"a box in [{min(lo):g}, {max(hi):g}]^{len(lo)}"


def number(value: float | None) -> str:
    """Two or three digits, or a dash for what is not known."""
    return "–" if value is None else f"{value:.2g}"
