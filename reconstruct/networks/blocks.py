"""Long sums spelled out as sums of short ones, so that an evaluation in floats rounds less.

A map that adds up n products may add them in any order, and what it rounds is bounded by n
roundings. The same map as a tree,

    W h = Σ_i W_i h_i    (blocks of B columns, added q at a time),

is the same function of real numbers, but the graph itself now says that no number takes part in
more than B + (q − 1)·log_q(n/B) roundings, and that no partial sum is longer than a block: both
what is proved and what is met become smaller. It costs time, for small products run slower than one
large: networks are written so where float32 is deployed, and in float64, in larger blocks, where a
sum has thousands of terms (on ACAS Xu `float64_bound` falls by 29, and what is met by 11).

Hidden units of a construction are large because they are shifted, and their shifts cancel in the
sum. So the shifts are taken out of them first,

    W h = W (h − c) + W c,

c the hidden values where nothing arrives, and W c as a few floats that are it exactly: the largest
added last, the others as biases of blocks. It is still the same function, but what is added up is
no larger than what varies.

A norm may be folded into the sum before it, and its shift is then rounded at every step of it. A
sum of blocks is a node of its own, into which none is folded: of two halves at least.

Any graph may have such trees, and an analysis sees each as the map that it is, with all columns
side by side (`spelled_sums`): an evaluation in floats is bounded like one of the map, with as many
roundings as the tree says.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Convolution, Dense, Diagonal, Mixing, Scaling, Select
from reconstruct.networks.operation import Add, Operation
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.exact_dot import PIECES, exact_pieces

Blocks: TypeAlias = Sequence[tuple[int, int, Any]]  # columns from, to, and their map


@dataclass(frozen=True)
class Tree:
    """How sums are spelled out: blocks of so many columns, larger ones where there would be more
    than `most`; in front of norms two halves, where a sum has at least `least` terms; and so many
    values that one node adds."""

    block: int = 32  # half of it gains little and takes twice as long
    together: int = 8
    most: int = 256  # a file has three nodes for each
    least: int = 16
    centre_bits: int = 12  # of what is taken out: products with float32 weights are short


TREE = Tree()
COARSE = Tree(block=72, most=64)  # in float64: halves gain a quarter, and twice the nodes are read
LONG = 2**11  # terms of a sum from which on float64 networks are spelled out


def long_sums(network: Network) -> bool:
    """Whether a dense map adds so many products that any order of them says too little."""
    return any(isinstance(n.op, Dense) and n.op.summands >= LONG for n in network.nodes)


def in_blocks(
    network: Network, tree: Tree = TREE, centres: Mapping[str, Vector] | None = None
) -> Network:
    """The network with the long sums of its dense maps as trees; the names of values stay.

    `centres` are what is taken out of the inputs of maps, by their names (default: hidden values
    where nothing arrives).

    A map is spelled out if it takes at least twice a block and more than it gives: elsewhere the
    partial sums would be larger than what they are made of. In front of a norm those are cut, too.
    """
    names = {network.source, *(node.name for node in network.nodes)}
    spelling = _Spelling(network, names, tree, centres)
    return network.with_nodes(tuple(part for node in network.nodes for part in spelling.of(node)))


def centre(network: Network, node: Node) -> Vector | None:
    """What the input of a map is where the map before it gives nothing but its bias, through a norm
    and an activation as a rule; numbers of few bits, so that products with them are short."""
    between: list[Operation] = []
    name = node.inputs[0]
    while name != network.source and len(network.node(name).inputs) == 1:
        op = network.node(name).op
        if isinstance(op, Mixing):
            with np.errstate(all="ignore"):
                value = reduce(lambda z, step: step(z), reversed(between), op.bias[None])
            short = _short(value[0])
            return short if between and np.isfinite(short).all() and short.any() else None
        between.append(op)
        (name,) = network.node(name).inputs
    return None


def _short(values: Vector) -> Vector:
    """The nearest numbers of a few bits."""
    exponents = np.frexp(values)[1] - TREE.centre_bits
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, -exponents)), exponents))


def joined(network: Network) -> Network:
    """The network of which this one is `in_blocks`; this one itself if there is none.

    Its trees tell what may belong together; spelled out again it has to be this network.
    """
    maps: dict[str, tuple[Mixing, str]] = {}
    for root, tree in spelled_sums(network, ()).items():
        blocks = [block for _, block in tree.blocks if isinstance(block, Dense)]
        if f"{root}.part0" in tree.nodes and len(blocks) == len(tree.blocks):
            weight = np.concatenate([block.weight for block in blocks], axis=1)
            maps[root] = Dense(weight, blocks[0].bias), tree.source
    for node in network.nodes:
        if isinstance(node.op, Convolution) and node.name.endswith(".sums"):
            plain = Convolution(node.op.kernel, node.op.geometry, None, node.op.groups)
            maps[node.name] = plain, node.inputs[0]
    centres, whole = {}, {}
    for name, (op, source) in maps.items():
        value = name.removesuffix(".sums")
        if source == f"{value}.centred":
            (before,) = network.node(source).inputs
            centres[value] = -network.node(source).op.arrays().get("offset", np.zeros(1))
            whole[value] = Node(value, op, (before,))
        elif isinstance(op, Dense):
            whole[name] = Node(name, op, (source,))
    if not whole:
        return network
    words = ("taken", "part", "sum", "centred")
    gone = tuple(f"{value}.{word}" for value in whole for word in words)
    left = (whole.get(n.name, n) for n in network.nodes if not n.name.startswith(gone))
    try:
        short = network.with_nodes(tuple(left))
        trees = (in_blocks(short, tree, centres) for tree in (TREE, COARSE))
        return short if any(tree.same(network) for tree in trees) else network
    except InputError:  # what is left does not hang together
        return network


@dataclass(eq=False)
class _Spelling:
    """The nodes of one network, spelled out one after the other."""

    network: Network
    names: set[str]
    tree: Tree
    centres: Mapping[str, Vector] | None

    def of(self, node: Node) -> Iterator[Node]:
        """The node as it is, or the nodes of its tree."""
        if isinstance(node.op, Convolution):
            yield from self._grouped(node, node.op)
            return
        blocks = self._blocks(node)
        middle = self._centre(node) if len(blocks) >= PIECES else None
        pieces = None if middle is None else exact_pieces(node.op.arrays()["weight"], middle)
        if not blocks:
            yield node
        elif middle is None or pieces is None:
            yield from self._tree(node.name, node.inputs, blocks)
        else:
            yield from self._centred(node, blocks, middle, pieces)

    def _blocks(self, node: Node) -> Blocks:
        """The columns of a map in blocks; none if it stays as it is."""
        takes, gives = self.network.sizes[node.inputs[0]], self.network.sizes[node.name]
        if takes > gives:
            block, most = self.tree.block, self.tree.most
            width, enough = max(block, -(-takes // most)), takes >= 2 * block
        else:
            width = -(-takes // 2)
            enough = takes >= self.tree.least and self._feeds_norm(node)
        return node.op.on_blocks(width) if enough else ()

    def _centred(
        self, node: Node, blocks: Blocks, middle: Vector, pieces: tuple[Vector, ...]
    ) -> Iterator[Node]:
        """The tree of `W (h − c)`, and `W c` in its pieces: the largest last, one to a block the
        others, of which the first has the map's own bias."""
        centred, sums = (self._free(f"{node.name}.{word}") for word in ("centred", "sums"))
        yield Node(centred, Scaling(np.ones(len(middle)), offset=-middle), node.inputs)
        last, *rest = pieces
        biased = [
            (start, stop, Dense(op.weight, rest[i - 1]) if 1 <= i < PIECES else op)
            for i, (start, stop, op) in enumerate(blocks)
        ]
        yield from self._tree(sums, (centred,), biased)
        yield Node(node.name, Scaling(np.ones(len(last)), offset=last), (sums,))

    def _grouped(self, node: Node, op: Convolution) -> Iterator[Node]:
        """A map of blocks is short as it is: only the shifts are taken out of its inputs. They are
        most of what is rounded: on mnist-net_256x4 errors in float32 fall by a factor of ten."""
        takes, gives = self.network.sizes[node.inputs[0]], self.network.sizes[node.name]
        spelled = op.vector and takes >= 2 * max(gives, self.tree.block) and not op.offsets.any()
        middle = self._centre(node) if spelled else None
        pieces = None if middle is None else _pieces(op, middle)
        if middle is None or pieces is None:
            yield node
            return
        first, second, third = pieces
        words = ("centred", "sums", "sum0")
        centred, sums, nearly = (self._free(f"{node.name}.{word}") for word in words)
        yield Node(centred, Scaling(np.ones(takes), offset=-middle), node.inputs)
        yield Node(sums, Convolution(op.kernel, op.geometry, third, op.groups), (centred,))
        yield Node(nearly, Scaling(np.ones(gives), offset=second), (sums,))
        yield Node(node.name, Scaling(np.ones(gives), offset=first), (nearly,))

    def _tree(self, value: str, inputs: tuple[str, ...], blocks: Blocks) -> Iterator[Node]:
        """The sum of the blocks, as the value of this name."""
        level = []
        for i, (start, stop, op) in enumerate(blocks):
            taken, part = (self._free(f"{value}.{word}{i}") for word in ("taken", "part"))
            yield Node(taken, Select(start, stop), inputs)
            yield Node(part, op, (taken,))
            level.append(part)
        yield from self._added(value, level)

    def _feeds_norm(self, node: Node) -> bool:
        return any(isinstance(user.op, Diagonal) for user in self.network.consumers(node.name))

    def _centre(self, node: Node) -> Vector | None:
        return centre(self.network, node) if self.centres is None else self.centres.get(node.name)

    def _added(self, value: str, level: list[str]) -> Iterator[Node]:
        """The sum of all these, a few at a time, the last one under the name `value`."""
        height = 0
        while len(level) > 1:
            step = self.tree.together
            groups = [tuple(level[i : i + step]) for i in range(0, len(level), step)]
            level = []
            for j, group in enumerate(groups):
                if len(group) == 1:
                    level.append(group[0])
                    continue
                name = f"{value}.sum{height}.{j}"
                level.append(value if len(groups) == 1 else self._free(name))
                yield Node(level[-1], Add(), group)
            height += 1

    def _free(self, name: str) -> str:
        """A name that no value has yet."""
        while name in self.names:
            name += "'"
        self.names.add(name)
        return name


def _pieces(op: Convolution, middle: Vector) -> tuple[Vector, ...] | None:
    """`M2 c` group by group, each in floats that are it exactly."""
    parts = zip(op.kernels, np.split(middle, op.groups), strict=True)
    found = [exact_pieces(kernel, part) for kernel, part in parts]
    if any(one is None for one in found):
        return None
    return tuple(np.concatenate(part) for part in zip(*(one for one in found if one), strict=True))


# --- trees --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SpelledSum:
    """A map from the value `source`, `columns` of it, in blocks: (first column, block).

    No product takes part in more than `roundings`, its own and that of a bias included. `nodes` are
    those of the tree but for its root.
    """

    source: str
    columns: int
    blocks: tuple[tuple[int, Mixing], ...]
    roundings: int
    nodes: frozenset[str]

    @property
    def biases(self) -> Array:
        """Those of all blocks, (blocks, rows)."""
        return np.stack([block.bias for _, block in self.blocks])

    @property
    def summands(self) -> int:
        return self.columns

    @property
    def largest(self) -> float:
        return max(block.largest for _, block in self.blocks)

    def absolute(self, reach: Array) -> Array:
        """|W| reach, in plain floats, blocks side by side."""
        parts = [b.absolute(reach[:, first : first + b.shape[1]]) for first, b in self.blocks]
        return np.asarray(np.sum(parts, axis=0))


def spelled_sums(network: Network, kept: Collection[str]) -> dict[str, SpelledSum]:
    """The trees of a network by the names of their roots; none of the values `kept` lies inside."""
    found: dict[str, SpelledSum] = {}
    inside: set[str] = set()
    for node in reversed(network.nodes):
        if len(node.inputs) > 1 and node.name not in inside:
            tree = _tree(network, node, kept)
            if tree is not None:
                found[node.name] = tree
                inside |= tree.nodes
    return found


def _tree(network: Network, root: Node, kept: Collection[str]) -> SpelledSum | None:
    """The tree that ends in a sum, if it is one over disjoint blocks of a single value."""
    found = list(_terms(network, root, 0, kept))
    terms = [term for term in found if term is not None]
    if len(terms) < len(found) or len({term.source for term in terms}) != 1:
        return None
    terms.sort(key=lambda term: term.first)
    if any(a.first + a.block.shape[1] > b.first for a, b in pairwise(terms)):
        return None
    source, most = terms[0].source, max(term.roundings for term in terms)
    nodes = frozenset(name for term in terms for name in term.nodes)
    blocks = tuple((term.first, term.block) for term in terms)
    return SpelledSum(source, network.sizes[source], blocks, most, nodes)


@dataclass(frozen=True, eq=False)
class _Term:
    """A block of a tree: the columns it takes, of which value, the roundings of its products in the
    end, and what is computed for it alone."""

    source: str
    first: int
    block: Mixing
    roundings: int
    nodes: tuple[str, ...]


def _terms(
    network: Network, node: Node, above: int, kept: Collection[str]
) -> Iterator[_Term | None]:
    """What a tree of sums adds up, each meeting so many roundings `above`; None for what is no
    block, or not computed for it alone."""
    more = above + len(node.inputs) - 1
    for name in node.inputs:
        child = _alone(network, name, kept)
        taken = None if child is None else _alone(network, child.inputs[0], kept)
        if child is None:
            yield None
        elif len(child.inputs) > 1:
            for term in _terms(network, child, more, kept):
                yield term and replace(term, nodes=(name, *term.nodes))
        else:
            yield _block(child, taken, more)


def _block(node: Node, taken: Node | None, above: int) -> _Term | None:
    """A map of units that were taken out of a value; None for anything else."""
    units = None if taken is None else getattr(taken.op, "block", None)
    if taken is None or units is None or not isinstance(node.op, Mixing) or node.op.positions > 1:
        return None
    count = node.op.shape[1] + int(node.op.bias.any()) + above
    return _Term(taken.inputs[0], units.start, node.op, count, (node.name, taken.name))


def _alone(network: Network, name: str, kept: Collection[str]) -> Node | None:
    """A node whose value serves one other and nothing else."""
    if name in (network.source, network.output) or name in kept:
        return None
    return network.node(name) if len(network.consumers(name)) == 1 else None
