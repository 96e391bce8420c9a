"""`certify`: do two networks agree on a box, and by how much at most?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reconstruct.bounds import Crown, Method, Reach, Split, reach
from reconstruct.bounds.subboxes import grid
from reconstruct.certificates.alignment import Alignment, align
from reconstruct.certificates.error_recursion import Layered, bound_layers
from reconstruct.certificates.identity import RationalNorm, prove_identity
from reconstruct.certificates.roundoff import roundoff
from reconstruct.certificates.verdicts import Certificate, Rigor, Segment, Verdict
from reconstruct.equivalence.branch_and_bound import bound_difference
from reconstruct.errors import InputError
from reconstruct.networks import Add, Box, Network
from reconstruct.networks.activations import TIE
from reconstruct.numbers.double_double import upward
from reconstruct.progress import Progress, Step, silent
from reconstruct.refutation import search as searching
from reconstruct.refutation.search import Search
from reconstruct.refutation.witness import Replay, Witness

RELATIVE_TOLERANCE = 1e-6
SCALE_POINTS = 512
SEED = 11
PUBLISHED = 1 + 2.0**-10  # claims are rounded up by this much, so that another proof may differ


def certify(
    target: Network,
    network: Network,
    *,
    domain: Box,
    bounds: Method | None = None,
    tolerance: float | None = None,
    exact_norms: Mapping[str, RationalNorm] | None = None,
    search: Search | None = None,
    bound_anyway: bool = False,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> Certificate:
    """Certify, refute or leave undecided that |network − target| ≤ tolerance on `domain`.

    The layered proof comes first (`layered`), then a search for an input where they differ, then
    a joint bound of the difference (`general`); search and joint bound share `time_limit`
    seconds. Without a tolerance, 1e-6 × max(1, largest sampled |target|) counts: a sampled scale
    is never above the true one, so the claim is never weaker than it reads. `search` is the
    outcome of a search that was made already; `bound_anyway` asks for the bounds of networks
    that are refuted at once, too (an approximation has both). `exact_norms` are rational gammas
    and betas (true ones, not effective scales) for which equality is then proved as well.
    """
    box = _check(target, network, domain, tolerance)
    work = _Work(target, network, box, bounds or Crown(), progress or silent, time_limit)
    scale = _output_scale(target, box)
    limit = RELATIVE_TOLERANCE * max(1.0, scale) if tolerance is None else float(tolerance)
    work.seen = search
    certificate = work.decide(limit, scale, bound_anyway)
    if exact_norms is not None:
        certificate = work.with_identity(certificate, exact_norms)
    return replace(certificate, seconds=time.perf_counter() - work.started)


def _check(target: Network, network: Network, domain: Box, tolerance: float | None) -> Box:
    for what, ours, theirs in (
        ("inputs", target.size_in, network.size_in),
        ("outputs", target.size_out, network.size_out),
    ):
        if ours != theirs:
            raise InputError(
                f"two networks can be compared only with equally many {what}, but the target has "
                f"{ours} and the other one {theirs}; check that they belong together"
            )
    if tolerance is not None and not (np.isfinite(tolerance) and tolerance >= 0):
        raise InputError(
            f"the tolerance must be a finite number of at least 0, but got {tolerance}"
        )
    return domain.of_size(target.size_in)


def _output_scale(target: Network, box: Box) -> float:
    """The largest |target| at sampled points: a lower bound of the true one, but for rounding."""
    rng = np.random.default_rng(SEED)
    points = np.concatenate([box.sample(SCALE_POINTS, rng), box.corners(SCALE_POINTS, rng)])
    with np.errstate(all="ignore"):
        top = float(np.max(np.abs(target(points)), initial=0.0))
    return top if np.isfinite(top) else 0.0


@dataclass
class _Work:
    target: Network
    network: Network
    box: Box
    method: Method
    tell: Progress
    time_limit: float
    started: float = field(default_factory=time.perf_counter)
    tried: list[str] = field(default_factory=list)
    seen: Search | None = None
    known: Reach | None = None
    alignment: Alignment | None = None

    def __post_init__(self) -> None:
        self.replay = Replay(self.target, self.network, self.box)

    def decide(self, tolerance: float, scale: float, bound_anyway: bool) -> Certificate:
        start = _blank(self.box, tolerance, scale)
        witness = self._probe(tolerance)
        if witness is not None and not bound_anyway:
            return self._refuted(start, witness, "sampling and corners")
        found = self._layered(start)
        if witness is not None:
            return self._refuted(found, witness, "sampling and corners")
        if found.bound is not None and found.bound <= tolerance:
            return self._certified(found)
        witness = self._search(tolerance)
        if witness is not None:
            return self._refuted(found, witness, "search")
        return self._general(found, tolerance)

    @property
    def remaining(self) -> float:
        return max(0.0, self.time_limit - (time.perf_counter() - self.started))

    # --- the steps ------------------------------------------------------------------------------

    def _probe(self, tolerance: float) -> Witness | None:
        points, gaps = self.replay.probe()
        self.tried.append(f"{len(points)} points and corners: largest difference {gaps[0]:.3g}")
        for point, gap in zip(points[:4], gaps[:4], strict=True):
            if gap > tolerance:
                witness = self.replay.witness(point, tolerance)
                if witness is not None:
                    return witness
        return None

    def _prepare(self) -> tuple[Reach, Alignment]:
        """The target's bounds and the alignment, once."""
        if self.known is None or self.alignment is None:
            self.tell(Step("bounds of the target", 0, None))
            self.alignment = align(self.target, self.network, self.box)
            self.known = reach(self.target, self.box, self.method, progress=self.tell)
        return self.known, self.alignment

    def _layered(self, start: Certificate) -> Certificate:
        """The proof segment by segment, with the three figures."""
        known, alignment = self._prepare()
        layered = bound_layers(self.target, self.network, known, alignment, self._tick)
        if not np.isfinite(layered.bound):
            self.tried.append("layer by layer: no finite bound")
            return start
        self.tried.append(
            f"layer by layer: {len(alignment.pairs)} cuts aligned of "
            f"{len(self.target.activation_nodes())} activations in the target, bound "
            f"{layered.bound:.3g}, least margin of an inner activation {layered.margin:.3g}"
        )
        return replace(
            start,
            bound=_published(layered.bound),
            float64_bound=self._float_bound(layered, np.float64),
            float32_bound=self._float_bound(layered, np.float32),
            method="layered",
            segments=tuple(_published_segment(segment) for segment in layered.segments),
            alignment=alignment.pairs,
            lines=_lines(self.target, known, alignment),
            grid=grid(self.target, self.box, known.method)
            if isinstance(known.method, Split)
            else None,
        )

    def _float_bound(self, layered: Layered, dtype: Any) -> float | None:
        outcome = roundoff(self.network, layered, dtype)
        name = np.dtype(dtype).name
        if outcome.bound is None or not np.isfinite(outcome.bound):
            self.tried.append(f"{name} bound: none, {outcome.reason or 'it is not finite'}")
            return None
        return _published(outcome.bound + layered.bound)

    def _search(self, tolerance: float) -> Witness | None:
        """Replay the worst points of a search, one that was made before or a new one."""
        if self.seen is None:
            limit = max(1.0, 0.3 * self.remaining)
            self.seen = searching.search(
                self.target, self.network, self.box, time_limit=limit, progress=self.tell
            )
        found = self.seen
        self.tried.append(
            f"search: {found.samples} samples and {found.evaluations} evaluations, largest "
            f"difference {found.float64_max:.3g}"
        )
        for gap, point in found.points:
            if gap > tolerance:
                witness = self.replay.witness(np.array(point), tolerance)
                if witness is not None:
                    return witness
        return None

    def _general(self, found: Certificate, tolerance: float) -> Certificate:
        """The joint bound of the difference, in whatever time is left."""
        outcome = bound_difference(
            self.target,
            self.network,
            self.box,
            tolerance=tolerance,
            time_limit=self.remaining,
            progress=self.tell,
        )
        self.tried.append(outcome.tried)
        if outcome.suspect is not None and outcome.suspect_difference > tolerance:
            witness = self.replay.witness(np.array(outcome.suspect), tolerance)
            if witness is not None:
                return self._refuted(found, witness, "branch and bound")
        if np.isfinite(outcome.bound) and outcome.bound < (found.bound or np.inf):
            bound = float(outcome.bound)
            found = replace(
                _blank(self.box, tolerance, found.output_scale), bound=bound, method="general"
            )
        if found.bound is not None and found.bound <= tolerance:
            return self._certified(found)
        return replace(found, tried=tuple(self.tried))

    def _tick(self, done: int, total: int) -> None:
        self.tell(Step("certificate", done, total))

    # --- the outcomes ---------------------------------------------------------------------------

    def with_identity(
        self, certificate: Certificate, norms: Mapping[str, RationalNorm]
    ) -> Certificate:
        """Adds the exact identity, when it holds; the figures stay those of the file."""
        outcome = prove_identity(self.target, self.network, norms, *self._prepare())
        tried = (*certificate.tried, f"exact identity with rational norms: {outcome.reason}")
        if not outcome.holds or certificate.verdict is not Verdict.CERTIFIED:
            return replace(certificate, tried=tried)
        return replace(certificate, tried=tried, rigor=Rigor.EXACT, exact_identity=True)

    def _certified(self, found: Certificate) -> Certificate:
        return replace(
            found, verdict=Verdict.CERTIFIED, rigor=Rigor.RIGOROUS, tried=tuple(self.tried)
        )

    def _refuted(self, found: Certificate, witness: Witness, how: str) -> Certificate:
        self.tried.append(f"witness found by {how}: difference {float(witness.difference):.6g}")
        return replace(
            found,
            verdict=Verdict.REFUTED,
            rigor=Rigor.EXACT if witness.exact else Rigor.RIGOROUS,
            method="witness",
            witness=witness,
            tried=tuple(self.tried),
        )


def _blank(box: Box, tolerance: float, scale: float) -> Certificate:
    """Nothing proved yet."""
    return Certificate(
        Verdict.UNDECIDED, Rigor.NUMERICAL, box, None, None, None, tolerance, scale, "none"
    )


def _published(value: float) -> float:
    """The figure as it is claimed: a little above what was proved."""
    return float(upward(value * PUBLISHED))


def _published_segment(segment: Segment) -> Segment:
    return replace(
        segment,
        residual_bound=_published(segment.residual_bound),
        constant_bound=_published(segment.constant_bound),
        error_in=_published(segment.error_in),
        error_out=_published(segment.error_out),
    )


def _lines(target: Network, known: Reach, alignment: Alignment) -> dict[str, str]:
    """Which units of each cut take slope 1 for the line below, as CROWN chooses."""
    marks = {}
    for name, _ in alignment.pairs:
        node = target.node(name)
        if not isinstance(node.op, Add):
            lo, hi = known.whole.values[node.inputs[0]]
            marks[name] = "".join("1" if up else "0" for up in (hi[0] >= -lo[0] * (1 - TIE)))
    return marks
