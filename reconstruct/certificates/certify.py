"""`certify`: do two networks agree on a box, and by how much at most? `conclude`: the same, with a
search for differences."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any

import numpy as np

from reconstruct.bounds import Method, Reach, reach
from reconstruct.bounds.methods import as_method
from reconstruct.bounds.propagation import propagate
from reconstruct.certificates.alignment import Alignment, alignments, powers
from reconstruct.certificates.arithmetic import NotRational, RationalNorm
from reconstruct.certificates.at_points import bound_at_points, bound_by_values
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.identity import prove_identity, prove_live_identity
from reconstruct.certificates.propagate import FLOATS as KINDS
from reconstruct.certificates.propagate import figures
from reconstruct.certificates.verdicts import Certificate, Rigor, Verdict, published
from reconstruct.equivalence.branch_and_bound import bound_difference
from reconstruct.equivalence.search import LIMITS as SEARCH_LIMITS
from reconstruct.equivalence.search import Over, Search, after, hop, search
from reconstruct.equivalence.witness import Replay, Witness
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Box, Domain, DomainLike, LiveNorm, Network, Points
from reconstruct.networks.graph import as_network, fitting, require_same_ends
from reconstruct.networks.rescaling import rescaled
from reconstruct.numbers.given import at_least
from reconstruct.numbers.rounding import require_gradual_underflow
from reconstruct.progress import OutOfTime, Progress, Step, listener, silent, until


@dataclass(frozen=True)
class Effort:
    """How the time is shared where the layered proof does not do, and how much is looked at."""

    seconds: float = 90.0  # for search and joint bound, where no limit is given
    search: float = 0.3  # of what is left then, or of a limit that is given
    hopping: float = 0.15  # of the time that is left for the joint bound
    searched: int = 10_000  # inputs of a search that looks for a difference
    measured: int = 1_000  # inputs where one that counts is excluded: for float32 and the page
    fewest: int = 100  # of them, where networks are large
    products: int = 2**36  # of weights and inputs that they are worth


EFFORT = Effort()
RELATIVE_TOLERANCE = 1e-6
FLOATS = ("float64_bound", "float32_bound", "target_float64_bound", "target_float32_bound")
UNSEEN = 2.0**-60  # of the tolerance: what a claim at given inputs leaves to another evaluation


def certify(
    target: Network,
    network: Network,
    *,
    domain: DomainLike,
    bounds: Method | None = None,
    tolerance: float | None = None,
    exact_norms: Mapping[str, RationalNorm] | None = None,
    search: Callable[..., Search] | None = None,
    bound_anyway: bool = False,
    time_limit: float | None = None,
    progress: Progress | None = None,
    known: Reach | None = None,
) -> Certificate:
    """Certify, refute or leave undecided that |network − target| ≤ tolerance on `domain`.

    The layered proof comes first (`error_recursion`), then a joint bound of the difference
    (`branch_and_bound`), beside a search for an input where they differ. All of it ends within
    about `time_limit` seconds; without a limit the layered proof takes what it needs, and search
    and joint bound have a minute and a half. Without a tolerance, 1e-6 × max(1, largest sampled
    |target|) counts: a sampled scale is never above the true one, so the claim is never weaker
    than it reads. `search(over=…)` makes a search of its own where the layered proof does not do
    without; `over()` says that nobody waits for it any more. `bound_anyway` asks for the bounds of
    networks that are refuted at once, too (an approximation has both). `exact_norms` are rational
    gammas and betas (true ones, not effective scales) for which equality is then proved as well.
    `known` are bounds made before: they are taken if they are of the same numbers on the same
    domain, and else their partition is.
    """
    require_gradual_underflow()
    as_network(target, "the target")
    as_network(network, "the other network")
    require_same_ends(target, network)
    at_least(tolerance, "the tolerance", 0)
    at_least(time_limit, "the time limit", 0)
    box = fitting(domain, target)
    work = _Work(target, network, box, as_method(bounds), listener(progress), time_limit)
    scale = output_scale(target, box)
    limit = RELATIVE_TOLERANCE * max(1.0, scale) if tolerance is None else float(tolerance)
    work.seen, work.made_before = search, known
    certificate = work.decide(limit, scale, bound_anyway)
    if exact_norms is not None:
        certificate = work.with_identity(certificate, exact_norms)
    seconds = time.perf_counter() - work.started
    return replace(certificate, tried=tuple(work.tried), found=work.found, seconds=seconds)


@dataclass(frozen=True)
class Conclusion:
    """What was proved, and what a search for differences met; the search was made once."""

    certificate: Certificate
    search: Search


def conclude(
    target: Network,
    candidate: Network,
    *,
    domain: Domain,
    samples: int | None = None,
    time_limit: float | None = None,
    progress: Progress = silent,
    **rest: Any,
) -> Conclusion:
    """Certify, searching for differences where the proof does not exclude one.

    `rest` is handed to `certify`. Where the certificate excludes a difference that counts there is
    nothing to look for: `samples` inputs (a thousand unless given, fewer of large networks) are
    evaluated to tell what float arithmetic does, and no local search is made. Elsewhere ten
    thousand unless given. With a `time_limit` a search takes its share of it, and `samples` may
    not all be drawn.
    """
    made: list[Search] = []

    def look(count: int, restarts: int, tell: Progress, over: Over = bool) -> Search:
        """A search that is made when it is first asked for, and once."""
        if not made:
            tell(Step("searching for differences", 0))
            found = search(
                target,
                candidate,
                domain,
                samples=samples or count,
                restarts=restarts,
                time_limit=None if time_limit is None else EFFORT.search * time_limit,
                over=over,
                progress=tell,
            )
            made.append(found)
        return made[0]

    progress(Step("certifying", 0))
    certificate = certify(
        target,
        candidate,
        domain=domain,
        search=lambda over: look(EFFORT.searched, SEARCH_LIMITS.restarts, silent, over),
        time_limit=time_limit,
        progress=progress,
        **rest,
    )
    if certificate.verdict is Verdict.CERTIFIED:
        return Conclusion(certificate, look(measured(candidate), 0, progress))
    return Conclusion(certificate, look(EFFORT.searched, SEARCH_LIMITS.restarts, progress))


def measured(network: Network) -> int:
    """How many inputs tell what float arithmetic does, by default."""
    return max(EFFORT.fewest, min(EFFORT.measured, EFFORT.products // max(1, network.weights)))


@dataclass(frozen=True)
class _Hunt:
    """What a search came to: `largest` is the largest difference that hopping met."""

    witness: Witness | None
    largest: float
    tried: list[str]


@dataclass
class _Work:
    target: Network
    network: Network
    box: Domain
    method: Method
    tell: Progress
    time_limit: float | None
    started: float = field(default_factory=time.perf_counter)
    tried: list[str] = field(default_factory=list)
    seen: Callable[..., Search] | None = None
    made_before: Reach | None = None
    known: Reach | None = None
    alignment: Alignment | None = None
    found: float = 0.0  # the largest difference that hopping met

    def __post_init__(self) -> None:
        self.replay = Replay(self.target, self.network, self.box)
        self.powers = powers(self.target, self.network, self.box)
        try:
            self.model = rescaled(self.target, self.powers)
        except InputError:  # a weight would leave its floats: the proof is tried without
            self.powers, self.model = {}, self.target
        limit = inf if self.time_limit is None else self.started + self.time_limit
        self.timely = until(limit, self.tell)  # for the layered proof; others keep time themselves

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
        witness, how, best = self._beside(found, tolerance, self._deadline())
        if witness is not None:  # beside a witness stand the bounds that a checker can repeat
            return self._refuted(found, witness, how)
        if _or_inf(best.bound) <= tolerance:
            return self._certified(best)
        # undecided: who wants bounds anyway is given those that a checker can repeat
        return found if bound_anyway and found.bound is not None else best

    def _deadline(self) -> float:
        """When search and joint bound have to end."""
        if self.time_limit is None:
            return time.perf_counter() + EFFORT.seconds
        return self.started + self.time_limit

    # --- the steps ------------------------------------------------------------------------------

    def _probe(self, tolerance: float) -> Witness | None:
        points, gaps = self.replay.probe()
        finite = gaps[np.isfinite(gaps)]
        largest = float(np.max(finite, initial=0.0))
        beyond = f", {len(gaps) - len(finite)} beyond float64" if len(finite) < len(gaps) else ""
        self.tried.append(
            f"{len(points)} points and corners: largest difference {largest:.3g}{beyond}"
        )
        return self._replayed(zip(gaps[:4], points[:4], strict=True), tolerance)

    def _replayed(self, suspects: Iterable[tuple[float, Any]], tolerance: float) -> Witness | None:
        """The first suspicion that exact arithmetic confirms."""
        for gap, point in suspects:
            if gap > tolerance:
                witness = self.replay.witness(np.array(point), tolerance)
                if witness is not None:
                    return witness
        return None

    def _layered(self, start: Certificate) -> Certificate:
        """The proof segment by segment, by the first alignment that gives a bound that is small
        enough, or else by the one with the smallest bound."""
        best = start
        try:
            for alignment in alignments(self.model, self.network, self.box):
                found = start if self._hopeless(start) else self._by(alignment, start)
                open_yet = _or_inf(found.bound) > start.tolerance
                if isinstance(self.box, Points) and (open_yet or _live(self.network)):
                    found = self._signed(alignment, found)
                if found.bound is not None and found.bound < _or_inf(best.bound):
                    best, self.alignment = found, alignment
                if _or_inf(best.bound) <= start.tolerance:
                    break
        except OutOfTime:
            self.tried.append("layer by layer: the time was over")
        return best

    def _reach(self) -> Reach:
        """The target's bounds, once."""
        if self.known is None:
            self.tell(Step("bounds of the target", 0, None))
            self.known = self._bounded()
        return self.known

    def _bounded(self) -> Reach:
        """The target's bounds, with units scaled, on a partition that was found without scales:
        who makes or compares a network does not know them yet, and must find the same."""
        before, partition = self.made_before, None
        if before is not None and before.box.same(self.box):
            if before.network.same(self.model):
                return before
            partition = before.partition
        if partition is None:
            first = reach(self.target, self.box, self.method, progress=self.timely)
            if first.network.same(self.model):
                return first
            partition = first.partition
        rest = self.model, self.box, self.method
        return reach(*rest, partition=partition, progress=self.timely)

    def _by(self, alignment: Alignment, start: Certificate) -> Certificate:
        """`start` with the bounds that the layered proof gives with these cuts, if it gives any,
        and what a checker needs: its scales are hints for it, too."""
        known = self._reach()
        try:
            layered = bound_layers(known, self.network, alignment, self._tick)
        except UnsupportedError as error:
            self.tried.append(f"layer by layer: {error}")
            return start
        if not isfinite(layered.bound):
            self.tried.append("layer by layer: no finite bound")
            return start
        self.tried.append(
            f"layer by layer: {len(alignment.pairs)} cuts aligned of "
            f"{len(self.model.activation_nodes())} activations in the target, bound "
            f"{layered.bound:.3g}, least margin of an inner activation {layered.margin:.3g}"
        )
        found = figures(layered, self._tick)
        self.tried.append(f"carried through the target's own maps: bound {found.real:.3g}")
        for kind, bound, reason in zip(KINDS, found.floats, found.reasons, strict=False):
            if bound is None:
                self.tried.append(f"{np.dtype(kind).name} bound: none, {reason}")
        floats = (None if bound is None else published(bound) for bound in found.floats)
        figures_in_floats: dict[str, Any] = dict(zip(FLOATS, floats, strict=True))
        return replace(
            start,
            **figures_in_floats,
            bound=published(found.real),
            method="layered",
            segments=tuple(layered.segments),
            alignment=alignment.pairs,
            tree=None if known.partition is None else known.partition.code,
            scales={name: tuple(row.tolist()) for name, row in self.powers.items()},
        )

    def _hopeless(self, start: Certificate) -> bool:
        """Whether intervals of floats know nothing of the output any more, at an input itself."""
        if not isinstance(self.box, Points):
            return False
        first = self.box.x[:1]
        lo, hi = propagate(self.model, first, first, backward=False).values[self.model.output]
        usual = RELATIVE_TOLERANCE * max(1.0, start.output_scale)
        return not float(np.max(hi - lo)) <= max(start.tolerance, usual)

    def _signed(self, alignment: Alignment, found: Certificate) -> Certificate:
        """The proof with errors that keep their signs, at inputs without a box around them."""
        assert isinstance(self.box, Points)
        if self.box.radius > 0:
            return found
        try:
            if _live(self.network):
                bound = bound_by_values(self.target, self.network, self.box.x, self._tick)
            else:
                bound = bound_at_points(self._reach(), self.network, alignment, self._tick)
        except UnsupportedError as error:
            self.tried.append(f"with signs at every input: {error}")
            return found
        self.tried.append(f"with signs at every input: bound {bound:.3g}")
        # Cut by cut no checker repeats a live norm that stands among constant ones.
        if not (bound < _or_inf(found.bound) or (_live(self.network) and np.isfinite(bound))):
            return found
        if found.tolerance == 0:  # equal to the last digit: not what an evaluation can confirm
            return self._general(found, bound)
        claim = published(bound + UNSEEN * found.tolerance)
        blank = _blank(self.box, found.tolerance, found.output_scale)
        scales = {name: tuple(row.tolist()) for name, row in self.powers.items()}
        method = "pointwise"
        return replace(blank, bound=claim, method=method, alignment=alignment.pairs, scales=scales)

    def _beside(
        self, found: Certificate, tolerance: float, deadline: float
    ) -> tuple[Witness | None, str, Certificate]:
        """A witness and who found it, or the best bound: by branch and bound, with a search beside
        it in a thread. Each ends as soon as the other one has the answer."""
        over, before = threading.Event(), len(self.tried)
        with ThreadPoolExecutor(1) as thread:
            hunt = thread.submit(self._search, tolerance, deadline, over.is_set)
            try:
                witness, best = self._joint(
                    found,
                    tolerance,
                    deadline,
                    refuted=lambda: hunt.done() and hunt.result().witness is not None,
                )
                if witness is not None or _or_inf(best.bound) <= tolerance:
                    over.set()
                seen = hunt.result()
            finally:
                over.set()
        self.tried[before:before] = seen.tried
        self.found = seen.largest
        if seen.witness is not None:
            return seen.witness, "search", best
        return witness, "branch and bound", best

    def _search(self, tolerance: float, deadline: float, over: Over) -> _Hunt:
        """Replay the worst points of a search, one that was made before or a new one, and then of
        hopping near them. This runs in a thread: it changes nothing that others see."""
        if self.seen is not None:
            found = self.seen(over=over)
        else:
            limit = max(1.0, EFFORT.search * (deadline - time.perf_counter()))
            found = search(self.target, self.network, self.box, time_limit=limit, over=over)
        tried = [
            f"search: {found.samples} samples and {found.evaluations} evaluations, largest "
            f"difference {found.float64_max:.3g}"
        ]
        witness = self._replayed(found.points, tolerance)
        if witness is not None or not isinstance(self.box, Box):  # near data is not in the data
            return _Hunt(witness, 0.0, tried)
        now = time.perf_counter()
        starts = np.array([point for _, point in found.points]).reshape(-1, self.box.size)
        points = hop(
            self.target,
            self.network,
            self.box,
            starts,
            beyond=tolerance,
            over=after(now + EFFORT.hopping * (deadline - now), over),
        )
        largest = points[0][0] if points else 0.0
        tried.append(f"hopping near these: largest difference {largest:.3g}")
        return _Hunt(self._replayed(points, tolerance), largest, tried)

    def _joint(
        self,
        found: Certificate,
        tolerance: float,
        deadline: float,
        refuted: Callable[[], bool],
    ) -> tuple[Witness | None, Certificate]:
        """The joint bound of the difference, in whatever time is left: a witness, or the better
        of both bounds."""
        if _live(self.target) or _live(self.network):  # no checker repeats it, and it stays large
            self.tried.append(
                "joint bound: left out, for none is proved of live norms; give inputs"
            )
            return None, found
        outcome = bound_difference(
            self.target,
            self.network,
            self.box,
            tolerance=tolerance,
            time_limit=max(0.0, deadline - time.perf_counter()),
            refuted=refuted,
            progress=self.tell,
        )
        self.tried.append(outcome.tried)
        witness = None
        if outcome.suspect is not None:
            witness = self._replayed([(outcome.suspect_difference, outcome.suspect)], tolerance)
        if not outcome.bound < _or_inf(found.bound):
            return witness, found
        proof = {} if outcome.proof is None else asdict(outcome.proof)
        bound = max(float(outcome.bound), 2.0**-1000)  # what underflows differs by the proof
        return witness, replace(self._general(found, bound), **proof)

    def _general(self, found: Certificate, bound: float) -> Certificate:
        """A bound without segments, which nobody but we can repeat; bounds of floats are kept."""
        blank = _blank(self.box, found.tolerance, found.output_scale)
        return replace(
            blank, bound=bound, method="general", **{name: getattr(found, name) for name in FLOATS}
        )

    def _tick(self, done: int, total: int) -> None:
        self.timely(Step("certificate", done, total))

    # --- the outcomes ---------------------------------------------------------------------------

    def with_identity(
        self, certificate: Certificate, norms: Mapping[str, RationalNorm]
    ) -> Certificate:
        """Adds the exact identity, when it holds; the figures stay those of the file."""
        if self.alignment is None or certificate.method not in ("layered", "pointwise"):
            return certificate
        holds = certificate.verdict is Verdict.CERTIFIED
        try:
            if _live(self.network):
                pair = self.target, self.network
                reason = prove_live_identity(*pair, norms, self.alignment)
            else:
                reason = prove_identity(self._reach(), self.network, norms, self.alignment)
        except (NotRational, UnsupportedError) as failure:
            holds, reason = False, str(failure)
        self.tried.append(f"exact identity with rational norms: {reason}")
        return (
            replace(certificate, rigor=Rigor.EXACT, exact_identity=True) if holds else certificate
        )

    def _certified(self, found: Certificate) -> Certificate:
        """No certified verdict without steps that a checker can follow."""
        if found.method == "general" and found.tree is None:
            self.tried.append("there is a bound within the tolerance, but none that can be checked")
            return found
        return replace(found, verdict=Verdict.CERTIFIED, rigor=Rigor.RIGOROUS)

    def _refuted(self, found: Certificate, witness: Witness, how: str) -> Certificate:
        self.tried.append(f"witness found by {how}: difference {_shown(witness.difference)}")
        verdict, rigor = Verdict.REFUTED, Rigor.EXACT if witness.exact else Rigor.RIGOROUS
        return replace(found, verdict=verdict, rigor=rigor, method="witness", witness=witness)


def _blank(box: Domain, tolerance: float, scale: float) -> Certificate:
    """Nothing proved yet."""
    return Certificate(
        Verdict.UNDECIDED, Rigor.NUMERICAL, box, None, None, None, tolerance, scale, "none"
    )


def output_scale(target: Network, box: Domain) -> float:
    """The largest |target| at sampled points: a lower bound of the true one, but for rounding."""
    rng = np.random.default_rng(11)
    points = np.concatenate([box.sample(512, rng), box.corners(512, rng)])
    with np.errstate(all="ignore"):
        top = float(np.max(np.abs(target(points)), initial=0.0))
    return top if np.isfinite(top) else 0.0


def _live(network: Network) -> bool:
    return any(isinstance(node.op, LiveNorm) for node in network.nodes)


def _or_inf(bound: float | None) -> float:
    return inf if bound is None else bound


def _shown(value: Fraction) -> str:
    """Six digits of a number that may lie beyond the floats."""
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return f"above 2^{value.numerator.bit_length() - value.denominator.bit_length() - 1}"
