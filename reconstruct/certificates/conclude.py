"""One search, one certificate: how `run` and `verify` come to their verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconstruct.bounds import Method, Reach
from reconstruct.certificates.arithmetic import RationalNorm
from reconstruct.certificates.certify import certify
from reconstruct.certificates.verdicts import Certificate, Verdict
from reconstruct.equivalence.search import LIMITS, Over, Search, search
from reconstruct.networks import Domain, Network
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True)
class Effort:
    """What is spent on looking for a difference."""

    share: float = 0.3  # of the time limit: what the search may take before the proofs begin
    searched: int = 10_000  # inputs of a search that looks for a difference
    measured: int = 1_000  # inputs where one that counts is excluded: for float32 and the page
    fewest: int = 100  # of them, where networks are large
    products: int = 2**36  # of weights and inputs that they are worth


EFFORT = Effort()


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
    bounds: Method | None = None,
    tolerance: float | None = None,
    samples: int | None = None,
    exact_norms: Mapping[str, RationalNorm] | None = None,
    bound_anyway: bool = False,
    time_limit: float | None = None,
    progress: Progress = silent,
    known: Reach | None = None,
) -> Conclusion:
    """Certify, searching for differences where the proof does not exclude one.

    Arguments as of `certify`. Where the certificate excludes a difference that counts there is
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
                time_limit=None if time_limit is None else EFFORT.share * time_limit,
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
        bounds=bounds,
        tolerance=tolerance,
        exact_norms=exact_norms,
        search=lambda over: look(EFFORT.searched, LIMITS.restarts, silent, over),
        bound_anyway=bound_anyway,
        time_limit=time_limit,
        progress=progress,
        known=known,
    )
    if certificate.verdict is Verdict.CERTIFIED:
        return Conclusion(certificate, look(measured(candidate), 0, progress))
    return Conclusion(certificate, look(EFFORT.searched, LIMITS.restarts, progress))


def measured(network: Network) -> int:
    """How many inputs tell what float arithmetic does, by default."""
    return max(EFFORT.fewest, min(EFFORT.measured, EFFORT.products // max(1, network.weights)))
