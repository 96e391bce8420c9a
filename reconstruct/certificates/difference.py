"""The difference of two networks on boxes, as zonotopes beside those of the target's values.

`gaps` says what the candidate does otherwise. With h the target's values, δ = h' − h, and D the
slopes of chords of the activation,

    z' − z = A' δ + (A' − A) h + (c' − c),      δ behind it = D (z' − z),

D known where a unit stays on one piece, and D̄ ± ρ elsewhere: ρ|z' − z| is a new symbol. h and δ
share the symbols of h, so that (A' − A) h enters with its signs and its size on the box at hand.
On small boxes, where few units bend, that is nearly the difference itself.

Rests on proofs_check: carried-errors, shared-symbols, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.adaptive import zonotope
from reconstruct.bounds.adaptive.passing import Pass
from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.certificates.gaps import Gap
from reconstruct.certificates.secants import Secants, secants
from reconstruct.networks import Network
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.rounding import SLACK, TINY, UNIT, gamma

BENT = 2.0**-10  # a chord less certain than this gets a symbol, others go into the radius
DIRECT = 1e-3  # the inputs' own part is no looseness; it decides where nothing bends


@dataclass(frozen=True, eq=False)
class Bounded:
    """Of each box: the bound of |f − g|, the input to cut, and how many symbols there were."""

    bound: Array
    axis: Array
    symbols: int


@dataclass(frozen=True, eq=False)
class _Delta:
    """δ = shared + own: forms in the symbols of h, and forms in symbols of its own."""

    shared: Zonotope
    own: Zonotope

    @property
    def size(self) -> Array:
        """At least |δ|, (boxes, m)."""
        return upward(self.shared.reach + self.own.reach)


def bound_boxes(
    network: Network, steps: tuple[Gap, ...], known: Mapping[str, Range], lo: Array, hi: Array
) -> Bounded:
    """Bounds of the difference on boxes (boxes, inputs); `known` holds ranges on all of them."""
    with np.errstate(all="ignore"):
        return _Walk(network, known, lo, hi).run(steps)


class _Walk:
    """One pass over a batch of boxes, cut by cut."""

    def __init__(self, network: Network, known: Mapping[str, Range], lo: Array, hi: Array) -> None:
        self.state = Pass(network, lo, hi, known, shares=True)
        self.values = {network.source: self.state.values[network.source]}
        self.deltas: dict[str, _Delta] = {}
        self.blame = np.zeros((len(lo), 0, lo.shape[1]))  # of own symbols on inputs

    def run(self, steps: tuple[Gap, ...]) -> Bounded:
        for step in steps[:-1]:
            before = self._arriving(step)
            if step.op is None:
                self.values[step.name] = self.state.until(step.name)
                self.deltas[step.name] = before
                continue
            value = self.state.until(step.inside)
            self.values[step.name] = self.state.until(step.name)
            slopes = secants(step.op, *self._range(step.inside))
            self.deltas[step.name] = self._bent(before, slopes, value)
        return self._end(self._arriving(steps[-1]))

    def _range(self, inside: str) -> Range:
        lo, hi = self.state.ranges[inside]
        if inside not in self.state.known:
            return lo, hi
        below, above = self.state.known[inside]
        return np.maximum(lo, below), np.minimum(hi, above)

    def _arriving(self, step: Gap) -> _Delta:
        """z' − z."""
        boxes, own = len(self.blame), self.blame.shape[1]
        shared, mine = [_constant(step.constant, boxes)], [_nothing(boxes, own, step.units)]
        for source, matrix in step.apart:
            shared.append(_image(matrix, self.values[source]))
        for source, matrix in step.theirs:
            if source in self.deltas:
                shared.append(_image(matrix, self.deltas[source].shared))
                mine.append(_image(matrix, self.deltas[source].own))
        return _Delta(zonotope.total(shared), zonotope.total(mine))

    def _bent(self, before: _Delta, slopes: Secants, value: Zonotope) -> _Delta:
        """δ behind an activation: its middle slopes, and a symbol for each unit that may bend."""
        noise = slopes.noise(before.size[..., None])[..., 0]
        bent = (slopes.radius > BENT) & np.isfinite(noise)
        boxes, units = np.nonzero(bent)
        slots = (np.cumsum(bent, axis=1) - 1)[boxes, units]
        count = int(slots.max()) + 1 if len(slots) else 0
        own, shared = _scaled(before.own, slopes.middle), _scaled(before.shared, slopes.middle)
        first = self.blame.shape[1]
        forms = np.zeros((len(noise), first + count, noise.shape[1]))
        forms[:, : own.symbols] = own.forms
        forms[boxes, first + slots, units] = noise[boxes, units]
        self._remember(value, boxes, units, slots, count)
        rest = upward(own.radius + np.where(bent, 0.0, noise))
        return _Delta(shared, Zonotope(own.centre, forms, rest))

    def _remember(
        self, value: Zonotope, boxes: Array, units: Array, slots: Array, count: int
    ) -> None:
        """A new symbol is blamed on the inputs as much as the range of its unit is."""
        share = self.state.share[:, : value.symbols]
        own = np.matmul(np.abs(value.forms).transpose(0, 2, 1), share)
        rows = own[boxes, units]
        fresh = np.zeros((len(self.blame), count, self.blame.shape[2]))
        fresh[boxes, slots] = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)
        self.blame = np.concatenate([self.blame, fresh], axis=1)

    def _end(self, last: _Delta) -> Bounded:
        """The worst output of each box, and which input its looseness comes from."""
        size = np.where(np.isnan(last.size), np.inf, last.size)
        worst, boxes = size.argmax(axis=1), np.arange(len(size))
        shared = np.nan_to_num(np.abs(last.shared.forms[boxes, :, worst]))
        own = np.nan_to_num(np.abs(last.own.forms[boxes, :, worst]))
        lo, hi = self.state.lo, self.state.hi
        shared[:, : lo.shape[1]] *= DIRECT
        blame = np.einsum("be,bed->bd", shared, self.state.share[:, : shared.shape[1]])
        blame += np.einsum("be,bed->bd", own, self.blame)
        blame = np.where(hi > lo, blame + 1e-300 * (hi - lo), -1.0)
        symbols = shared.shape[1] + own.shape[1]
        return Bounded(size[boxes, worst], blame.argmax(axis=1), symbols)


def _constant(value: Enclosure, boxes: int) -> Zonotope:
    shape = (boxes, value.shape[0])
    radius = upward(np.abs(value.low) + value.radius)
    return Zonotope(
        np.broadcast_to(value.high, shape),
        np.zeros((boxes, 0, shape[1])),
        np.broadcast_to(radius, shape),
    )


def _nothing(boxes: int, symbols: int, units: int) -> Zonotope:
    zero = np.zeros((boxes, units))
    return Zonotope(zero, np.zeros((boxes, symbols, units)), zero)


def _image(matrix: Enclosure, value: Zonotope) -> Zonotope:
    """The zonotope of `X v`, X anywhere in the enclosure."""
    boxes, symbols, inputs = value.forms.shape
    middle, size = matrix.high.T, np.abs(matrix.high).T
    centre = value.centre @ middle
    forms = (value.forms.reshape(-1, inputs) @ middle).reshape(boxes, symbols, matrix.shape[0])
    unknown = (np.abs(matrix.low) + matrix.radius).T + gamma(inputs + 2) * size
    lost = 4 * (symbols + 2) * inputs * TINY
    radius = (value.radius @ size + value.reach @ unknown) * (SLACK * SLACK) + lost
    return Zonotope(centre, forms, np.where(np.isnan(radius), np.inf, upward(radius)))


def _scaled(value: Zonotope, slopes: Array) -> Zonotope:
    """Every unit times its slope; a slope of 0 or 1 loses nothing."""
    exact = (slopes == 0) | (slopes == 1)
    lost = np.where(exact, 0.0, 4 * UNIT * value.reach + 4 * (value.symbols + 2) * TINY)
    radius = np.abs(slopes) * (value.radius + lost)
    return Zonotope(
        value.centre * slopes,
        value.forms * slopes[:, None],
        upward(np.where(slopes == 0, 0, radius)),
    )
