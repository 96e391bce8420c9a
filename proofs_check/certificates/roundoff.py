"""The floating-point figures of a certificate: how far the checker goes with them.

`float64_bound` and `float32_bound` bound |fl(f)(x) − g(x)| for f evaluated in that precision, in
any order of summation. Each contains `bound`, and that is all that is checked of them so far: they
are reported as claimed and not verified. A proof of them belongs here: the recursion once more,
with γ_n |W| max|h| and underflow added at every map.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

from proofs_check.certificates.claims import Claims
from proofs_check.certificates.report import CheckFailed

FIGURES = ("float64_bound", "float32_bound")


def check_figures(claims: Claims) -> tuple[str, ...]:
    """The figures that are claimed and not proved again; each has to hold the bound at least."""
    claimed = []
    for field in FIGURES:
        figure: float | None = getattr(claims, field)
        if figure is None:
            continue
        if claims.bound is None or figure < claims.bound:
            raise CheckFailed(
                field, f"{figure} is claimed, which is below the bound {claims.bound}"
            )
        claimed.append(field)
    return tuple(claimed)
