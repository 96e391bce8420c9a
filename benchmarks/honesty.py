"""Does a certificate ever claim too much? Random cases, judged in exact rational arithmetic.

Each case is a target, a frozen network that reconstructs it (or a copy with one number changed), a
box and a bounding method, small and awkward on purpose. At samples, corners and the points that a
search finds, |f − g| is evaluated with exact rationals and f is evaluated in float64 and float32
in several orders of summation; none of it may exceed the figure that the certificate states. The
slack is zero.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import Row, run
from reconstruct.bounds import Adaptive, Crown, Interval, Method
from reconstruct.certificates import Certificate, certify
from reconstruct.constructions import Deep, Factored, Wide, draw
from reconstruct.equivalence.search import search
from reconstruct.equivalence.witness import Evaluator
from reconstruct.errors import ReconstructError
from reconstruct.networks import (
    Activation,
    Affine,
    Box,
    Clip,
    Dense,
    Elu,
    LeakyRelu,
    Network,
    Norm,
    Relu,
    Selu,
    dense,
    in_blocks,
)
from reconstruct.networks.blocks import Tree
from reconstruct.networks.draw import Weights
from reconstruct.numbers.parallel import cpu_count, one_blas_thread
from reconstruct.pipeline import reconstruct

Array = NDArray[Any]
Order = Callable[[Array], Array]  # a matrix of terms (rows × n) to their sums, in one order

SHORT = (  # small networks have short sums
    Tree(block=4),
    Tree(block=2, together=2),
    Tree(block=2, together=2, least=2),
)
STEP = 4  # seeds that a process takes at once
QUESTION = "does a difference that was found ever exceed a bound that was stated?"


@dataclass
class Tally:
    """What was compared: how often, how often the bound was broken, how close it came."""

    cases: int = 0
    certified: int = 0
    comparisons: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    closest: dict[str, float] = field(default_factory=dict)

    def compare(self, figure: str, found: Fraction, bound: float | None, what: str) -> None:
        if bound is None:
            return
        self.comparisons[figure] = self.comparisons.get(figure, 0) + 1
        if found > Fraction(bound):
            self.violations.append(f"{what}: {figure} {float(found):.17g} > {bound:.17g}")
        ratio = float(found / Fraction(bound)) if bound else 0.0
        self.closest[figure] = max(self.closest.get(figure, 0.0), ratio)

    def add(self, other: Tally) -> None:
        """What others compared."""
        self.cases, self.certified = self.cases + other.cases, self.certified + other.certified
        self.violations += other.violations
        for figure, count in other.comparisons.items():
            self.comparisons[figure] = self.comparisons.get(figure, 0) + count
            closest = max(self.closest.get(figure, 0.0), other.closest[figure])
            self.closest[figure] = closest


@dataclass(frozen=True, eq=False)
class Case:
    """Two networks on a box, and how the target is bounded."""

    name: str
    target: Network
    candidate: Network
    box: Box
    method: Method


def measure(quick: bool) -> Iterator[Row]:
    """The row of the benchmark, on all processors."""
    seeds = [range(i, i + STEP) for i in range(0, 8 if quick else 2000, STEP)]
    with multiprocessing.get_context("spawn").Pool(cpu_count()) as pool:
        yield summed_up(pool.imap(tally_of, seeds))


def tallies(seeds: Iterable[int]) -> Iterator[Row]:
    """The same for some seeds, here."""
    yield summed_up([tally_of(seeds)])


def tally_of(seeds: Iterable[int]) -> Tally:
    """Five cases from each seed: as reconstructed, other statistics, sums in blocks, one number
    changed twice."""
    total = Tally()
    with one_blas_thread():
        for seed in seeds:
            for case in cases(seed):
                judge(case, total, np.random.default_rng([seed, 1]))
    return total


def summed_up(parts: Iterable[Tally]) -> Row:
    total = Tally()
    for part in parts:
        total.add(part)
    return {
        "cases": total.cases,
        "certified": total.certified,
        "comparisons": dict(total.comparisons),
        "violations": len(total.violations),
        "closest": dict(total.closest),
        "examples": total.violations[:5],
    }


# --- cases ----------------------------------------------------------------------------------------

SCALES = (1.0, 1.0, 1.0, 1e-3, 30.0, 1e4, 1e8, 1e-12)
ACTIVATIONS: tuple[Activation, ...] = (
    Relu(), Relu(), Relu(), LeakyRelu(0.1), Elu(), Selu(), Clip(-1.0, 1.0), Clip(0.0, 6.0),
)  # fmt: skip


def cases(seed: int) -> Iterator[Case]:
    """What one seed gives; a target that cannot be reconstructed gives its mutated self."""
    rng = np.random.default_rng(seed)
    target = random_target(rng)
    box = random_box(rng, target.size_in)
    methods = (Interval(), Crown(), Adaptive(boxes=64), Adaptive(boxes=1))
    method = methods[seed % len(methods)]
    try:
        frozen = draw(
            target,
            (Wide(ratio=1.3), Wide(ratio=2.0), Deep(block=2), Factored())[int(rng.integers(4))],
            seed=seed,
            weights=list(Weights)[int(rng.integers(3))],
            statistics=bool(rng.integers(2)),
        )
        network = reconstruct(target, frozen, domain=box, bounds=method).network
    except ReconstructError:
        network = target
    yield Case(f"{seed} as made", target, network, box, method)
    yield Case(f"{seed} other statistics", target, _other_statistics(network, rng), box, method)
    yield Case(
        f"{seed} in blocks", target, in_blocks(network, SHORT[seed % len(SHORT)]), box, method
    )
    for size in (1e-9, 0.3):
        yield Case(f"{seed} changed by {size}", target, changed(network, rng, size), box, method)


def random_target(rng: np.random.Generator) -> Network:
    """A small network: 1 to 3 maps of 1 to 5 units, some weights zero, some units dead."""
    sizes = rng.integers(1, 6, size=int(rng.integers(2, 5)))
    scale = SCALES[int(rng.integers(len(SCALES)))]
    weights, biases = [], []
    for k, m in pairwise(sizes):
        weight = scale * rng.standard_normal((m, k)) * (rng.random((m, k)) < rng.choice([0.6, 1.0]))
        kind = np.float32 if rng.integers(2) else np.float64
        weights.append(weight.astype(kind))
        bias = scale * rng.standard_normal(m) * rng.choice([0.0, 1.0, 5.0])
        dead = rng.random(m) < rng.choice([0.0, 0.0, 0.4])
        biases.append(np.where(dead, bias - 1e3 * scale, bias))
    activation = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
    final = bool(rng.integers(2)) and len(weights) > 1
    return Network.mlp(weights, biases, activation=activation, final_activation=final)


def random_box(rng: np.random.Generator, size: int) -> Box:
    """Wide or narrow, off centre, and sometimes without width in a coordinate."""
    centre = rng.choice([0.0, 0.0, 2.0, -50.0]) * np.ones(size)
    radius = rng.choice([1e-6, 0.1, 1.0, 10.0]) * rng.random(size)
    radius = np.where(rng.random(size) < 0.1, 0.0, radius)
    lo, hi = (centre - radius).astype(np.float32), (centre + radius).astype(np.float32)
    if rng.random() < 0.1:  # as thin as floats allow
        hi = np.nextafter(lo, np.float32(np.inf))
    return Box(lo, hi)


def _other_statistics(network: Network, rng: np.random.Generator) -> Network:
    """The same network with other means and variances in its norms."""
    ops: dict[str, Any] = {}
    for node in network.norm_nodes():
        norm = node.op
        assert isinstance(norm, Norm)
        n = len(norm.gamma)
        plain = Norm(norm.gamma, norm.beta, rng.standard_normal(n), rng.random(n) + 1e-3, 1e-5)
        ops[node.name] = plain.with_effective(*norm.effective())
    return network.with_ops(ops)


def changed(network: Network, rng: np.random.Generator, size: float) -> Network:
    """One weight, bias, gamma or beta moved by `size` relative to the largest of its kind."""
    nodes = [n for n in network.nodes if isinstance(n.op, Dense | Norm)]
    node = nodes[int(rng.integers(len(nodes)))]
    if isinstance(node.op, Dense):
        weight, bias = dense(node.op.weight).copy(), node.op.bias.copy()
        _move((weight, bias)[int(rng.integers(2))], rng, size)
        return network.with_ops({node.name: Affine(weight, bias)})
    assert isinstance(node.op, Norm)
    gamma, beta = node.op.gamma.copy(), node.op.beta.copy()
    _move((gamma, beta)[int(rng.integers(2))], rng, size)
    norm = Norm(gamma, beta, node.op.mean, node.op.var, node.op.eps)
    return network.with_ops({node.name: norm})


def _move(values: Array, rng: np.random.Generator, size: float) -> None:
    scale = max(float(np.max(np.abs(values))), 1e-3)
    values.flat[int(rng.integers(values.size))] += size * scale


# --- judgement ------------------------------------------------------------------------------------


def judge(case: Case, tally: Tally, rng: np.random.Generator) -> Certificate:
    """Compares everything that can be found with everything that is stated."""
    certificate = certify(
        case.target, case.candidate, domain=case.box, bounds=case.method, tolerance=1e300
    )
    tally.cases += 1
    tally.certified += certificate.verdict.value == "certified"
    evaluators = Evaluator(case.target), Evaluator(case.candidate)
    seen = search(case.target, case.candidate, case.box, samples=64, restarts=4, time_limit=0.05)
    points = [case.box.sample(4, rng), case.box.corners(4, rng)]
    points.append(np.array([x for _, x in seen.points[:3]]).reshape(-1, case.box.size))
    for x in np.concatenate(points):
        truth, other = (evaluate(x) for evaluate in evaluators)
        # the interval of an irrational value counts with its smaller difference: it is 1e-70 wide
        gap = max(max(a - d, c - b) for (a, b), (c, d) in zip(truth, other, strict=True))
        tally.compare("certified_bound", gap, certificate.bound, case.name)
        _judge_floats(case, certificate, x, evaluators[0], tally, rng)
    return certificate


def _judge_floats(
    case: Case,
    certificate: Certificate,
    x: Array,
    exact: Evaluator,
    tally: Tally,
    rng: np.random.Generator,
) -> None:
    for dtype, bound in (
        (np.float64, certificate.float64_bound),
        (np.float32, certificate.float32_bound),
    ):
        point = np.clip(x.astype(dtype), case.box.lo, case.box.hi).astype(dtype)
        inside = case.box.contains(point.astype(np.float64))
        if bound is None or not inside:
            continue
        truth = exact(point.astype(np.float64))
        figure = f"{np.dtype(dtype).name}_bound"
        for order in orders(rng):
            value = evaluate(case.candidate, point, order, int(rng.integers(3)))
            if not np.all(np.isfinite(value)):
                tally.violations.append(f"{case.name}: {figure} stated, but it overflows")
                continue
            gaps = [
                max(lo - Fraction(float(v)), Fraction(float(v)) - hi)
                for (lo, hi), v in zip(truth, value, strict=True)
            ]
            tally.compare(figure, max(gaps), bound, case.name)


def orders(rng: np.random.Generator) -> list[Order]:
    """From left to right, from right to left, largest first, in random order."""
    return [
        _in_turn,
        lambda terms: _in_turn(terms[:, ::-1]),
        lambda terms: _in_turn(np.take_along_axis(terms, np.argsort(-np.abs(terms)), 1)),
        lambda terms: _in_turn(terms[:, rng.permutation(terms.shape[1])]),
    ]


def _in_turn(terms: Array) -> Array:
    return np.add.accumulate(terms, axis=1)[:, -1]


def evaluate(network: Network, x: Array, order: Order, form: int) -> Array:
    """The network at x in x's precision, sums in `order`, norms in one of three forms.

    0: the formula; 1: scale and shift computed first; 2: folded into the map before it.
    """
    kind, values = x.dtype.type, {network.source: x}
    folded = _folded_norms(network) if form == 2 else {}
    for node in network.nodes:
        h, op = values[node.inputs[0]], node.op
        if isinstance(op, Dense):
            weight, bias = dense(op.weight).astype(kind), op.bias.astype(kind)
            if node.name in folded:
                scale, shift = _scale_and_shift(folded[node.name], kind)
                weight, bias = scale[:, None] * weight, scale * bias + shift
            terms = np.concatenate([weight * h, bias[:, None]], axis=1)
            values[node.name] = order(terms)
        elif isinstance(op, Norm) and form:
            scale, shift = _scale_and_shift(op, kind)
            known = node.inputs[0] in folded
            values[node.name] = h if known else scale * h + shift
        else:
            inputs = (values[i][None] for i in node.inputs)
            values[node.name] = op(*inputs)[0]
    return values[network.output]


def _folded_norms(network: Network) -> dict[str, Norm]:
    """Affine nodes whose only consumer is a norm, with that norm."""
    found = {}
    for node in network.mixing_nodes():
        users = network.consumers(node.name)
        if len(users) == 1 and isinstance(users[0].op, Norm) and node.name != network.output:
            found[node.name] = users[0].op
    return found


def _scale_and_shift(norm: Norm, kind: Any) -> tuple[Array, Array]:
    spread = norm.var.astype(kind) + kind(norm.eps)
    scale = norm.gamma.astype(kind) / np.sqrt(spread)
    return scale, norm.beta.astype(kind) - norm.mean.astype(kind) * scale


if __name__ == "__main__":
    run("honesty", QUESTION, measure)
