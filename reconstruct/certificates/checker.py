"""The checker: re-verifies a certificate from the files, trusting nothing of who made it.

It reads the two networks and the claims, composes both networks exactly with integers
(`checking.forms`), bounds the target's values with its own outward-rounded arithmetic
(`checking.reachable`), repeats the error recursion, and accepts only if every claim follows:

    e_pre ≤ Σ_j |A_j| e_j + |A'_j − A_j| (max|h_j| + e_j) + |c' − c|,      e = Lip(σ)·e_pre.

What it takes from the certificate without proof is only where to cut the networks and which lines
to draw below bent ReLUs: any choice is sound, and a bad one makes the claims fail. It imports
the readers of network files and the types of a network, and nothing else of the package.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from reconstruct.certificates.checking.claims import CheckFailed, Claims, read_claims
from reconstruct.certificates.checking.point import check_witness
from reconstruct.certificates.checking.recursion import Recursion
from reconstruct.certificates.checking.report import CheckReport, CheckStatus


def check(path: Any, *, target: Any = None, candidate: Any = None) -> CheckReport:
    """Re-verify the certificate in a directory or file; `target` and `candidate` say where the
    networks are if not where the certificate says."""
    start = time.perf_counter()
    try:
        claims = read_claims(Path(path), target, candidate)
        verified = _verify(claims)
    except CheckFailed as failure:
        status = CheckStatus.REJECTED if failure.field else CheckStatus.NOT_CHECKABLE
        return CheckReport(status, failure.field, str(failure), None, (), _since(start))
    except (ValueError, OverflowError) as error:  # a network beyond what the checker covers
        status = CheckStatus.NOT_CHECKABLE
        return CheckReport(status, None, str(error), None, (), _since(start))
    except (TypeError, AttributeError, KeyError) as error:  # a list where a word should be, …
        reason = f"the document is not built as it should be ({error})"
        return CheckReport(CheckStatus.REJECTED, "certificate", reason, None, (), _since(start))
    except (RecursionError, OSError) as error:  # nested without end, a name that is no name, …
        return CheckReport(CheckStatus.REJECTED, "certificate", str(error), None, (), _since(start))
    reason = "what was verified follows from the files" if verified else "nothing is claimed"
    return CheckReport(
        CheckStatus.ACCEPTED, None, reason, claims.number("bound"), verified, _since(start)
    )


def _since(start: float) -> float:
    return time.perf_counter() - start


def _verify(claims: Claims) -> tuple[str, ...]:
    """Verify what the verdict rests on; the names of the claims that were verified."""
    verdict, verified = claims.words(), []
    claims.figures()
    if claims.text("method") == "general":
        raise CheckFailed(None, "a bound by branch and bound is not checked independently")
    if claims.number("bound") is not None:
        bound = Recursion(claims).run()
        claims.at_least("bound", bound)
        verified.append("bound")
    if claims.document.get("exact_identity"):
        Recursion(claims, claims.norms()).run()
        verified.append("exact_identity")
    if verdict == "refuted":
        check_witness(claims)
        verified.append("witness")
    if verdict == "certified":
        if claims.number("bound") is None:
            raise CheckFailed("verdict", "a certified verdict needs a bound, but there is none")
        tolerance = claims.number("tolerance")
        if tolerance is None or not claims.number("bound") <= tolerance:
            raise CheckFailed("verdict", "the bound is above the tolerance")
    claims.check_rigor()
    claims.check_digest()
    return tuple(verified)
