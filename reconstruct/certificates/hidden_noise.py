"""Errors that come together at hidden units, and go on from there with their signs.

The errors ν, |ν_l| ≤ n_l, of the hidden units of a site reach the cut behind it as B ν, B the
signed map between them, and from there the output as c B ν. Through absolute values that is at most
|c||B| n; but B has random signs, and by the inequality of Cauchy and Schwarz

    |c B ν| ≤ Σ_l |c b_l| n_l ≤ √(Σ_l n_l) · √(c G cᵀ),      G = B diag(n) Bᵀ,

which is below it by about the root of the number of rows, and takes no more than a small matrix.

Rests on proofs_check: hidden-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reconstruct.networks import Map, Network, Node
from reconstruct.networks.spelled import SpelledSum, spelled_sums
from reconstruct.numbers.double_double import UNIT, Array, upward

MOST_ENTRIES = 2**24  # of a signed map: 128 MiB
FLOOR = 2.0**-900  # above what sums of products lose by underflow, and far below all that counts


@dataclass(frozen=True, eq=False)
class Behind:
    """The signed map (m × n) from the inner activations `names`, in their order, to a cut.

    It is rounded: by at most `doubt` times the product of absolute values on the way.
    """

    names: tuple[str, ...]
    matrix: Array
    doubt: float

    def noise(self, noises: Mapping[str, Array]) -> Array | None:
        """Errors of the activations as one array, (boxes, n); None where they are not all told."""
        if not all(name in noises for name in self.names):
            return None
        boxes = max(len(noises[name]) for name in self.names)
        each = [noises[name] for name in self.names]
        each = [np.broadcast_to(noise, (boxes, noise.shape[1])) for noise in each]
        return np.concatenate(each, axis=1)


def behind(
    network: Network, start: str, inner: Collection[str], cuts: Collection[str]
) -> Behind | None:
    """The map to the value `start` from the `inner` activations that it is affine in, behind the
    `cuts` before it; None where there are none, or where it is an image or too large."""
    if network.sizes[start] ** 2 > MOST_ENTRIES:
        return None
    trees = spelled_sums(network, {*inner, *cuts, start})
    found = {start: np.eye(network.sizes[start])}
    terms = 8
    ends: dict[str, Array] = {}
    for node in reversed(network.nodes):
        rows = found.pop(node.name, None)
        if rows is None:
            continue
        if node.name in inner:
            ends[node.name] = rows
        if node.name in inner or (node.name in cuts and node.name != start):
            continue
        bends = len(node.inputs) == 1 and not isinstance(node.op, Map)
        tree = trees.get(node.name)
        sources = node.inputs if tree is None else (tree.source,)
        widest = max(network.sizes[name] for name in sources)
        if bends or getattr(node.op, "positions", 1) > 1 or len(rows) * widest > MOST_ENTRIES:
            return None
        terms += rows.shape[1] + len(network.consumers(node.name)) + 4
        for name, pulled in _pulled(network, node, rows, tree):
            found[name] = found[name] + pulled if name in found else pulled
    if not ends:
        return None
    return Behind(tuple(ends), np.concatenate(list(ends.values()), axis=1), 2 * terms * UNIT)


def _pulled(
    network: Network, node: Node, rows: Array, tree: SpelledSum | None
) -> Iterator[tuple[str, Array]]:
    """Coefficients of a node's value as coefficients of its inputs, or of those of a tree."""
    if tree is not None:
        yield tree.source, rows @ tree.tile(0, tree.rows)
        return
    for name in node.inputs:
        pull = getattr(node.op, "pull", None)  # a sum has none
        yield name, rows if pull is None else pull(rows, network.sizes[name])


def _weighted_gram(matrix: Array, weights: Array) -> Array:
    """`B diag(n) Bᵀ`; inf throughout where it is beyond the floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        gram = (matrix * weights) @ matrix.T
    return gram if np.isfinite(gram).all() else np.full_like(gram, np.inf)


@dataclass(frozen=True, eq=False)
class Hidden:
    """What is hidden in front of a cut in several `modes`: through absolute values, `plain`
    (1 or boxes, m, modes), and G (modes, m, m), Σ n (modes,), and at most which share of n there is
    on each box, (1 or boxes, modes)."""

    plain: Array
    gram: Array
    total: Array
    share: Array
    doubt: float  # by how much G is rounded, relative to √(G_ii G_jj), and products with it
    rounded: Array  # what the map from there was not known to, like `plain`

    @classmethod
    def of(cls, behind: Behind, plain: Array, noises: Sequence[Array | None]) -> Hidden:
        """From the errors of the hidden units, (boxes, n), mode by mode (None: there are none)."""
        m, n = behind.matrix.shape
        gram, total = np.zeros((len(noises), m, m)), np.zeros(len(noises))
        share = np.zeros((len(plain), len(noises)))
        for mode, noise in enumerate(noises):
            if noise is not None:
                worst = upward(noise.max(axis=0))
                gram[mode] = _weighted_gram(behind.matrix, worst)
                total[mode] = upward(worst.sum())
                with np.errstate(invalid="ignore"):
                    shares = upward(np.max(noise / worst, axis=1))
                share[:, mode] = np.where(np.isnan(shares), 1.0, shares)  # inf of inf: all of it
        rounded = upward(behind.doubt * plain + FLOOR * total)
        return cls(plain, gram, total, share, 8 * (n + 2 * m + 64) * UNIT, rounded)

    def part(self, rows: slice) -> Hidden:
        """The same on some boxes."""
        if len(self.plain) == 1:
            return self
        return replace(self, plain=self.plain[rows], share=self.share[rows])

    @property
    def most(self) -> Array:
        """No less than what arrives at each row, whichever way it goes on: √(Σn · G_ii) or more."""
        sizes = np.sqrt(np.diagonal(self.gram, axis1=1, axis2=2) + FLOOR)
        length = upward(np.sqrt(self.total)[:, None] * sizes).T
        return np.maximum(self.plain, upward(self.share[:, None, :] * length))

    def reached(self, coefficients: Array) -> Array:
        """Bounds of |c B ν|, (boxes, rows, modes), for c (boxes, rows, m): through absolute values
        or by lengths, whichever is less."""
        boxes, rows, m = coefficients.shape
        found: Array = np.matmul(np.abs(coefficients), self.plain)
        flat = coefficients.reshape(-1, m)
        for mode in np.flatnonzero(self.total):
            gram = self.gram[mode]
            if not np.isfinite(gram).all():
                continue
            squares = np.sum((flat @ gram) * flat, axis=1)
            sizes = np.abs(flat) @ np.sqrt(np.diagonal(gram))
            least = FLOOR * (1.0 + np.sum(flat * flat, axis=1))
            length = np.sqrt(np.maximum(squares, 0.0) + self.doubt * sizes**2 + least)
            reached = upward(np.sqrt(self.total[mode]) * length).reshape(boxes, rows)
            shared = upward(self.share[:, mode, None] * reached)
            found[..., mode] = np.fmin(found[..., mode], shared)
        return found
