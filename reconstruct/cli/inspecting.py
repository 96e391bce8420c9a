"""`reconstruct inspect`: a network, and what each construction would make of it."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
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
from reconstruct.networks import LiveNorm, Network, Norm, nonzeros
from reconstruct.networks.activations.piecewise import Kink
from reconstruct.networks.draw import Sampler
from reconstruct.networks.graph import input_shape
from reconstruct.networks.normal_form import NormalForm, normal_form, rebuilt, rebuilt_nodes
from reconstruct.numbers.parallel import physical_memory
from reconstruct.progress import duration
from reconstruct.reports.markup import elided
from reconstruct.reports.words import columns, prefixed, size
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
    return "\n".join([*lines, "", *_maps(form)])


def _maps(form: NormalForm) -> list[str]:
    """One row for each map that is rebuilt: its kernel, and how many equations it needs.

    A kernel is m×k, or m×c×kh×kw with k = c·kh·kw of a convolution; groups have m·k equations each.
    """
    rows: list[tuple[str, ...]] = []
    for number, node in enumerate(rebuilt_nodes(form.network), start=1):
        op, chain = mixing_at(form.network, node.name), form.chains[node.name]
        (m, k), groups = op.kernels[0].shape, len(op.kernels)
        whole: Any = getattr(op, "kernel", op.kernels[0])
        filled = sum(nonzeros(part) for part in op.kernels) / (groups * m * k)
        rows.append(
            (
                str(number),
                elided(node.name, 20),
                "×".join(map(str, whole.shape)),
                str(op.positions),
                f"{f'{groups}·' if groups > 1 else ''}{m * k:,}",
                str(max(factor(part).numerical_rank for part in op.kernels)),
                f"{100 * filled:.0f} %",
                f"{len(chain)} nodes merged" if len(chain) > 1 else "",
            )
        )
    head = ("map", "node", "kernel", "positions", "equations", "rank", "non-zero", "made from")
    return columns([head, *rows])


COSTS: dict[str, Callable[[ConstructionCost], str]] = {
    "construction": lambda c: c.construction,
    "layers": lambda c: str(c.depth),
    "widest": lambda c: f"{max((max(m.widths) for m in c.maps), default=0):,}",
    "weights": lambda c: prefixed(c.weights),
    "non-zero": lambda c: prefixed(c.nonzeros),
    "tunable": lambda c: prefixed(c.tunable),
    "memory": lambda c: size(c.memory_bytes),
    "time": lambda c: duration(c.seconds),
}


def _construction_table(
    costs: list[ConstructionCost], target: Network, parameters: int
) -> list[str]:
    widths = [("map", *(c.construction for c in costs))]
    for i, node in enumerate(rebuilt_nodes(target)):
        widths.append((elided(node.name, 20), *(_widths(c.maps[i].widths) for c in costs)))
    lines = [
        *columns([tuple(COSTS), *(tuple(show(c) for show in COSTS.values()) for c in costs)]),
        "",
        "frozen widths of each map, layer by layer",
        *columns(widths),
        "",
    ]
    least = dimensions(target)
    if least is not None:
        whose = "target" if target.parameters == parameters else "maps above"
        lines += [
            f"tunable parameters needed for all networks of this shape: {least:,}",
            f"({target.parameters:,} of the {whose}, less one for each hidden unit: its scale is "
            "free)",
        ]
    return [
        *lines,
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
