"""How far errors at the cuts reach: carried through the target's own maps, leaf by leaf.

A network that makes the error ε_i, |ε_i| ≤ e_i, in front of each cut is the target with ε_i added
there. With h the target's values, ĥ the disturbed ones and A the target's maps between the cuts,

    ẑ − z = Σ_j A_j (ĥ_j − h_j) + ε,      ĥ − h = D (ẑ − z) + (own rounding),

D the slopes of chords of the activation. Where a unit stays on one piece, D is known; elsewhere it
is a middle D̄ ± ρ, and ρ|ẑ − z| is new noise. So ĥ − h is a sum of noises through products of
*signed* maps A D̄ A D̄ …, of which absolute values are taken once, at the end. Ranges, and with them
the slopes, are those of a leaf; the worst leaf counts.

Rests on proofs_check: carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.bounds.adaptive.passing import Pass
from reconstruct.certificates.secants import Secants, secants
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import UNIT, Enclosure, upward

BATCH = 64
WORKERS = 2
MOST_WORK = 2.0**39  # products for one bound: about a minute
MOST_KEPT = 2**26  # numbers that are held for all leaves

Parts = tuple[tuple[str, Array], ...]


@dataclass(frozen=True, eq=False)
class Noise:
    """What is new at a cut, (m, modes) each: in front of the activation and behind it, and what
    |ẑ − z| is known not to exceed."""

    before: Array
    behind: Array
    most: Array


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut that is done: its maps by source, its slopes, and the noise (leaves, m, modes)."""

    name: str
    parts: Parts
    slopes: Secants
    noise: Array


@dataclass(frozen=True, eq=False)
class _Spread:
    """Errors of a value: `forms` (leaves, symbols, m), and `total` (leaves, m, modes) the same
    through absolute values, against which rounding is measured."""

    forms: Array
    total: Array


class Carrier:
    """Errors through the target that `known` bounds, cut after cut; `modes` of them side by side.

    Products of maps are rounded by at most γ_n times the products of their absolute values, n the
    terms of all sums on the way.
    """

    def __init__(self, known: Reach, modes: int) -> None:
        self.known, self.modes = known, modes
        self.leaves = 1 if known.leaves is None else len(known.leaves.lo)
        self.reached: dict[str, Array] = {}  # |ĥ − h| of the cuts so far, over all leaves
        self._cuts: list[_Cut] = []
        self._terms = 8
        self._ranges: dict[str, Range] = {}

    def bears(self, sizes: list[int]) -> bool:
        """Whether cuts of these sizes can be carried in bearable time and memory."""
        before = np.cumsum([0, *sizes])[:-1]
        products = float(
            np.sum(before[:-1] * sizes[:-1] * np.array(sizes[1:]) * np.arange(len(sizes), 1, -1))
        )
        kept = self.leaves * sum(sizes) * (self.modes + 6)
        return self.leaves * products < MOST_WORK and kept < MOST_KEPT

    def add(
        self, name: str, inside: str, form: Form[Enclosure], op: Activation | None, noise: Noise
    ) -> Array:
        """Bounds of |ĥ − h| at a cut over all leaves, (m, modes).

        `form` gives z over the sources; the ranges of `inside` tell the slopes of `op` (None: a
        sum).
        """
        parts, fresh = self._parts(form, noise.before)
        slopes = secants(op, *self._range(inside))
        kept = np.empty((self.leaves, *fresh.shape))

        def one(rows: slice) -> Array:
            own = slopes.part(rows)
            middle = np.abs(own.middle)[..., None]
            before = np.fmin(self._arriving(rows, parts, fresh), noise.most)
            new = own.noise(before) + noise.behind
            kept[rows] = _number(middle * fresh + new)
            return np.asarray(_number(middle * before + new).max(axis=0))

        self.reached[name] = self._worst(one)
        self._cuts.append(_Cut(name, parts, slopes, kept))
        return self.reached[name]

    def end(self, form: Form[Enclosure], noise: Array) -> Array:
        """Bounds of the error at the output, (m, modes)."""
        parts, fresh = self._parts(form, noise)
        return self._worst(lambda rows: self._arriving(rows, parts, fresh).max(axis=0))

    def _parts(self, form: Form[Enclosure], noise: Array) -> tuple[Parts, Array]:
        """The maps by source as floats; what they are not known to is noise, too."""
        parts = []
        for view, matrix in form.parts():
            if view.source in self.reached:  # the input has no error
                parts.append((view.source, matrix.high))
                unknown = np.abs(matrix.low) + matrix.radius
                if unknown.any():
                    noise = noise + unknown @ self.reached[view.source]
                self._terms += view.columns + 4
        return tuple(parts), upward(noise)

    def _worst(self, one: Callable[[slice], Array]) -> Array:
        """The largest over all leaves, batch by batch."""

        def quietly(rows: slice) -> Array:
            with np.errstate(all="ignore"):
                return one(rows)

        batches = [slice(i, i + BATCH) for i in range(0, self.leaves, BATCH)]
        with ThreadPoolExecutor(WORKERS) as pool:
            return np.asarray(np.max(list(pool.map(quietly, batches)), axis=0))

    def _arriving(self, rows: slice, parts: Parts, noise: Array) -> Array:
        """|ẑ − z| on some leaves, (leaves, m, modes)."""
        values: dict[str, _Spread] = {}
        sizes = np.zeros((len(range(self.leaves)[rows]), 0, self.modes))
        for cut in self._cuts:
            own, middle = cut.noise[rows], cut.slopes.middle[rows]
            spread = self._image(cut.parts, values, sizes, own.shape[1])
            first, units = sizes.shape[1], own.shape[1]
            forms = np.zeros((len(own), first + units, units))
            np.multiply(spread.forms, middle[:, None], out=forms[:, :first])
            forms[:, first + np.arange(units), np.arange(units)] = 1.0
            total = np.abs(middle)[..., None] * spread.total + own
            values[cut.name] = _Spread(forms, total)
            sizes = np.concatenate([sizes, own], axis=1)
        spread = self._image(parts, values, sizes, len(noise))
        reached = np.matmul(np.abs(spread.forms).transpose(0, 2, 1), sizes)
        return _number(reached + 2 * self._terms * UNIT * spread.total + noise)

    def _image(self, parts: Parts, values: dict[str, _Spread], sizes: Array, units: int) -> _Spread:
        """What maps make of the errors of their sources."""
        count, symbols = sizes.shape[:2]
        forms, total = np.zeros((count, symbols, units)), np.zeros((count, units, self.modes))
        for source, matrix in parts:
            value = values[source]
            own, inner = value.forms.shape[1:]
            product = value.forms.reshape(-1, inner) @ matrix.T
            forms[:, :own] += product.reshape(count, own, units)
            total += np.matmul(np.abs(matrix), value.total)
        return _Spread(forms, total)

    # --- ranges ---------------------------------------------------------------------------------

    def _range(self, inside: str) -> Range:
        """The range of a value on every leaf, (leaves, m); without leaves on the box."""
        if self.known.leaves is None and self.known.parts is None:
            return self.known.whole.values[inside]
        if self.known.leaves is None:
            lo, hi = self.known.bounds(inside)
            return lo[None], hi[None]
        if not self._ranges:
            self._ranges = self._on_leaves()
        if inside in self._ranges:
            return self._ranges[inside]
        lo, hi = self.known.bounds(inside)
        shape = (self.leaves, len(lo))
        return np.broadcast_to(lo, shape), np.broadcast_to(hi, shape)

    def _on_leaves(self) -> dict[str, Range]:
        """What activations take, on every leaf, from one pass over all of them."""
        leaves, network = self.known.leaves, self.known.network
        assert leaves is not None
        if leaves.taken:
            return dict(leaves.taken)
        ends = {n: np.empty((2, self.leaves, network.sizes[n])) for n in leaves.known}

        def one(rows: slice) -> Array:
            state = Pass(network, leaves.lo[rows], leaves.hi[rows], leaves.known)
            state.until(network.output)
            for name, (lo, hi) in state.ranges.items():
                below, above = leaves.known[name]
                ends[name][:, rows] = np.maximum(lo, below), np.minimum(hi, above)
            return np.zeros(0)

        self._worst(one)
        return {name: (pair[0], pair[1]) for name, pair in ends.items()}


def _number(values: Array) -> Array:
    """The values rounded up; +inf where they are not numbers."""
    return np.where(np.isnan(values), np.inf, upward(values))
