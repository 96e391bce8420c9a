"""The nodes of an ONNX graph in an order in which each one's inputs are known.

ONNX asks for such an order in the file, but runtimes sort by themselves, and files that are not
in order exist. Nodes that the output does not depend on are left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from reconstruct.errors import InputError


def live_nodes(nodes: Sequence[Any], known: set[str], output: str) -> tuple[Any, ...]:
    """The nodes that `output` depends on, sorted; as in the file where that order serves."""
    maker = _makers(nodes, known)
    live = _needed(nodes, maker, known, output)
    chosen = [i for i in range(len(nodes)) if i in live]
    return tuple(nodes[i] for i in _sorted(nodes, chosen, maker))


def node_name(node: Any) -> str:
    """What a message calls the node: its name, else what it makes, else what it is."""
    return str(node.name or next((o for o in node.output if o), "") or node.op_type)


def _makers(nodes: Sequence[Any], known: set[str]) -> dict[str, int]:
    """Which node makes each value; every value is made once."""
    maker: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if name in maker or (name and name in known):
                raise InputError(
                    f"node {node_name(node)!r} makes {name!r}, which something else makes already"
                )
            if name:
                maker[name] = i
    return maker


def _needed(nodes: Sequence[Any], maker: dict[str, int], known: set[str], output: str) -> set[int]:
    """The nodes that the output depends on, whose inputs must all be made by something."""
    live: set[int] = set()
    open_nodes = [maker[output]] if output in maker else []
    while open_nodes:
        i = open_nodes.pop()
        if i in live:
            continue
        live.add(i)
        for name in nodes[i].input:
            if name in maker:
                open_nodes.append(maker[name])
            elif name and name not in known:
                raise InputError(
                    f"node {node_name(nodes[i])!r} ({nodes[i].op_type}) uses {name!r}, which no "
                    "node makes"
                )
    return live


def _sorted(nodes: Sequence[Any], chosen: list[int], maker: dict[str, int]) -> Iterable[int]:
    """Kahn's algorithm; of the nodes that are ready, the first of the file comes first."""
    sources = {i: {maker[n] for n in nodes[i].input if n in maker} for i in chosen}
    if all(j < i for i in chosen for j in sources[i]):
        return chosen
    users: dict[int, list[int]] = {}
    for i in chosen:
        for j in sources[i]:
            users.setdefault(j, []).append(i)
    waiting = {i: len(sources[i]) for i in chosen}
    ready = [i for i in chosen if not waiting[i]]
    done: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        done.append(i)
        for user in users.get(i, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    if len(done) < len(chosen):
        stuck = next(i for i in chosen if waiting[i])
        raise InputError(
            f"node {node_name(nodes[stuck])!r} ({nodes[stuck].op_type}) depends on its own value; "
            "a network without cycles is needed"
        )
    return done
