"""Which parameters are trained, and which stay as they were drawn."""

from __future__ import annotations

from enum import StrEnum

from torch import nn

from reconstruct.bridge.norms import norm_layers
from reconstruct.errors import InputError
from reconstruct.training.random_subset import expose_subset

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
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

    norms: γ and β of every BatchNorm layer. output: weight and bias of the last linear layer, in
    the order in which the module defines them. random: for each norm layer with C channels, 2C
    weights of the layer ahead of it, chosen by `seed`: as many as the norms have, and the norms
    themselves stay (the paper's baseline). Those weights become a parameter of their own, so that
    momentum and decay act on nothing else; `random_subset.settle` makes plain weights of them.
    """
    kind = _kind(what)
    chosen = _chosen(module, kind, seed)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    for parameter in chosen:
        parameter.requires_grad_(True)
    return chosen


def _chosen(module: nn.Module, kind: Tuning, seed: int) -> list[nn.Parameter]:
    if kind is Tuning.ALL:
        return list(module.parameters())
    if kind is Tuning.OUTPUT:
        return _output(module)
    norms = norm_layers(module)
    if not norms:
        raise InputError(_without_norms(module, kind))
    if kind is Tuning.RANDOM:
        return [expose_subset(layer, count, (seed, i)) for i, layer, count in _ahead(module)]
    gammas_betas = [p for layer in norms.values() for p in (layer.weight, layer.bias)]
    return gammas_betas + (_output(module) if kind is Tuning.NORMS_OUTPUT else [])


def _output(module: nn.Module) -> list[nn.Parameter]:
    weighted = [layer for layer in module.modules() if isinstance(layer, WEIGHTED)]
    if not weighted:
        raise InputError(
            f"tuning the output needs a Linear or Conv2d layer, but {type(module).__name__} has "
            f"none"
        )
    return list(weighted[-1].parameters(recurse=False))


def _ahead(module: nn.Module) -> list[tuple[int, nn.Module, int]]:
    """(index, layer, how many) for the weighted layer defined ahead of each norm layer."""
    found: list[tuple[int, nn.Module, int]] = []
    last: nn.Module | None = None
    for name, layer in module.named_modules():
        if isinstance(layer, WEIGHTED):
            last = layer
        elif isinstance(layer, BATCH_NORMS) and layer.affine:
            if last is None:
                raise InputError(
                    f"a random subset is taken from the weights ahead of each norm, but no Linear "
                    f"or Conv2d is defined ahead of {name!r} that is not taken already"
                )
            found.append((len(found), last, 2 * layer.num_features))
            last = None
    return found


def _kind(what: Tuning | str) -> Tuning:
    try:
        return Tuning(what)
    except ValueError:
        known = ", ".join(Tuning)
        raise InputError(f"what is tuned must be one of {known}, but is {what!r}") from None


def _without_norms(module: nn.Module, kind: Tuning) -> str:
    others = sorted({type(m).__name__ for m in module.modules() if "Norm" in type(m).__name__})
    came = f"only {', '.join(others)}" if others else "none"
    return (
        f"tuning {kind} needs BatchNorm1d or BatchNorm2d layers with γ and β (their statistics "
        f"can be frozen), but {type(module).__name__} has {came}; add them, or tune all or output"
    )
