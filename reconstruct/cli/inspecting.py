"""`reconstruct inspect`: a network, and what each construction would make of it."""

from __future__ import annotations

import json
from argparse import Namespace
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from reconstruct.cli.commands import made
from reconstruct.constructions import CONSTRUCTIONS, factor
from reconstruct.constructions.costs import ConstructionCost, cost
from reconstruct.constructions.frozen import check_target
from reconstruct.constructions.sites import mixing_at
from reconstruct.errors import UnsupportedError
from reconstruct.formats import load
from reconstruct.networks import LiveNorm, Mixing, Network, Norm, nonzeros
from reconstruct.networks.activations.piecewise import Kink
from reconstruct.networks.draw import Sampler
from reconstruct.networks.graph import input_shape
from reconstruct.networks.normal_form import NormalForm, normal_form, rebuilt, rebuilt_nodes
from reconstruct.numbers.parallel import physical_memory
from reconstruct.progress import duration
from reconstruct.reports.words import columns, size
from reconstruct.runs.given import advice


def main(options: Namespace) -> int:
    network = load(options.network, nnet_header=options.nnet_header)
    form = normal_form(network)
    Sampler(density=options.density)  # refuses a density outside of (0, 1]
    costs = []
    for kind in CONSTRUCTIONS.values():
        with suppress(UnsupportedError):  # it cannot rebuild one of the maps
            costs.append(cost(form.network, made(kind, options), options.density))
    if options.json:
        print(json.dumps(_as_json(network, form, costs), indent=2, ensure_ascii=False))
        return 0
    print(_network_text(network, form))
    print()
    print("\n".join(_construction_table(costs, form.network, network.parameters)))
    wide = made(CONSTRUCTIONS["wide"], options)
    told = advice(form.network, wide, options.density, memory=physical_memory())
    if told:
        print(told)
    return 0


def _network_text(network: Network, form: NormalForm) -> str:
    shape = "×".join(map(str, input_shape(network)))
    bends = [n for n in network.activation_nodes() if not isinstance(n.op, LiveNorm)]
    counts = {
        "affine map": len(rebuilt_nodes(network)),
        "activation": sum(1 for n in bends if not hasattr(n.op, "geometry")),
        "pool": sum(1 for n in network.nodes if hasattr(n.op, "geometry") and not rebuilt(n)),
        "norm": sum(1 for n in network.nodes if isinstance(n.op, Norm | LiveNorm)),
    }
    parts = [f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count]
    lines = [
        f"{network.metadata.get('file')}: {shape} inputs, {network.size_out} outputs",
        f"{', '.join(parts)}, {network.parameters:,} parameters",
    ]
    try:
        check_target(form.network)
    except UnsupportedError as error:
        lines.append(f"as a target: {error}")
    return "\n".join([*lines, "", *columns(_map_rows(form))])


def _map_rows(form: NormalForm) -> list[tuple[str, ...]]:
    """One row for each map that is rebuilt: its kernel, and how many equations it needs."""
    rows: list[tuple[str, ...]] = [
        ("map", "node", "kernel", "positions", "equations", "rank", "non-zero", "made from")
    ]
    for number, node in enumerate(rebuilt_nodes(form.network), start=1):
        chain = form.chains[node.name]
        made = f"{len(chain)} nodes merged" if len(chain) > 1 else ""
        rows.append(
            (str(number), _short(node.name), *_shape(mixing_at(form.network, node.name)), made)
        )
    return rows


def _shape(op: Mixing) -> tuple[str, str, str, str, str]:
    """Kernel, positions, equations m·k of each group, rank and filling.

    A kernel is m×k, or m×c×kh×kw with k = c·kh·kw of a convolution.
    """
    (m, k), groups = op.kernels[0].shape, len(op.kernels)
    whole: Any = getattr(op, "kernel", op.kernels[0])
    each = f"{groups}·" if groups > 1 else ""
    rank = max(factor(part).numerical_rank for part in op.kernels)
    filled = sum(nonzeros(part) for part in op.kernels) / (groups * m * k)
    shape = "×".join(map(str, whole.shape))
    return shape, str(op.positions), f"{each}{m * k:,}", str(rank), f"{100 * filled:.0f} %"


def _construction_table(
    costs: list[ConstructionCost], target: Network, parameters: int
) -> list[str]:
    rows = [
        ("construction", "layers", "widest", "weights", "non-zero", "tunable", "memory", "time")
    ]
    for c in costs:
        widest = max((max(m.widths) for m in c.maps), default=0)
        rows.append(
            (
                c.construction,
                str(c.depth),
                f"{widest:,}",
                _count(c.weights),
                _count(c.nonzeros),
                _count(c.tunable),
                size(c.memory_bytes),
                duration(c.seconds),
            )
        )
    table = columns(rows)
    widths = [("map", *(c.construction for c in costs))]
    for i, node in enumerate(rebuilt_nodes(target)):
        widths.append((_short(node.name), *(_widths(c.maps[i].widths) for c in costs)))
    return [
        *table,
        "",
        "frozen widths of each map, layer by layer",
        *columns(widths),
        "",
        *_dimension_text(target, parameters),
        "memory and time are estimates of a whole run on an idle machine, on any domain",
    ]


def dimensions(target: Network) -> int | None:
    """How many dimensions the networks of this shape have as functions, or None where it is not a
    plain chain of maps and kinks.

    A unit behind a kink at 0 can be scaled and the next map divided by it, so that each hidden
    channel takes one dimension away: 4-8-2 has 58 parameters and 50 dimensions.
    """
    nodes = target.nodes
    maps = [node for node in nodes if rebuilt(node)]
    kinks = [node for node in nodes if isinstance(node.op, Kink)]
    chained = len(maps) + len(kinks) == len(nodes) and all(len(n.inputs) == 1 for n in nodes)
    known = {node.name for node in maps}
    behind_maps = all(node.inputs[0] in known for node in kinks)
    if not chained or not behind_maps or any(len(target.consumers(n.name)) > 1 for n in nodes):
        return None
    hidden = [node.inputs[0] for node in kinks if node.name != target.output]
    return target.parameters - sum(mixing_at(target, name).channels for name in hidden)


def _dimension_text(target: Network, parameters: int) -> list[str]:
    least = dimensions(target)
    if least is None:
        return []
    whose = "target" if target.parameters == parameters else "maps above"
    return [
        f"tunable parameters needed for all networks of this shape: {least:,}",
        f"({target.parameters:,} of the {whose}, less one for each hidden unit: its scale is free)",
    ]


def _as_json(network: Network, form: NormalForm, costs: list[ConstructionCost]) -> dict[str, Any]:
    ops = [mixing_at(form.network, node.name) for node in rebuilt_nodes(form.network)]
    return {
        "file": network.metadata.get("file"),
        "sha256": network.metadata.get("sha256"),
        "inputs": network.size_in,
        "outputs": network.size_out,
        "parameters": network.parameters,
        "maps": [[op.channels, op.kernels[0].shape[1]] for op in ops],
        "positions": [op.positions for op in ops],
        "groups": [len(op.kernels) for op in ops],
        "merged": {name: list(chain) for name, chain in form.merged.items()},
        "constructions": [asdict(c) for c in costs],
        "minimum": dimensions(form.network),
    }


def _widths(widths: tuple[int, ...]) -> str:
    if len(widths) <= 4:
        return "-".join(map(str, widths))
    return f"{len(widths) - 1}×{widths[0]}-{widths[-1]}"


def _short(name: str, limit: int = 20) -> str:
    return name if len(name) <= limit else f"…{name[1 - limit :]}"


def _count(value: int) -> str:
    for unit, one in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= one:
            return f"{value / one:.{0 if value >= 10 * one else 1}f} {unit}"
    return str(value)
