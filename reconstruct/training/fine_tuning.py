"""Training on from computed norms: the same function in the coordinates of the data, and back.

Norms are rewritten for other statistics without changing the function: `s∘z + t` with
`s = γ/√(v + ε)`, `t = β − s∘μ` has a γ', β' for any μ', v'. Training wants the statistics of the
data; comparing γ and β of two networks wants the ones that both were drawn with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from reconstruct.bridge.to_torch import norm_layers, to_torch
from reconstruct.networks import Network, Norm
from reconstruct.training.data import Dataset
from reconstruct.training.freezing import Tuning
from reconstruct.training.loop import Schedule, train


def fine_tuned(
    begin: Network,
    frozen: Network,
    data: Dataset,
    schedule: Schedule,
    seed: int = 0,
    *,
    from_random: bool = False,
) -> Network:
    """The norms of `begin` trained on, written with the statistics of `frozen`, of the same graph.

    Statistics are those of the examples and stay, so that training begins with exactly the function
    that was computed. With `from_random` they are live, as in any training from scratch, and γ
    begins uniform on (0, 1), β at 0.
    """
    first = _with_random_gammas(begin, seed) if from_random else begin
    scaled = with_data_statistics(first, data.train_x.reshape(len(data.train_x), -1))
    if from_random:  # γ as drawn, in units of the data
        scaled = _with_random_gammas(scaled, seed)
    module = to_torch(scaled, np.float32)
    train(module, data, Tuning.NORMS, schedule, seed=seed, live=from_random)
    return with_statistics_of(with_norms_of(scaled, module), frozen)


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
    values = network.values(x.astype(np.float64))
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


def _with_random_gammas(network: Network, seed: int) -> Network:
    rng = np.random.default_rng([seed, 1])
    return network.with_ops(
        {
            name: norm.tuned(rng.random(len(norm.gamma)), np.zeros(len(norm.gamma)))
            for name, norm in norms_of(network).items()
        }
    )
