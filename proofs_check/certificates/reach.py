"""A certificate of `reach`: a lower bound that no γ, β of two frozen layers pass, proved again.

The document gives integers Y. With M1, M2 and W read from the files, c_i = √(v_i + ε)/γ_i of the
last norm (1 without one), r the half-widths of the domain, it has to hold that

    Σ_ij Y_ij M2_il M1_lj = 0 for each hidden unit l,        by ==,
    bound · Σ |Y_ij| |c_i| / r_j ≤ |Σ Y_ij c_i W_ij|         in rationals, c enclosed outward.

Rests on the statement averaged-derivatives; nothing of it is told by the document but Y.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from proofs_check.certificates.rationals import BITS, Interval, root
from proofs_check.certificates.reading import (
    Fields,
    Json,
    as_domain,
    as_list,
    digest,
    many,
    number,
    text,
    whole,
)
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import Network
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Dense, Norm, Sparse
from reconstruct.networks.operation import Operation

LONGEST = 2**18  # hexadecimal digits of one entry of Y

Matrix = list[list[Fraction]]
Dual = dict[tuple[int, int], int]


def prove_reach(document: Mapping[str, Json], target: Network, frozen: Network) -> str:
    """The sentence that was proved, or the field that fails."""
    take = Fields(dict(document), "", "schema target candidate digest")
    bound, entries = Fraction(take("bound", number)), take("dual", many(_entry))
    boxes = take("domain", as_domain)
    take.end()
    W, (M1, M2, c) = _affine(target), _site(frozen)
    m, k = len(W), len(W[0])
    if (m, k) != (len(M2), len(M1[0])):
        raise CheckFailed("candidate", f"the target is {m}×{k}, but the frozen maps are not")
    if len(boxes) != 1 or boxes[0].size != k:
        raise CheckFailed("domain", f"one box of {k} inputs is needed")
    ends = zip(boxes[0].lo.tolist(), boxes[0].hi.tolist(), strict=True)
    r = [(Fraction(high) - Fraction(low)) / 2 for low, high in ends]
    Y = _dual(entries, m, [j for j in range(k) if r[j] > 0])
    for unit, row in enumerate(M1):
        if sum(value * M2[i][unit] * row[j] for (i, j), value in Y.items()) != 0:
            raise CheckFailed("dual", f"Y is not orthogonal to what hidden unit {unit} can do")
    proved = _proved(Y, W, r, c)
    if not 0 <= bound <= proved:
        raise CheckFailed("bound", f"{float(bound)} is claimed, but only {float(proved)} follows")
    if document.get("digest") != digest(document):
        raise CheckFailed("digest", "the certificate was changed after it was written")
    if bound == 0:
        return "nothing is excluded, and nothing is claimed"
    return (
        f"no γ, β of the {len(M1)} hidden units, and no β behind them, bring |f − g| below "
        f"{float(bound):.4g} on the domain"
    )


def _proved(Y: Dual, W: Matrix, r: list[Fraction], c: list[Interval]) -> Fraction:
    """|Σ c_i Σ_j Y_ij W_ij| / Σ |c_i| |Y_ij|/r_j at least; 0 for Y = 0."""
    low = high = size = Fraction(0)
    for i, (least, most) in enumerate(c):
        row = {j: value for (above, j), value in Y.items() if above == i}
        part = sum((value * W[i][j] for j, value in row.items()), Fraction(0))
        low += min(least * part, most * part)
        high += max(least * part, most * part)
        size += max(abs(least), abs(most)) * sum(abs(value) / r[j] for j, value in row.items())
    return max(low, -high, Fraction(0)) / size if size else Fraction(0)


def _dual(entries: tuple[tuple[int, int, int], ...], rows: int, columns: list[int]) -> Dual:
    """Y by its entries that are not 0; inputs without width take no part."""
    found: Dual = {}
    for i, j, value in entries:
        if not 0 <= i < rows or j not in columns:
            raise CheckFailed("dual", f"there is no entry {i!r}, {j!r} of an input with width")
        if (i, j) in found:
            raise CheckFailed("dual", f"entry {i}, {j} stands there twice")
        found[i, j] = value
    return found


def _entry(value: Json, field: str) -> tuple[int, int, int]:
    row = as_list(value, field)
    if len(row) != 3:
        raise CheckFailed(field, "row, column and a whole number in hexadecimal are needed")
    digits = text(row[2], field)
    try:
        if len(digits) > LONGEST:
            raise ValueError
        return whole(row[0], field), whole(row[1], field), int(digits, 16)
    except ValueError:
        raise CheckFailed(field, "a whole number in hexadecimal is needed") from None


def _straight(network: Network, field: str) -> list[Operation]:
    """The operations of a network whose nodes follow one another; the last is its output."""
    last, found = network.source, []
    for node in network.nodes:
        if node.inputs != (last,):
            raise NotCheckable(f"the {field} is not made of layers in a row")
        found.append(node.op)
        last = node.name
    if last != network.output:
        raise NotCheckable(f"the {field} has layers behind its output")
    return found


def _matrix(op: Dense | Sparse) -> Matrix:
    weight = op.weight if isinstance(op, Dense) else op.weight.toarray()
    return [[Fraction(x) for x in row] for row in np.asarray(weight, dtype=np.float64).tolist()]


def _affine(target: Network) -> Matrix:
    """W of linear layers alone."""
    found: Matrix | None = None
    for op in _straight(target, "target"):
        if not isinstance(op, Dense | Sparse):
            raise CheckFailed("target", f"the target must be affine, but has {op.kind}")
        layer = _matrix(op)
        found = layer if found is None else (np.array(layer) @ np.array(found)).tolist()
    if found is None:
        raise CheckFailed("target", "the target has no layer")
    return found


def _site(frozen: Network) -> tuple[Matrix, Matrix, list[Interval]]:
    """M1, M2 and the interval of √(v + ε)/γ: linear, [norm], activation, [norm], linear, [norm]."""
    ops = _straight(frozen, "candidate")
    linear = [i for i, op in enumerate(ops) if isinstance(op, Dense | Sparse)]
    bends = [i for i, op in enumerate(ops) if isinstance(op, Unitwise)]
    norms = [i for i, op in enumerate(ops) if isinstance(op, Norm)]
    shape = len(linear) == 2 and len(bends) == 1 and len(ops) == 3 + len(norms)
    if not shape or not 0 == linear[0] < bends[0] < linear[1]:
        raise CheckFailed("candidate", "one activation between two linear layers is needed")
    M1, M2 = (_matrix(op) for op in ops if isinstance(op, Dense | Sparse))
    c: list[Interval] = [(Fraction(1), Fraction(1))] * len(M2)
    for op in ops[linear[1] :]:
        if isinstance(op, Norm):
            if len(op.gamma) != len(M2) or not np.all(op.gamma):
                raise CheckFailed("candidate", "the last norm needs a scale ≠ 0 for each output")
            pairs = zip(c, op.gamma.tolist(), op.var.tolist(), strict=True)
            c = [_times(past, _inverse(gamma, var, op.eps)) for past, gamma, var in pairs]
    return M1, M2, c


def _inverse(gamma: float, var: float, eps: float) -> Interval:
    """Rationals around √(var + eps)/gamma, equal where the root is rational."""
    ends = [end / Fraction(gamma) for end in root(Fraction(var) + Fraction(eps), BITS)]
    return min(ends), max(ends)


def _times(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)
