"""The same function in other coordinates: norms rewritten for other statistics.

A norm is `s∘z + t` with `s = γ/√(v + ε)` and `t = β − s∘μ`; for any other μ', v' there are γ', β'
that give the same s and t. Training wants the statistics of the data; comparing γ and β of two
networks wants the ones that both were drawn with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from reconstruct.bridge.norms import norm_layers
from reconstruct.networks import Network, Norm


def norms_of(network: Network) -> dict[str, Norm]:
    """The norm layers by name, in order."""
    return {n.name: n.op for n in network.norm_nodes() if isinstance(n.op, Norm)}


def rewritten(norm: Norm, mean: Any, var: Any) -> Norm:
    """The same function of z with statistics `mean` and `var`."""
    s, t = norm.gamma / np.sqrt(norm.var + norm.eps), norm.beta
    gamma = s * np.sqrt(np.asarray(var) + norm.eps)
    beta = t + s * (np.asarray(mean) - norm.mean)
    return Norm(gamma, beta, mean, var, norm.eps, norm.positions)


def with_data_statistics(network: Network, x: NDArray[Any]) -> Network:
    """The same network with each norm's statistics measured on the examples `x` (rows)."""
    values = network.values(x)
    ops = {}
    for name, norm in norms_of(network).items():
        (source,) = network.node(name).inputs
        z = values[source].reshape(len(x), len(norm.gamma), -1)
        ops[name] = rewritten(norm, z.mean(axis=(0, 2)), z.var(axis=(0, 2)))
    return network.with_ops(ops)


def with_statistics_of(network: Network, frozen: Network) -> Network:
    """The same network with the statistics that `frozen`, of the same graph, has."""
    own = norms_of(frozen)
    return network.with_ops(
        {name: rewritten(n, own[name].mean, own[name].var) for name, n in norms_of(network).items()}
    )


def with_norms_of(network: Network, module: nn.Module) -> Network:
    """The network with γ, β and statistics of a module that `to_torch` made of it."""
    layers = norm_layers(module)
    ops = {}
    for name, norm in norms_of(network).items():
        layer = layers[name]
        parts = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
        gamma, beta, mean, var = (part.detach().numpy().astype(np.float64) for part in parts)
        ops[name] = Norm(gamma, beta, mean, var, norm.eps, norm.positions)
    return network.with_ops(ops)


def with_random_gammas(network: Network, seed: int) -> Network:
    """γ uniform on (0, 1) and β = 0 in every norm, as a training from scratch starts."""
    rng = np.random.default_rng([seed, 1])
    return network.with_ops(
        {
            name: Norm(
                rng.random(len(n.gamma)), np.zeros(len(n.gamma)), n.mean, n.var, n.eps, n.positions
            )
            for name, n in norms_of(network).items()
        }
    )


def between(first: Network, second: Network, share: float) -> Network:
    """γ and β at `share` of the way from `first` to `second`, which have the same statistics."""
    goal = norms_of(second)
    ops = {}
    for name, a in norms_of(first).items():
        b = goal[name]
        gamma = (1 - share) * a.gamma + share * b.gamma
        beta = (1 - share) * a.beta + share * b.beta
        ops[name] = Norm(gamma, beta, a.mean, a.var, a.eps, a.positions)
    return first.with_ops(ops)
