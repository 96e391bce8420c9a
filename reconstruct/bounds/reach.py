"""`reach`: rigorous bounds of everything a network computes on a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.bounds import propagation
from reconstruct.bounds.at_points import ranges_at
from reconstruct.bounds.branching import find_partition, taken_values
from reconstruct.bounds.methods import Adaptive, Interval, Method, as_method
from reconstruct.bounds.partition import Partition
from reconstruct.bounds.propagation import Ranges, meet, propagate
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Box, Dense, MatrixProduct, Network, Points, Softmax
from reconstruct.numbers.arrays import Array, Matrix, Range
from reconstruct.numbers.parallel import one_blas_thread, parallel_map
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True)
class CrownLimits:
    """What is bounded by CROWN, and what by intervals because CROWN would take too long."""

    back: int = 2**36  # coefficients on the way back of all units of a network: minutes
    pairs: int = 2**21  # (form, box) pairs whose quick bounds are held at once: 16 MiB


LIMITS = CrownLimits()

Tile = tuple[slice, Array, Array]  # which functionals, their forms and offsets


@dataclass(frozen=True, eq=False)
class Reach:
    """Bounds that hold, in real arithmetic, for every input in `box`.

    `whole` bounds the values on the box itself; `parts` does so on smaller boxes that cover the
    domain: those of `partition`, or those around the points of a domain made of data. `recall` has
    the bounds of functionals that were asked for before, by value and by their bits: a certificate
    asks for the rows that the shifts were chosen by, and a row costs as much again (a third of the
    time of an adaptive run of ACAS Xu).
    """

    network: Network
    box: Box | Points
    method: Method
    whole: Ranges
    parts: Ranges | None = None
    partition: Partition | None = None
    recall: dict[tuple[str, bytes], tuple[float, float]] = field(default_factory=dict, repr=False)

    def bounds(self, name: str) -> tuple[Array, Array]:
        """`(lo, hi)` of the value of a node, or of the network's input."""
        lo, hi = self.whole.values[name]
        if self.parts is not None:
            low, high = self.parts.values[name]
            lo, hi = meet((lo, hi), (low.min(axis=0)[None], high.max(axis=0)[None]))
        straight = name != self.network.source and not isinstance(
            self.network.node(name).op, Activation
        )
        carried = bool((self.parts or self.whole).backward)  # else intervals are all there is
        if straight and carried and name not in taken_values(self.network):
            size = self.network.sizes[name]
            found = self.functionals(name, sparse.eye_array(size, format="csr"))
            lo, hi = meet((lo, hi), found)
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
        shift = np.zeros(forms.shape[0]) if offsets is None else np.asarray(offsets, dtype=float)
        if name == self.network.source and self.parts is None:
            return self._bounded(name, forms, shift, progress or silent)  # no slower than its name
        step = propagation.tile_rows(self.network, 1)
        rows = parallel_map(_digests, propagation.tiles(forms, shift, step))
        keys = [(name, digest) for digests in rows for digest in digests]
        fresh = [row for row, key in enumerate(keys) if key not in self.recall]
        if fresh:
            found = self._bounded(name, forms[fresh], shift[fresh], progress or silent)
            known = zip(*(end.tolist() for end in found), strict=True)
            self.recall.update(zip((keys[row] for row in fresh), known, strict=True))
        ends = np.array([self.recall[key] for key in keys]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def _bounded(self, name: str, forms: Matrix, offsets: Array, progress: Progress) -> Range:
        """The same, whether or not it was asked for before."""
        step = propagation.tile_rows(self.network, 1)
        if self.parts is not None:
            step = min(step, max(1, LIMITS.pairs // self.parts.boxes))
        lo, hi = np.empty(len(offsets)), np.empty(len(offsets))

        def one(tile: Tile) -> tuple[slice, Range]:
            if self.parts is not None:  # the boxes that there are say more than their hull
                return tile[0], self.parts.worst_functionals(name, *tile[1:])
            low, high = self.whole.functionals(name, *tile[1:])
            return tile[0], (low[0], high[0])

        with one_blas_thread():
            for part, found in parallel_map(one, propagation.tiles(forms, offsets, step)):
                lo[part], hi[part] = found
                progress(Step(f"bounds of {name}", part.stop, len(offsets)))
        return lo, hi

    def windows(self, name: str, kernel: Array, index: Array) -> Range:
        """Bounds of `kernel · v[index]` at the worst position, row by row, by intervals.

        `index` (columns × positions) says where in the value `name` each column of the kernel
        looks, −1 for a zero. (Linear bounds of what each position sees made shifts 1.0 to 1.6 times
        smaller on cifar_base, bounds 1.0 to 1.35 times, and runs take twice as long.)
        """
        low, high = np.full(len(kernel), np.inf), np.full(len(kernel), -np.inf)
        step = max(1, LIMITS.pairs // index.shape[1])
        for start in range(0, len(kernel), step):
            part = slice(start, start + step)
            op = Dense.over(np.ascontiguousarray(kernel[part], dtype=np.float64))
            for box in zip(*(self.parts or self.whole).values[name], strict=True):
                below, above = op.image(*(np.where(index >= 0, end[index], 0.0).T for end in box))
                low[part] = np.minimum(low[part], below.min(axis=0))
                high[part] = np.maximum(high[part], above.max(axis=0))
        return low, high

    def __repr__(self) -> str:
        shown = f", {self.parts.boxes} boxes" if self.parts is not None else ""
        return f"Reach({self.network!r} on {self.box!r}, {self.method!r}{shown})"


def reach(
    network: Network,
    box: Box | Points,
    method: Method | None = None,
    *,
    partition: Partition | None = None,
    progress: Progress | None = None,
) -> Reach:
    """Bounds, rounded outward, of every value of `network` for inputs in `box` (default CROWN).

    `partition` is one that was found before, for this network or one like it: then no other is
    looked for.
    """
    chosen, tell = as_method(method), progress or silent
    domain = box.of_size(network.size_in)
    _require_given_inputs(network, domain)
    if isinstance(domain, Points):
        hull = propagate(network, domain.lo[None], domain.hi[None], backward=False)
        return Reach(network, domain, chosen, hull, _on_data(network, domain, chosen, tell))
    backward = not isinstance(chosen, Interval) and _affordable(network)
    whole = propagate(network, domain.lo[None], domain.hi[None], backward=backward, progress=tell)
    if partition is None and isinstance(chosen, Adaptive) and chosen.divides(network.size_in):
        rest = (chosen.boxes, chosen.seconds, tell)
        partition = find_partition(network, domain, whole.values, *rest) if backward else None
    if partition is None or partition.count == 1:
        return Reach(network, domain, chosen, whole)
    known = {name: whole.values[name] for name in taken_values(network)}
    parts = _on_boxes(network, *partition.boxes(domain), True, known, tell)
    return Reach(network, domain, chosen, whole, parts, partition)


def _require_given_inputs(network: Network, domain: Box | Points) -> None:
    """Refuses attention on anything but inputs: its errors are carried along values alone."""
    bound = [n for n in network.nodes if isinstance(n.op, MatrixProduct | Softmax)]
    if bound and not (isinstance(domain, Points) and domain.radius == 0):
        last = "" if bound[0].name != network.output else ", or remove it: it is the last node"
        raise UnsupportedError(
            f"node {bound[0].name!r} is a {bound[0].op.kind}, and networks with products of two "
            f"values or Softmax are bounded at given inputs alone; give them as --domain DATA.npz "
            f"or a folder of images, without a radius{last}"
        )


def _affordable(network: Network) -> bool:
    """Whether every value that an activation takes can be carried back: forms as large as all
    layers before, one for each unit."""
    bent = {node.name for node in network.activation_nodes()}
    sizes = [network.sizes[node.name] for node in network.nodes]
    units = [s if n.name in bent else 0 for n, s in zip(network.nodes, sizes, strict=True)]
    return sum(u * b for u, b in zip(units, accumulate(sizes), strict=True)) <= LIMITS.back


def _on_data(network: Network, points: Points, method: Method, progress: Progress) -> Ranges:
    """Bounds on the box around each point; a point is evaluated."""
    if points.radius == 0:
        return Ranges(network, ranges_at(network, points.x), ())
    return _on_boxes(network, *points.boxes, not isinstance(method, Interval), {}, progress)


def _on_boxes(
    network: Network,
    lo: Array,
    hi: Array,
    backward: bool,
    known: Mapping[str, Range],
    progress: Progress,
) -> Ranges:
    """Bounds on many boxes, in batches that keep a tile in cache; `known` holds on all of them."""
    widest = max(network.sizes.values())
    batch = max(1, propagation.TILE_ELEMENTS // (2 * widest * (widest if backward else 1)))
    parts = [slice(start, start + batch) for start in range(0, len(lo), batch)]

    def one(part: slice) -> Mapping[str, Range]:
        with np.errstate(all="ignore"):  # threads do not take it over from who started them
            ends = lo[part], hi[part]
            lean = bool(known)
            return propagate(network, *ends, backward=backward, known=known, lean=lean).values

    found: list[Mapping[str, Range]] = []
    with one_blas_thread():
        for values in parallel_map(one, parts):
            found.append(values)
            progress(Step("bounds on boxes", len(found), len(parts)))
    return propagation.merged(network, found, backward)


def _digests(tile: Tile) -> list[bytes]:
    """Names of some functionals, by their bits."""
    rows = np.concatenate([tile[1], tile[2][:, None]], axis=1)
    return [blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
