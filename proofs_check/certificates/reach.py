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
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from proofs_check.certificates import reading
from proofs_check.certificates.affine import Forms
from proofs_check.certificates.rationals import Interval, columns_of
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import Box, Network
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Dense, Map, Norm, Sparse
from reconstruct.networks.operation import Operation

LONGEST = 2**18  # hexadecimal digits of one entry of Y

Matrix = npt.NDArray[np.object_]  # of fractions


def _hexadecimal(value: reading.Json, field: str) -> int:
    digits = reading.text(value, field)
    try:
        if len(digits) > LONGEST:
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise CheckFailed(field, "a whole number in hexadecimal is needed") from None


_entry = reading.row(
    "row, column and a whole number in hexadecimal", reading.whole, reading.whole, _hexadecimal
)


class ReachClaim(NamedTuple):
    """A lower bound, and the entries (i, j, Y_ij) of Y that are not 0."""

    bound: Annotated[float, reading.number]
    dual: Annotated[tuple[tuple[int, int, int], ...], reading.many(_entry)]
    domain: Annotated[tuple[Box, ...], reading.as_domain]


def prove_reach(document: Mapping[str, reading.Json], target: Network, frozen: Network) -> str:
    """The sentence that was proved, or the field that fails."""
    claim = reading.built(ReachClaim, "schema target candidate digest")(dict(document), "")
    bound, boxes = Fraction(claim.bound), claim.domain
    W, (M1, M2, c) = _affine(target), _site(frozen)
    if W.shape != (len(M2), M1.shape[1]):
        m, k = W.shape
        raise CheckFailed("candidate", f"the target is {m}×{k}, but the frozen maps are not")
    if len(boxes) != 1 or boxes[0].size != W.shape[1]:
        raise CheckFailed("domain", f"one box of {W.shape[1]} inputs is needed")
    r = [(Fraction(hi) - Fraction(lo)) / 2 for lo, hi in zip(boxes[0].lo, boxes[0].hi, strict=True)]
    places = [(i, j) for i, j, _ in claim.dual]
    for i, j in places:
        if not (0 <= i < len(W) and 0 <= j < len(r) and r[j] > 0):
            raise CheckFailed("dual", f"there is no entry {i!r}, {j!r} of an input with width")
    if len(set(places)) < len(places):
        raise CheckFailed("dual", "an entry stands there twice")
    off = sum(
        (y * M2[i] * M1[:, j] for i, j, y in claim.dual), np.array([0] * len(M1), dtype=object)
    )
    if off.any():
        what = f"Y is not orthogonal to what hidden unit {np.flatnonzero(off)[0]} can do"
        raise CheckFailed("dual", what)
    # |Σ c_i Σ_j Y_ij W_ij| / Σ |c_i| |Y_ij|/r_j at least; 0 for Y = 0
    low = high = size = Fraction(0)
    for i, (least, most) in enumerate(c):
        part = sum((y * W[i, j] for above, j, y in claim.dual if above == i), Fraction(0))
        low, high = low + min(least * part, most * part), high + max(least * part, most * part)
        row_size = sum((abs(y) / r[j] for above, j, y in claim.dual if above == i), Fraction(0))
        size += max(abs(least), abs(most)) * row_size
    proved = max(low, -high, Fraction(0)) / size if size else Fraction(0)
    if not 0 <= bound <= proved:
        raise CheckFailed("bound", f"{float(bound)} is claimed, but only {float(proved)} follows")
    if document.get("digest") != reading.digest(document):
        raise CheckFailed("digest", "the certificate was changed after it was written")
    if bound == 0:
        return "nothing is excluded, and nothing is claimed"
    return (
        f"no γ, β of the {len(M1)} hidden units, and no β behind them, bring |f − g| below "
        f"{float(bound):.4g} on the domain"
    )


def _affine(target: Network) -> Matrix:
    """W of maps alone."""
    for node in target.nodes:
        if not isinstance(node.op, Map):
            raise CheckFailed("target", f"the target must be affine, but has {node.op.kind}")
    form = Forms(target, {target.source: target.source}).whole(target.output)
    found = np.full((form.rows, target.size_in), Fraction(0), dtype=object)
    for view, part in form.parts():
        found[:, view.index[:, 0]] = form.fractions()[:, part]
    return found


def _site(frozen: Network) -> tuple[Matrix, Matrix, list[Interval]]:
    """M1, M2 and the interval of √(v + ε)/γ: linear, [norm], activation, [norm], linear, [norm]."""
    last, ops = frozen.source, list[Operation]()
    for node in frozen.nodes:
        if node.inputs != (last,):
            raise NotCheckable("the candidate is not made of layers in a row")
        ops.append(node.op)
        last = node.name
    if last != frozen.output:
        raise NotCheckable("the candidate has layers behind its output")
    linear = [i for i, op in enumerate(ops) if isinstance(op, Dense | Sparse)]
    bends = [i for i, op in enumerate(ops) if isinstance(op, Unitwise)]
    norms = [i for i, op in enumerate(ops) if isinstance(op, Norm)]
    shape = len(linear) == 2 and len(bends) == 1 and len(ops) == 3 + len(norms)
    if not shape or not 0 == linear[0] < bends[0] < linear[1]:
        raise CheckFailed("candidate", "one activation between two linear layers is needed")
    M1, M2 = (
        np.array([list(map(Fraction, line)) for line in op.tile(0, op.shape[0]).tolist()])
        for op in ops
        if isinstance(op, Dense | Sparse)
    )
    c: list[Interval] = [(Fraction(1), Fraction(1))] * len(M2)
    for op in ops[linear[1] :]:
        if isinstance(op, Norm):
            scales = columns_of(op)[0].intervals()
            if len(scales) != len(M2) or any(low <= 0 <= high for low, high in scales):
                raise CheckFailed("candidate", "the last norm needs a scale ≠ 0 for each output")
            ends = [
                [x / s for x in past for s in scale] for past, scale in zip(c, scales, strict=True)
            ]
            c = [(min(four), max(four)) for four in ends]
    return M1, M2, c
