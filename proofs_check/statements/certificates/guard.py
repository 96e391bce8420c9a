"""The guard: a network of sites tells, at each single input, whether its claim holds there.

Let margin(x) be the least pre-activation of all hidden units of all sites of f at x. If
margin(x) ≥ 0 then σ is the identity at each of them, at this x, and site i computes

    M2 (s∘(M1 h) + t1) + t2 = (W_i + R_i) h + b_i + c_i,       h = f's own value ahead of site i.

By induction over the sites f(x) is the composition of g's maps up to the residuals R_i, c_i: equal
to g(x) where they are zero, and within e_i = (|W_i| + |R_i|) e_{i−1} + |R_i| |h_{i−1}(x)| + |c_i|
otherwise, h_{i−1}(x) the value of g. No word of a domain: any x will do, inside or outside of the
box for which the shifts were chosen. A margin below 0 says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

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
from proofs_check.statements.theorem_1_wide.layers import Activity, TwoLayers, relu
from proofs_check.statements.theorem_1_wide.layerwise import image
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class Site:
    """One map of g and the two frozen layers that stand for it."""

    W: Matrix
    b: Matrix
    M1: Matrix
    M2: Matrix
    s: Matrix
    t1: Matrix
    t2: Matrix

    def hidden(self, h: Matrix) -> Matrix:
        """Pre-activations of the hidden units."""
        return np.asarray(self.s * (self.M1 @ h) + self.t1)

    def value(self, h: Matrix) -> Matrix:
        return np.asarray(self.M2 @ relu(self.hidden(h)) + self.t2)

    @property
    def residuals(self) -> tuple[Matrix, Matrix]:
        """R = M2 diag(s) M1 − W and c = M2 t1 + t2 − b."""
        R = self.M2 @ (self.s[:, None] * self.M1) - self.W
        return R, self.M2 @ self.t1 + self.t2 - self.b


def least_of_all(hidden: Sequence[Matrix]) -> Any:
    """The least pre-activation of all sites."""
    return min(min(z) for z in hidden)


@dataclass(frozen=True)
class Guard:
    """The margin, the level it must reach, and how errors add up behind it."""

    margin: Callable[[Sequence[Matrix]], Any] = least_of_all
    level: Fraction = Fraction(0)
    step: Callable[..., Matrix] = lambda W, R, e, h, c: (
        (abs(W) + abs(R)) @ e + abs(R) @ abs(h) + abs(c)
    )


def _sites(rng: np.random.Generator, residual: int) -> list[Site]:
    """A target 2-2-2 rebuilt on a box, its scales off by parts of 1/residual (0: exact)."""
    lo, hi = exact.matrix([[-1, -1]])[0], exact.matrix([[1, 1]])[0]
    sites: list[Site] = []
    while len(sites) < 2:
        W, b = exact.integers(rng, 2, 2, bound=3), exact.integers(rng, 2, bound=2)
        M1, M2 = exact.integers(rng, 4, 2), exact.integers(rng, 2, 4)
        tuned = TwoLayers().tune(M1, M2, W, b, lo, hi)
        if tuned is None:
            continue
        s, t1, t2 = tuned
        if residual:
            s = s + exact.integers(rng, 4) / residual
            t1 = Activity().shift(M1, s, lo - 1, hi + 1)
            t2 = b - M2 @ t1 + exact.integers(rng, 2) / residual
        sites.append(Site(W, b, M1, M2, s, t1, t2))
        lo, hi = image(W, b, lo, hi)
    return sites


@by(Method.RATIONAL)
def margin_decides(claim: Guard, effort: Effort) -> Finding:
    """Points far and near, sites exact and perturbed: margin ≥ 0 gives |f − g| ≤ e (0 if exact)."""
    rng = np.random.default_rng(75)
    count, guarded, beyond = effort.choose(12, 60), 0, 0
    steps = [Fraction(i, 2) for i in range(-5, 6)]
    for trial, x in product(range(count), product(steps, repeat=2)):
        if x == (steps[0], steps[0]):
            sites = _sites(rng, (0, 40)[trial % 2])
        h = target = np.array(x, dtype=object)
        error, hidden = 0 * h, []
        for site in sites:
            R, c = site.residuals
            error = claim.step(site.W, R, error, target, c)
            hidden.append(site.hidden(h))
            h, target = relu(site.value(h)), relu(site.W @ target + site.b)
        if claim.margin(hidden) < claim.level:
            continue
        guarded += 1
        beyond += max(map(abs, x)) > 1
        if (abs(h - target) > error).any():
            raise Counterexample(
                f"x={exact.show(np.array(x))}: margin {claim.margin(hidden)}, pre-activations "
                f"{'; '.join(exact.show(z) for z in hidden)}, yet |f − g| = "
                f"{exact.show(abs(h - target))} exceeds {exact.show(error)}"
            )
    if not beyond:
        raise Counterexample("no point outside of the box had a margin: the check shows nothing")
    return Finding(f"{count} networks 2-2-2, {guarded} guarded points", f"{beyond} outside of D")


@by(Method.STEP)
def one_site_at_one_point(claim: Guard, effort: Effort) -> Finding:
    """Active units: a site is affine with its residuals, in symbols; then |·| of the split."""
    for m, k, n in ((1, 1, 2), (2, 2, 2), *effort.choose((), ((2, 3, 4),))):
        M1, M2, s = unknowns("p", n, k), unknowns("q", m, n), unknowns("s", n)
        W, b, h = unknowns("w", m, k), unknowns("b", m), unknowns("h", k)
        t1, t2, d = unknowns("t", n), unknowns("u", m), unknowns("d", k)
        R, c = M2 @ (s[:, None] * M1) - W, M2 @ t1 + t2 - b
        site = M2 @ (s * (M1 @ (h + d)) + t1) + t2
        identical("site − (W h + b)", site - (W @ h + b), (W + R) @ d + R @ h + c)
    for z in product((-2, -1, Fraction(-1, 1000), 0, Fraction(1, 1000), 1), repeat=2):
        hidden = [np.array([z[0], 1]), np.array([2, z[1]])]
        if claim.margin(hidden) >= claim.level and any((relu(v) != v).any() for v in hidden):
            raise Counterexample(
                f"pre-activations {'; '.join(exact.show(v) for v in hidden)}: margin "
                f"{claim.margin(hidden)}, but σ is not the identity"
            )
    return Finding("induction over sites", "the split in symbols, 36 margins")


GUARD = Statement(
    name="guard",
    claim="If the least hidden pre-activation of all sites of f at x is ≥ 0, then f(x) is the "
    "composition of g's maps up to the residuals, for any x, in the domain or not.",
    hypotheses=(
        "every hidden unit of every site is part of the margin",
        "the margin is that of real numbers; one computed in floats has to exceed the bound of its "
        "own rounding",
    ),
    paper="not in the paper; Theorem 1 read at one input in place of a bounded domain",
    depends_on=("two-frozen-layers", "error-recursion"),
    subject=Guard(),
    checks=(margin_decides, one_site_at_one_point),
    negatives=(
        Negative("the first site alone", Guard(margin=lambda hidden: min(hidden[0]))),
        Negative(
            "one hidden unit left out", Guard(margin=lambda hidden: min(min(z[1:]) for z in hidden))
        ),
        Negative(
            "taken behind the ReLU", Guard(margin=lambda hidden: min(min(relu(z)) for z in hidden))
        ),
        Negative("a margin of −1 let pass", Guard(level=Fraction(-1))),
        Negative(
            "residuals forgotten",
            Guard(step=lambda W, R, e, h, c: abs(W) @ e),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (GUARD,)
