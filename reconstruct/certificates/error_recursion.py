"""The rigorous bound, segment by segment.

Let h be the target's values at the cuts and h' = h + δ, |δ| ≤ e, the candidate's. With composed
maps A h + c (target) and A' h' + c' (candidate), R = A' − A and r = c' − c,

    A'h' + c' − (A h + c) = A δ + R (h + δ) + r,
    e_pre ≤ Σ_j |A_j| e_j + |R_j| (max|h_j| + e_j) + |r|,      e = σ's carried(e_pre),

where max|h_j| comes from rigorous bounds of the target over the domain. Inner activations of the
candidate: their input F h' + d lies in [lo, hi] = bounds of F h + d, widened by |F| e; as far as
it may leave the linear piece, the doubt is carried on (see `forms`). An inner live norm is the map
gamma∘P z/ρ + beta with a ρ that is all but √eps. Only cuts of one
operation can be paired: that is checked here, whoever found the pairs.

Rests on proofs_check: error-recursion, live-eps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.arithmetic import Arithmetic, Rigorous
from reconstruct.certificates.forms import LIMITS as FORM_LIMITS
from reconstruct.certificates.forms import Composites, Form, GroupedForm, View, merge
from reconstruct.certificates.verdicts import Segment, published
from reconstruct.errors import UnsupportedError
from reconstruct.networks import (
    Activation,
    Convolution,
    Geometry,
    LiveNorm,
    MatrixProduct,
    Network,
    Node,
)
from reconstruct.numbers.arrays import Array, everywhere
from reconstruct.numbers.double_double import Enclosure, quotient, square_root, upward
from reconstruct.numbers.parallel import parallel_map
from reconstruct.numbers.rounding import magnitude


@dataclass(frozen=True, eq=False)
class Cut:
    """What an activation `op` takes in both networks, in the target the value `inside`; or two
    sums, maps or outputs (whose name is ""), which are compared themselves: then `op` is None.

    `form` is the target's A h + c; `sizes` and `residuals` bound A and A' − A by what their columns
    look at; `local` is the error that is new there, |(A' − A) h' + c' − c|, and `total` all of it.
    """

    ours: str
    theirs: str
    inside: str
    op: Activation | None
    form: Form[Any]
    sizes: tuple[tuple[View, Array], ...]
    residuals: tuple[tuple[View, Array], ...]
    local: Array
    total: Array

    def arriving(self, errors: Mapping[str, Array]) -> tuple[Array, Array]:
        """|A| and |A' − A| times errors of the sources, (boxes, units)."""
        return _times(self.sizes, errors), _times(self.residuals, errors)


def _times(parts: tuple[tuple[View, Array], ...], errors: Mapping[str, Array]) -> Array:
    """Bounds of matrices, by what they look at, times numbers of the sources."""
    found = (view.reached(size, errors[view.source]) for view, size in parts)
    return upward(sum(found, np.zeros((1, 1))))


def bound_layers(
    known: Reach,
    candidate: Network,
    alignment: Alignment,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Recursion:
    """Bound |candidate − target| on the box that the target's values are `known` on."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return Recursion(known, candidate, alignment, tick).run()


class Recursion:
    """The recursion cut by cut; whoever knows more of errors overrides how they are compared.

    What is known so far, and in the end the outcome, for whoever propagates other errors: `known`
    bounds the target's values. By source, under the target's names: `errors` of the candidate
    behind it, and `sizes`, bounds of the target's |value|. By inner activation of the candidate:
    `ranges` hold its inputs, for each unit or for each channel of an image, `margins` how far these
    stay within their pieces. `ours` and `theirs` are the forms of both networks.
    """

    def __init__(
        self,
        known: Reach,
        candidate: Network,
        alignment: Alignment,
        tick: Callable[[int, int], None] = lambda done, total: None,
        rules: tuple[Arithmetic[Any], Arithmetic[Any]] = (Rigorous(), Rigorous()),
    ) -> None:
        target = known.network
        alignment.check(target, candidate)
        self.target, self.candidate, self.known = target, candidate, known
        self.partner = {c: t for t, c in alignment.pairs}
        self.aligned = {t for t, _ in alignment.pairs}
        self.done, self.tick = 0, tick
        sources = alignment.candidate_sources(target, candidate)
        self.ours = Composites(target, alignment.target_sources(target), rules[0], self._tell)
        self.theirs = Composites(candidate, sources, rules[1], self._tell)
        self.errors: dict[str, Array] = {target.source: np.zeros(target.size_in)}
        self.sizes: dict[str, Array] = {target.source: magnitude(*known.bounds(target.source))}
        self.ranges: dict[str, tuple[Array, Array]] = {}
        self.margins: dict[str, float] = {}
        self.segments: list[Segment] = []
        self.cuts: list[Cut] = []
        self.pending: list[str] = []  # inner activations since the last cut

    @property
    def bound(self) -> float:
        """Of |f_j − g_j| for every output, in real arithmetic."""
        return float(np.max(self.errors[""], initial=0.0))

    @property
    def margin(self) -> float:
        """The least margin of an inner activation; below 0 when one may leave its piece."""
        return min(self.margins.values(), default=np.inf)

    def run(self) -> Self:
        self._linearise_target()
        used = self.candidate.needed()
        nodes = [n for n in self.candidate.nodes if n.name in used]
        for self.done, node in enumerate(nodes):
            self._tell()
            if node.name in self.partner:
                self._cut(node, self.partner[node.name])
            elif isinstance(node.op, LiveNorm):
                self._live(node, node.op)
            elif isinstance(node.op, Activation):
                self._inner(node, node.op)
        ours = self.target.output
        forms = self._pair(ours, self.candidate.output)
        self.errors[""] = self._compare(*forms, ("", ""), ours)
        return self

    def _tell(self) -> None:
        self.tick(self.done, len(self.candidate.nodes))

    # --- cuts -----------------------------------------------------------------------------------

    def _cut(self, node: Node, name: str) -> None:
        """The error at an aligned pair: an activation (through its input) or a sum."""
        op = node.op
        if isinstance(op, Activation):
            (inside,) = self.target.node(name).inputs
            geometry = getattr(op, "geometry", None)  # of a maximum over windows
            pixels = 1 if geometry is None else geometry.height * geometry.width
            pair = self._pair(inside, node.inputs[0], pixels)
            behind = self._compare(*pair, (name, node.name), inside, op)
        elif isinstance(op, MatrixProduct):
            behind = self._multiplied(node, name, op)
        else:
            count = max(self.ours.own_positions(name), self.theirs.own_positions(node.name))
            pair = (self.ours.own(name, count), self.theirs.own(node.name, count))
            behind = self._compare(*pair, (name, node.name), name)
        self.errors[name], self.sizes[name] = (
            behind,
            magnitude(*self.known.bounds(name)),
        )

    def _multiplied(self, node: Node, name: str, op: MatrixProduct) -> Array:
        """The error of a product of two values, of which both are in error."""
        raise UnsupportedError(f"{name!r} is a product of two values, bounded at inputs alone")

    def _pair(self, ours: str, theirs: str, pixels: int = 1) -> tuple[Form[Any], Form[Any]]:
        """The forms of both values, their channels at equally many positions."""
        count = max(self.ours.positions(ours), self.theirs.positions(theirs), pixels)
        size = self.target.sizes[ours]
        if (
            count == 1
            and size > FORM_LIMITS.units
            and self.ours.moves(ours)
            and self.theirs.moves(theirs)
        ):
            count = size  # units of cuts as they are: one row at every unit
        return self.ours.form(ours, count), self.theirs.form(theirs, count)

    def _compare(
        self,
        ours: Form[Any],
        theirs: Form[Any],
        names: tuple[str, str],
        inside: str,
        op: Activation | None = None,
    ) -> Array:
        """The bound of |theirs − ours| behind a cut; writes a segment."""
        form, gap = self._gap(ours, theirs)
        sizes, residuals = (
            tuple((view, matrix.magnitude()) for view, matrix in one.parts()) for one in (form, gap)
        )
        local = self._local(gap, residuals)
        before = {name: error[None] for name, error in self.errors.items()}
        (carried,) = _times(sizes, before)
        cut = Cut(*names, inside, op, form, sizes, residuals, local, upward(carried + local))
        behind = upward(cut.total) if op is None else op.carried(cut.total)
        self.cuts.append(cut)
        self.segments.append(self._segment(gap, names, float(behind.max())))
        self.pending = []
        return behind

    def _gap(self, ours: Form[Any], theirs: Form[Any]) -> tuple[Form[Any], Form[Any]]:
        """Our form, and theirs less ours, over the same sources."""
        ours, theirs = merge(self.ours.arithmetic, ours, theirs)
        return ours, Form(ours.layout, theirs.matrix - ours.matrix, ours.positions)

    def _segment(self, gap: Form[Any], names: tuple[str, str], error_out: float) -> Segment:
        return Segment(
            target_node=names[0] or "output",
            candidate_node=names[1] or "output",
            rows=gap.matrix.shape[0],
            columns=gap.matrix.shape[1] - 1,
            residual_bound=published(np.max(gap.matrix[:, :-1].magnitude(), initial=0.0)),
            constant_bound=published(np.max(gap.constant.magnitude(), initial=0.0)),
            error_in=published(
                max((self.errors[view.source].max() for view in gap.layout), default=0.0)
            ),
            error_out=published(error_out),
            inner=tuple(self.pending),
            margin=min((self.margins[i] for i in self.pending), default=None),
            maps=self._maps(names[0]),
        )

    def _maps(self, name: str) -> tuple[str, ...]:
        """The target's affine nodes between the cuts before and the node `name` (or the end)."""
        seen: set[str] = set()
        cut = name in self.aligned
        todo = list(self.target.node(name).inputs) if cut else [self.target.output]
        while todo:
            current = todo.pop()
            if current not in seen and current not in self.ours.sources:
                seen.add(current)
                todo.extend(self.target.node(current).inputs)
        return tuple(n.name for n in self.target.mixing_nodes() if n.name in seen)

    def _local(self, gap: Form[Any], residuals: tuple[tuple[View, Array], ...]) -> Array:
        """|A' − A| (max|h| + e) + |c' − c|, unit by unit."""
        errors = self.errors
        reached = {n: upward(size + errors[n])[None] for n, size in self.sizes.items()}
        constant = gap.spread(gap.constant.magnitude())
        found = upward(constant + _times(residuals, reached)[0])
        if all(view.index is None for view in gap.layout):
            # The range of the difference over the domain says more than |A' − A| max|h|.
            found = np.fmin(found, magnitude(*self._ends(gap, self.errors)))
        return found

    # --- inner activations ----------------------------------------------------------------------

    def _inner(self, node: Node, op: Activation) -> None:
        """How far the units of a candidate's inner activation may be from their line."""
        lo, hi = self._range(self.theirs, node.inputs[0], op)
        self.theirs.deviations[node.name], self.margins[node.name] = deviation(op, lo, hi)
        self.ranges[node.name] = (lo, hi)
        self.pending.append(node.name)

    def _live(self, node: Node, op: LiveNorm) -> None:
        """An inner live norm as the map that it nearly is: eps ≤ ρ² ≤ eps + |P z|²/n."""
        n, form = op.channels, self.theirs.centred(node, op)
        lo, hi = self._ends(form, self.errors)
        size = magnitude(lo, hi) / n
        most = float(upward((size * size).sum() / n))
        if op.positions > 1 or not most <= op.eps / 4:
            raise UnsupportedError(
                f"node {node.name!r}: on a box a live norm is a map only where the variance of its "
                f"input is far below eps = {op.eps:g}, but it may be {most:.3g} here; give inputs"
            )
        square = Enclosure(*(np.full(n, part) for part in (op.eps, 0.0, most)))
        root = square_root(square) * Enclosure.exact(np.full(n, float(n)))
        self.theirs.scales[node.name] = quotient(Enclosure.exact(op.gamma), root)

    def _linearise_target(self) -> None:
        """The same for the target's activations that have no partner; their range is known."""
        used = self.target.needed()
        for node in self.target.nodes:
            if isinstance(node.op, Activation) and node.name in used - self.aligned:
                lo, hi = self.known.bounds(node.inputs[0])
                self.ours.deviations[node.name], _ = deviation(node.op, lo, hi)

    def _range(self, composites: Composites[Any], name: str, op: Activation) -> tuple[Array, Array]:
        """Bounds of a candidate node's value over the domain, block of rows by block: one for
        each row of its form, at the worst position."""
        errors = self.errors

        def ends(span: tuple[int, int]) -> tuple[Array, Array]:
            return self._ends(composites.block(name, span), errors)

        spans, layer = composites.spans(name), composites.grouped(name)
        if layer is not None:
            # Shifts of grouped layers come from these intervals, those of other constructions
            # from functionals of the whole layer: only where intervals say too little is the
            # dearer question asked, and not for what rounding makes of blocks of zeros.
            found = parallel_map(
                lambda span: self._ends_of_blocks(composites.blocks(name, layer, *span), errors),
                layer.spans(),
            )
            lo, hi = (np.concatenate(ends) for ends in zip(*found, strict=True))
            doubted = deviation(op, lo, hi)[0] > 2.0**-80 * np.max(np.abs(hi), initial=0.0)
            spans = [span for span in spans if doubted[slice(*span)].any()]
            for (start, stop), sharper in zip(spans, parallel_map(ends, spans), strict=True):
                lo[start:stop], hi[start:stop] = sharper
            return lo, hi
        lows, highs = zip(*parallel_map(ends, spans), strict=True)
        return np.concatenate(lows), np.concatenate(highs)

    def _ends_of_blocks(
        self, blocks: GroupedForm[Any], errors: dict[str, Array]
    ) -> tuple[Array, Array]:
        """The same for a grouped layer: intervals of the few inputs that a row sees.

        The last sums round by u of the ends and of the doubt, at most. `Mixing.image` leaves six
        times as much of the ends (it counts eight roundings more than a row has products, and needs
        one), and `upward` far more of the doubt.
        """
        lo, hi = self.known.bounds(blocks.source)
        error = errors[blocks.source]
        kept, at = blocks.index >= 0, np.maximum(blocks.index, 0)
        low = np.where(kept, lo[at], 0.0).min(axis=1)
        high = np.where(kept, hi[at], 0.0).max(axis=1)
        wrong = np.where(kept, error[at], 0.0).max(axis=1)
        matrix = blocks.matrix.near()
        rest = np.abs(matrix.low) + matrix.radius
        main, unsure = (_layer(part, blocks.groups) for part in (matrix.high, rest))
        below, above = (end[0] for end in main.image(low[None], high[None]))
        doubt = unsure(upward(magnitude(low, high) + wrong)[None]) + main.absolute(wrong[None])
        doubt = upward(doubt[0])
        return below - doubt, above + doubt

    def _ends(self, form: Form[Any], errors: dict[str, Array]) -> tuple[Array, Array]:
        """The same for some of the rows."""
        form = replace(form, matrix=form.matrix.near())
        constant = form.constant
        lo, hi = constant.high, constant.high
        doubt = np.abs(constant.low) + constant.radius
        for view, matrix in form.parts():
            below, above = self._functionals(view, matrix.high)
            lo, hi = lo + below, hi + above
            known = errors[view.source], self.sizes[view.source]
            e, h = (view.worst(part) for part in known)
            if e.any():
                doubt = doubt + matrix.magnitude() @ e
            doubt = doubt + (np.abs(matrix.low) + matrix.radius) @ (h + e)
            doubt = doubt + 2.0**-52 * (np.abs(lo) + np.abs(hi))  # these sums' own rounding
        down, up = (upward(doubt + 2.0**-52 * np.abs(end)) for end in (lo, hi))
        return lo - down, hi + up

    def _functionals(self, view: View, matrix: Array) -> tuple[Array, Array]:
        """Bounds of the rows on what the view sees, at the worst position."""
        if view.index is not None:
            return self.known.windows(view.source, matrix, view.index)
        return self.known.functionals(view.source, matrix)


def _layer(matrix: Array, groups: int) -> Convolution:
    """Rows of blocks, their constants last, as a grouped layer."""
    pixels = Geometry(groups * (matrix.shape[1] - 1), 1, 1, (1, 1))
    return Convolution(matrix[:, :-1, None, None], pixels, matrix[:, -1], groups)


def deviation(op: Activation, lo: Array, hi: Array) -> tuple[Array, float]:
    """`(d, margin)` with |act(z) − slope·z| ≤ d for lo ≤ z ≤ hi, unit by unit.

    On the piece d is the activation's rest, 0 for lines. At a distance x from it |act(z) − slope·z|
    is at most (Lip + |slope|)·x more, the difference at its end; for ReLU it is x itself.
    """
    outside = np.maximum(_beyond(op.piece.lo, lo, -1.0), _beyond(op.piece.hi, hi, 1.0))
    margin = float(np.min(-outside, initial=np.inf))
    if margin >= 0:  # as it should be: no memory for millions of units
        return everywhere(op.rest, outside.shape), margin
    with np.errstate(over="ignore"):
        doubt = upward(op.steepness * np.maximum(outside, 0.0) + op.rest)
    return np.where(outside > 0, doubt, op.rest), margin


def _beyond(end: float, reached: Array, sign: float) -> Array:
    """How far a bound lies beyond an end of a piece; an end at infinity is never passed.

    A bound that is not a number bounds nothing, not even against infinity.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        past = sign * (reached - end) if np.isfinite(end) else np.full_like(reached, -np.inf)
    return np.where(np.isnan(reached) | np.isnan(past), np.inf, past)
