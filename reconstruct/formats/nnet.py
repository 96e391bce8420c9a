"""The .nnet text format of ACAS Xu and HCAS: comma-separated numbers, one row per line.

After comment lines (`//`) come: counts (layers, inputs, outputs, widest), the layer sizes, a flag
that is not used, the inputs' minimums and maximums, means and ranges (inputs, then one for all
outputs); then for every layer its weight rows and its biases, one per line. The network acts on
normalised inputs, `(x − mean)/range`; its normalised outputs y mean `range·y + mean`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import decimal, text_of
from reconstruct.networks import Network, Node, Scaling
from reconstruct.numbers.arrays import Vector

BLANK = " \t"


class _Lines:
    """The lines of the file that are no comments, with their numbers."""

    def __init__(self, text: str) -> None:
        self._lines: Iterator[tuple[int, str]] = (
            (number, line.strip(BLANK))
            for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
            if line.strip(BLANK) and not line.lstrip(BLANK).startswith("//")
        )

    def row(self, what: str, count: int | None = None) -> Vector:
        """The numbers of the next line, which must be `count` of them."""
        number, line = next(self._lines, (0, ""))
        if not number:
            raise InputError(f"the .nnet file ends where {what} should be; was it cut short?")
        fields = line.removesuffix(",").split(",")
        try:
            values = np.array([decimal(field.strip(BLANK)) for field in fields])
        except ValueError:
            raise InputError(
                f"line {number} of the .nnet file should hold {what}, but is {line[:60]!r}"
            ) from None
        if not np.all(np.isfinite(values)):
            raise InputError(f"line {number} of the .nnet file holds NaN or infinite numbers")
        if count is not None and len(values) != count:
            raise InputError(
                f"line {number} of the .nnet file should hold {what}, {count} numbers, but has "
                f"{len(values)}"
            )
        return values

    def rest(self) -> int | None:
        """The number of a line after the end, if there is one."""
        return next(self._lines, (None, ""))[0]


def read_nnet(content: bytes, *, fold_header: bool = False) -> Network:
    """The network as its weights stand, or with the header's normalisation around it."""
    lines = _Lines(text_of(content, "a .nnet file"))
    sizes, header = _header(lines)
    weights, biases = [], []
    for i, (k, m) in enumerate(pairwise(sizes), start=1):
        rows = [lines.row(f"row {r} of {m} of layer {i}'s weights", k) for r in range(1, m + 1)]
        weights.append(np.array(rows))
        bias = [lines.row(f"bias {r} of {m} of layer {i}", 1) for r in range(1, m + 1)]
        biases.append(np.concatenate(bias))
    if (number := lines.rest()) is not None:
        raise InputError(f"line {number} of the .nnet file comes after the last bias; remove it")
    network = Network.mlp(weights, biases)
    told = {name: values.tolist() for name, values in header.items()}
    metadata = {"nnet_header": told, "nnet_header_folded": fold_header}
    nodes, output = network.nodes, network.output
    if fold_header:
        nodes, output = _with_header(network, header["means"], header["ranges"])
    return Network(network.size_in, nodes, output, network.source, metadata)


def _header(lines: _Lines) -> tuple[list[int], dict[str, Vector]]:
    """What stands above the weights: the layer sizes, and how inputs and outputs are normalised."""
    counts = _whole(lines.row("the numbers of layers, inputs, outputs and the widest layer", 4))
    sizes = _whole(lines.row("the layer sizes", counts[0] + 1))
    if (sizes[0], sizes[-1]) != (counts[1], counts[2]):
        raise InputError(
            f"the .nnet file announces {counts[1]} inputs and {counts[2]} outputs, but its layer "
            f"sizes are {', '.join(map(str, sizes))}"
        )
    lines.row("a flag")
    k, both = sizes[0], "of the inputs and of the outputs"
    rows = {
        "minimums": ("the inputs' minimums", k),
        "maximums": ("the inputs' maximums", k),
        "means": (f"the means {both}", k + 1),
        "ranges": (f"the ranges {both}", k + 1),
    }
    return sizes, {name: lines.row(what, count) for name, (what, count) in rows.items()}


def _whole(values: Vector) -> list[int]:
    if any(values != np.floor(values)) or any(values < 1):
        raise InputError(f"sizes in a .nnet file are positive whole numbers, but got {values}")
    return [int(v) for v in values]


def _with_header(network: Network, means: Vector, ranges: Vector) -> tuple[tuple[Node, ...], str]:
    """`x ↦ (x − mean)/range` ahead of the network and `y ↦ range·y + mean` behind it, as stated."""
    k, m = network.size_in, network.size_out
    if not np.all(ranges != 0):
        raise InputError("the .nnet header has a range of 0, so that it cannot be folded in")
    first = network.nodes[0]
    nodes = (
        Node("centre", Scaling(np.ones(k), offset=-means[:k]), (network.source,)),
        Node("normalise", Scaling(np.ones(k), ranges[:k]), ("centre",)),
        Node(first.name, first.op, ("normalise",)),
        *network.nodes[1:],
        Node(
            "denormalise",
            Scaling(np.full(m, ranges[k]), offset=np.full(m, means[k])),
            (network.output,),
        ),
    )
    return nodes, "denormalise"
