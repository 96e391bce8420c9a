"""norms.npz and state dicts: the same names, so either fills the other."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.networks.maps.diagonal import KEYS

if TYPE_CHECKING:
    import torch


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
