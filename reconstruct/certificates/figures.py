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
from functools import cached_property
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
from reconstruct.numbers.parallel import parallel_map

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


def _refined(facts: OnLeaves, tick: Tick) -> tuple[list[float], list[str]]:
    """The largest error of each mode, and why there is none: with magnitudes of the whole box, and
    in floats, where that pays, with those of each leaf."""
    walk, every = Walk(facts), np.arange(facts.count)
    modes = _modes(facts, every)
    coarse = walk.run(facts, every, modes)
    worst, reasons = coarse.max(axis=1), [mode.reason for mode in modes]
    if facts.pays:
        apart = _Apart(replace(facts, apart=True), walk, coarse, tick)
        worst = apart.worst([i for i, why in enumerate(reasons) if i and not why])
    return [float(error) for error in worst], reasons


@dataclass(frozen=True, eq=False)
class _Apart:
    """Leaves looked at apart; `coarse` (modes, leaves) bounds the errors as well."""

    facts: OnLeaves
    walk: Walk
    coarse: Array
    tick: Tick

    def worst(self, modes: list[int]) -> Array:
        """The largest error of every mode, those named looked at leaf by leaf.

        The worst leaves by `coarse` come first, as long as others could be worse than they. A mode
        whose figure is no less than the target's values are, already there, says nothing.
        """
        found: Array = self.coarse.max(axis=1)
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(self.coarse[modes] / found[modes, None])
        order = np.argsort(-shares.max(axis=0, initial=0.0), kind="stable")
        first, *rest = self.facts.groups(order)
        errors = self._errors(first, modes)
        telling = [i for i, error in zip(modes, errors, strict=True) if error < self._size]
        if telling:
            start = np.array([e for e in errors if e < self._size])
            found[telling] = self._over(telling, start, len(first), order, rest)
        return found

    def _over(
        self, modes: list[int], worst: Array, done: int, order: Indices, groups: list[Indices]
    ) -> Array:
        """The largest errors, those of the first leaves known to be `worst`."""
        errors = parallel_map(lambda rows: self._errors(rows, modes), groups)
        for rows in groups:
            self.tick(done, len(order))
            if np.all(self.coarse[modes][:, order[done:]].max(axis=1) <= worst):
                break
            worst = np.maximum(worst, next(errors))
            done += len(rows)
        return worst

    def _errors(self, rows: Indices, modes: list[int]) -> Array:
        """The largest errors on some leaves."""
        made = _modes(self.facts, rows)
        found = self.walk.run(self.facts, rows, [made[i] for i in modes])
        return np.asarray(np.fmin(found, self.coarse[modes][:, rows]).max(axis=1))

    @cached_property
    def _size(self) -> float:
        """Of the target's values."""
        known = self.facts.known
        return max(float(np.max(np.abs(end))) for end in known.bounds(known.network.output))


def _modes(facts: OnLeaves, rows: Indices) -> list[Mode]:
    """Real arithmetic, the candidate in floats, and the target where it is affine between cuts."""
    ours, arrivals = facts.of_candidate(rows), facts.layered.arrivals
    made: list[Mode] = [Real(arrivals)]
    made += [Floats(Roundoff(ours, kind), arrivals) for kind in FLOATS]
    if all_cut(facts.known.network, {name for name, _ in facts.alignment.pairs}):
        own = facts.of_target(rows)
        made += [Floats(Roundoff(own, kind)) for kind in FLOATS]
    return made
