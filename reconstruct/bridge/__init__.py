"""The bridge to PyTorch: modules read as networks (`from_torch`), networks made into modules, and
norms.npz beside state dicts (`to_torch`)."""

from __future__ import annotations

import importlib
from typing import Any

from reconstruct.errors import MissingDependencyError

SELU = {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}  # torch's own constants


def torch_module(purpose: str) -> Any:
    """torch, imported when it is needed and asked for in words where it is not there."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingDependencyError("torch", "torch", purpose) from None
