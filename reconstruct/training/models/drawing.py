"""How the weights of a model are drawn: once, by its seed, without touching torch's own state."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import torch
from torch import nn

from reconstruct.training.freezing import BATCH_NORMS, WEIGHTED


class Gamma(StrEnum):
    """The first values of γ: uniform on (0, 1) as in the paper, or all ones."""

    UNIFORM = "uniform"
    ONES = "ones"


def drawn(build: Callable[[], nn.Module], gamma: Gamma | str, seed: int) -> nn.Module:
    """The module with weights N(0, 2/fan_in), zero biases, γ as asked and β = 0."""
    kind = Gamma(gamma)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build()
        for layer in module.modules():
            if isinstance(layer, WEIGHTED):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            elif isinstance(layer, BATCH_NORMS):
                if kind is Gamma.UNIFORM:
                    nn.init.uniform_(layer.weight)
                else:
                    nn.init.ones_(layer.weight)
                nn.init.zeros_(layer.bias)
    return module
