"""Errors of hidden units, followed with signs to the cut behind them, and on by their length.

Hidden units with errors ν, |ν_l| ≤ n_l, reach a cut as B ν, and what looks at the cut with the
coefficients c as c B ν. With G = B diag(n) Bᵀ, by Cauchy and Schwarz,

    |c B ν| ≤ Σ_l |(c B)_l| n_l ≤ √(Σ_l n_l) √(Σ_l n_l (c B)_l²) = √(Σ_l n_l · c G cᵀ).

What rounding does to B is at most γ_t times the product of absolute values on the way, t the terms
of all its sums; what it does to G and to c G cᵀ at most γ_{n+2m} times (Σ|c_i| √G_ii)², since
|G|_ij ≤ √(G_ii G_jj) for absolute values inside, too.

Rests on proofs_check: hidden-errors, accumulated-rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.arithmetic import UNIT, Floats
from proofs_check.certificates.chords import upper
from proofs_check.certificates.columns import BITS, columns_of
from proofs_check.certificates.forms import Forms
from reconstruct.networks import Node
from reconstruct.networks.maps import Diagonal, Mixing, Placement, Select
from reconstruct.networks.sums import Add

MOST_ENTRIES = 2**24  # of B
FLOOR = 2.0**-900  # more than products and sums lose below the smallest floats


@dataclass(frozen=True, eq=False)
class Behind:
    """B, its columns the units of inner activations one after the other, known to `slip` times the
    product of absolute values."""

    names: tuple[str, ...]
    matrix: Floats
    slip: float


def behind(forms: Forms, start: str, inner: set[str]) -> Behind | None:
    """B from the inner activations that `start` is affine in; None where there are none, where it
    is large, or where an operation on the way is not known here."""
    network = forms.network
    if network.sizes[start] ** 2 > MOST_ENTRIES:
        return None
    found, ends = {start: np.eye(network.sizes[start])}, dict[str, Floats]()
    terms = 16
    for node in reversed(network.nodes):
        if node.name not in found:
            continue
        rows = found.pop(node.name)
        if node.name in inner:
            ends[node.name] = rows
        elif node.name == start or node.name not in forms.sources:
            terms += 2 * (rows.shape[1] + network.sizes[node.name]) + 16
            if not _back(forms, node, rows, found):
                return None
    if not ends:
        return None
    return Behind(tuple(ends), np.concatenate(list(ends.values()), axis=1), 2 * terms * UNIT)


def _back(forms: Forms, node: Node, rows: Floats, found: dict[str, Floats]) -> bool:
    """Coefficients of a node as those of its inputs; false where that is not known."""
    op, sizes = node.op, forms.network.sizes
    for name in node.inputs:
        if len(rows) * sizes[name] > MOST_ENTRIES:
            return False
        into = found.setdefault(name, np.zeros((len(rows), sizes[name])))
        if isinstance(op, Select):
            into[:, op.start : op.start + rows.shape[1]] += rows
        elif isinstance(op, Placement):
            there = op.index >= 0
            np.add.at(into.T, op.index[there], rows[:, there].T)
        elif isinstance(op, Diagonal):
            scale, error = columns_of(op, None, BITS)[0].floats()
            if not np.all(error <= 8 * UNIT * np.abs(scale)):
                return False
            into += rows * scale
        elif isinstance(op, Mixing) and op.positions == 1 and math.prod(op.shape) <= MOST_ENTRIES:
            into += rows @ np.asarray(op.tile(0, op.shape[0]), dtype=np.float64)
        elif isinstance(op, Add):
            into += rows
        else:
            return False
    return True


@dataclass(frozen=True, eq=False)
class Hidden:
    """What is hidden in front of a cut, on one box for all or on each: `plain` (boxes, m, modes)
    through absolute values; G (boxes, m, m) and Σ n (boxes,) of each mode."""

    plain: Floats
    grams: tuple[Floats, ...]
    totals: tuple[Floats, ...]
    slip: float

    @classmethod
    def of(cls, known: Behind, plain: Floats, noises: list[dict[str, Floats]]) -> Hidden:
        """`noises` by inner activation, for each mode; where not all are told there is nothing but
        `plain`."""
        m, n = known.matrix.shape
        grams, totals = [], []
        for noise in noises:
            each = np.zeros((1, n))
            if all(name in noise for name in known.names):
                each = _beside([noise[name] for name in known.names])
            grams.append(np.stack([(known.matrix * row) @ known.matrix.T for row in each]))
            totals.append(upper(each.sum(axis=1)))
        return cls(plain, tuple(grams), tuple(totals), 8 * (n + 2 * m + 64) * UNIT)

    def late(self, known: Behind) -> Floats:
        """What B is not known to, as noise in front of the cut."""
        most = np.array([float(total.max()) for total in self.totals])
        return upper(known.slip * self.plain + FLOOR * most)

    def part(self, rows: slice) -> Hidden:
        def some(values: Floats) -> Floats:
            return values if len(values) == 1 else values[rows]

        grams, totals = (tuple(map(some, part)) for part in (self.grams, self.totals))
        return Hidden(some(self.plain), grams, totals, self.slip)

    def most(self) -> Floats:
        """At least |B ν|, and at least √(Σn G_ii), row by row, (boxes, m, modes)."""
        diagonals = [np.diagonal(gram, axis1=1, axis2=2) for gram in self.grams]
        lengths = [
            upper(np.sqrt(total)[:, None] * np.sqrt(diagonal + FLOOR))
            for diagonal, total in zip(diagonals, self.totals, strict=True)
        ]
        return np.asarray(np.maximum(self.plain, np.stack(np.broadcast_arrays(*lengths), axis=2)))

    def reached(self, c: Floats) -> Floats:
        """|c B ν| for coefficients (boxes, rows, m): (boxes, rows, modes), the less of two ways."""
        found: Floats = np.asarray(np.abs(c) @ self.plain)
        for mode, (gram, total) in enumerate(zip(self.grams, self.totals, strict=True)):
            if total.any():
                square = np.maximum(((c @ gram) * c).sum(axis=2), 0.0)
                roots = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
                sizes = (np.abs(c) @ roots[..., None])[..., 0]
                least = FLOOR * (1.0 + (c * c).sum(axis=2))
                length = np.sqrt(square + self.slip * sizes**2 + least)
                own = upper(np.sqrt(total)[:, None] * length)
                found[..., mode] = np.fmin(found[..., mode], own)
        return found


def _beside(parts: list[Floats]) -> Floats:
    """Values (boxes, units) one beside the other; one box stands for all."""
    boxes = max(len(part) for part in parts)
    spread = [np.broadcast_to(part, (boxes, part.shape[1])) for part in parts]
    return np.concatenate(spread, axis=1)
