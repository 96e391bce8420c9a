"""How far errors at the cuts reach, through the target's maps with their signs, on every leaf.

Let ε_i, |ε_i| ≤ e_i, be added to the target in front of each cut. Errors δ = ĥ − h behind the cuts
obey δ = D(A δ + ε) + η, where D holds slopes of chords: on a leaf they lie within D̄ ± ρ, found
from the pieces that the leaf's range meets, and a chord that leaves the range by more than there
is room is off by at most the largest slope there is. So

    δ = D̄ A δ + [noise],    |noise| ≤ |D̄| e + ρ p + (what leaves the range) + |η|,   p ≥ |A δ + ε|,

a linear system in the noises alone: one symbol for each unit, carried through D̄ A with signs. What
rounding does to the products is at most γ_n times the same products of absolute values.

Rests on proofs_check: carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.arithmetic import UNIT, Floats
from proofs_check.certificates.chords import Chords, upper

BATCH = 64  # leaves at once

Maps = list[tuple[str, Floats, Floats]]  # a source with middle and error of its matrix


@dataclass(frozen=True, eq=False)
class _Cut:
    name: str
    maps: Maps
    chords: Chords
    noise: Floats  # (leaves, m, modes)


class Carrier:
    """Errors of several `modes` side by side, cut after cut, on so many leaves."""

    def __init__(self, leaves: int, modes: int) -> None:
        self.leaves, self.modes = leaves, modes
        self.reached: dict[str, Floats] = {}
        self.cuts: list[_Cut] = []
        self.terms = 16

    def add(
        self,
        name: str,
        maps: Maps,
        chords: Chords,
        noise: tuple[Floats, Floats],
        most: Floats,
    ) -> Floats:
        """|ĥ − h| at a cut over all leaves, (m, modes).

        `noise` is new in front of the activation and behind it; |ẑ − z| ≤ `most` is known.
        """
        maps, fresh = self._known(maps, noise[0])
        kept = np.zeros((self.leaves, *fresh.shape))

        def behind(rows: slice) -> Floats:
            before = np.minimum(self._arriving(rows, maps, fresh), most)
            new = chords.noise(before, rows) + noise[1]
            size = np.abs(chords.middle[rows])[..., None]
            kept[rows] = upper(_times(size, fresh) + new)
            return upper(_times(size, before) + new)

        self.reached[name] = self._worst(behind)
        self.cuts.append(_Cut(name, maps, chords, kept))
        return self.reached[name]

    def end(self, maps: Maps, noise: Floats) -> Floats:
        """The errors at the output, (m, modes)."""
        maps, fresh = self._known(maps, noise)
        return self._worst(lambda rows: self._arriving(rows, maps, fresh))

    def _known(self, maps: Maps, noise: Floats) -> tuple[Maps, Floats]:
        """Without the input, which has no error; what a map is not known to is noise."""
        kept = [part for part in maps if part[0] in self.reached]
        for source, middle, error in kept:
            self.terms += middle.shape[1] + 8
            if error.any():
                noise = noise + error @ self.reached[source]
        return kept, upper(noise)

    def _worst(self, errors: Callable[[slice], Floats]) -> Floats:
        found = []
        with np.errstate(all="ignore"):
            for start in range(0, self.leaves, BATCH):
                part = errors(slice(start, start + BATCH)).max(axis=0)
                found.append(np.where(np.isnan(part), np.inf, part))
        return np.asarray(np.max(found, axis=0))

    def _arriving(self, rows: slice, maps: Maps, noise: Floats) -> Floats:
        """|ẑ − z| on some leaves, (leaves, m, modes)."""
        count = len(range(self.leaves)[rows])
        signed: dict[str, Floats] = {}
        sizes: dict[str, Floats] = {}
        symbols = np.zeros((count, 0, self.modes))
        for cut in self.cuts:
            middle, own = cut.chords.middle[rows], cut.noise[rows]
            units, first = own.shape[1], symbols.shape[1]
            forms, total = self._through(cut.maps, signed, sizes, (count, first, units))
            whole = np.zeros((count, first + units, units))
            whole[:, :first] = forms * middle[:, None]
            whole[:, first + np.arange(units), np.arange(units)] = 1.0
            signed[cut.name] = whole
            sizes[cut.name] = _times(np.abs(middle)[..., None], total) + own
            symbols = np.concatenate([symbols, own], axis=1)
        shape = (count, symbols.shape[1], len(noise))
        forms, total = self._through(maps, signed, sizes, shape)
        reached = np.abs(forms).transpose(0, 2, 1) @ symbols
        found = upper(reached + (2 * self.terms * UNIT) * total + noise)
        return np.where(np.isnan(found), np.inf, found)

    def _through(
        self,
        maps: Maps,
        signed: dict[str, Floats],
        sizes: dict[str, Floats],
        shape: tuple[int, int, int],
    ) -> tuple[Floats, Floats]:
        """What maps make of the errors of their sources: with signs, and of absolute values."""
        count, _, units = shape
        forms, total = np.zeros(shape), np.zeros((count, units, self.modes))
        for source, middle, _ in maps:
            known, width = signed[source].shape[1:]
            flat = signed[source].reshape(-1, width) @ middle.T
            forms[:, :known] += flat.reshape(count, known, units)
            total += np.abs(middle) @ sizes[source]
        return forms, total


def _times(x: Floats, y: Floats) -> Floats:
    """The product, where zero times anything is zero."""
    return np.where(x == 0, 0.0, x * y)
