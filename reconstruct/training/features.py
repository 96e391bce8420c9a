"""The features that training leaves: their γ, which are near zero, and what those are worth.

A feature is one channel behind a norm, `γ ∘ (z − μ)/√(v + ε) + β`. With γ = 0 it is a constant:
switched off.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reconstruct.bridge.norms import norm_layers

SMALL = 0.01  # |γ| below this counts as near zero, as in the paper
Vector = NDArray[np.float64]


def gammas(module: nn.Module) -> dict[str, Vector]:
    """γ of every norm layer, by the layer's name."""
    return {
        name: layer.weight.detach().numpy().astype(np.float64)
        for name, layer in norm_layers(module).items()
    }


def small_share(values: Mapping[str, Vector], below: float = SMALL) -> float:
    """The share of all γ with |γ| < `below`; 0 where there are none."""
    count = sum(v.size for v in values.values())
    return sum(int(np.sum(np.abs(v) < below)) for v in values.values()) / max(count, 1)


def switched_off(module: nn.Module, below: float = SMALL) -> nn.Module:
    """A copy of the module in which every γ with |γ| < `below` is 0."""
    changed = copy.deepcopy(module)
    with torch.no_grad():
        for layer in norm_layers(changed).values():
            layer.weight[layer.weight.abs() < below] = 0.0
    return changed


def random_off(module: nn.Module, share: float, seed: int = 0) -> nn.Module:
    """A copy with that share of all γ, chosen at random, set to 0: what chance would do."""
    changed = copy.deepcopy(module)
    layers = list(norm_layers(changed).values())
    ends = np.cumsum([layer.num_features for layer in layers])
    total = int(ends[-1]) if layers else 0
    chosen = np.random.default_rng(seed).permutation(total)[: round(share * total)]
    with torch.no_grad():
        for layer, end in zip(layers, ends, strict=True):
            inside = chosen[(chosen < end) & (chosen >= end - layer.num_features)]
            layer.weight[torch.from_numpy(inside - (end - layer.num_features))] = 0.0
    return changed
