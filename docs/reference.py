"""Pages made from the code: the command line, the library, the schemas."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import reconstruct
from reconstruct.cli.parser import build_parser
from reconstruct.errors import MissingDependencyError
from reconstruct.reports.document import SCHEMAS, schema

WIDTH = 88


def generated_pages() -> dict[str, str]:
    """The Markdown of cli, api and schemas by the name of the page."""
    return {"cli": command_line(), "api": library(), "schemas": schemas()}


def command_line() -> str:
    """The help of every command, as the parser prints it."""
    parser = build_parser()
    parts = [
        "# Command line",
        "Made from the parser. Exit codes: 0 certified or all proved; 1 refuted, or the match "
        "failed; 2 bad usage or bad input; 3 undecided; 4 internal error. Verdicts and `--json` "
        "go to stdout, progress and messages to stderr.",
        _help(parser),
    ]
    for name, command in _commands(parser).items():
        parts += [f"## reconstruct {name}", _help(command)]
    return "\n\n".join(parts) + "\n"


def _help(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=WIDTH)
    return f"```text\n{parser.format_help().rstrip()}\n```"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def library() -> str:
    """The public names; mkdocstrings puts signature and docstring in the place of each `:::`."""
    parts = [
        "# Library",
        "Made from the docstrings of the public names. `import reconstruct as rc`.",
    ]
    for name in sorted(reconstruct.__all__, key=str.lower):
        value = getattr(reconstruct, name)
        if isinstance(value, ModuleType):
            parts += _module(f"rc.{name}", value)
        elif not name.startswith("_"):
            parts.append(_inserted(f"rc.{name}", value, 2))
    return "\n\n".join(parts) + "\n"


def _module(name: str, module: ModuleType) -> Iterator[str]:
    """The module's docstring, then what it has beyond the names of the package itself."""
    yield f"## {name}\n\n{inspect.getdoc(module)}"
    for member in _members(module):
        if member not in reconstruct.__all__:
            yield _inserted(f"{name}.{member}", getattr(module, member), 3)


def _members(module: ModuleType) -> Iterator[str]:
    """The names that can be described here: some need a package that may not be installed."""
    for name in module.__all__:
        try:
            getattr(module, name)
        except MissingDependencyError:
            continue
        yield name


def _inserted(heading: str, value: Any, level: int) -> str:
    """A function or class where it is defined; the text of anything else (a union of types)."""
    if not hasattr(value, "__qualname__"):
        return f"{'#' * level} {heading}\n\n`{value}`"
    return (
        f"::: {value.__module__}.{value.__qualname__}\n    options:\n"
        f"      heading: {heading}\n      toc_label: {heading}\n      heading_level: {level}"
    )


def schemas() -> str:
    """Both schemas as tables, then as they are."""
    parts = [
        "# Schemas",
        "JSON Schemas of the two documents that a run writes; the tests validate every kind of "
        "run against them. They ship with the package as "
        "`reconstruct.reports.document.schema(name)`.",
    ]
    for name in SCHEMAS:
        loaded = schema(name)
        rows = "\n".join(f"| `{path}` | {kind} | {text} |" for path, kind, text in _fields(loaded))
        parts += [
            f"## {name}.json",
            str(loaded["description"]),
            f"| field | type | meaning |\n|---|---|---|\n{rows}",
            f"```json\n{json.dumps(loaded, indent=1, ensure_ascii=False)}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def _fields(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    for name, value in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        inner = _inner(value)
        yield (
            here + ("[]" if "array" in _kind(inner) else ""),
            _kind(value),
            value.get("description", ""),
        )
        if "properties" in inner:
            yield from _fields(inner, here)
        elif "properties" in inner.get("items", {}):
            yield from _fields(inner["items"], f"{here}[]")


def _inner(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a value that may be null."""
    for option in value.get("anyOf", ()):
        if option.get("type") != "null":
            return dict(option)
    return value


def _kind(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{option}`" for option in value["enum"])
    if "anyOf" in value:
        return " or ".join(_kind(option) for option in value["anyOf"])
    kind = value.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
