"""The figures of a layered proof: real arithmetic, float64 and float32, side by side.

What f does wrong in front of a cut is the residual of its maps and, in floats, the rounding of the
nodes in between. Each of these errors reaches the output through the target's maps; `carrying`
follows them there with signs and on leaves, and the recursion through absolute values bounds them
where that is better or `carrying` does not apply. The magnitudes that round are those of a leaf,
too (`on_leaves`). Beside f's figures stand those of the target itself, by the same analysis: what
its own evaluation in floats may do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Layered
from reconstruct.certificates.on_leaves import Indices, OnLeaves
from reconstruct.certificates.roundoff import Roundoff
from reconstruct.certificates.walking import Floats, Mode, Real, Walk, all_cut
from reconstruct.networks import Network
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.in_order import in_order

Tick = Callable[[int, int], None]
FLOATS: tuple[Any, ...] = (np.float64, np.float32)


@dataclass(frozen=True)
class Figures:
    """Bounds of |f − g| in real arithmetic and of |fl(f) − g|; of the target, |fl(g) − g|.

    None where there is no bound, with the reason in `reasons` by the name of the type.
    """

    real: float
    floats: tuple[float | None, ...]
    target: tuple[float | None, ...]
    reasons: tuple[str, ...] = ()


def figures(
    known: Reach,
    candidate: Network,
    alignment: Alignment,
    layered: Layered,
    tick: Tick = lambda done, total: None,
) -> Figures:
    """All figures of a layered proof; `tick` is told how many leaves are done."""
    found, reasons = _refined(OnLeaves(known, candidate, alignment, layered), tick)
    real = min(found[0], layered.bound)
    shown = [
        None if why or not isfinite(bound) else bound
        for bound, why in zip(found, reasons, strict=True)
    ]
    floats = tuple(None if bound is None else max(bound, real) for bound in shown[1:3])
    told = tuple(why or "it is not finite" for why in reasons[1:3])
    return Figures(real, floats, tuple(shown[3:]) or (None, None), told)


def error_of(facts: OnLeaves, evaluation: Roundoff) -> float:
    """The largest error of one evaluation of the candidate at its output."""
    mode = Floats(evaluation, facts.layered.arrivals)
    return float(np.max(Walk(facts).run(facts, np.arange(facts.count), [mode])))


def _refined(facts: OnLeaves, tick: Tick) -> tuple[list[float], list[str]]:
    """The largest error of each mode, and why there is none.

    Magnitudes of the whole box come first. Where figures in floats say something, that is less than
    the target's own values are, leaves are then looked at apart.
    """
    walk, every = Walk(facts), np.arange(facts.count)
    modes = _modes(facts, every)
    coarse = walk.run(facts, every, modes)
    worst, reasons = coarse.max(axis=1), [mode.reason for mode in modes]
    size = max(float(np.max(np.abs(end))) for end in facts.known.bounds(facts.known.network.output))
    telling = [i for i, bound in enumerate(worst) if i and bound < size and not reasons[i]]
    if facts.pays and telling:
        worst[telling] = _apart(replace(facts, apart=True), walk, coarse[telling], telling, tick)
    return [float(error) for error in worst], reasons


def _apart(facts: OnLeaves, walk: Walk, coarse: Array, telling: list[int], tick: Tick) -> Array:
    """The largest error of the modes `telling` where leaves are looked at apart, the worst ones by
    `coarse` first, as long as others could be worse than they."""
    order = np.argsort(-(coarse / coarse.max(axis=1, keepdims=True)).max(axis=0), kind="stable")
    groups = facts.groups(order)

    def on(rows: Indices) -> Array:
        modes = _modes(facts, rows)
        return walk.run(facts, rows, [modes[i] for i in telling])

    found, done = in_order(on, groups), 0
    worst = np.zeros(len(coarse))
    for rows in groups:
        worst = np.maximum(worst, np.fmin(next(found), coarse[:, rows]).max(axis=1))
        done += len(rows)
        tick(done, len(order))
        if np.all(coarse[:, order[done:]].max(axis=1, initial=0.0) <= worst):
            break
    return worst


def _modes(facts: OnLeaves, rows: Indices) -> list[Mode]:
    """Real arithmetic, the candidate in floats, and the target where it is affine between cuts."""
    ours, arrivals = facts.of_candidate(rows), facts.layered.arrivals
    made: list[Mode] = [Real(arrivals)]
    made += [Floats(Roundoff(ours, kind), arrivals) for kind in FLOATS]
    if all_cut(facts.known.network, {name for name, _ in facts.alignment.pairs}):
        own = facts.of_target(rows)
        made += [Floats(Roundoff(own, kind)) for kind in FLOATS]
    return made
