"""A map of the target as a task: its kernel, and rigorous bounds of what reaches it.

Where maps before it leave something out, what reaches it has drifted. With W − R in place of W,
values drift apart by `e' = |W| e + |R| (max|h| + e)` from map to map. Hidden units have to stay
active on what the approximation reaches, so their shifts must cover the drift; the certificate
repeats the same recursion with every rounding counted in.

For a rational solver a task has the composition of the target's own maps in rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reconstruct import networks
from reconstruct.bounds import Reach
from reconstruct.constructions.chain import LARGEST
from reconstruct.constructions.construction import ExactMap, Functionals, LeftOut, Task
from reconstruct.constructions.frozen import Layout
from reconstruct.constructions.sites import mixing_at
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Activation, Map, Matrix, Mixing, Network, Node, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.exact import rationals


def tasks_of(
    number: int, name: str, known: Reach, layout: Layout, *, rational: bool, dtype: Any
) -> list[Task]:
    """Map `number` of the target with what is known of its inputs, group by group."""
    op, (source,) = mixing_at(layout.form.network, name), layout.form.network.node(name).inputs
    lo, hi = known.bounds(source)
    count, chain = len(op.kernels), layout.form.chains[name]
    lows, highs = (np.split(part, count) for part in (-op.patch_maxima(-lo), op.patch_maxima(hi)))
    exact = exact_composition(layout.target, chain) if rational else (None,) * count
    return [
        Task(
            index=number,
            name=name,
            weight=dense(kernel),
            bias=bias,
            functionals=functionals_of(known, source, op, g),
            ends=(lows[g], highs[g]),
            exact=exact[g],
            dtype=dtype,
        )
        for g, (kernel, bias) in enumerate(
            zip(op.kernels, np.split(op.channel_bias, count), strict=True)
        )
    ]


def as_reached(task: Task, errors: Vector | None, slack: float | None) -> Task:
    """The same task with what really reaches it.

    Inputs may be off by `errors`, by what maps before leave out. On data, where there is a `slack`,
    ranges are widened about their middle by the factor 1 + slack; an approximation is looked at
    there, and its own values count.
    """
    if errors is None and slack is None:
        return task
    seen = None
    if errors is not None and slack is not None:
        assert task.examples is not None
        seen = task.examples()[0]

    def wider(lo: Vector, hi: Vector, error: Vector | float) -> tuple[Vector, Vector]:
        with np.errstate(over="ignore", invalid="ignore"):
            margin = error if slack is None else slack * 0.5 * (hi - lo)
            top, wide = (float(np.abs(part).max(initial=0.0)) for part in ([lo, hi], margin))
        if slack is not None and top < LARGEST and not wide < LARGEST:
            raise InputError(
                f"hidden values must stay below {LARGEST:.0e} to be shifted in float64, but the "
                f"ranges seen on the data, up to {top:.1e}, reach {wide:.0e} when they are widened "
                f"by a slack of {slack:g}; use a smaller slack (--slack, 1 by default)"
            )
        return lo - margin, hi + margin

    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        rows = dense(A)
        error = 0.0 if errors is None else np.abs(rows) @ errors
        if seen is None:
            lo, hi = task.functionals(A)
        else:
            lo, hi = (seen @ rows.T).min(axis=0), (seen @ rows.T).max(axis=0)
        return wider(lo, hi, error)

    lo, hi = task.ends if seen is None else (seen.min(axis=0), seen.max(axis=0))
    ends = wider(lo, hi, 0.0 if errors is None else errors)
    return replace(task, functionals=functionals, ends=ends)


def functionals_of(known: Reach, source: str, op: Mixing, group: int = 0) -> Functionals:
    """Bounds of kernels on whatever the map meets: the worst position of each row."""
    if op.own_entries:
        return lambda A: known.functionals(source, A)
    assert isinstance(op, networks.Convolution)
    rows = np.split(op.geometry.windows(), op.groups)[group]

    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        kernel = dense(A)
        used: Array = np.any(kernel != 0, axis=0)  # a block of a grouped layer sees few channels
        used[0] = True
        return known.windows(source, kernel[:, used], rows[used])

    return functionals


# --- drift --------------------------------------------------------------------------------------


def drift(
    form: Network, known: Reach, left_out: Mapping[str, LeftOut | None]
) -> Mapping[str, Vector] | None:
    """For each value of the target's normal form a bound of what the approximation adds; None if
    it is none.

    `known` bounds the target; `left_out` says what each map leaves out, as far as it is known:
    what comes behind a map that is not solved yet is told without it.
    """
    if all(rest is None for rest in left_out.values()):
        return None
    errors = {form.source: np.zeros(form.size_in)}
    for node in form.nodes:
        before = [errors[i] for i in node.inputs]
        if isinstance(node.op, Map):
            (error,) = before
            passed = node.op.absolute(error[None])[0]
            # not rounded outward: it only sizes the shifts, and 2^-20 more of it does no harm
            rest = left_out.get(node.name)
            if rest is not None and isinstance(node.op, Mixing):
                # |R|·(max|h| + e) + |b − b̃| of what it leaves out, the same at every position
                top = np.maximum(*map(np.abs, known.bounds(node.inputs[0])))
                left = rest.weight @ node.op.patch_maxima(top + error) + rest.bias
                passed = passed + np.repeat(left, node.op.positions)
            errors[node.name] = (1 + 2.0**-20) * passed
        elif isinstance(node.op, Activation):
            errors[node.name] = node.op.carried(before[0])
        elif isinstance(node.op, networks.MatrixProduct):
            first, second = (np.maximum(*map(np.abs, known.bounds(i))) for i in node.inputs)
            both = node.op(before[0], second + before[1]) + node.op(first, before[1])
            errors[node.name] = (1 + 2.0**-20) * both
        else:
            errors[node.name] = np.sum(before, axis=0)
    return errors


# --- the exact map ------------------------------------------------------------------------------


def exact_composition(network: Network, chain: tuple[str, ...]) -> tuple[ExactMap, ...]:
    """The kernels that the nodes of `chain` make together, first to last, exactly.

    One for each group of a convolution, which only norms and scalings are folded into; of any other
    chain the one map that it is.
    """
    first, *rest = (network.node(name) for name in chain)
    if isinstance(first.op, Mixing) and not first.op.own_entries:
        op = first.op
        count, step = len(op.kernels), op.positions
        weight = rationals(np.concatenate([dense(kernel) for kernel in op.kernels]))
        total = ExactMap(weight, rationals(op.channel_bias))
    else:
        count, step, size = 1, 1, network.sizes[first.inputs[0]]
        total = _behind(first, ExactMap.of(np.eye(size), np.zeros(size)), 1)
    for node in rest:
        total = _behind(node, total, step)
    pairs = zip(np.split(total.weight, count), np.split(total.bias, count), strict=True)
    return tuple(ExactMap(weight, bias) for weight, bias in pairs)


def _behind(node: Node, before: ExactMap, step: int) -> ExactMap:
    """A map with the operation of `node` behind it; a norm of a channel every `step` pixels."""
    op = node.op
    if isinstance(op, Mixing):
        weight = rationals(op.matrix)
        return ExactMap(weight @ before.weight, weight @ before.bias + rationals(op.bias))
    if isinstance(op, networks.Select):
        return ExactMap(before.weight[op.block], before.bias[op.block])
    if not isinstance(op, networks.Diagonal):
        raise UnsupportedError(
            f"the exact solver needs maps with rational entries, but {node.name!r} is a "
            f"{type(op).__name__}; use another solver"
        )
    found = op.rationals(64)  # bits; what is not exact is refused
    for unit, (low, high) in (pair for part in found for pair in enumerate(part)):
        if low != high:
            raise InputError(
                f"the exact solver needs targets whose norms have a rational √(var + eps), but "
                f"unit {unit} of {node.name!r} is scaled by an irrational number near "
                f"{float(low):.9g}; use another solver, which bounds the rounding of the folded "
                f"norm instead"
            )
    scale, shift = (np.array([low for low, _ in part[::step]], dtype=object) for part in found)
    return ExactMap(scale[:, None] * before.weight, scale * before.bias + shift)
