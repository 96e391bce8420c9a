"""What exists against what is found: γ and β constructed, trained, and both, in one network.

On the very same frozen network the norms are computed from a target (or fitted to it on data,
below m·k hidden units), trained from random values, and trained on from the computed ones. All
are then written for the statistics that the network was drawn with, so that only γ and β differ,
and can be compared as points: their sizes, and the loss along the line between them.

Norms are rewritten for other statistics without changing the function: `s∘z + t` with
`s = γ/√(v + ε)`, `t = β − s∘μ` has a γ', β' for any μ', v'. Training wants the statistics of the
data; comparing γ and β of two networks wants the ones that both were drawn with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from reconstruct.bridge.norms import norm_layers
from reconstruct.bridge.to_torch import to_torch
from reconstruct.constructions import Fitted, Wide, draw
from reconstruct.networks import Box, Network, Norm, Points
from reconstruct.pipeline import reconstruct
from reconstruct.training.data import Dataset
from reconstruct.training.freezing import Tuning
from reconstruct.training.loop import Schedule, train


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


SCHEDULE = Schedule(epochs=60, batch=64)
SLACK = 0.2  # room of a fit's shifts beyond the examples, as a share of each unit's range
POINTS = 21  # on each line, ends included


@dataclass(frozen=True, eq=False)
class Found:
    """One choice of γ and β: how it came, what it does, how large it is."""

    name: str
    network: Network
    seconds: float
    train_accuracy: float
    test_accuracy: float
    loss: float
    gamma_norm: float
    gamma_max: float
    beta_max: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """The target, the three choices, and the loss on the training part along the lines."""

    ratio: float
    target: Found
    start: Found
    trained: Found
    tuned: Found
    line_to_trained: tuple[float, ...]
    line_to_tuned: tuple[float, ...]


def compare(
    target: Network,
    data: Dataset,
    *,
    ratio: float,
    seed: int = 0,
    schedule: Schedule = SCHEDULE,
    domain: Box | None = None,
) -> Comparison:
    """Construct (ratio ≥ 1) or fit (below), train from random, and train on from the start.

    From random the statistics are live, as in any training; from the start they are those of the
    data and stay, so that training begins with exactly the function that was computed. `domain`
    is where the construction holds: the box of the examples unless given.
    """
    box = domain or _hull(data)
    began = time.perf_counter()
    computed, network = _computed(target, data, ratio, seed, box)
    name = "constructed" if ratio >= 1 else "least squares"
    start = _found(name, computed, data, time.perf_counter() - began)
    trained = _trained(with_random_gammas(network, seed), network, data, schedule, seed, live=True)
    tuned = _trained(computed, network, data, schedule, seed, live=False)
    return Comparison(
        ratio,
        _found("target", target, data, 0.0),
        start,
        trained,
        tuned,
        _line(start.network, trained.network, data),
        _line(start.network, tuned.network, data),
    )


def _computed(
    target: Network, data: Dataset, ratio: float, seed: int, box: Box
) -> tuple[Network, Network]:
    """The network with norms that are computed, on the box or fitted to the examples; frozen."""
    if ratio >= 1:
        frozen = draw(target, Wide(ratio), seed=seed)
        return reconstruct(target, frozen, domain=box).network, frozen.network
    frozen, seen = draw(target, Fitted(ratio), seed=seed), Points(_rows(data.train_x))
    result = reconstruct(target, frozen, domain=seen, slack=SLACK, data=seen.x)
    return result.network, frozen.network


def _trained(
    begin: Network, frozen: Network, data: Dataset, schedule: Schedule, seed: int, *, live: bool
) -> Found:
    began = time.perf_counter()
    result = _tuned(begin, frozen, data, schedule, seed, live=live)
    name = "trained from random" if live else "fine-tuned"
    return _found(name, result, data, time.perf_counter() - began)


def fine_tuned(
    begin: Network, frozen: Network, data: Dataset, schedule: Schedule, seed: int
) -> Network:
    """Its norms trained on from what they are, with the statistics of the examples; written with
    those of the frozen network."""
    return _tuned(begin, frozen, data, schedule, seed, live=False)


def _tuned(
    begin: Network, frozen: Network, data: Dataset, schedule: Schedule, seed: int, *, live: bool
) -> Network:
    """Train the norms in the coordinates of the data; the result in those of the frozen one."""
    scaled = with_data_statistics(begin, _rows(data.train_x))
    if live:  # from random: γ as drawn, in units of the data
        scaled = with_random_gammas(scaled, seed)
    module = to_torch(scaled, np.float32)
    train(module, data, Tuning.NORMS, schedule, seed=seed, live=live)
    return with_statistics_of(with_norms_of(scaled, module), frozen)


def _found(name: str, network: Network, data: Dataset, seconds: float) -> Found:
    norms = norms_of(network)
    gammas = np.concatenate([n.gamma for n in norms.values()]) if norms else np.zeros(1)
    betas = np.concatenate([n.beta for n in norms.values()]) if norms else np.zeros(1)
    return Found(
        name,
        network,
        seconds,
        _accuracy(network, data.train_x, data.train_y),
        _accuracy(network, data.test_x, data.test_y),
        loss_on(network, data.train_x, data.train_y),
        float(np.linalg.norm(gammas)),
        float(np.max(np.abs(gammas))),
        float(np.max(np.abs(betas))),
    )


def loss_on(network: Network, x: NDArray[Any], y: NDArray[np.int64]) -> float:
    """The mean cross entropy of the network's outputs."""
    scores = network(_rows(x))
    largest = scores.max(axis=1, keepdims=True)
    logs = np.log(np.exp(scores - largest).sum(axis=1)) + largest[:, 0]
    return float(np.mean(logs - scores[np.arange(len(y)), y]))


def _line(first: Network, second: Network, data: Dataset) -> tuple[float, ...]:
    shares = np.linspace(0.0, 1.0, POINTS)
    return tuple(
        loss_on(between(first, second, float(share)), data.train_x, data.train_y)
        for share in shares
    )


def _accuracy(network: Network, x: NDArray[Any], y: NDArray[np.int64]) -> float:
    return float(np.mean(network(_rows(x)).argmax(axis=1) == y))


def _rows(x: NDArray[Any]) -> NDArray[np.float64]:
    return x.reshape(len(x), -1).astype(np.float64)


def _hull(data: Dataset) -> Box:
    rows = np.concatenate([_rows(data.train_x), _rows(data.test_x)])
    return Box(rows.min(axis=0), rows.max(axis=0))
