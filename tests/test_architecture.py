"""The floor plan holds: imports go as docs/architecture.md says.

The page is the specification. Its table of packages is read here, and compared with the imports of
every file, those inside of functions and those for types alone included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = ("reconstruct", "proofs_check")
FILES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
OURS = [path for path in FILES if path.is_relative_to(ROOT / "reconstruct")]
CODE = re.compile(r"`([^`]+)`")


def section(title: str) -> str:
    """The text below a heading of the page."""
    return re.split(r"^## ", PAGE.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def table(title: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def packages() -> tuple[dict[str, set[str]], dict[str, int]]:
    """Each package with what it may import, and its row; those of one row may import each other."""
    plan: dict[str, set[str]] = {}
    rows: dict[str, int] = {}
    for number, row in enumerate(table("The packages")):
        here = set(CODE.findall(row[0]))
        above = set(plan) if "all of the above" in row[-1] else set(CODE.findall(row[-1]))
        plan |= dict.fromkeys(here, above | here)
        rows |= dict.fromkeys(here, number)
    return plan, rows


ALLOWED, ROWS = packages()


def home(module: str) -> str:
    """The package of a module: the longest one whose name it starts with."""
    name = module.removeprefix("reconstruct.")
    fitting = [package for package in ALLOWED if f"{name}.".startswith(f"{package}.")]
    return max(fitting, key=len, default=module)


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path: Path) -> ast.Module:
    """A file's code, read once for all questions about it."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules of this project that the code imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if _is_module(name) else node.module for name in inner)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def edges() -> set[tuple[str, str, str]]:
    """(file, its package, the package that it imports) over both packages."""
    found = set()
    for path in FILES:
        here = home(name_of(path))
        for module in imported(parsed(path)):
            if module.split(".")[0] in PACKAGES and home(module) != here:
                found.add((str(path.relative_to(ROOT)), here, home(module)))
    return found


def test_every_file_has_a_room() -> None:
    assert {home(name_of(path)) for path in FILES} <= ALLOWED.keys()


def test_every_room_is_there() -> None:
    places = [ROOT.joinpath(*package.split(".")) for package in ALLOWED]
    inner = [ROOT.joinpath("reconstruct", *package.split(".")) for package in ALLOWED]
    there = [
        any(p.is_dir() or p.with_suffix(".py").is_file() for p in pair)
        for pair in zip(places, inner, strict=True)
    ]
    assert [package for package, found in zip(ALLOWED, there, strict=True) if not found] == []


def test_imports_are_those_of_the_page() -> None:
    wrong = [
        f"{path}: {here} may not import {package}"
        for path, here, package in sorted(edges())
        if package not in ALLOWED[here]
    ]
    assert wrong == []


def test_imports_point_one_way() -> None:
    """A package may only import packages that stand above it on the page."""
    back = [
        (package, a)
        for package, allowed in ALLOWED.items()
        for a in allowed
        if ROWS[a] > ROWS[package]
    ]
    assert back == []


def test_an_import_against_the_plan_is_seen() -> None:
    code = "def f():\n    from reconstruct.certificates import certify\n    import numpy\n"
    assert [home(m) for m in imported(ast.parse(code)) if m.startswith("reconstruct")] == [
        "certificates"
    ]
    assert "certificates" not in ALLOWED["bounds"]


def test_adding_something_touches_at_most_three_files() -> None:
    rows = table("What to touch")
    things = {"map", "activation", "solver", "construction", "format", "statement"}
    assert {row[0].split()[-1] for row in rows} == things
    for row in rows:
        links = re.findall(r"\]\(\.\./([^)]+)\)", row[1])
        new = row[1].count("*new*")
        assert 1 <= len(links) + new <= 3, row[0]
        assert [link for link in links if not (ROOT / link).exists()] == []


def test_no_two_classes_have_one_name() -> None:
    found: dict[str, list[str]] = {}
    for path in OURS:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
