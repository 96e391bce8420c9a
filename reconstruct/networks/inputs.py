"""Inputs that callers hand to a network: one point, rows, or images; anything else is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps import Geometry
from reconstruct.networks.points import Domain, DomainLike, as_domain, sized
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import numbers, precision

if TYPE_CHECKING:
    from reconstruct.networks.graph import Network

IMAGE = 4  # axes of a batch of images


def input_shape(network: Network) -> tuple[int, ...]:
    """The shape of one input: an image where the network begins with an operation on images."""
    for node in network.consumers(network.source):
        geometry = getattr(node.op, "geometry", None)
        if isinstance(geometry, Geometry):
            return geometry.channels, geometry.height, geometry.width
    stated = tuple(network.metadata.get("input_shape") or ())
    if len(stated) == IMAGE and stated[0] == 1 and math.prod(stated) == network.size_in:
        return stated[1:]
    return (network.size_in,)


def fitting(domain: DomainLike, network: Network) -> Domain:
    """The domain for this network: a cube is spread, data must have the shape that it takes."""
    return as_domain(domain).of_size(network.size_in, input_shape(network))


def require_same_ends(target: Network, candidate: Network) -> None:
    """Refuses two networks that take or give different numbers of values."""
    ends = [(n.size_in, n.size_out) for n in (target, candidate)]
    if ends[0] != ends[1]:
        named = zip(("target", "candidate"), (target, candidate), strict=True)
        sizes = (
            f"the {role} {n.metadata.get('file', '')} has {n.size_in} and {n.size_out}"
            for role, n in named
        )
        raise InputError(
            f"two networks can be compared only with equally many inputs and outputs, but "
            f"{' '.join(', '.join(sizes).split())}; check that they belong together"
        )


def as_points(x: ArrayLike, dtype: Any = np.float64) -> Array:
    """The inputs as an array of float32 or float64 numbers, in the axes in which they came."""
    return numbers(x, "inputs", precision(dtype, "a network is evaluated"))


def as_rows(network: Network, points: Array) -> Array:
    """One row for each input; the axes of images behind the first are flattened."""
    count = network.size_in
    if points.ndim < 2 and points.size == count:
        return points.reshape(1, count)
    if points.ndim < 2 or math.prod(points.shape[1:]) != count:
        raise InputError(_unfit(network, points.shape))
    wanted = input_shape(network)
    if len(wanted) > 1 and points.ndim == len(wanted) + 1 and points.shape[1:] != wanted:
        raise InputError(_unfit(network, points.shape))
    return points.reshape(len(points), count)


def _unfit(network: Network, shape: tuple[int, ...]) -> str:
    wanted = input_shape(network)
    kind = f"images of {sized(wanted)}, channels first," if len(wanted) > 1 else "inputs"
    return (
        f"the network takes {kind} of {network.size_in} numbers, but got an array of shape "
        f"{shape}; give ({network.size_in},) for one input, or N×{sized(wanted)}"
    )
