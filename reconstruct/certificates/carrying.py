"""How far errors at the cuts reach: carried through the target's own maps, leaf by leaf.

A network that makes the error ε_i, |ε_i| ≤ e_i, in front of each cut is the target with ε_i added
there. With h the target's values, ĥ the disturbed ones and A the target's maps between the cuts,

    ẑ − z = Σ_j A_j (ĥ_j − h_j) + ε,      ĥ − h = D (ẑ − z) + (own rounding),

D the slopes of chords of the activation. Where a unit stays on one piece, D is known; elsewhere it
is a middle D̄ ± ρ, and ρ|ẑ − z| is new noise. So ĥ − h is a sum of noises through products of
*signed* maps A D̄ A D̄ …, of which absolute values are taken once, at the end. Ranges, and with them
the slopes, are those of a leaf. Part of ε may have come together at hidden units, of which there
are many more: it goes on by its length (`hidden_noise`).

Rests on proofs_check: carried-errors, hidden-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reconstruct.certificates.hidden_noise import Hidden
from reconstruct.certificates.secants import Secants, secants
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import UNIT, Enclosure, upward
from reconstruct.numbers.in_order import in_order

BATCH = 64
MOST_WORK = 2.0**39  # products for one bound: about a minute
MOST_KEPT = 2**26  # numbers that are held for all leaves

Parts = tuple[tuple[str, Array], ...]


@dataclass(frozen=True, eq=False)
class Noise:
    """What is new at a cut, (1 or leaves, m, modes) each: in front of the activation and behind it,
    and what |ẑ − z| is known not to exceed. What is `hidden` is not in `before`."""

    before: Array
    behind: Array
    most: Array
    hidden: Hidden | None = None


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut that is done: its maps by source, its slopes, the noise (leaves, m, modes) behind it,
    and what is hidden in front of it."""

    name: str
    parts: Parts
    slopes: Secants
    noise: Array
    hidden: Hidden | None


@dataclass(frozen=True, eq=False)
class _Spread:
    """Errors of a value: `forms` (leaves, symbols, m), and `total` (leaves, m, modes) the same
    through absolute values, against which rounding is measured."""

    forms: Array
    total: Array


class Carrier:
    """Errors through the target on so many `leaves`, cut after cut; `modes` of them side by side.

    Products of maps are rounded by at most γ_n times the products of their absolute values, n the
    terms of all sums on the way.
    """

    def __init__(self, leaves: int, modes: int) -> None:
        self.leaves, self.modes = leaves, modes
        self.reached: dict[str, Array] = {}  # |ĥ − h| of the cuts so far, over all leaves
        self._cuts: list[_Cut] = []
        self._terms = 8

    def add(
        self, name: str, form: Form[Enclosure], op: Activation | None, taken: Range, noise: Noise
    ) -> Array:
        """Bounds of |ĥ − h| at a cut, (leaves, m, modes).

        `form` gives z over the sources; its range on the leaves, `taken`, tells the slopes of `op`
        (None: a sum).
        """
        parts, doubt = self._parts(form)
        slopes = secants(op, *taken)
        shape = (self.leaves, form.matrix.shape[0], self.modes)
        kept, found = np.empty(shape), np.empty(shape)
        plain = np.zeros((1, *shape[1:])) if noise.hidden is None else noise.hidden.plain
        given = upward(noise.before + doubt), plain, noise.behind, noise.most
        late, hidden, behind, most = (np.broadcast_to(part, shape) for part in given)

        def one(rows: slice) -> None:
            own = slopes.part(rows)
            middle = np.abs(own.middle)[..., None]
            fresh = upward(late[rows] + hidden[rows])
            before = np.fmin(self._arriving(rows, parts, fresh), most[rows])
            new = own.noise(before) + behind[rows]
            kept[rows] = _number(middle * late[rows] + new)
            found[rows] = _number(middle * before + new)

        self._on_all(one)
        self.reached[name] = found.max(axis=0)
        self._cuts.append(_Cut(name, parts, slopes, kept, noise.hidden))
        return found

    def end(self, form: Form[Enclosure], noise: Array) -> Array:
        """Bounds of the error at the output, (leaves, m, modes)."""
        parts, doubt = self._parts(form)
        found = np.empty((self.leaves, form.matrix.shape[0], self.modes))
        fresh = np.broadcast_to(upward(noise + doubt), found.shape)

        def one(rows: slice) -> None:
            found[rows] = self._arriving(rows, parts, fresh[rows])

        self._on_all(one)
        return found

    def _parts(self, form: Form[Enclosure]) -> tuple[Parts, Array]:
        """The maps by source as floats; what they are not known to is noise, (m, modes)."""
        parts, noise = [], np.zeros((form.matrix.shape[0], self.modes))
        for view, matrix in form.parts():
            if view.source in self.reached:  # the input has no error
                parts.append((view.source, matrix.high))
                unknown = np.abs(matrix.low) + matrix.radius
                if unknown.any():
                    noise = noise + unknown @ self.reached[view.source]
                self._terms += view.columns + 4
        return tuple(parts), upward(noise)

    def _on_all(self, one: Callable[[slice], None]) -> None:
        """On all leaves, batch by batch."""

        def quietly(rows: slice) -> None:
            with np.errstate(all="ignore"):
                one(rows)

        batches = [slice(i, min(self.leaves, i + BATCH)) for i in range(0, self.leaves, BATCH)]
        list(in_order(quietly, batches))

    def _arriving(self, rows: slice, parts: Parts, noise: Array) -> Array:
        """|ẑ − z| on some leaves, (leaves, m, modes)."""
        values: dict[str, _Spread] = {}
        sizes = np.zeros((rows.stop - rows.start, 0, self.modes))
        for cut in self._cuts:
            own, middle = cut.noise[rows], cut.slopes.middle[rows]
            spread = self._image(cut.parts, values, sizes, own.shape[1])
            first, units = sizes.shape[1], own.shape[1]
            forms = np.zeros((len(own), first + units, units))
            np.multiply(spread.forms, middle[:, None], out=forms[:, :first])
            forms[:, first + np.arange(units), np.arange(units)] = 1.0
            total = (
                spread.total if cut.hidden is None else spread.total + cut.hidden.part(rows).most
            )
            total = np.abs(middle)[..., None] * total + own
            values[cut.name] = _Spread(forms, total)
            sizes = np.concatenate([sizes, own], axis=1)
        spread = self._image(parts, values, sizes, noise.shape[1])
        reached = np.matmul(np.abs(spread.forms).transpose(0, 2, 1), sizes)
        reached = reached + self._from_hidden(rows, spread.forms)
        return _number(reached + 2 * self._terms * UNIT * spread.total + noise)

    def _from_hidden(self, rows: slice, forms: Array) -> Array:
        """What is hidden in front of the cuts, as it arrives."""
        found, first = np.zeros((len(forms), forms.shape[2], self.modes)), 0
        for cut in self._cuts:
            units = cut.noise.shape[1]
            symbols, first = forms[:, first : first + units], first + units
            if cut.hidden is not None:
                passed = symbols.transpose(0, 2, 1) * cut.slopes.middle[rows][:, None]
                found += cut.hidden.part(rows).reached(passed)
        return found

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


def bearable(leaves: int, modes: int, sizes: list[int]) -> bool:
    """Whether cuts of these sizes can be carried in bearable time and memory."""
    before = np.cumsum([0, *sizes])[:-1]
    products = float(
        np.sum(before[:-1] * sizes[:-1] * np.array(sizes[1:]) * np.arange(len(sizes), 1, -1))
    )
    return leaves * products < MOST_WORK and leaves * sum(sizes) * (modes + 6) < MOST_KEPT


def _number(values: Array) -> Array:
    """The values rounded up; +inf where they are not numbers."""
    return np.where(np.isnan(values), np.inf, upward(values))
