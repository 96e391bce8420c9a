"""One search, one certificate: how `run` and `verify` come to their verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from reconstruct.bounds import Method
from reconstruct.certificates.arithmetic import RationalNorm
from reconstruct.certificates.certify import certify, comparable
from reconstruct.certificates.verdicts import Certificate
from reconstruct.networks import Domain, Network
from reconstruct.progress import Progress, Step, silent
from reconstruct.refutation.search import Search, search

SEARCH_SHARE = 0.3  # of the time limit: what the search may take before the proofs begin


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
    samples: int = 10_000,
    exact_norms: Mapping[str, RationalNorm] | None = None,
    bound_anyway: bool = False,
    time_limit: float | None = None,
    progress: Progress = silent,
) -> Conclusion:
    """Search for differences, then certify with what was found; arguments as of `certify`.

    With a `time_limit` the search takes its share of it, and `samples` may not all be drawn.
    """
    start = time.perf_counter()
    comparable(target, candidate, domain, tolerance)
    progress(Step("searching for differences", 0))
    share = None if time_limit is None else SEARCH_SHARE * time_limit
    found = search(target, candidate, domain, samples=samples, time_limit=share, progress=progress)
    progress(Step("certifying", 0))
    spent = time.perf_counter() - start
    certificate = certify(
        target,
        candidate,
        domain=domain,
        bounds=bounds,
        tolerance=tolerance,
        exact_norms=exact_norms,
        search=found,
        bound_anyway=bound_anyway,
        time_limit=None if time_limit is None else max(0.0, time_limit - spent),
        progress=progress,
    )
    return Conclusion(certificate, found)
