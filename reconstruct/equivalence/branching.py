"""Where to cut a box: a guess at which coordinate makes the linear bounds loose. Numerical."""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.propagation import Ranges
from reconstruct.networks import Unitwise
from reconstruct.networks.gradients import adjoints
from reconstruct.numbers.arrays import Array

DRAWS = 3


def looseness(state: Ranges, outputs: Array) -> Array:
    """Per box and coordinate, how much of the gap of the bounds comes from the coordinate's width.

    An undecided unit with input z in [l, u] loses about |Λ|·|l|u/(u − l), Λ the sensitivity of
    the output that matters (`outputs`, one per box) to it; that loss falls with the range of z,
    of which coordinate i makes up |∂z/∂x_i|·width_i. The sum over units is estimated, as a root
    of mean squares, by reverse passes with random signs.
    """
    network = state.network
    lo, hi = state.values[network.source]
    width = 0.5 * hi - 0.5 * lo
    with np.errstate(all="ignore"):
        values = network.values(0.5 * lo + 0.5 * hi)
        first = np.zeros((len(lo), network.size_out))
        first[np.arange(len(lo)), outputs] = 1.0
        sensitivity = adjoints(network, values, {network.output: first})
        losses = _losses(state, sensitivity)
        total = np.zeros_like(width)
        rng = np.random.default_rng(0)
        for _ in range(DRAWS if losses else 0):
            seeds = {
                n: rng.choice([-1.0, 1.0], size=loss.shape) * loss for n, loss in losses.items()
            }
            total += adjoints(network, values, seeds).get(network.source, 0.0) ** 2
        straight = np.abs(sensitivity.get(network.source, np.zeros_like(width)))
        found = np.nan_to_num(np.sqrt(total) * width, nan=0.0, posinf=0.0)
        plain = np.nan_to_num(straight * width, nan=0.0, posinf=0.0)
    return _with_width(np.where(found.max(axis=1, keepdims=True) > 0, found, plain), width)


def _losses(state: Ranges, sensitivity: dict[str, Array]) -> dict[str, Array]:
    """For each value that an activation takes: what its undecided units lose, times the range."""
    losses = {}
    for node in state.network.nodes:
        if not isinstance(node.op, Unitwise) or node.name not in sensitivity:
            continue
        lo, hi = state.values[node.inputs[0]]
        bent = ~node.op.straight(lo, hi)
        if bent.any() and node.inputs[0] != state.network.source:
            losses[node.inputs[0]] = np.abs(sensitivity[node.name]) * bent
    return losses


def _with_width(influence: Array, width: Array) -> Array:
    """A little for every width, so that no coordinate is forgotten; less than 0 for none."""
    top = influence.max(axis=1, keepdims=True, initial=0.0)
    share = width / np.maximum(width.max(axis=1, keepdims=True, initial=0.0), 1e-300)
    return np.where(width > 0, influence + (1e-2 * top + 1e-300) * share, -1.0)
