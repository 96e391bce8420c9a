"""Which parameters are trained, and which stay as they were drawn.

As many random weights as there are norm parameters are one more choice: a layer's weight becomes
`frozen` with the chosen entries replaced by a parameter of their own, so that an optimiser that is
given it (with momentum and weight decay) moves these and no others.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize

from reconstruct.bridge.to_torch import norm_layers
from reconstruct.errors import InputError

WEIGHTED = (nn.Linear, nn.Conv2d)


class Tuning(StrEnum):
    """What is trained: everything else keeps the values it has."""

    NORMS = "norms"
    OUTPUT = "output"
    NORMS_OUTPUT = "norms+output"
    ALL = "all"
    RANDOM = "random"


def tunable(module: nn.Module, what: Tuning | str, seed: int = 0) -> list[nn.Parameter]:
    """The parameters of `module` that `what` names; all others are left without gradient.

    norms: γ and β of every BatchNorm and LayerNorm layer. output: weight and bias of the last
    linear layer, in the order in which the module defines them. random: for each norm layer with C
    channels, 2C weights of the layer ahead of it, chosen by `seed`: as many as the norms have, and
    the norms themselves stay (the paper's baseline). Those weights become a parameter of their own,
    so that momentum and decay act on nothing else; `settle` makes plain weights of them.
    """
    try:
        kind = Tuning(what)
    except ValueError:
        known = ", ".join(Tuning)
        raise InputError(f"what is tuned must be one of {known}, but is {what!r}") from None
    norms = norm_layers(module)
    if not norms and kind not in (Tuning.ALL, Tuning.OUTPUT):
        others = sorted({type(m).__name__ for m in module.modules() if "Norm" in type(m).__name__})
        came = f"only {', '.join(others)}" if others else "none"
        raise InputError(
            f"tuning {kind} needs BatchNorm1d, BatchNorm2d or LayerNorm layers with γ and β, but "
            f"{type(module).__name__} has {came}; add them, or tune all or output"
        )
    chosen = list(module.parameters()) if kind is Tuning.ALL else []
    if kind is Tuning.RANDOM:
        chosen = [expose_subset(layer, count, (seed, i)) for i, layer, count in _ahead(module)]
    if kind in (Tuning.NORMS, Tuning.NORMS_OUTPUT):
        chosen = [p for layer in norms.values() for p in (layer.weight, layer.bias)]
    if kind in (Tuning.OUTPUT, Tuning.NORMS_OUTPUT):
        weighted = [layer for layer in module.modules() if isinstance(layer, WEIGHTED)]
        if not weighted:
            raise InputError(
                f"tuning the output needs a Linear or Conv2d layer, but {type(module).__name__} "
                f"has none"
            )
        chosen += weighted[-1].parameters(recurse=False)
    module.requires_grad_(False)
    for parameter in chosen:
        parameter.requires_grad_(True)
    return chosen


def _ahead(module: nn.Module) -> list[tuple[int, nn.Module, int]]:
    """(index, layer, how many) for the weighted layer defined ahead of each norm layer."""
    found: list[tuple[int, nn.Module, int]] = []
    last: nn.Module | None = None
    norms = norm_layers(module)
    for name, layer in module.named_modules():
        if isinstance(layer, WEIGHTED):
            last = layer
        elif name in norms:
            if last is None:
                raise InputError(
                    f"a random subset is taken from the weights ahead of each norm, but no Linear "
                    f"or Conv2d is defined ahead of {name!r} that is not taken already"
                )
            found.append((len(found), last, 2 * norms[name].weight.numel()))
            last = None
    return found


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
