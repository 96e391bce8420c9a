"""Pages made from the code: the command line, the schemas, and the names that api.md lists."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import reconstruct
from reconstruct.cli.parser import build_parser
from reconstruct.errors import MissingDependencyError
from reconstruct.reports.document import SCHEMAS, schema

WIDTH = 88
API = Path(__file__).with_name("api.md")
NAMED = re.compile(r"<!-- names: (.*) -->")
# What an argument means, the same wherever it occurs; `function.argument` where it does not.
ARGUMENTS = {
    "target": "the network g that is rebuilt, or a file of it",
    "network": "a network",
    "certify.network": "the network f that is compared with the target",
    "frozen": "the frozen network f",
    "rebuild.frozen": "the file of a frozen network that the run was given",
    "run.frozen": "a frozen network of your own; one is drawn without it",
    "candidate": "the other network, or a file of it",
    "reach.target": "an affine network",
    "update": "the target after fine-tuning",
    "path": "the file",
    "check.path": "the directory of a run, or certificate.json",
    "output": "the directory to write into",
    "rebuild.output": "the directory of the run",
    "report.output": "the directory of the run",
    "folder": "train/CLASS/*.png and test/CLASS/…, MNIST's idx files, or CIFAR-10's batches",
    "split": "train or test",
    "count": "how many images, drawn by a fixed seed; all without it",
    "mean": "taken from each channel",
    "std": "by which each channel is divided",
    "domain": "the inputs that the claim is about",
    "property": "a VNN-LIB file with domain and tolerance, in place of these",
    "radius": "the domain is made of boxes with this radius around the points",
    "x": "the points, as rows",
    "lo": "lower ends; a number is the same for all",
    "hi": "upper ends; a number is the same for all",
    "text": "`lo,hi`, `lo1,…:hi1,…`, or a file (VNN-LIB, .npz)",
    "size": "the number of inputs, where the text is a cube",
    "shape": "the shape of one input",
    "construction": "the kind of frozen network: `rc.Wide()`, `rc.Grouped()`, …",
    "ratio": "hidden units per equation, at least 1; more make γ smaller",
    "Fitted.ratio": "hidden units per equation, below 1",
    "block": "the block size",
    "rank": "the rank at which the map is cut off; None for its exact rank",
    "Stacked.layers": "the number of hidden layers",
    "seed": "the seed of the random weights; the certificate records it",
    "weights": "the distribution of the random weights",
    "norms": "the norms behind them",
    "sparsity": "the probability with which a weight is kept; None keeps all",
    "density": "the probability with which a weight is kept; None keeps all",
    "statistics": "draw running means and variances, too",
    "activation": "the activation inside of the frozen layers; ReLU without it",
    "merge": "treat maps without an activation between them as one",
    "solver": "how the linear systems are solved: `rc.Auto()`, `rc.Exact()`, …",
    "bounds": "how hidden values are bounded: `rc.Crown()`, `rc.Adaptive()`, …",
    "slack": "on data: the ranges seen are widened by the factor 1 + slack",
    "data": "inputs (rows) to which a construction may fit",
    "dtype": "float64 or float32",
    "tolerance": "the largest difference that counts as equal; None: 1e-6 times the output's size",
    "ConjugateGradient.tolerance": "the relative residual to reach",
    "Direct.tolerance": "the relative residual to reach",
    "max_iterations": "the limit of iterations",
    "refinements": "the limit of refinement steps in float64",
    "inner_dtype": "the precision of the iterations",
    "seconds": "the time that the bounds may take",
    "boxes": "the number of boxes that the domain may be split into",
    "time_limit": "in seconds, for everything",
    "memory": "in bytes; a run that needs more is refused",
    "samples": "the number of inputs at which the difference is measured",
    "unseen": "inputs outside of the domain at which the guard is tried",
    "guard": "write the network with the guard's output, too",
    "exact_norms": "rational γ and β for which equality is proved as well",
    "search": "the outcome of an earlier search for a difference",
    "bound_anyway": "prove bounds for networks that are refuted, too",
    "known": "bounds of hidden values that were computed before",
    "progress": "a function that is told of each step",
    "checkpoint": "keeps each solved map, so that a run can be resumed",
    "force": "replace an existing directory",
    "resume": "continue an interrupted run",
    "page": "write report.html",
    "nnet_header": "apply the normalisation in the header of a .nnet file",
    "limit": "the memory in bytes that the file may unpack to",
    "near": "compare what was read with another program on this domain",
    "unchecked": "allow a file that no other program can evaluate",
    "module": "a torch module; it is evaluated in evaluation mode",
    "example": "an input with a batch size of 1; only its shape matters",
    "M1": "n × k, the first frozen matrix",
    "M2": "m × n, the second frozen matrix",
    "W": "m × k, the map to be rebuilt",
    "b": "its bias; None for zero",
    "final_activation": "end with the activation",
    "slope": "the slope for negative values",
    "alpha": "the scale of the negative part",
    "gamma": "the scale of the whole",
}


def generated_pages() -> dict[str, str]:
    """The Markdown of the pages that are made from the code alone, by name."""
    return {"cli": command_line(), "schemas": schemas()}


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


def library(page: str | None = None) -> str:
    """docs/api.md with the names that it marks; names that it does not mark are put at its end.

    mkdocstrings replaces each `:::` by signature and docstring.
    """
    page = API.read_text(encoding="utf-8") if page is None else page
    marked = {name for names in NAMED.findall(page) for name in names.split(", ")}
    public = [name for name in reconstruct.__all__ if not name.startswith("_")]
    rest = ", ".join(name for name in public if name not in marked)
    if rest:
        page += f"\n## More\n\n<!-- names: {rest} -->\n"
    return NAMED.sub(lambda found: "\n\n".join(_described(found[1].split(", "))), page)


def _described(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name in reconstruct.__all__:
            value = getattr(reconstruct, name)
            if isinstance(value, ModuleType):
                yield from _module(f"rc.{name}", value)
            else:
                yield _inserted(f"rc.{name}", value, 3)
                yield from _arguments(name, value)


def _arguments(name: str, value: Any) -> Iterator[str]:
    """A table of the arguments whose meaning is known; none for what a function returns."""
    try:
        given = inspect.signature(value).parameters.values()
    except ValueError:  # an exception
        return
    known = [
        (each, ARGUMENTS.get(f"{name}.{each.name}", ARGUMENTS.get(each.name))) for each in given
    ]
    rows = [
        f"| `{each.name}` | {_default(each.default)} | {meaning} |"
        for each, meaning in known
        if meaning
    ]
    if rows and name not in ("Frozen", "Network", "Result", "Weights"):
        yield "\n".join(["| argument | default | meaning |", "|---|---|---|", *rows])


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "needed"
    return f"`{getattr(value, '__name__', None) or getattr(value, 'value', value)}`"


def _module(name: str, module: ModuleType) -> Iterator[str]:
    """The module's docstring, then what it has beyond the names of the package itself."""
    yield f"### {name}\n\n{inspect.getdoc(module)}"
    for member in _members(module):
        if member not in reconstruct.__all__:
            yield _inserted(f"{name}.{member}", getattr(module, member), 4)


def _members(module: ModuleType) -> Iterator[str]:
    """The names that can be described here: some need a package that may not be installed."""
    offered = [n for n in dir(module) if not isinstance(vars(module).get(n), ModuleType)]
    for name in getattr(module, "__all__", [n for n in offered if not n.startswith("_")]):
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
