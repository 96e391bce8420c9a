"""Interval arithmetic, node by node, on many boxes at once: bounds have shape (boxes, size).

Rests on proofs_check: active-relu-is-identity.
"""

from __future__ import annotations

from reconstruct.networks import Activation, Add, Dense, Map, MatrixProduct, Operation, Sparse
from reconstruct.numbers.arrays import Array, Matrix, Range


def image(op: Operation, *inputs: Range) -> Range:
    """Bounds of what `op` gives for inputs within their bounds: each says its own."""
    if isinstance(op, Add | MatrixProduct):
        return op.image(*inputs)
    assert isinstance(op, Map | Activation)
    return op.image(*inputs[0])


def affine(weight: Matrix, bias: Array, lo: Array, hi: Array) -> Range:
    """Bounds of `W h + b` for `lo ≤ h ≤ hi`, W dense or sparse."""
    made = Dense.over(weight, bias) if not hasattr(weight, "tocsr") else Sparse(weight, bias)
    return made.image(lo, hi)
