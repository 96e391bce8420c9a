"""Figures inside of README.md and docs/*.md: made from the rows in benchmarks/results.

A page marks the place, `python -m benchmarks.tables` fills it, and a test compares:

    <!-- figures: refusal -->  …  <!-- end of figures -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import training_tables
from reconstruct.reports.numbers import at_most

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("certificates", "scale", "training")),
)
MARKED = re.compile(
    r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", flags=re.MULTILINE | re.DOTALL
)
Rows = list[dict[str, Any]]


def filled(text: str) -> str:
    """The page with each marked place made anew."""
    return MARKED.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def rows(stem: str) -> Rows:
    """The rows of one file of results."""
    loaded: Rows = json.loads((RESULTS / f"{stem}.json").read_text(encoding="utf-8"))
    return loaded


def on_digits(found: Rows) -> Rows:
    """Of the whole runs those of the network whose answers are right or wrong."""
    return [row for row in found if row.get("accuracy") is not None]


def line(cells: Iterable[str]) -> str:
    """One line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def digits() -> str:
    """The runs on the digits network, one line each."""
    columns = ["frozen network", "weights", "γ and β", "found in float64", "certified"]
    head = [*columns, "found in float32", "digits read"]
    lines = [line(head), line("---" for _ in head)]
    for row in on_digits(rows("runs")):
        cells = (
            f"{row['construction']}, ratio {row['ratio']}",
            f"{row['weights']:,}",
            f"{row['tunable']:,}",
            f"{row['float64_max']:.1e}",
            "–" if row["certified_bound"] is None else at_most(row["certified_bound"]),
            f"{row['float32_max']:.1e}",
            f"{100 * row['accuracy']:.1f} %",
        )
        lines.append(line(cells))
    return "\n".join(lines)


def tightness() -> str:
    """How far the first figure is above what sampling finds, in all shipped runs."""
    found = {
        stem: sorted(
            row["certified_bound"] / row["float64_max"]
            for row in (on_digits(rows(stem)) if stem == "runs" else rows(stem))
            if row.get("certified_bound") and row.get("float64_max")
        )
        for stem in ("runs", "targets")
    }
    own, real = found["runs"], found["targets"]
    return (
        f"The certified bound over the largest difference found in float64: {own[0]:.2g} to "
        f"{own[-1]:.2g} on the\ndigits network (`python -m benchmarks.runs`), {real[0]:.2g} to "
        f"{real[-1]:,.0f} on {len(real)} networks from other projects\n"
        f"(`python -m benchmarks.targets FOLDER`)."
    )


def honesty() -> str:
    """How often a certificate claimed too much."""
    (row,) = rows("honesty")
    closest = max(row["closest"].values())
    return (
        f"`python -m benchmarks.honesty`: {row['cases']:,} cases (targets of 1 to 3 maps, weights "
        f"from 1e-12 to 1e8, dead\nunits, eight activations, boxes without width or one float "
        f"wide; wide, deep and factored\nconstructions, other statistics, one number changed), "
        f"{sum(row['comparisons'].values()):,} comparisons with exact rationals: "
        f"{row['violations']} differences exceeded their figure.\nThe closest came to "
        f"{100 * closest:.1f} % of it."
    )


def refusal() -> str:
    """What became of spoiled results."""
    table = rows("refusal")
    total = {key: sum(row[key] for row in table) for key in table[0] if key in COUNTED}
    return (
        f"`python -m benchmarks.refusal`: {total['cases']} mutations of valid results. "
        f"{total['certified_at_original_bound']} of those that change the function\nwere certified "
        f"at the original bound. {total['differ']} were seen to differ by more than the tolerance, "
        f"and\n{total['differ_and_refuted']} of these were refuted with a replayed witness; "
        f"{total['undecided']} stayed undecided. {total['without_effect']} changed nothing on the\n"
        f"box (dead units)."
    )


ATTACKS = {
    "onnx-reader": "random ONNX graphs, read and compared with onnxruntime",
    "pairs": "random pairs, differences at kinks and corners against the bound, exactly",
    "honest": "random reconstructions: the bound holds exactly, the checker accepts",
    "forged": "certificates with fields changed and signed anew, twelve for each case",
    "float-bounds": "float figures against adversarial orders of summation and onnxruntime",
    "kill-and-resume": "runs killed at any moment and resumed: the same norms, accepted",
}


def attack() -> str:
    """What random attacks found, class by class."""
    table = rows("attack")
    minutes = sum(row["seconds"] for row in table) / 60 / table[0]["jobs"]
    total, broken = (sum(row[key] for row in table) for key in ("cases", "violations"))
    found = [
        f"`python -m benchmarks.attack --minutes {minutes:.0f} --jobs {table[0]['jobs']}`: "
        f"{total:,} cases, {broken} violations.",
        "",
        line(["attack", "what is tried", "cases", "violations"]),
        line(["---"] * 4),
    ]
    for row in table:
        name = row["class"]
        found.append(line([name, ATTACKS[name], f"{row['cases']:,}", str(row["violations"])]))
    return "\n".join(found)


def float64() -> str:
    """What is proved of evaluations in float64, network by network."""
    columns = ["network", "found in float64", "certified, real arithmetic", "`float64_bound`"]
    head = [*columns, "of the target itself", "boxes"]
    table = rows("float64")
    found = [line(head), line("---" for _ in head)]
    for row in table:
        bounds = ("certified_bound", "float64_bound", "target_float64_bound")
        name = row["network"].removeprefix("ACASXU_run2a_").removesuffix("_batch_2000.onnx")
        cells = [at_most(row[bound]) for bound in bounds]
        found.append(line([name, f"{row['float64_max']:.1e}", *cells, f"{row['leaves']:,}"]))
    accepted = sum(row["check_exit"] == 0 for row in table)
    command = f"`run {table[0]['options']}`; {accepted} of {len(table)} accepted by `check`"
    return "\n".join([*found, "", f"({command}; `python -m benchmarks.float64 FOLDER`.)"])


def growth() -> str:
    """How solves grow."""
    fitted = rows("growth")[-1]
    first, last = fitted["fitted_from"], fitted["fitted_to"]
    exponents = fitted["seconds_exponent"], fitted["added_bytes_exponent"]
    return (
        f"From {first} × {first} to {last} × {last} time grows as d^{exponents[0]:.2f} and\n"
        f"memory as d^{exponents[1]:.2f} (`python -m benchmarks.growth`)."
    )


def lapack() -> str:
    """Conjugate gradients beside LAPACK, in time and memory."""
    found = {(row["m"], row["solver"]): row for row in rows("solvers")}

    def gained(d: int, name: str, key: str = "seconds", other: str = "LAPACK square") -> str:
        ratio = found[d, other][key] / found[d, name][key]
        return f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"

    def residual(d: int, name: str) -> str:
        return f"{found[d, name]['residual']:.0e}"

    least, as_lu = "cg to 1e-06, ratio 2.6", "cg to 4e-12, ratio 2.6"
    memory = gained(64, as_lu, "solver_bytes")
    return (
        f"At d = 64, in 1/{memory} of the memory and at ratio 2.6, where the work is least:\n\n"
        f"- to 1e-6, the residual of that comparison, a solve is {gained(64, least)} times as fast "
        f"as LU;\n"
        f"- to {residual(64, 'LAPACK square')}, what LU leaves, {gained(64, as_lu)} times; at "
        f"ratio 1.5 and to {residual(64, 'cg')}, {gained(64, 'cg')} times.\n\n"
        f"At d = 96 and to {residual(96, 'cg')} it is {gained(96, 'cg')} times as fast in "
        f"1/{gained(96, 'cg', 'solver_bytes')} of the memory. Least squares by\n"
        f"LAPACK at the same ratio, which solve the same problem, take "
        f"{gained(64, 'cg', other='LAPACK least squares')} times as long at d = 64."
    )


COUNTED = (
    "cases",
    "certified_at_original_bound",
    "differ",
    "differ_and_refuted",
    "undecided",
    "without_effect",
)
FIGURES: dict[str, Callable[[], str]] = {
    "digits": digits,
    "tightness": tightness,
    "honesty": honesty,
    "refusal": refusal,
    "attack": attack,
    "float64": float64,
    "growth": growth,
    "lapack": lapack,
    "seeds": lambda: training_tables.seeds(rows("training")),
    "tunings": lambda: training_tables.tunings(rows("training")),
    "depths": lambda: training_tables.depths(rows("training")),
    "widths": lambda: training_tables.widths(rows("training")),
    "gammas": lambda: training_tables.gammas(rows("training")),
    "findings": lambda: training_tables.findings(rows("training")),
    "existence": lambda: training_tables.existence(rows("training_existence")),
}
