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

from proofs_check.certificates.arithmetic import TINY, UNIT, Floats, above
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks.activations import Line

# --------------------------------------------------------------------------------------------------
# Slopes of chords: how an activation passes on the difference of two of its inputs.
#
# f(ẑ) − f(z) = d (ẑ − z), d between the least and the largest slope of the pieces between z and ẑ.

ROOMY = 2.0**-30  # for up to 2^20 roundings of sums and products without a minus


def upper(x: Floats) -> Floats:
    """A non-negative expression of fewer than 2^20 roundings, from above."""
    with np.errstate(all="ignore"):
        return above(x * (1 + ROOMY) + 2.0**20 * TINY)


@dataclass(frozen=True, eq=False)
class Chords:
    """Slopes of chords on ranges (leaves, m): `middle` ± `radius`; off by `more` for each unit by
    which a chord leaves the range beyond `room`."""

    middle: Floats
    radius: Floats
    room: Floats
    more: Floats

    @classmethod
    def of(cls, bend: Bend | None, lo: Floats, hi: Floats) -> Chords:
        zero = np.zeros(lo.shape)
        if bend is None:
            return cls(np.ones(lo.shape), zero, zero, zero)
        lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
        if len(lines) < len(bend.pieces):  # an exponential rises by anything up to the constant
            steep = np.full(lo.shape, bend.lipschitz)
            return cls(zero, steep, zero, zero)
        slopes = [piece.slope for piece in lines]
        small, large = np.full(lo.shape, np.inf), np.full(lo.shape, -np.inf)
        room = np.full(lo.shape, np.inf)
        with np.errstate(all="ignore"):
            for piece in lines:
                met = (hi > piece.lo) & (lo < piece.hi)
                small = np.where(met, np.minimum(small, piece.slope), small)
                large = np.where(met, np.maximum(large, piece.slope), large)
                away = np.where(lo >= piece.hi, lo - piece.hi, piece.lo - hi)
                room = np.where(met, room, np.minimum(room, np.maximum(away, 0.0)))
        unknown = ~(small <= large)
        small = np.where(unknown, min(slopes), small)
        large = np.where(unknown, max(slopes), large)
        middle = 0.5 * small + 0.5 * large
        radius = np.where(small == large, 0.0, above(np.maximum(large - middle, middle - small)))
        far = above(np.maximum(max(slopes) - middle, middle - min(slopes)))
        room = np.where(np.isnan(room), 0.0, room * (1 - 4 * UNIT))
        return cls(middle, radius, room, np.maximum(far - radius, 0.0) * (1 + 8 * UNIT))

    def noise(self, before: Floats, rows: slice) -> Floats:
        """What `middle` leaves out of an error of at most `before`, (leaves, m, modes)."""
        room = np.minimum(self.room[rows][..., None], before)
        beyond = np.where(np.isinf(before), np.inf, before - room)
        lost = np.where(self.more[rows][..., None] == 0, 0.0, self.more[rows][..., None] * beyond)
        kept = np.where(self.radius[rows][..., None] == 0, 0.0, self.radius[rows][..., None])
        return upper(np.where(kept == 0, 0.0, kept * before) + lost)


BATCH = 64  # leaves at once
LOST = 2.0**-1000  # more than sums of products lose below the smallest normal floats

Maps = list[tuple[str, Floats, Floats]]  # a source with middle and error of its matrix


@dataclass(frozen=True, eq=False)
class _Cut:
    name: str
    maps: Maps
    chords: Chords
    noise: Floats  # (leaves, m, modes)


class SignedErrors:
    """Errors of several `modes` side by side, cut after cut, on so many leaves."""

    def __init__(self, leaves: int, modes: int) -> None:
        self.leaves, self.modes = leaves, modes
        self.reached: dict[str, Floats] = {}
        self.cuts: list[_Cut] = []
        self.terms = 16

    def add(
        self, name: str, maps: Maps, chords: Chords, noise: tuple[Floats, Floats], most: Floats
    ) -> Floats:
        """|ĥ − h| at a cut, (leaves, m, modes).

        `noise` is new in front of the activation and behind it, and |ẑ − z| ≤ `most` is known; each
        (1 or leaves, m, modes).
        """
        maps, doubt = self._known(maps, noise[0].shape[1:])
        shape = (self.leaves, *noise[0].shape[1:])
        kept, found = np.zeros(shape), np.zeros(shape)
        given = upper(noise[0] + doubt), noise[1], most
        fresh, behind, limit = (np.broadcast_to(part, shape) for part in given)

        def one(rows: slice) -> None:
            before = np.minimum(self._arriving(rows, maps, fresh[rows]), limit[rows])
            new = chords.noise(before, rows)
            size = np.abs(chords.middle[rows])[..., None]
            kept[rows] = upper(_times(size, fresh[rows]) + behind[rows] + new)
            found[rows] = upper(_times(size, before) + new + behind[rows])

        self._on_all(one)
        self.reached[name] = found.max(axis=0)
        self.cuts.append(_Cut(name, maps, chords, kept))
        return found

    def end(self, maps: Maps, noise: Floats) -> Floats:
        """The errors at the output, (leaves, m, modes)."""
        maps, doubt = self._known(maps, noise.shape[1:])
        found = np.zeros((self.leaves, *noise.shape[1:]))
        fresh = np.broadcast_to(upper(noise + doubt), found.shape)

        def one(rows: slice) -> None:
            found[rows] = self._arriving(rows, maps, fresh[rows])

        self._on_all(one)
        return found

    def _known(self, maps: Maps, shape: tuple[int, ...]) -> tuple[Maps, Floats]:
        """Without the input, which has no error; what a map is not known to is noise."""
        kept, noise = [part for part in maps if part[0] in self.reached], np.zeros(shape)
        for source, middle, error in kept:
            self.terms += middle.shape[1] + 8
            if error.any():
                noise = noise + error @ self.reached[source]
        return kept, upper(noise)

    def _on_all(self, one: Callable[[slice], None]) -> None:
        starts = range(0, self.leaves, BATCH)
        rows = [slice(start, min(self.leaves, start + BATCH)) for start in starts]

        def quietly(part: slice) -> None:
            with np.errstate(all="ignore"):
                one(part)

        for _ in side_by_side(quietly, rows):
            pass

    def _arriving(self, rows: slice, maps: Maps, noise: Floats) -> Floats:
        """What comes to a cut, or to the output, on some leaves."""
        count = rows.stop - rows.start
        signed: dict[str, Floats] = {}
        sizes: dict[str, Floats] = {}
        lost: dict[str, float] = {}
        symbols = np.zeros((count, 0, self.modes))
        for cut in self.cuts:
            middle, own = cut.chords.middle[rows], cut.noise[rows]
            units, first = own.shape[1], symbols.shape[1]
            forms, total = self._through(cut.maps, signed, sizes, (count, first, units))
            whole = np.zeros((count, first + units, units))
            whole[:, :first] = forms * middle[:, None]
            whole[:, first + np.arange(units), np.arange(units)] = 1.0
            signed[cut.name] = whole
            steepest = float(np.abs(middle).max(initial=0.0))
            lost[cut.name] = steepest * _vanished(cut.maps, lost) + LOST
            sizes[cut.name] = _times(np.abs(middle)[..., None], total) + own
            symbols = np.concatenate([symbols, own], axis=1)
        shape = (count, symbols.shape[1], noise.shape[1])
        forms, total = self._through(maps, signed, sizes, shape)
        reached = np.abs(forms).transpose(0, 2, 1) @ symbols
        rounding = (2 * self.terms * UNIT) * total
        underflow = _vanished(maps, lost) * symbols.sum(axis=1, keepdims=True)
        return _number(reached + noise + rounding + underflow)

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
            total += np.abs(middle) @ sizes[source] + LOST
        return forms, total


def _vanished(maps: Maps, lost: dict[str, float]) -> float:
    """What underflow may have taken from an entry of the forms behind maps, from above."""
    each = [
        float(np.abs(middle).sum(axis=1).max(initial=0.0)) * lost[source] + LOST
        for source, middle, _ in maps
    ]
    return float(upper(np.array(sum(each)))) if each else 0.0


def _number(values: Floats) -> Floats:
    """From above; infinite where it is no number."""
    found = upper(values)
    return np.where(np.isnan(found), np.inf, found)


def _times(x: Floats, y: Floats) -> Floats:
    """The product, where zero times anything is zero."""
    return np.where(x == 0, 0.0, x * y)
