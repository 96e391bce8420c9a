"""`reach`: rigorous bounds of everything a network computes on a box."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.bounds.adaptive import Cuts, Leaves, bound_leaves, find_cuts
from reconstruct.bounds.at_points import ranges_at
from reconstruct.bounds.local import local_bounds
from reconstruct.bounds.methods import Adaptive, Interval, Method, as_method
from reconstruct.bounds.positions import worst_position
from reconstruct.bounds.propagation import (
    TILE_ELEMENTS,
    Ranges,
    meet,
    merged,
    propagate,
    tile_rows,
    tiles,
)
from reconstruct.bounds.recall import KEYS, Recall, keys_of
from reconstruct.bounds.worst import worst_functionals
from reconstruct.errors import InputError
from reconstruct.networks import Activation, Box, Network, Points
from reconstruct.numbers.arrays import Array, Matrix, Range, dense
from reconstruct.numbers.parallel import cpu_count, one_blas_thread, parallel_map
from reconstruct.numbers.sharing import dealt_out
from reconstruct.progress import Progress, Step, silent

MOST_BACK = 2**36  # coefficients on the way back of all units: beyond, intervals have to do
MOST_WORK = 2**40  # coefficients met on the way back: beyond, kernels are bounded by intervals
MANY = 64  # leaves from which on forms are not carried back to the whole box besides
WORKERS = 2  # threads that bound batches of boxes
ROUND = 16  # batches between two reports of progress
TILE_PAIRS = 2**21  # (form, sub-box) pairs whose quick bounds are held at once

Tile = tuple[slice, Array, Array]  # which functionals, their forms and offsets


@dataclass(frozen=True, eq=False)
class Reach:
    """Bounds that hold, in real arithmetic, for every input in `box`.

    `whole` bounds the values on the box itself; `parts` does so on the boxes around the points of
    a domain made of data; `leaves` does so on the leaves of a branch and bound.
    """

    network: Network
    box: Box | Points
    method: Method
    whole: Ranges
    parts: Ranges | None = None
    leaves: Leaves | None = None
    asked: Recall = field(default_factory=Recall, repr=False)

    @property
    def cuts(self) -> Cuts | None:
        """The tree of a branch and bound, to bound on the same leaves again without a search."""
        return None if self.leaves is None else self.leaves.cuts

    @property
    def again(self) -> Method:
        """The method with what its search found, so that none is made again."""
        if not isinstance(self.method, Adaptive):
            return self.method
        return replace(self.method, cuts=self.cuts)

    def serves(self, network: Network, box: Box | Points, method: Method) -> bool:
        """Whether these are the bounds that the method would give for that network and domain."""
        given = method.cuts if isinstance(method, Adaptive) else None
        return (
            self.method == method
            and given in (None, self.cuts)
            and self.box.same(box)
            and self.network.same(network)
        )

    def bounds(self, name: str) -> tuple[Array, Array]:
        """`(lo, hi)` of the value of a node, or of the network's input."""
        self._check(name)
        lo, hi = self.whole.values[name]
        if self.leaves is not None:
            below, above = self.leaves.ranges[name]
            return np.maximum(lo[0], below), np.minimum(hi[0], above)
        straight = name != self.network.source and not isinstance(
            self.network.node(name).op, Activation
        )
        carried = bool((self.parts or self.whole).transfers)  # else intervals are all there is
        if straight and carried and not isinstance(self.method, Interval):
            size = self.network.sizes[name]
            lo, hi = meet((lo, hi), self.functionals(name, sparse.eye_array(size, format="csr")))
        elif self.parts is not None:
            lo, hi = meet((lo, hi), _union(self.parts.values[name]))
        return lo[0], hi[0]

    def functionals(
        self,
        name: str,
        forms: Matrix,
        offsets: ArrayLike | None = None,
        *,
        progress: Progress | None = None,
    ) -> tuple[Array, Array]:
        """Bounds of `A v + offset`: `forms` A is rows × size, dense or CSR, v the value `name`."""
        self._check(name)
        shift = self._check_forms(name, forms, offsets)
        if name == self.network.source and self.parts is None and self.leaves is None:
            return self._bounded(name, forms, shift, progress or silent)  # no slower than its name
        keys = np.empty(len(shift), dtype=KEYS)
        named = parallel_map(_named, tiles(forms, shift, tile_rows(self.network, 1)))
        for part, names in named:
            keys[part] = names
        ends, fresh = self.asked.find(name, keys)
        if len(fresh):
            found = self._bounded(name, forms[fresh], shift[fresh], progress or silent)
            self.asked.keep(name, keys[fresh], found)
            ends[fresh] = np.stack(found, axis=1)
        return ends[:, 0], ends[:, 1]

    def _bounded(self, name: str, forms: Matrix, offsets: Array, progress: Progress) -> Range:
        """The same, whether or not it was asked for before.

        Many leaves say more than the box that they make up.
        """
        if self.leaves is not None and len(self.leaves.lo) >= MANY:
            return self.leaves.functionals(name, dense(forms), offsets)
        step = tile_rows(self.network, 1)
        if self.parts is not None:
            step = min(step, max(1, TILE_PAIRS // self.parts.boxes))
        lo, hi = np.empty(len(offsets)), np.empty(len(offsets))

        def one(tile: Tile) -> tuple[slice, Range]:
            return tile[0], self._tile(name, *tile[1:])

        for part, found in parallel_map(one, tiles(forms, offsets, step)):
            lo[part], hi[part] = found[0][0], found[1][0]
            progress(Step(f"bounds of {name}", part.stop, len(offsets)))
        if self.leaves is not None:
            found = self.leaves.functionals(name, dense(forms), offsets)
            lo, hi = np.maximum(lo, found[0]), np.minimum(hi, found[1])
        return lo, hi

    def _tile(self, name: str, forms: Array, offsets: Array) -> Range:
        """The same for some rows, on the whole box and on the parts that it has."""
        found = self.whole.functionals(name, forms, offsets)
        if self.parts is not None:
            found = meet(found, worst_functionals(self.parts, name, forms, offsets))
        return found

    def windows(self, name: str, kernel: Array, index: Array) -> Range:
        """Bounds of `kernel · v[index]` at the worst position, row by row.

        `index` (columns × positions) says where in the value `name` each column of the kernel
        looks, −1 for a zero. Intervals on every box, and linear bounds of every position where
        the method has them.
        """
        lo, hi = np.empty(len(kernel)), np.empty(len(kernel))
        step = max(1, TILE_PAIRS // index.shape[1])
        for start in range(0, len(kernel), step):
            part = slice(start, start + step)
            lo[part], hi[part] = self._worst_position(name, kernel[part], index)
        return lo, hi

    def _worst_position(self, name: str, kernel: Array, index: Array) -> Range:
        """Bounds of some rows over all boxes and positions."""
        parts = [r for r in (self.whole, self.parts) if r is not None]
        if isinstance(self.box, Points):
            parts = parts[1:]  # the boxes of data say more than their hull
        found = worst_position(parts[0], name, kernel, index)
        for more in parts[1:]:
            found = meet(found, worst_position(more, name, kernel, index))
        if (self.parts or self.whole).transfers and name != self.network.source:
            linear = self._linear_position(name, kernel, index)
            found = found if linear is None else meet(found, linear)
        return found

    def _linear_position(self, name: str, kernel: Array, index: Array) -> Range | None:
        """The same by forms carried back to the input; None where that would take too long, or
        where a window meets a unit twice (the sum of the two entries would be rounded)."""
        order = np.sort(index, axis=0)
        if np.any((order[1:] == order[:-1]) & (order[1:] >= 0)):
            return None
        ranges = self.whole if self.parts is None else self.parts
        found = local_bounds(ranges, name, kernel, index)
        work = 2 * len(kernel) * index.shape[1] * sum(self.network.sizes.values()) * ranges.boxes
        if found is not None or work > MOST_WORK:
            return found
        return self._by_images(name, kernel, index)

    def _by_images(self, name: str, kernel: Array, index: Array) -> Range:
        """By forms that are whole images, some rows at all positions at a time."""
        positions, size = index.shape[1], self.network.sizes[name]
        step = max(1, TILE_ELEMENTS // (positions * size))
        lows, highs = [], []
        for start in range(0, len(kernel), step):
            rows = kernel[start : start + step]
            forms = np.zeros((len(rows), positions, size + 1))
            for column, places in enumerate(index):
                forms[:, np.arange(positions), places] += rows[:, column, None]
            images = forms[:, :, :-1].reshape(-1, size)
            low, high = self._bounded(name, images, np.zeros(len(images)), silent)
            lows.append(low.reshape(len(rows), -1).min(axis=1))
            highs.append(high.reshape(len(rows), -1).max(axis=1))
        return np.concatenate(lows), np.concatenate(highs)

    def _check(self, name: str) -> None:
        if name not in self.network.sizes:
            raise InputError(f"the network has no node named {name!r}")

    def _check_forms(self, name: str, forms: Matrix, offsets: ArrayLike | None) -> Array:
        """The offsets, where forms and offsets fit."""
        size = self.network.sizes[name]
        if forms.ndim != 2 or forms.shape[1] != size:
            raise InputError(
                f"functionals of {name!r} need a matrix with {size} columns, but got shape "
                f"{forms.shape}"
            )
        rows = int(forms.shape[0])
        shift = np.zeros(rows) if offsets is None else np.asarray(offsets, dtype=np.float64)
        if shift.shape != (rows,):
            raise InputError(
                f"{rows} functionals need as many offsets, but got shape {shift.shape}"
            )
        return shift

    def __repr__(self) -> str:
        shown = f", {self.parts.boxes} sub-boxes" if self.parts is not None else ""
        return f"Reach({self.network!r} on {self.box!r}, {self.method!r}{shown})"


def reach(
    network: Network,
    box: Box | Points,
    method: Method | None = None,
    *,
    progress: Progress | None = None,
) -> Reach:
    """Bounds, rounded outward, of every value of `network` for inputs in `box` (default CROWN)."""
    chosen = as_method(method)
    domain = box.of_size(network.size_in)
    if isinstance(domain, Points):
        hull = propagate(network, domain.lo[None], domain.hi[None], backward=False)
        return Reach(network, domain, chosen, hull, _on_data(network, domain, chosen, progress))
    whole = whole_box(network, domain, chosen, progress or silent)
    if isinstance(chosen, Adaptive) and chosen.cutting(network.size_in):
        leaves = _adapt(network, domain, chosen, whole, progress or silent)
        return Reach(network, domain, chosen, whole, leaves=leaves)
    return Reach(network, domain, chosen, whole)


def whole_box(network: Network, box: Box, method: Method, progress: Progress) -> Ranges:
    """Bounds on the box itself, before anything is cut."""
    backward = not isinstance(method, Interval) and _bearable(network)
    return propagate(network, box.lo[None], box.hi[None], backward=backward, progress=progress)


def _bearable(network: Network) -> bool:
    """Whether every value that an activation takes can be carried back in bearable time: forms as
    large as all layers before, one for each unit."""
    bent = {node.name for node in network.activation_nodes()}
    sizes = [network.sizes[node.name] for node in network.nodes]
    units = [s if n.name in bent else 0 for n, s in zip(network.nodes, sizes, strict=True)]
    return sum(u * b for u, b in zip(units, accumulate(sizes), strict=True)) <= MOST_BACK


def _on_data(network: Network, points: Points, method: Method, progress: Progress | None) -> Ranges:
    """Bounds on the box around each point; a point is evaluated."""
    if points.radius == 0:
        return Ranges(network, ranges_at(network, points.x), ())
    backward = not isinstance(method, Interval)
    return _on_boxes(network, *points.boxes, backward, progress)


def _on_boxes(
    network: Network,
    lo: Array,
    hi: Array,
    backward: bool,
    progress: Progress | None,
) -> Ranges:
    """Bounds on many boxes, in batches that keep a tile in cache."""
    widest = max(network.sizes.values())
    batch = max(1, TILE_ELEMENTS // (2 * widest * (widest if backward else 1)))
    parts = [slice(start, start + batch) for start in range(0, len(lo), batch)]
    items = [(network, lo[part], hi[part], backward) for part in parts]
    found: list[Mapping[str, Range]] = []
    with one_blas_thread(), ThreadPoolExecutor(min(WORKERS, cpu_count())) as pool:
        for start in range(0, len(items), ROUND):
            some = items[start : start + ROUND]
            found += dealt_out(values_on, some, numbers=network.parameters, pool=pool)
            (progress or silent)(Step("bounds of sub-boxes", len(found), len(items)))
    return merged(network, found, backward)


def values_on(network: Network, lo: Array, hi: Array, backward: bool) -> Mapping[str, Range]:
    """The ranges of all values on a batch of boxes."""
    with np.errstate(all="ignore"):  # threads do not take it over from who started them
        return propagate(network, lo, hi, backward=backward).values


def _adapt(
    network: Network, box: Box, method: Adaptive, whole: Ranges, progress: Progress
) -> Leaves:
    """Zonotopes on the leaves of the tree that is given, or else searched for."""
    certain = {name: (lo[0], hi[0]) for name, (lo, hi) in whole.values.items()}
    cuts = method.cuts
    if cuts is None:
        cuts = find_cuts(network, box, certain, method.boxes, method.seconds, progress)
    return bound_leaves(network, box, cuts, certain)


def _named(tile: Tile) -> tuple[slice, Array]:
    """The names of some functionals."""
    return tile[0], keys_of(*tile[1:])


def _union(ranges: Range) -> Range:
    """The smallest lower and the largest upper bound over all boxes, as a batch of one."""
    return ranges[0].min(axis=0)[None], ranges[1].max(axis=0)[None]
