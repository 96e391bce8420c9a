"""What callers hand over, taken as it is meant or refused with what to do."""

from __future__ import annotations

import os

from reconstruct.errors import InputError
from reconstruct.networks.graph import Network
from reconstruct.numbers.given import precision as as_precision

__all__ = ["as_network", "as_precision"]


def as_network(value: object, role: str) -> Network:
    """The network, or a sentence that says how to come to one."""
    if isinstance(value, Network):
        return value
    if isinstance(value, str | os.PathLike):
        remedy = f"rc.load({os.fspath(value)!r}) reads a file"
    elif isinstance(getattr(value, "network", None), Network):
        remedy = "give its .network"
    elif hasattr(value, "state_dict"):
        remedy = "rc.from_torch(module, example) reads a torch module"
    else:
        remedy = "rc.load reads one from a file, rc.Network.mlp makes one of weights"
    raise InputError(
        f"{role} must be a Network, but is of the type {type(value).__name__}; {remedy}"
    )
