"""The systems that were solved, one row each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconstruct.reports.markup import Child, Markup, element, table, whole
from reconstruct.reports.names import elided, named
from reconstruct.reports.numbers import DASH, at_most, number, pretty
from reconstruct.reports.run_files import RunFiles

HEAD = (
    "map",
    "name",
    "m×k",
    "positions",
    "width n",
    "solver",
    "steps",
    "residual",
    "entry bound",
    "condition",
    whole("largest |γ|"),
    "shift",
    "s",
)

HEADINGS = {
    "name": "map",
    "rank": "rank used",
    "dropped": "left out",
}
RANKS = "Ranks: singular values at or below the cut count as zero (numerical)"


def section(run: RunFiles) -> Markup | None:
    layers = run.report.get("layers")
    if not layers:
        return None
    failed = [row for row in layers if row["status"] != "solved"]
    return element(
        "section",
        element("h2", "Layer by layer"),
        element(
            "p",
            "Each m×k map W needs a γ that solves M2 diag(γ) M1 = W: m·k equations, n unknowns. "
            "“Residual” is what the solve left over, relative to W (numerical). “Entry bound” "
            "bounds every entry of the difference (rigorous). “Shift” is what keeps the hidden "
            "ReLUs active; a large one costs digits. The kernel of a convolution is used at many "
            "positions of an image; its system is solved once.",
        ),
        *(element("p", _failure(row), class_="failure") for row in failed),
        element(
            "div", table("Systems solved", HEAD, [_row(row) for row in layers]), class_="names"
        ),
        _factors(run),
        id="layers",
    )


def _factors(run: RunFiles) -> Markup | None:
    """What the construction found out about each map, one column for each number it names."""
    factors = (run.report.get("frozen") or {}).get("factors")
    if not factors:
        return None
    head: list[str] = []
    for key, value in factors[0].items():
        word = HEADINGS.get(key, key.replace("_", " "))
        head += [f"{word} from", "to"] if isinstance(value, list) else [word]
    rows = [tuple(_cells(f)) for f in factors]
    caption = RANKS if "singular_values" in factors[0] else "Found out about each map (numerical)"
    return table(caption, tuple(head), rows)


def _cells(found: Mapping[str, Any]) -> Iterator[Child]:
    for value in found.values():
        ends = (value or [DASH]) if isinstance(value, list) else None
        for part in (value,) if ends is None else (ends[0], ends[-1]):
            known = part is None or isinstance(part, float)
            yield pretty(number(part)) if known else named(str(part))


def _row(row: Mapping[str, Any]) -> tuple[Child, ...]:
    solver = row["solver"] if row["status"] == "solved" else f"{row['solver']}: {row['status']}"
    return (
        str(row["index"]),
        named(str(row["name"])),
        f"{row['rows']}×{row['cols']}",
        _positions(row),
        f"{row['width']:,}",
        str(solver),
        str(row["iterations"]),
        pretty(number(row["residual"])),
        pretty(at_most(row["residual_bound"])),
        pretty(number(row["condition"])),
        pretty(number(row["gamma_max"])),
        pretty(number(row["shift_max"])),
        f"{row['seconds']:.2f}",
    )


def _positions(row: Mapping[str, Any]) -> str:
    """Where a kernel is used: height × width behind it, its own size and its steps."""
    geometry = row.get("geometry")
    if not geometry:
        return "1"
    kernel, strides = "×".join(map(str, geometry["kernel"])), set(geometry["strides"])
    steps = "" if strides == {1} else f", stride {'×'.join(map(str, geometry['strides']))}"
    return f"{row['positions']:,} (kernel {kernel}{steps})"


def _failure(row: Mapping[str, Any]) -> str:
    return f"Map {row['index']} ({elided(str(row['name']))}) was not solved. {row['message']}"
