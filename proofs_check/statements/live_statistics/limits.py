"""What eps costs, what it makes possible, and two things that no live norm can do.

Eps. With r = √(1 + a), a ≥ 0: a/2 − (1 − 1/r) = (r − 1)²(r + 2)/(2r) ≥ 0 and 1 − 1/r ≥ 0. So where
|P z|² ≤ R², 1/ρ = (1/√eps)/√(1 + |P z|²/(n·eps)) is 1/√eps up to the relative error R²/(2·n·eps).
And LN_eps(κ y) = LN_{eps/κ²}(y): with eps a factor κ is seen as another eps. What that changes is
|p/q − 1| of the value, p² = v + eps, q² = v + eps', which |p² − q²|/(2·min(p², q²)) bounds: the gap
is (p − q)²/(2q²) for p ≥ q and (q − p)²(q + 2p)/(2p²q) for p ≤ q.

Directions. Without eps and biases P z and ρ of z = M1 (a x) are a times those of M1 x: f(a x) =
f(x) for a > 0. If |f − g| ≤ e at both, |g(x) − g(a x)| ≤ 2e; a constant between both attains it.

No affine map. Let f = M2 P(M x + a)/ρ + c, ρ² = |P(M x + a)|²/n + eps, equal W x + b on an open
set, MᵀP M positive definite, W_i ≠ 0. With B x + b' = M2 P(M x + a), on that set, hence as
polynomials, (B x + b')_i² = ρ²·(W_i x + b_i − c_i)². Along a line with W_i d ≠ 0 the right
one has degree 2 + 2, its leading coefficient (|P M d|²/n)·(W_i d)² > 0, and the left one at most 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from proofs_check import exact
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.statements.live_statistics.exact_layers import centred, mean_square
from proofs_check.symbols import identical, unknowns

# --- eps ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Eps:
    """The relative error for |P z|² = a·n·eps, and the eps that a factor κ makes of eps."""

    error: Callable[[Any], Any] = lambda a: a / 2
    seen: Callable[[Any, Any], Any] = lambda eps, factor: eps / factor**2
    taken: Callable[[Matrix], Matrix] = centred
    moved: Callable[[Any, Any], Any] = lambda square, least: square / (2 * least)


@by(Method.STEP)
def defect_in_symbols(claim: Eps, effort: Effort) -> Finding:
    """a/2 − (1 − 1/r) = (r − 1)²(r + 2)/(2r), and (κ p)²·(q + eps/κ²) = p²·(κ² q + eps)."""
    r, q, eps, factor = sympy.symbols("r q eps kappa", positive=True)
    left = (claim.error(r**2 - 1) - 1 + 1 / r) * 2 * r
    identical("2r (a/2 - 1 + 1/r)", sympy.expand(left), (r - 1) ** 2 * (r + 2))
    seen = sympy.expand((q + claim.seen(eps, factor)) * factor**2)
    identical("kappa² (q + eps') - (kappa² q + eps)", seen, factor**2 * q + eps)
    return Finding("all a ≥ 0 and κ > 0", "two identities, no sign left open")


@by(Method.STEP)
def another_eps_in_symbols(claim: Eps, effort: Effort) -> Finding:
    """|p/q − 1| below |p² − q²|/(2·min(p², q²)), on both sides, by what is between them."""
    p, q = sympy.symbols("p q", positive=True)
    above = claim.moved(p**2 - q**2, q**2) - (p - q) / q
    below = claim.moved(q**2 - p**2, p**2) - (q - p) / q
    identical("2q² (bound - |p/q - 1|), p ≥ q", sympy.expand(2 * q**2 * above), (p - q) ** 2)
    left = sympy.expand(2 * p**2 * q * below)
    identical("2p²q (bound - |p/q - 1|), p ≤ q", left, (q - p) ** 2 * (q + 2 * p))
    return Finding("all p, q > 0", "two identities, no sign left open")


@by(Method.RATIONAL)
def near_the_constant_norm(claim: Eps, effort: Effort) -> Finding:
    """Norms of inputs of size R: 1 − √eps/ρ within R²/(2·n·eps), squared where it has a root."""
    rng, count = np.random.default_rng(78), effort.choose(40, 200)
    for trial in range(count):
        z, eps = exact.integers(rng, 1, 5) / 10 ** (trial % 4), Fraction(1, 100)
        p = claim.taken(z)
        square = mean_square(p)[0, 0] + eps
        a = claim.error((z * z).sum() / (5 * eps))  # |P z| ≤ |z| = R
        if a < 1 and eps < (1 - a) ** 2 * square:
            raise Counterexample(f"z={exact.show(z)}, eps={eps}: eps/rho² = {eps / square}, a={a}")
    return Finding(f"{count} inputs of sizes 1e-3 to 9", "√eps/ρ ≥ 1 − R²/(2·n·eps)")


EPS = Statement(
    name="live-eps",
    claim="A live norm whose input has |P z| ≤ R is the norm with the constant 1/√eps up to the "
    "relative error R²/(2·n·eps). It sees a factor κ ahead of it as eps' = eps/κ² in place of eps, "
    "which changes its value by a relative |eps − eps'|/(2·(v + min(eps, eps'))) at most, v the "
    "variance.",
    hypotheses=("eps > 0",),
    paper="not in the paper; live statistics",
    depends_on=(),
    subject=Eps(),
    checks=(defect_in_symbols, another_eps_in_symbols, near_the_constant_norm),
    negatives=(
        Negative("half the error", Eps(error=lambda a: a / 4)),
        Negative("eps/κ", Eps(seen=lambda eps, factor: eps / factor)),
        Negative("eps as it is", Eps(seen=lambda eps, factor: eps)),
        Negative("a quarter of the gap", Eps(moved=lambda square, least: square / (4 * least))),
    ),
)

# --- directions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Directions:
    """What is added ahead of the norm and under its root, and the share of the gap that is lost."""

    bias: int = 0
    eps: Fraction = Fraction(0)
    share: Fraction = Fraction(1, 2)


@by(Method.STEP)
def scale_is_not_seen(claim: Directions, effort: Effort) -> Finding:
    """p_j(a x)²·ρ²(x) = p_j(x)²·ρ²(a x) in symbols: the norm's output is the same, the sign is."""
    for n, k in ((2, 1), (2, 2), *effort.choose(((3, 1),), ((3, 2), (4, 2)))):
        M, x, (a,) = unknowns("m", n, k), unknowns("x", k), unknowns("a", 1)
        c = claim.bias * unknowns("c", n)
        p, far = centred((M @ x + c)[None]), centred((M @ (a * x) + c)[None])
        ours, theirs = (mean_square(value) + claim.eps for value in (p, far))
        identical(f"p(a x)² rho²(x) - p(x)² rho²(a x), n={n}", far**2 * ours, p**2 * theirs)
        identical(f"p(a x) - a p(x), n={n}", far, a * p)
    return Finding("up to 3 units and 2 inputs", "the same value at x and a x")


@by(Method.RATIONAL)
def the_gap_is_halved_at_best(claim: Directions, effort: Effort) -> Finding:
    """Values f(x) = f(a x) on a grid against g(x) ≠ g(a x): the best error is half of the gap."""
    for near, far in ((0, 1), (-3, 5), (Fraction(1, 3), Fraction(7, 2))):
        grid = [Fraction(near) + Fraction(i, 64) * (far - near) for i in range(-64, 129)]
        best = min(max(abs(f - near), abs(f - far)) for f in grid)
        if best != claim.share * (far - near):
            raise Counterexample(f"g={near} and {far}: a constant errs by {best}")
    return Finding("3 gaps", "half of the gap, attained in its middle")


DIRECTIONS = Statement(
    name="live-directions-alone",
    claim="Without eps and biases a live network has f(a x) = f(x) for every a > 0: its error is "
    "at least ½ sup |g(x) − g(a x)|.",
    hypotheses=("eps = 0", "no bias ahead of the first norm"),
    paper="not in the paper; what live statistics cannot do",
    depends_on=("live-scale-invariance",),
    subject=Directions(),
    checks=(scale_is_not_seen, the_gap_is_halved_at_best),
    negatives=(
        Negative("a bias ahead of the norm", Directions(bias=1)),
        Negative("eps", Directions(eps=Fraction(1, 100000))),
        Negative("all of the gap", Directions(share=Fraction(1))),
    ),
)

# --- no affine map --------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotAffine:
    """ρ² along a line, and the degrees that are compared."""

    square: Callable[[Matrix], Any] = lambda p: (p * p).sum() / Fraction(len(p)) + Fraction(1, 10)
    degree: Callable[[], int] = lambda: 4
    direction: Callable[[Matrix], Matrix] = lambda d: d


@by(Method.STEP)
def degrees_differ(claim: NotAffine, effort: Effort) -> Finding:
    """Along a line, in rationals: (B x + b')² has degree 2 at most, ρ²(W x + b)² degree 4."""
    rng, (tau,) = np.random.default_rng(79), sympy.symbols("tau,")
    for n, k in ((3, 2), (4, 2), *effort.choose((), ((6, 3),))):
        M, a, x, d = (exact.integers(rng, *size, bound=5) for size in ((n, k), (n,), (k,), (k,)))
        d[0] = Fraction(1)
        M2, W, b = exact.integers(rng, n), exact.matrix([[2] + [0] * (k - 1)])[0], Fraction(1)
        where = x + tau * claim.direction(d)
        p = centred((M @ where + a)[None])[0]
        left = sympy.Poly(sympy.expand((M2 @ p) ** 2), tau)
        right = sympy.Poly(sympy.expand(claim.square(p) * (W @ where + b) ** 2), tau)
        if left.degree() > 2 or right.degree() != claim.degree():
            raise Counterexample(
                f"M={exact.show(M)}, d={exact.show(d)}: degrees {left.degree()} and "
                f"{right.degree()}, not 2 and {claim.degree()}"
            )
    return Finding("two maps along a line", "degrees 2 and 4: never equal on an interval")


NOT_AFFINE = Statement(
    name="live-norm-never-affine",
    claim="A single live norm between frozen maps, M2 P(M x + a)/ρ + c with MᵀP M positive "
    "definite, equals an affine map with W ≠ 0 on no open set.",
    hypotheses=("statistics of the input itself", "MᵀP M positive definite", "W ≠ 0"),
    paper="not in the paper; what live statistics cannot do",
    depends_on=("polynomial-zero-set",),
    subject=NotAffine(),
    checks=(degrees_differ,),
    negatives=(
        Negative("statistics that are constants", NotAffine(square=lambda p: Fraction(4))),
        Negative("W d = 0: the map does not change", NotAffine(direction=lambda d: 0 * d)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (EPS, DIRECTIONS, NOT_AFFINE)
