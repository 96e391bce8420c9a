"""What exists against what is found: γ, β constructed, trained, and both, in the same networks.

The shipped digits network is rebuilt in frozen networks of 1.5·m·k hidden units per map, and
fitted by least squares in ones of 0.35 and 0.5·m·k, where no exact construction exists; the same
frozen networks are trained from random γ, β, and trained on from what was computed. Three seeds.
`python -m benchmarks.training_existence [-o FILE] [--quick]` ends with the table that
docs/training.md shows. It needs torch, and runs on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import Row, run
from benchmarks.training_tables import existence
from reconstruct.networks import Box, Network, Points

if TYPE_CHECKING:
    from reconstruct.training.data import Dataset
    from reconstruct.training.loop import Schedule

SEEDS = (0, 1, 2)
RATIOS = (0.35, 0.5, 1.5)


def measure(quick: bool) -> Iterator[Row]:
    """Three rows per ratio and seed: computed, trained from random, trained on."""
    import torch

    torch.set_num_threads(1)
    for seed in SEEDS[:1] if quick else SEEDS:
        for ratio in RATIOS[:1] if quick else RATIOS:
            yield from measure_case(ratio, seed, 5 if quick else 60)


def measure_case(ratio: float, seed: int, epochs: int) -> Iterator[Row]:
    """One frozen network and its three choices of γ and β."""
    from reconstruct.demo import digits as shipped
    from reconstruct.training.data import digits
    from reconstruct.training.loop import Schedule

    schedule = Schedule(epochs=epochs, batch=64)
    found = compare(
        shipped().target, digits(), ratio=ratio, seed=seed, schedule=schedule, domain=Box(0, 1)
    )
    lines = {"trained from random": found.line_to_trained, "fine-tuned": found.line_to_tuned}
    for choice in (found.start, found.trained, found.tuned):
        line = lines.get(choice.name)
        yield {
            "ratio": ratio,
            "seed": seed,
            "epochs": epochs,
            "choice": choice.name,
            "target_accuracy": found.target.test_accuracy,
            "accuracy": choice.test_accuracy,
            "train_accuracy": choice.train_accuracy,
            "loss": choice.loss,
            "gamma_norm": choice.gamma_norm,
            "gamma_max": choice.gamma_max,
            "beta_max": choice.beta_max,
            "line_from_computed": None if line is None else list(line),
            "line_max": None if line is None else max(line),
            "seconds": choice.seconds,
        }


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
    target: Network, data: Dataset, *, ratio: float, seed: int = 0, schedule: Schedule, domain: Box
) -> Comparison:
    """Construct (ratio ≥ 1) or fit (below), train from random, and train on from the start.

    All are written for the statistics that the frozen network was drawn with, so that only γ and β
    differ and can be compared as points: their sizes, and the loss along the line between them.
    """
    from reconstruct.training.fine_tuning import fine_tuned

    began = time.perf_counter()
    computed, frozen = _computed(target, data, ratio, seed, domain)
    name = "constructed" if ratio >= 1 else "least squares"
    start = _found(name, computed, data, time.perf_counter() - began)
    ways = []
    for name, live in (("trained from random", True), ("fine-tuned", False)):
        began = time.perf_counter()
        network = fine_tuned(
            frozen if live else computed, frozen, data, schedule, seed, from_random=live
        )
        ways.append(_found(name, network, data, time.perf_counter() - began))
    lines = [_line(start.network, way.network, data) for way in ways]
    own = _found("target", target, data, 0.0)
    return Comparison(ratio, own, start, ways[0], ways[1], lines[0], lines[1])


def _computed(
    target: Network, data: Dataset, ratio: float, seed: int, box: Box
) -> tuple[Network, Network]:
    """The network with norms that are computed, on the box or fitted to the examples; frozen."""
    from reconstruct import draw, reconstruct
    from reconstruct.constructions import Fitted, Wide

    if ratio >= 1:
        frozen = draw(target, Wide(ratio), seed=seed)
        return reconstruct(target, frozen, domain=box).network, frozen.network
    frozen, seen = draw(target, Fitted(ratio), seed=seed), Points(_rows(data.train_x))
    result = reconstruct(target, frozen, domain=seen, slack=0.2, data=seen.x)
    return result.network, frozen.network


def _found(name: str, network: Network, data: Dataset, seconds: float) -> Found:
    from reconstruct.training.fine_tuning import norms_of

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
    shares = np.linspace(0.0, 1.0, 21)
    return tuple(
        loss_on(between(first, second, float(share)), data.train_x, data.train_y)
        for share in shares
    )


def between(first: Network, second: Network, share: float) -> Network:
    """γ and β at `share` of the way from `first` to `second`, which have the same statistics."""
    from reconstruct.training.fine_tuning import norms_of

    goal = norms_of(second)
    ops = {}
    for name, a in norms_of(first).items():
        b = goal[name]
        gamma = (1 - share) * a.gamma + share * b.gamma
        ops[name] = a.tuned(gamma, (1 - share) * a.beta + share * b.beta)
    return first.with_ops(ops)


def _accuracy(network: Network, x: NDArray[Any], y: NDArray[np.int64]) -> float:
    return float(np.mean(network(_rows(x)).argmax(axis=1) == y))


def _rows(x: NDArray[Any]) -> NDArray[np.float64]:
    return x.reshape(len(x), -1).astype(np.float64)


if __name__ == "__main__":
    print(existence(run("training_existence", __doc__ or "", measure)))
