"""docs/performance.md from the rows in benchmarks/results, and the figures inside of other pages.

python -m benchmarks.tables
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.figures import PAGES, RESULTS, ROOT, filled, line
from reconstruct.reports.numbers import at_most

PAGE = ROOT / "docs" / "performance.md"
UNSHOWN = ("benchmark", "versions", "machine", "seed", "reason")
MOST_COLUMNS = 9
# What people ask first; results that are not listed follow by name.
ORDER = (
    "runs",
    "targets",
    "float32",
    "float64",
    "slopes",
    "convolutions",
    "honesty",
    "refusal",
    "solvers",
    "growth",
    "operator",
    "ranks",
    "sparse",
    "deep",
)
OWN_PAGE = ("training", "training_existence", "attack")  # shown, summed up, on other pages

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
    place = {name: i for i, name in enumerate(ORDER)}
    for path in sorted(RESULTS.glob("*.json"), key=lambda p: (place.get(p.stem, 99), p.stem)):
        rows = json.loads(path.read_text(encoding="utf-8"))
        if rows and path.stem not in OWN_PAGE:
            parts += _section(path.stem, rows)
    return "\n\n".join(parts) + "\n"


def _section(stem: str, rows: list[dict[str, Any]]) -> list[str]:
    name = str(rows[0].get("benchmark", stem))
    heading, about = _question(name)
    given = " FOLDER" if name in ("targets", "convolutions", "float32", "float64", "slopes") else ""
    command = f"python -m benchmarks.{name}{given} -o benchmarks/results/{stem}.json"
    return [
        f"## {heading or stem}" + (f" ({stem})" if heading and stem != name else ""),
        *([about] if about else []),
        f"Script: [benchmarks/{name}.py](../benchmarks/{name}.py), run as `{command}`",
        *_tables(rows),
        _around(rows[0]),
    ]


def _question(name: str) -> tuple[str, str]:
    """The question that a benchmark answers, and the rest of its docstring's first paragraph."""
    path = ROOT / "benchmarks" / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else None
    first = (text or "").split("\n\n")[0].replace("\n", " ")
    question, mark, rest = first.partition("?")
    return question + mark, rest.strip()


def _tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One table, or several that repeat the columns by which the rows are told apart."""
    names: list[str] = []
    for row in rows:
        names += [k for k, v in row.items() if k not in names and k not in UNSHOWN and _plain(v)]
    heads = keys(rows, names) if len(names) > MOST_COLUMNS else []
    rest = [name for name in names if name not in heads]
    step = MOST_COLUMNS - len(heads)
    for start in range(0, len(rest), step):
        shown = [*heads, *rest[start : start + step]]
        lines = [line(title(name) for name in shown), line("---" for _ in shown)]
        lines += [line(brief(name, row.get(name)) for name in shown) for row in rows]
        yield "\n".join(lines)


def title(name: str) -> str:
    """A column's name in words."""
    return re.sub(r"bytes$", "memory", name).replace("_", " ")


def keys(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """The first columns that tell all rows apart, without those that are the same everywhere."""
    for count in range(1, MOST_COLUMNS - 1):
        heads = [n for n in names[:count] if len({brief(n, row.get(n)) for row in rows}) > 1]
        if len({tuple(brief(n, row.get(n)) for n in heads) for row in rows}) == len(rows):
            return heads
    return names[:2]


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


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
