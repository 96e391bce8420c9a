"""Nodes of a network as what they must be, and the matrix that a Khatri-Rao system speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Activation, Affine, Convolution, Matrix, Mixing, Network, Norm

if TYPE_CHECKING:
    from reconstruct.constructions.sites import Site


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


def group_at(network: Network, name: str | None, group: int) -> Mixing:
    """One group of the map at a node, as a matrix on its patches; the map itself if it is all."""
    op = mixing_at(network, name)
    count = len(op.kernels)
    if count == 1:
        return op
    return Affine(op.kernels[group], np.split(op.channel_bias, count)[group])


def norm_group(network: Network, name: str, group: int, count: int) -> Norm:
    """The norm at a node on the channels of one group of `count`."""
    norm = norm_at(network, name)
    each = norm.channels // count
    return norm.hidden(group * each, (group + 1) * each)


def check_geometry(op: Mixing, frozen: Network, site: Site, where: str) -> None:
    """Refuse frozen convolutions that do not move over the image as the target's does.

    Those that take in the site's input must have its geometry; those that carry a layer on must
    take pixel by pixel, because a pad would cut off the shift at the border.
    """
    if not isinstance(op, Convolution):
        return
    for layer in site.layers:
        entry = mixing_at(frozen, layer.entry) if layer.entry else None
        if entry is not None and (
            not isinstance(entry, Convolution)
            or (entry.geometry, entry.groups) != (op.geometry, op.groups)
        ):
            raise InputError(
                f"{where} needs a frozen convolution that moves as the target's does, {_moves(op)}"
                f", but the frozen network has {_moves(entry)}; give it this geometry"
            )
        carry = mixing_at(frozen, layer.carry) if layer.carry else None
        if carry is not None and not (isinstance(carry, Convolution) and carry.geometry.plain):
            raise InputError(
                f"{where} needs a 1×1 convolution without padding behind the first one: a pad "
                f"would cut off the shift at the border; replace it in the frozen network"
            )


def _moves(op: Mixing) -> str:
    """How the map moves over the image, if it does."""
    geometry, groups = getattr(op, "geometry", None), getattr(op, "groups", 1)
    if geometry is None:
        return f"a {type(op).__name__} map of {op.shape[0]}×{op.shape[1]}"
    return f"{geometry} in {groups} group{'s' if groups > 1 else ''}"


def kernel_of(op: Mixing) -> Matrix:
    """The one kernel of a map: its matrix itself where every entry is a weight of its own."""
    kernels = op.kernels
    if len(kernels) != 1:
        raise UnsupportedError(
            f"a map of one group is needed here, but a {type(op).__name__} has {len(kernels)}; use "
            f"--construction wide, where each group is a system of its own"
        )
    return kernels[0]
