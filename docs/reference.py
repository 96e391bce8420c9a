"""Pages made from the code: the command line, the library, the schemas."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import json
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import reconstruct
from docs.pages import Page
from reconstruct.cli.parser import build_parser
from reconstruct.reports.schemas import NAMES, schema

WIDTH = 88


def generated_pages() -> list[Page]:
    """cli, api and schemas."""
    return [
        Page("cli", command_line(), "reconstruct/cli/parser.py"),
        Page("api", library(), "reconstruct/__init__.py"),
        Page("schemas", schemas(), "reconstruct/reports/schemas"),
    ]


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
    """The public names with their signatures and docstrings."""
    parts = [
        "# Library",
        "Made from the docstrings of the public names. `import reconstruct as rc`.",
    ]
    for name in sorted(reconstruct.__all__, key=str.lower):
        value = getattr(reconstruct, name)
        if not name.startswith("_"):
            parts += list(_entry(f"rc.{name}", value))
    return "\n\n".join(parts) + "\n"


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"## {name}"
    if isinstance(value, ModuleType):
        yield _doc(value)
        for member in value.__all__:
            kind = _signature(f"{name}.{member}", getattr(value, member))
            yield f"```text\n{kind}\n```\n\n{_doc(getattr(value, member))}"
        return
    yield f"```text\n{_signature(name, value)}\n```"
    yield _doc(value)
    if inspect.isclass(value) and not issubclass(value, (enum.Enum, Exception)):
        methods = list(_methods(value))
        if methods:
            yield "\n".join(methods)


def _methods(value: type) -> Iterator[str]:
    fields = (
        {f.name for f in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    )
    for name, member in vars(value).items():
        if name.startswith("_") or name in fields:
            continue
        inner = member.fget if isinstance(member, property) else getattr(value, name)
        first = (inspect.getdoc(inner) or "").split("\n\n")[0].replace("\n", " ")
        shown = name if isinstance(member, property) else " ".join(_signature(name, inner).split())
        if first:
            yield f"- `{shown}`: {first}"


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return f"{name}: one of {', '.join(member.name for member in value)}"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    words = [str(p).replace("'", "") for p in signature.parameters.values() if p.name != "self"]
    kinds = [p.kind for p in signature.parameters.values() if p.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        words.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    back = signature.return_annotation
    end = "" if back in (inspect.Signature.empty, None, "None") else f" -> {_named(back)}"
    line = f"{name}({', '.join(words)}){end}"
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {word},\n" for word in words)
    return f"{name}(\n{inner}){end}"


def _named(kind: Any) -> str:
    return (
        str(kind).replace("'", "")
        if isinstance(kind, str)
        else getattr(kind, "__name__", str(kind))
    )


def _doc(value: Any) -> str:
    """The docstring with its indented formulas kept as they are."""
    return inspect.getdoc(value) or ""


def schemas() -> str:
    """Both schemas as tables, then as they are."""
    parts = [
        "# Schemas",
        "JSON Schemas of the two documents that a run writes; the tests validate every kind of "
        "run against them. They ship with the package as "
        "`reconstruct.reports.schemas.schema(name)`.",
    ]
    for name in NAMES:
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
