"""Is a spoiled result ever certified? Mutations of valid reconstructions, one number or block each.

A mutation that changes the function must never be certified at the original bound. Where its true
difference (found by a long search and replayed exactly) exceeds the tolerance, it should be refuted
with a witness. A change behind units that are dead on the whole box changes nothing: such cases
are counted as `without_effect` and may be certified, rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks._common import Row, run
from reconstruct.certificates import Certificate, Verdict, certify
from reconstruct.constructions import Wide, draw
from reconstruct.equivalence.search import search
from reconstruct.equivalence.witness import Replay
from reconstruct.networks import Activation, Affine, Box, Dense, Network, Norm, Sparse, dense
from reconstruct.pipeline import reconstruct

QUESTION = "is a spoiled reconstruction ever certified, and how often is it refuted?"
Generator = np.random.Generator
Mutation = Callable[[Network, Generator], Network]


def measure(quick: bool) -> Iterator[Row]:
    """One row for each kind of mutation."""
    for name in MUTATIONS:
        yield mutate(name, range(4 if quick else 63))


def mutate(name: str, seeds: range) -> Row:
    """The verdicts on one kind of mutation, a fresh reconstruction for each seed."""
    row: Row = {"mutation": name, "cases": 0, "refuted": 0, "undecided": 0, "within": 0}
    row |= {"certified_at_original_bound": 0, "differ": 0, "differ_and_refuted": 0}
    row |= {"without_effect": 0}
    for seed in seeds:
        rng = np.random.default_rng([seed, list(MUTATIONS).index(name)])
        target, network, box = sound(rng, seed)
        original = certify(target, network, domain=box)
        assert original.verdict is Verdict.CERTIFIED and original.bound is not None
        spoiled = MUTATIONS[name](network, rng)
        judged = certify(target, spoiled, domain=box, time_limit=4.0)
        _count(row, judged, _differs(target, spoiled, box, judged.tolerance))
        if not _changed(network, spoiled, box, original.bound):
            row["without_effect"] += 1
        elif judged.verdict is Verdict.CERTIFIED:
            row["certified_at_original_bound"] += (judged.bound or 0.0) <= original.bound
    return row


def _count(row: Row, judged: Certificate, differs: bool) -> None:
    row["cases"] += 1
    refuted = judged.verdict is Verdict.REFUTED
    row["refuted"] += refuted
    row["undecided"] += judged.verdict is Verdict.UNDECIDED
    certified = judged.verdict is Verdict.CERTIFIED
    row["within"] += certified
    assert judged.bound is not None or not certified
    row["differ"] += differs
    row["differ_and_refuted"] += differs and refuted


def sound(rng: Generator, seed: int) -> tuple[Network, Network, Box]:
    """A target, a valid reconstruction of it, and the box."""
    sizes = [int(n) for n in rng.integers(2, 6, size=4)]
    weights = [rng.standard_normal((m, k)) for k, m in pairwise(sizes)]
    target = Network.mlp(weights, [rng.standard_normal(m) for m in sizes[1:]])
    box = Box(-0.5, 0.5).of_size(sizes[0])
    result = reconstruct(target, draw(target, Wide(ratio=1.5), seed=seed), domain=box)
    return target, result.network, box


def _differs(target: Network, spoiled: Network, box: Box, tolerance: float) -> bool:
    """Whether the true difference exceeds the tolerance, as far as a long search can tell."""
    found = search(target, spoiled, box, samples=4000, restarts=32, seed=1, time_limit=2.0)
    replay = Replay(target, spoiled, box)
    worst = [np.array(x) for gap, x in found.points[:2] if gap > tolerance]
    return any(replay.witness(point, tolerance) is not None for point in worst)


def _changed(network: Network, spoiled: Network, box: Box, bound: float) -> bool:
    """Whether the function moved by more than a bound in real arithmetic, by exact replay: what an
    evaluation in floats rounds may be more than that bound."""
    found = search(network, spoiled, box, samples=2000, time_limit=1.0)
    replay = Replay(network, spoiled, box)
    return any(replay.witness(np.array(x), bound) is not None for _, x in found.points)


# --- mutations ------------------------------------------------------------------------------------


def _any_norm(network: Network, rng: Generator) -> tuple[str, Norm]:
    nodes = network.norm_nodes()
    node = nodes[int(rng.integers(len(nodes)))]
    assert isinstance(node.op, Norm)
    return node.name, node.op


def _any_affine(network: Network, rng: Generator) -> tuple[str, Dense | Sparse]:
    nodes = network.mixing_nodes()
    node = nodes[int(rng.integers(len(nodes)))]
    assert isinstance(node.op, Dense | Sparse)
    return node.name, node.op


def _moved(values: Any, rng: Generator, by: float) -> Any:
    changed = np.array(values, dtype=np.float64)
    changed.flat[int(rng.integers(changed.size))] += by
    return changed


def with_norm(network: Network, name: str, norm: Norm, gamma: Any, beta: Any) -> Network:
    return network.with_ops({name: Norm(gamma, beta, norm.mean, norm.var, norm.eps)})


def one_gamma(network: Network, rng: Generator) -> Network:
    name, norm = _any_norm(network, rng)
    return with_norm(network, name, norm, _moved(norm.gamma, rng, 0.1), norm.beta)


def one_beta(network: Network, rng: Generator) -> Network:
    name, norm = _any_norm(network, rng)
    return with_norm(network, name, norm, norm.gamma, _moved(norm.beta, rng, 0.1))


def one_weight(network: Network, rng: Generator) -> Network:
    name, op = _any_affine(network, rng)
    return network.with_ops({name: Affine(_moved(dense(op.weight), rng, 0.1), op.bias)})


def one_bias(network: Network, rng: Generator) -> Network:
    name, op = _any_affine(network, rng)
    return network.with_ops({name: Affine(op.weight, _moved(op.bias, rng, 0.1))})


def permuted_channels(network: Network, rng: Generator) -> Network:
    name, norm = _any_norm(network, rng)
    order = np.roll(np.arange(len(norm.gamma)), 1)
    return with_norm(network, name, norm, norm.gamma[order], norm.beta[order])


def swapped_layer(network: Network, rng: Generator) -> Network:
    """The weights of one frozen layer drawn again."""
    name, op = _any_affine(network, rng)
    fresh = rng.standard_normal(op.weight.shape) / np.sqrt(op.weight.shape[1])
    return network.with_ops({name: Affine(fresh, op.bias)})


def unit_inactive(network: Network, rng: Generator) -> Network:
    """A hidden unit's shift lowered below what some corner needs, and cancelled afterwards."""
    inner = [n for n in network.nodes if isinstance(n.op, Activation) and ".act" in n.name]
    node = inner[int(rng.integers(len(inner)))]
    (mapped,) = network.consumers(node.name)
    first, second = network.node(node.inputs[0]), network.consumers(mapped.name)[0]
    assert isinstance(first.op, Norm) and isinstance(second.op, Norm)
    assert isinstance(mapped.op, Dense | Sparse)
    unit = int(rng.integers(len(first.op.beta)))
    drop = 0.2 * abs(float(first.op.beta[unit])) + 1e-3
    beta = first.op.beta.copy()
    beta[unit] -= drop
    back = second.op.beta + second.op.effective()[0] * dense(mapped.op.weight)[:, unit] * drop
    lowered = with_norm(network, first.name, first.op, first.op.gamma, beta)
    return with_norm(lowered, second.name, second.op, second.op.gamma, back)


def small_perturbation(network: Network, rng: Generator) -> Network:
    """Every gamma of one norm off by 1e-5, relative."""
    name, norm = _any_norm(network, rng)
    factor = 1 + 1e-5 * rng.standard_normal(len(norm.gamma))
    return with_norm(network, name, norm, norm.gamma * factor, norm.beta)


MUTATIONS: dict[str, Mutation] = {
    "one gamma": one_gamma,
    "one beta": one_beta,
    "one weight": one_weight,
    "one bias": one_bias,
    "permuted channels": permuted_channels,
    "swapped layer": swapped_layer,
    "unit inactive in a corner": unit_inactive,
    "perturbation of 1e-5": small_perturbation,
}


if __name__ == "__main__":
    run("refusal", QUESTION, measure)
