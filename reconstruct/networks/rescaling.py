"""Scaling hidden units by powers of two, which changes neither the function nor a bit of it.

A line through the origin on either side of 0 is positively homogeneous, f(2^e z) = 2^e f(z). So a
unit's row of weights may be multiplied by 2^e, if its column in every map that follows is divided
by it. In real arithmetic that is the same network; products with powers of two are exact in floats
too, unless one of them over- or underflows, which is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.activations import Kink
from reconstruct.networks.domain import Domain
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Affine, Dense, Mixing, Sparse
from reconstruct.numbers.arrays import Array, Matrix


def probe_points(box: Domain) -> Array:
    """Inputs at which the scales of units are read off: a hint, so that a few will do."""
    return box.sample(32, np.random.default_rng(20240520))


def informative(values: Array) -> Array:
    """The units whose values at these inputs, as rows, tell their scale: they are not all zero.

    Units of other scale would go unnoticed, so that nobody scales those that tell nothing. Values
    below 2^-30 of the largest unit's may be nothing but rounding.
    """
    with np.errstate(all="ignore"):
        sizes = np.linalg.norm(values, axis=0)
        return np.asarray(sizes > 2.0**-30 * np.max(sizes, initial=0.0))


def scalable(network: Network) -> tuple[Node, ...]:
    """The activations whose units can be scaled: an affine map before, nothing but such behind."""
    return tuple(node for node in network.activation_nodes() if _free(network, node))


def _free(network: Network, node: Node) -> bool:
    if not isinstance(node.op, Kink) or node.inputs[0] == network.source:
        return False
    before, after = network.node(node.inputs[0]), network.consumers(node.name)
    ends = network.output in (node.name, before.name)
    lonely = len(network.consumers(before.name)) == 1
    plain = all(isinstance(n.op, Dense | Sparse) for n in (before, *after))  # as checkers take it
    return plain and lonely and bool(after) and not ends


def rescaled(network: Network, exponents: Mapping[str, Array]) -> Network:
    """The same function, unit j of the activation `name` scaled by 2^exponents[name][j]."""
    free = {node.name: node for node in scalable(network)}
    ops: dict[str, Mixing] = {}
    for name, powers in exponents.items():
        if name not in free or np.shape(powers) != (network.sizes[name],):
            raise InputError(
                f"units of {name!r} cannot be scaled by {np.shape(powers)} powers of two: that "
                f"needs an activation between affine maps, and one power for each of its units"
            )
        factor = np.ldexp(1.0, np.asarray(powers, dtype=np.int64))
        before = free[name].inputs[0]
        ops[before] = _scaled(_op(network, before, ops), factor, None, name)
        for node in network.consumers(name):
            ops[node.name] = _scaled(_op(network, node.name, ops), None, 1.0 / factor, name)
    return network.with_ops(ops)


def _op(network: Network, name: str, ops: Mapping[str, Mixing]) -> Mixing:
    op = ops.get(name, network.node(name).op)
    assert isinstance(op, Mixing)
    return op


def _scaled(op: Mixing, rows: Array | None, columns: Array | None, name: str) -> Mixing:
    """`diag(rows) W diag(columns)` and `diag(rows) b`, refused where a product is not exact."""
    m, k = op.shape
    left = np.ones(m) if rows is None else rows
    right = np.ones(k) if columns is None else columns
    weight = _times(op.matrix, left, right)
    with np.errstate(all="ignore"):
        bias = op.bias * left
        back = _times(weight, 1.0 / left, 1.0 / right)
    if not (_same(back, op.matrix) and np.array_equal(bias / left, op.bias)):
        raise InputError(
            f"units of {name!r} cannot be scaled by these powers of two: a weight or a bias would "
            f"leave the range of its floats; take smaller powers"
        )
    return Affine(weight, bias)


def _times(weight: Matrix, left: Array, right: Array) -> Matrix:
    """Products in the weight's own precision, so that what is lost there is seen."""
    with np.errstate(all="ignore"):
        if sparse.issparse(weight):
            rows = sparse.diags_array(left) @ weight @ sparse.diags_array(right)
            return sparse.csr_array(rows.astype(weight.dtype))
        return np.asarray((weight * left[:, None] * right).astype(weight.dtype))


def _same(first: Matrix, second: Matrix) -> bool:
    if sparse.issparse(first):
        return bool((first != second).nnz == 0)
    return bool(np.array_equal(first, second))
