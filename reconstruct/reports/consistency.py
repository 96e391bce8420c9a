"""Parts of a report that belong together, where no schema can say so: lengths and names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Part = Mapping[str, Any]
LINE = ("position", "target", "float64", "float32")


def contradictions(report: Part) -> Iterator[str]:
    """What does not fit together, each in a sentence; the report follows its schema."""
    yield from _domain(report["domain"])
    witness = report["certificate"]["witness"]
    if witness:
        yield from _alike(witness, "certificate.witness", ("target", "candidate"))
    histogram = (report.get("difference") or {}).get("histogram")
    if histogram:
        yield from _edges(histogram, "difference.histogram", ("counts",))
    yield from _measurements(report.get("measurements") or {})


def _measurements(found: Part) -> Iterator[str]:
    if found.get("slice"):
        yield from _alike(found["slice"], "measurements.slice", LINE)
    if found.get("histogram"):
        yield from _edges(found["histogram"], "measurements.histogram", ("network", "target"))
    if found.get("plane"):
        yield from _plane(found["plane"])
    if found.get("graphs"):
        yield from _sites(found)


def _domain(domain: Part) -> Iterator[str]:
    yield from _alike(domain, "domain", ("lo", "hi"))
    for key, kinds in (("inputs", ("points", "boxes")), ("radius", ("boxes",))):
        if domain.get("kind") in kinds and key not in domain:
            yield f"a domain of {domain['kind']} must have domain.{key}, but has none"


def _alike(part: Part, place: str, names: tuple[str, ...]) -> Iterator[str]:
    """Lists of one length."""
    first = names[0]
    for name in names[1:]:
        if len(part[name]) != len(part[first]):
            yield (
                f"{place}.{name} must be as long as {place}.{first}, which has "
                f"{len(part[first])}, but has {len(part[name])}"
            )


def _edges(part: Part, place: str, names: tuple[str, ...]) -> Iterator[str]:
    """One edge more than counts."""
    for name in names:
        if len(part["edges"]) != len(part[name]) + 1:
            yield (
                f"{place}.edges must be one more than the {len(part[name])} of {place}.{name}, "
                f"but there are {len(part['edges'])}"
            )


def _plane(plane: Part) -> Iterator[str]:
    for name in ("target", "float64", "float32"):
        if len(plane[name]) != plane["side"] ** 2:
            yield (
                f"measurements.plane.{name} must have side² = {plane['side'] ** 2} values, but has "
                f"{len(plane[name])}"
            )


def _sites(found: Part) -> Iterator[str]:
    """Every norm layer of a site is a node of the graph, where that was kept."""
    nodes = {node["name"] for node in found["graphs"]["frozen"] or ()}
    for name, layers in found["sites"].items():
        missing = [layer for layer in layers if nodes and layer not in nodes]
        if missing:
            yield (
                f"measurements.sites.{name} must name nodes of measurements.graphs.frozen, but "
                f"{missing[0]!r} is none"
            )
