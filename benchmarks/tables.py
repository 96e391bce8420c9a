"""docs/performance.md, and the figures in README.md, from the rows in benchmarks/results.

python -m benchmarks.tables
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reconstruct.reports.numbers import at_most

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
UNSHOWN = ("benchmark", "versions", "machine", "seed", "reason")
MOST_COLUMNS = 9

README = ROOT / "README.md"
START, END = "<!-- figures: benchmarks/tables.py -->", "<!-- end of figures -->"

HEAD = """# Measured performance

Every figure on this page was written by the script named above its table, with seed, versions and
machine in the same row of JSON under `benchmarks/results/`. The page is made from these rows by
`python -m benchmarks.tables`; run a script again to have figures for your machine. Times depend on
what else a machine does; errors and counts do not. All figures are numerical, but for the columns
that end in `bound`, which are rigorous.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD.strip()]
    for path in sorted(RESULTS.glob("*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))
        if rows:
            parts += _section(path.stem, rows)
    return "\n\n".join(parts) + "\n"


def _section(stem: str, rows: list[dict[str, Any]]) -> list[str]:
    name = str(rows[0].get("benchmark", stem))
    question = _question(name)
    given = " FOLDER" if name == "targets" else ""
    command = f"python -m benchmarks.{name}{given} -o benchmarks/results/{stem}.json"
    return [
        f"## {stem}",
        *([question] if question else []),
        f"Script: [benchmarks/{name}.py](../benchmarks/{name}.py), run as `{command}`",
        *_tables(rows),
        _around(rows[0]),
    ]


def _question(name: str) -> str:
    """The question that a benchmark answers: the first paragraph of its docstring."""
    path = ROOT / "benchmarks" / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    return (text or "").split("\n\n")[0].replace("\n", " ")


def _tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One table, or several that repeat the first two columns when there are too many."""
    keys: list[str] = []
    for row in rows:
        keys += [k for k, v in row.items() if k not in keys and k not in UNSHOWN and _plain(v)]
    heads = keys[:2] if len(keys) > MOST_COLUMNS else []
    rest = [key for key in keys if key not in heads]
    step = MOST_COLUMNS - len(heads)
    for start in range(0, len(rest), step):
        shown = [*heads, *rest[start : start + step]]
        lines = [_line(shown), _line("---" for _ in shown)]
        lines += [_line(brief(key, row.get(key)) for key in shown) for row in rows]
        yield "\n".join(lines)


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def brief(key: str, value: Any) -> str:
    """A value for people: three digits, bounds rounded up, a dash for none."""
    if value is None:
        return "–"
    if key.endswith("bytes"):
        return f"{value / 1e6:,.0f} MB"
    if key.endswith("bound"):
        return at_most(value, 3)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).replace("|", "\\|")
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}"


def _around(row: dict[str, Any]) -> str:
    machine, versions = row.get("machine", {}), row.get("versions", {})
    parts = [
        str(machine.get("cpu")),
        f"{machine.get('cores')} cores",
        str(machine.get("blas")),
        f"Python {versions.get('python')}",
        f"numpy {versions.get('numpy')}",
        f"scipy {versions.get('scipy')}",
    ]
    return f"Measured on: {', '.join(parts)}."


def readme(text: str) -> str:
    """README.md with its table of measured figures made anew."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{_figures()}\n{END}{after}"


def _figures() -> str:
    """The runs on the digits network, one line each."""
    rows = json.loads((RESULTS / "runs.json").read_text(encoding="utf-8"))
    head = (
        "frozen network",
        "weights",
        "γ and β",
        "found in float64",
        "certified",
        "found in float32",
        "digits read",
    )
    lines = [_line(head), _line("---" for _ in head)]
    for row in rows:
        lines.append(
            _line(
                (
                    f"{row['construction']}, ratio {row['ratio']}",
                    f"{row['weights']:,}",
                    f"{row['tunable']:,}",
                    f"{row['float64_max']:.1e}",
                    "–" if row["certified_bound"] is None else at_most(row["certified_bound"]),
                    f"{row['float32_max']:.1e}",
                    f"{100 * row['accuracy']:.1f} %",
                )
            )
        )
    return "\n".join(lines)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
