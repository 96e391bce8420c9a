"""A map of the target as a task: its kernel, and rigorous bounds of what reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.constructions.construction import Functionals, Task
from reconstruct.constructions.exact_maps import exact_composition
from reconstruct.constructions.layout import Layout
from reconstruct.constructions.nodes import mixing_at
from reconstruct.constructions.shifts import LARGEST
from reconstruct.errors import InputError
from reconstruct.networks import Convolution, Matrix, Mixing, Node, dense
from reconstruct.numbers.arrays import Array, Vector


def task_of(number: int, node: Node, known: Reach, layout: Layout, *, rational: bool) -> Task:
    """Map `number` of the target with what is known of its inputs, group by group."""
    op = mixing_at(layout.form.network, node.name)
    (source,) = node.inputs
    lo, hi = known.bounds(source)
    magnitude = op.seen(np.maximum(np.abs(lo), np.abs(hi)))
    chain = layout.form.chains[node.name]
    count = len(op.kernels)
    exact = exact_composition(layout.target, chain) if rational else (None,) * count
    biases, reaches = np.split(op.channel_bias, count), np.split(magnitude, count)
    lows, highs = np.split(-op.seen(-lo), count), np.split(op.seen(hi), count)
    parts = tuple(
        Task(number, node.name, dense(kernel), bias, functionals_of(known, source, op, g), h, whole)
        for g, (kernel, bias, h, whole) in enumerate(
            zip(op.kernels, biases, reaches, exact, strict=True)
        )
    )
    ends = zip(parts, lows, highs, strict=True)
    parts = tuple(replace(part, ends=(low, high)) for part, low, high in ends)
    if count == 1:
        return replace(parts[0], lift=layout.lifts.get(node.name))
    return replace(parts[0], groups=parts)


def slackened(task: Task, slack: float) -> Task:
    """The same task with ranges widened about their middle by the factor 1 + slack."""

    def wider(lo: Vector, hi: Vector) -> tuple[Vector, Vector]:
        with np.errstate(over="ignore", invalid="ignore"):
            room = slack * 0.5 * (hi - lo)
            _require_small(slack, np.abs([lo, hi]), np.abs(room))
            return lo - room, hi + room

    groups = tuple(slackened(part, slack) for part in task.groups)
    ends = None if task.ends is None else wider(*task.ends)
    return replace(
        task, functionals=lambda A: wider(*task.functionals(A)), groups=groups, ends=ends
    )


def _require_small(slack: float, seen: Array, room: Array) -> None:
    """Refuses a slack that takes ranges which could be shifted to where they cannot."""
    top, wide = float(seen.max(initial=0.0)), float(room.max(initial=0.0))
    if top < LARGEST and not wide < LARGEST:
        raise InputError(
            f"hidden values must stay below {LARGEST:.0e} to be shifted in float64, but the ranges "
            f"seen on the data, up to {top:.1e}, reach {wide:.0e} when they are widened by a slack "
            f"of {slack:g}; use a smaller slack (--slack, 1 by default)"
        )


def as_seen(task: Task, h: Array) -> Task:
    """The same task with the ranges of inputs `h` that were looked at, one row each."""
    parts = np.split(h, len(task.each), axis=1)
    groups = [_among(part, own) for part, own in zip(task.groups, parts, strict=False)]
    return replace(_among(task, parts[0]), groups=tuple(groups))


def _among(task: Task, h: Array) -> Task:
    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        values = h @ dense(A).T
        return values.min(axis=0), values.max(axis=0)

    ends = h.min(axis=0), h.max(axis=0)
    return replace(task, functionals=functionals, magnitude=np.abs(h).max(axis=0), ends=ends)


def drifted(task: Task, node: Node, drifts: Mapping[str, Vector]) -> Task:
    """The same task for inputs that have drifted by what maps before leave out."""
    assert isinstance(node.op, Mixing)
    error = node.op.seen(drifts[node.inputs[0]])
    shares = np.split(error, len(task.each))
    groups = [_widened(part, share) for part, share in zip(task.groups, shares, strict=False)]
    return replace(_widened(task, shares[0]), groups=tuple(groups))


def _widened(task: Task, error: Vector) -> Task:
    """The same task for inputs that may be off by `error`."""

    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        lo, hi = task.functionals(A)
        room = np.abs(dense(A)) @ error
        return lo - room, hi + room

    ends = None if task.ends is None else (task.ends[0] - error, task.ends[1] + error)
    return replace(task, functionals=functionals, magnitude=task.magnitude + error, ends=ends)


def functionals_of(known: Reach, source: str, op: Mixing, group: int = 0) -> Functionals:
    """Bounds of kernels on whatever the map meets: the worst position of each row."""
    if op.own_entries:
        return lambda A: known.functionals(source, A)
    assert isinstance(op, Convolution)
    rows = np.split(op.geometry.windows(), op.groups)[group]

    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        kernel = dense(A)
        used: Array = np.any(kernel != 0, axis=0)  # a block of a grouped layer sees few channels
        used[0] = True
        return known.windows(source, kernel[:, used], rows[used])

    return functionals
