"""Nodes of a network as what they must be, and the matrix that a Khatri-Rao system speaks of."""

from __future__ import annotations

from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Matrix, Mixing, Network, Norm


def mixing_at(network: Network, name: str | None) -> Mixing:
    """The map at a node that is known to be one."""
    op = network.node(name or "").op
    assert isinstance(op, Mixing)
    return op


def norm_at(network: Network, name: str) -> Norm:
    """The norm at a node that is known to be one."""
    op = network.node(name).op
    assert isinstance(op, Norm)
    return op


def activation_at(network: Network, name: str | None) -> Activation:
    """The activation at a node that is known to be one."""
    op = network.node(name or "").op
    assert isinstance(op, Activation)
    return op


def kernel_of(op: Mixing) -> Matrix:
    """The one kernel of a map: its matrix itself where every entry is a weight of its own."""
    kernels = op.kernels
    if len(kernels) != 1:
        raise UnsupportedError(
            f"a map of one group is needed here, but a {type(op).__name__} has {len(kernels)}; "
            f"each group is a system of its own"
        )
    return kernels[0]
