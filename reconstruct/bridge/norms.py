"""norms.npz and state dicts: the same names, so either fills the other."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import write_atomically

if TYPE_CHECKING:
    import torch

KEYS = ("weight", "bias", "running_mean", "running_var")


def norm_layers(module: torch.nn.Module) -> dict[str, Any]:
    """The BatchNorm layers of the module that have γ and β, by name, in order."""
    from torch import nn

    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)) and layer.affine
    }


def save_norms(module: torch.nn.Module, path: str | Path) -> None:
    """Write γ, β, statistics and eps of the module's norm layers as a norms.npz."""
    write_atomically(path, norm_bytes(module))


def norm_bytes(module: torch.nn.Module) -> bytes:
    """The norm layers as an .npz with the names of the state dict, and `<norm>.eps`."""
    arrays: dict[str, Any] = {}
    for name, layer in norm_layers(module).items():
        for key in KEYS:
            arrays[f"{name}.{key}"] = getattr(layer, key).detach().numpy()
        arrays[f"{name}.eps"] = np.float64(layer.eps)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def load_norms(module: torch.nn.Module, path: str | Path) -> None:
    """Fill the module's norm layers from a norms.npz; every name must belong to one of them."""
    import torch

    layers = norm_layers(module)
    with np.load(path, allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
    for name, values in found.items():
        layer_name, _, key = name.rpartition(".")
        layer = layers.get(layer_name)
        if layer is None or key not in (*KEYS, "eps"):
            raise InputError(
                f"{path}: {name!r} belongs to no norm layer of the module, whose norms are "
                f"{', '.join(list(layers)[:6]) or 'none'}"
            )
        if key == "eps":
            layer.eps = float(values)
            continue
        place = getattr(layer, key)
        if place.shape != values.shape:
            raise InputError(
                f"{path}: {name!r} has shape {values.shape}, but the module needs "
                f"{tuple(place.shape)}"
            )
        with torch.no_grad():
            place.copy_(torch.from_numpy(values))
