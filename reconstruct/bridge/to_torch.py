"""A network as a torch module in evaluation mode, made of torch's own layers.

Weights are frozen, statistics too; γ and β are parameters of BatchNorm layers. The state dict has
the names of norms.npz: `<norm>.weight`, `.bias`, `.running_mean`, `.running_var`, so that either
fills the other; a dot in a node's name makes one module inside another, as everywhere in torch.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.bridge import torch_module
from reconstruct.networks import Network
from reconstruct.networks.graph import as_network
from reconstruct.networks.maps.diagonal import KEYS
from reconstruct.numbers.given import precision

if TYPE_CHECKING:
    import torch


def to_torch(network: Network, dtype: Any = np.float64) -> torch.nn.Module:
    """The module of a network: batch × inputs (of any shape) to batch × outputs.

    Nothing of it asks for gradients; `rc.training.tunable(module, "norms")` makes γ and β do so.
    It is in evaluation mode; `module.train()` would let batches change its statistics.
    """
    torch = torch_module("making a torch module")
    from reconstruct.bridge.layers import GraphModule

    as_network(network, "what becomes a module")
    kind = getattr(torch, precision(dtype, "a module is made").name)
    return GraphModule(network, kind).eval().requires_grad_(False)


# --- norms --------------------------------------------------------------------------------------


def norm_layers(module: torch.nn.Module) -> dict[str, Any]:
    """The norm layers of the module that have γ and β, by name, in order."""
    from torch import nn

    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm)
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, kinds) and layer.weight is not None and layer.bias is not None
    }


def norm_bytes(module: torch.nn.Module) -> bytes:
    """The norm layers as an .npz with the names of the state dict, and `<norm>.eps`."""
    arrays: dict[str, Any] = {}
    for name, layer in norm_layers(module).items():
        for key in (key for key in KEYS if hasattr(layer, key)):  # live norms keep no statistics
            arrays[f"{name}.{key}"] = getattr(layer, key).detach().numpy()
        arrays[f"{name}.eps"] = np.float64(layer.eps)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
