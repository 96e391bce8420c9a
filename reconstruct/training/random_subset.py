"""Some weights of a layer, chosen at random, as a parameter of their own.

The layer's weight becomes `frozen` with the chosen entries replaced by the parameter, so that an
optimiser that is given the parameter (with momentum and weight decay) moves these and no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize


class Subset(nn.Module):
    """values ↦ the frozen weight with its entries at `index` replaced by them."""

    def __init__(self, frozen: torch.Tensor, index: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("frozen", frozen.detach().clone())
        self.register_buffer("index", index)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        flat = self.frozen.reshape(-1).index_put((self.index,), values)
        return flat.reshape(self.frozen.shape)

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.detach().reshape(-1)[self.index].clone()


def expose_subset(layer: Any, count: int, seed: tuple[int, ...]) -> nn.Parameter:
    """Make `count` entries of the layer's weight (all, if it has fewer) the only ones to train."""
    size = layer.weight.numel()
    chosen = np.random.default_rng(seed).permutation(size)[: min(count, size)]
    index = torch.from_numpy(np.sort(chosen))
    parametrize.register_parametrization(layer, "weight", Subset(layer.weight, index))
    parameter: nn.Parameter = layer.parametrizations.weight.original
    return parameter


def settle(module: nn.Module) -> None:
    """Make plain weights again of those that `expose_subset` took apart."""
    for layer in list(module.modules()):
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
