"""How far errors at the cuts reach: carried through the target's own maps, leaf by leaf.

A network that makes the error ε_i, |ε_i| ≤ e_i, in front of each cut is the target with ε_i added
there. With h the target's values, ĥ the disturbed ones and A the target's maps between the cuts,

    ẑ − z = Σ_j A_j (ĥ_j − h_j) + ε,      ĥ − h = D (ẑ − z) + (own rounding),

D the slopes of chords of the activation. Where a unit stays on one piece, D is known; elsewhere it
is a middle D̄ ± ρ, and ρ|ẑ − z| is new noise. So ĥ − h is a sum of noises through products of
*signed* maps A D̄ A D̄ …, of which absolute values are taken once, at the end. Ranges, and with them
the slopes, are those of a leaf. Part of ε may have come together at hidden units, of which there
are many more: it goes on by its length (`hidden_noise`).

Absolute values grow with the number of units that may bend, lengths with its root. So a noise N_j
is known by its entries, |N_j| ≤ s_j, and by its length in weights, ‖w_j N_j‖₂ ≤ t_j: with M_kj the
signed maps between the cuts and q what a slope may be off,

    |M_kj N_j| ≤ min(|M_kj| s_j, ‖rows of M_kj / w_j‖₂ t_j),
    t_k = ‖w_k (rest)‖₂ + Σ_j ‖diag(w_k q_k) M_kj diag(1/w_j)‖₂ t_j.

Rests on proofs_check: carried-errors, weighted-lengths, hidden-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby

import numpy as np

from reconstruct.certificates.hidden_noise import FLOOR, Hidden
from reconstruct.certificates.secants import Secants, secants
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import TINY, UNIT, Enclosure, upward
from reconstruct.numbers.norms import spectral_norms
from reconstruct.numbers.parallel import parallel_map

BATCH = 64
MOST_WORK = 2.0**39  # products for one bound: about a minute
MOST_KEPT = 2**26  # numbers that are held for all leaves
SQUARINGS = 4  # of spectral norms: they are then one or two percent too large
MOST_NORMS = 2.0**36  # products for one squaring of them all: seconds
SMALL = 2**14  # numbers of maps whose norms are found together

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
    its length (leaves, modes) in `weights`, and what is hidden in front of it."""

    name: str
    parts: Parts
    slopes: Secants
    noise: Array
    weights: Array
    length: Array
    hidden: Hidden | None

    def reached(self, rows: slice, forms: Array) -> Array:
        """|M N| of its noise on some leaves, (leaves, rows, modes), for Mᵀ = `forms`."""
        entries = np.matmul(np.abs(forms).transpose(0, 2, 1), self.noise[rows])
        lengths = np.sqrt(np.sum((forms / self.weights[:, None]) ** 2, axis=1) + FLOOR)
        return np.asarray(np.fmin(entries, lengths[..., None] * self.length[rows][:, None]))


@dataclass(frozen=True, eq=False)
class _Spread:
    """Errors of a value: `forms` (leaves, symbols, m), and `total` (leaves, m, modes) the same
    through absolute values, against which rounding is measured; and what no entry of the forms has
    lost more of by underflow."""

    forms: Array
    total: Array
    lost: float


@dataclass(frozen=True, eq=False)
class _Arrived:
    """|ẑ − z| on some leaves, (leaves, m, modes); what of it is no noise of a cut before; and the
    maps of those that are, (leaves, units, m) each."""

    size: Array
    rest: Array
    maps: tuple[Array, ...]


class Carrier:
    """Errors through the target on so many `leaves`, cut after cut; `modes` of them side by side.

    Products of maps are rounded by at most γ_n times the products of their absolute values, n the
    terms of all sums on the way. Lengths are taken in `weights`; without `measured` they are those
    that the entries of a noise have.
    """

    def __init__(
        self, leaves: int, modes: int, weights: Mapping[str, Array], measured: bool
    ) -> None:
        self.leaves, self.modes = leaves, modes
        self.weights, self.measured = weights, measured
        self.reached: dict[str, Array] = {}  # |ĥ − h| of the cuts so far, over all leaves
        self._cuts: list[_Cut] = []
        self._terms = 16

    def add(
        self, name: str, form: Form[Enclosure], op: Activation | None, taken: Range, noise: Noise
    ) -> Array:
        """Bounds of |ĥ − h| at a cut, (leaves, m, modes).

        `form` gives z over the sources; its range on the leaves, `taken`, tells the slopes of `op`
        (None: a sum).
        """
        parts, doubt = self._parts(form)
        slopes = secants(op, *taken)
        weights = self.weights[name]
        shape = (self.leaves, form.matrix.shape[0], self.modes)
        kept, found, length = np.empty(shape), np.empty(shape), np.empty((shape[0], shape[2]))
        plain = np.zeros((1, *shape[1:])) if noise.hidden is None else noise.hidden.plain
        given = upward(noise.before + doubt), plain, noise.behind, noise.most
        late, hidden, behind, most = (np.broadcast_to(part, shape) for part in given)

        def one(rows: slice) -> None:
            own = slopes.part(rows)
            middle = np.abs(own.middle)[..., None]
            fresh = upward(late[rows] + hidden[rows])
            arrived = self._arriving(rows, parts, fresh)
            before = np.fmin(arrived.size, most[rows])
            straight, new = middle * late[rows] + behind[rows], own.noise(before)
            kept[rows] = _number(straight + new)
            found[rows] = _number(middle * before + new + behind[rows])
            length[rows] = _length(weights, kept[rows])
            if self.measured:
                turned = self._turned(rows, arrived, own.off(before), weights)
                whole = _number(_length(weights, straight) + turned)
                length[rows] = np.fmin(length[rows], whole)

        self._on_all(one)
        self.reached[name] = found.max(axis=0)
        self._cuts.append(_Cut(name, parts, slopes, kept, weights, length, noise.hidden))
        return found

    def end(self, form: Form[Enclosure], noise: Array) -> Array:
        """Bounds of the error at the output, (leaves, m, modes)."""
        parts, doubt = self._parts(form)
        found = np.empty((self.leaves, form.matrix.shape[0], self.modes))
        fresh = np.broadcast_to(upward(noise + doubt), found.shape)

        def one(rows: slice) -> None:
            found[rows] = self._arriving(rows, parts, fresh[rows]).size

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
                self._terms += view.columns + 8
        return tuple(parts), upward(noise)

    def _on_all(self, one: Callable[[slice], None]) -> None:
        """On all leaves, batch by batch."""

        def quietly(rows: slice) -> None:
            with np.errstate(all="ignore"):
                one(rows)

        batches = [slice(i, min(self.leaves, i + BATCH)) for i in range(0, self.leaves, BATCH)]
        list(parallel_map(quietly, batches))

    def _arriving(self, rows: slice, parts: Parts, noise: Array) -> _Arrived:
        """What reaches the input of a cut on some leaves, `noise` (leaves, m, modes) new there."""
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
            lost = float(np.max(np.abs(middle), initial=0.0)) * spread.lost + TINY
            values[cut.name] = _Spread(forms, total, lost)
            sizes = np.concatenate([sizes, own], axis=1)
        spread = self._image(parts, values, sizes, noise.shape[1])
        ends = np.cumsum([cut.noise.shape[1] for cut in self._cuts[:-1]])
        maps = tuple(np.split(spread.forms, ends, axis=1)) if self._cuts else ()
        rest = noise + 2 * self._terms * UNIT * spread.total
        rest = rest + spread.lost * self._gross(rows, sizes)[:, None]
        reached = np.zeros_like(rest)
        for cut, each in zip(self._cuts, maps, strict=True):
            reached = reached + cut.reached(rows, each)
            if cut.hidden is not None:
                passed = each.transpose(0, 2, 1) * cut.slopes.middle[rows][:, None]
                rest = rest + cut.hidden.part(rows).reached(passed)
        return _Arrived(_number(reached + rest), _number(rest), maps)

    def _gross(self, rows: slice, sizes: Array) -> Array:
        """All that was added in front of the cuts, (leaves, modes)."""
        total = sizes.sum(axis=1)
        for cut in self._cuts:
            if cut.hidden is not None:
                total = total + cut.hidden.part(rows).plain.sum(axis=1)
        return np.asarray(total)

    def _turned(self, rows: slice, arrived: _Arrived, off: Array, weights: Array) -> Array:
        """The length of what slopes that are `off` (leaves, m, modes) make of what arrived."""
        found = _length(weights, off * arrived.rest)
        pairs = zip(self._cuts, arrived.maps, strict=True)
        norms = _norms([each / cut.weights[:, None] for cut, each in pairs], weights, off)
        for cut, norm in zip(self._cuts, norms, strict=True):
            found = found + cut.length[rows] * norm
        return found

    def _image(self, parts: Parts, values: dict[str, _Spread], sizes: Array, units: int) -> _Spread:
        """What maps make of the errors of their sources."""
        count, symbols = sizes.shape[:2]
        forms, total = np.zeros((count, symbols, units)), np.zeros((count, units, self.modes))
        lost = 0.0
        for source, matrix in parts:
            value, size = values[source], np.abs(matrix)
            own, inner = value.forms.shape[1:]
            product = value.forms.reshape(-1, inner) @ matrix.T
            forms[:, :own] += product.reshape(count, own, units)
            total += np.matmul(size, value.total) + TINY
            lost += float(np.max(size.sum(axis=1), initial=0.0)) * value.lost + TINY
        return _Spread(forms, total, float(upward(lost)) if parts else 0.0)


def _length(weights: Array, values: Array) -> Array:
    """Euclidean lengths of weighted values (leaves, m, modes), as (leaves, modes)."""
    top = np.max(values, axis=1, initial=0.0)
    scale = np.where((top > 0) & np.isfinite(top), top, 1.0)
    shares = weights[:, None] * (values / scale[:, None])
    return upward(scale * np.sqrt(np.sum(shares * shares, axis=1) + FLOOR))


def _norms(maps: list[Array], weights: Array, off: Array) -> list[Array]:
    """‖diag(w q) M‖₂ of every Mᵀ (leaves, units, m) for each mode of q, (leaves, modes)."""
    modes = [np.ascontiguousarray(off[..., mode]) for mode in range(off.shape[2])]
    same = [next(i for i, one in enumerate(modes) if np.array_equal(one, q)) for q in modes]
    norms = {i: list(_scaled_norms(maps, weights * modes[i])) for i in set(same)}
    return [np.stack([norms[i][place] for i in same], axis=1) for place in range(len(maps))]


def _scaled_norms(maps: list[Array], factors: Array) -> Iterator[Array]:
    """‖diag(f) M‖₂ of every Mᵀ (leaves, units, m), and of what its entries lost.

    Small maps of one shape go together: a deep network has hundreds in front of each cut.
    """
    lost = TINY * (2 + np.max(factors, axis=1, initial=0.0))
    for (leaves, units, m), alike in groupby(maps, np.shape):
        step, group = max(1, SMALL // max(leaves * units * m, 1)), list(alike)
        for some in (group[i : i + step] for i in range(0, len(group), step)):
            stack = np.concatenate([one * factors[:, None] for one in some])
            found = spectral_norms(stack, SQUARINGS).reshape(len(some), leaves)
            yield from upward(found + lost)


def measurable(leaves: int, sizes: list[int]) -> bool:
    """Whether the norms of all maps between cuts of these sizes can be found in bearable time."""
    products = sum(float(a * b * min(a, b)) for a, b in combinations(sizes, 2))
    return leaves * products < MOST_NORMS


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
