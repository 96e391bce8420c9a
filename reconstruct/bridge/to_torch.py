"""A network as a torch module in evaluation mode, made of torch's own layers.

Weights are frozen, statistics too; γ and β are parameters of BatchNorm layers. The state dict has
the names of norms.npz: `<norm>.weight`, `.bias`, `.running_mean`, `.running_var`; a dot in a
node's name makes one module inside another, as everywhere in torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.bridge import torch_module
from reconstruct.networks import Network
from reconstruct.networks.graph import as_network
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
