"""Differences through wide layers, by Euclidean norms: for many inputs, where no box can be cut.

As in `carrying`, each cut adds a noise N_j that reaches the others through products M_kj of signed
maps. Its entries are at most s_j, and its length at most t_j:

    |z' − z|_k ≤ d_k + Σ_j min(|M_kj| s_j, ‖rows of M_kj‖₂ t_j),
    s_k = |D̄| d_k + q |z' − z|_k,      t_k = ‖D̄ d_k‖₂ + ‖q d_k‖₂ + Σ_j ‖diag(q) M_kj‖₂ t_j,

d what the maps in front of the cut do otherwise, D̄ ± q the slopes of chords. Absolute values grow
with the number of units that may bend, lengths with its root.

Rests on proofs_check: carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.gaps import Gap
from reconstruct.certificates.hidden_noise import FLOOR
from reconstruct.certificates.secants import secants
from reconstruct.numbers.double_double import TINY, Array, upward
from reconstruct.numbers.norms import spectral_norm
from reconstruct.numbers.rounding import UNIT

MOST_WORK = 2.0**35  # multiplications: seconds


@dataclass(frozen=True, eq=False)
class _Noise:
    """Bounds of a noise's entries and of its length."""

    entries: Array
    length: float


@dataclass(frozen=True, eq=False)
class _Reached:
    """h' − h at a cut: maps from the noises of cuts before, a bound of its entries, and the same
    through absolute values, against which rounding is measured; and what no entry of the maps has
    lost more of by underflow."""

    maps: dict[str, Array]
    size: Array
    total: Array
    lost: float


def bears(steps: tuple[Gap, ...]) -> bool:
    """Whether the products and their norms take bearable time."""
    units = [step.units for step in steps]
    return sum(m * n * (m + 16 * min(m, n)) for m in units for n in units) < MOST_WORK


def euclidean_bound(known: Reach, steps: tuple[Gap, ...]) -> float:
    """A bound of |candidate − target| on the box of `known`, from the gaps between them."""
    with np.errstate(all="ignore"):
        found = float(_Lengths(known).run(steps))
    return found if np.isfinite(found) else float("inf")


class _Lengths:
    def __init__(self, known: Reach) -> None:
        self.known = known
        self.noises: dict[str, _Noise] = {}
        self.reached: dict[str, _Reached] = {}
        self.terms = 8

    def run(self, steps: tuple[Gap, ...]) -> float:
        for step in steps[:-1]:
            self._cut(step)
        fresh, arriving = self._arriving(steps[-1])
        return float(np.max(self._size(fresh, arriving), initial=0.0))

    def _cut(self, step: Gap) -> None:
        fresh, arriving = self._arriving(step)
        size = self._size(fresh, arriving)
        lo, hi = self.known.bounds(step.inside)
        slopes = secants(step.op, lo, hi)
        off = upward(slopes.radius + np.where(size > slopes.room, slopes.more, 0.0))
        middle = np.abs(slopes.middle)
        entries = upward(middle * fresh + off * size)
        length = self._length(middle * fresh, off * fresh, off, arriving)
        length = min(length, norm(entries))
        maps = {name: slopes.middle[:, None] * matrix for name, matrix in arriving.maps.items()}
        maps[step.name] = np.eye(step.units)
        total = upward(middle * arriving.total + entries)
        self.noises[step.name] = _Noise(entries, length)
        lost = float(np.max(middle, initial=0.0)) * arriving.lost + TINY
        self.reached[step.name] = _Reached(maps, upward((middle + off) * size), total, lost)

    def _length(self, kept: Array, turned: Array, off: Array, arriving: _Reached) -> float:
        """How long the noise behind a cut can be."""
        parts = [norm(kept), norm(turned)]
        for name, matrix in arriving.maps.items():
            most = spectral_norm(off[:, None] * matrix) + FLOOR
            parts.append(most * self.noises[name].length)
        return float(upward(sum(parts)))

    def _size(self, fresh: Array, arriving: _Reached) -> Array:
        """Bounds of |z' − z|."""
        size = fresh
        for name, matrix in arriving.maps.items():
            noise = self.noises[name]
            rows = np.sqrt(np.sum(matrix * matrix, axis=1) + FLOOR) * noise.length
            size = size + np.minimum(np.abs(matrix) @ noise.entries, rows)
        return upward(size)

    def _arriving(self, step: Gap) -> tuple[Array, _Reached]:
        """What is new in front of a cut, rounding included, and the maps of what is not."""
        fresh = self._fresh(step)
        maps: dict[str, Array] = {}
        total, lost = np.zeros(step.units), 0.0
        for source, matrix in step.theirs:
            if source not in self.reached:
                continue  # the input has no error
            value, sizes = self.reached[source], np.abs(matrix.high)
            for name, way in value.maps.items():
                image = matrix.high @ way
                maps[name] = maps[name] + image if name in maps else image
            total = total + sizes @ value.total + TINY
            lost += float(np.max(sizes.sum(axis=1), initial=0.0)) * value.lost + TINY
            fresh = fresh + (np.abs(matrix.low) + matrix.radius) @ value.size
            self.terms += matrix.shape[1] + 8
        gone = lost * sum(float(np.sum(noise.entries)) for noise in self.noises.values())
        rounding = 4 * self.terms * UNIT * total + gone
        return upward(fresh + rounding), _Reached(maps, np.zeros(0), upward(total), lost)

    def _fresh(self, step: Gap) -> Array:
        """|(A' − A) h + (c' − c)| over the ranges of h."""
        low = high = step.constant.high
        doubt = np.abs(step.constant.low) + step.constant.radius
        for source, matrix in step.apart:
            lo, hi = self.known.bounds(source)
            low, high = low + _least(matrix.high, lo, hi), high - _least(-matrix.high, lo, hi)
            reach = np.maximum(np.abs(lo), np.abs(hi))
            unknown = np.abs(matrix.low) + matrix.radius
            unknown = unknown + 2 * (matrix.shape[1] + 8) * UNIT * np.abs(matrix.high)
            doubt = doubt + unknown @ reach + 4 * UNIT * (np.abs(low) + np.abs(high))
        return upward(np.maximum(np.abs(low), np.abs(high)) + doubt)


def _least(matrix: Array, lo: Array, hi: Array) -> Array:
    """The least value of each row on the range, but for rounding."""
    return np.asarray(np.maximum(matrix, 0.0) @ lo + np.minimum(matrix, 0.0) @ hi)


def norm(values: Array) -> float:
    """At least the Euclidean length."""
    top = float(np.max(np.abs(values), initial=0.0))
    if not top or not np.isfinite(top):
        return top
    return float(upward(top * np.sqrt(np.sum((values / top) ** 2))))
