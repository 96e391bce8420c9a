"""Live norms in place of live norms: exact, for every input and in no bounded domain.

P z = z − mean z over the n hidden units, Q the same over the m outputs, ρ² = |P z|²/n + eps.

Invariance. For a > 0 and any c, Q(a y + c·1) = a Q y, and ρ²(a y + c·1) = a² ρ²(y) where eps = 0:
so LN(a y + c·1) = LN(y).

Layers. Let z = M1 h + c, u = σ(s∘P z/ρ + t), y = M2 u with Q M2 diag(s) P [M1 | c] = Q [W | b],
Q M2 t = 0 and t_j ≥ |s_j| √(n − 1). Every unit is active (live-norm-cap), so that
Q y = Q (W h + b)/ρ + Q M2 t = Q (W h + b)/ρ, with *one* ρ for all units: LN(y) = LN(W h + b).

Roots are kept apart: a value is a sum of rational vectors over √q, q rational. Where 1 and the
roots are independent over the rationals (no q and no quotient of two is a square), the sum points
along a rational vector only if each of its parts does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
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
from proofs_check.symbols import identical, unknowns


def centred(z: Matrix) -> Matrix:
    """z − mean z, over the units of each row."""
    return np.asarray(z - z.sum(axis=-1, keepdims=True) / Fraction(z.shape[-1]))


def mean_square(p: Matrix) -> Matrix:
    """ρ² of each row, the same for all of its units."""
    return np.asarray((p * p).sum(axis=-1, keepdims=True) / Fraction(p.shape[-1]) + 0 * p)


# --- one norm -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Invariance:
    """What a norm takes away first, and the square that it divides by."""

    taken: Callable[[Matrix], Matrix] = centred
    square: Callable[[Matrix], Matrix] = mean_square


@by(Method.STEP)
def factor_and_shift_are_lost(claim: Invariance, effort: Effort) -> Finding:
    """In symbols: P(a y + c·1) = a P y, and ρ² of it is a² ρ²: the sign of a is what is left."""
    for n in range(2, effort.choose(5, 8)):
        y, (a, c) = unknowns("y", 1, n), unknowns("a", 2)
        p, moved = claim.taken(y), claim.taken(a * y + c)
        identical(f"P(a y + c) - a P y, n={n}", moved, a * p)
        identical(f"rho²(a y + c) - a² rho²(y), n={n}", claim.square(moved), a**2 * claim.square(p))
    return Finding("2 to 4 units", "a positive factor and a common shift are lost")


INVARIANCE = Statement(
    name="live-scale-invariance",
    claim="LayerNorm without eps neither sees a positive factor nor a common shift: "
    "LN(a y + c·1) = LN(y) for a > 0.",
    hypotheses=("eps = 0", "statistics over all units of one input", "a > 0"),
    paper="not in the paper; live statistics",
    depends_on=(),
    subject=Invariance(),
    checks=(factor_and_shift_are_lost,),
    negatives=(
        Negative("eps", Invariance(square=lambda p: mean_square(p) + Fraction(1, 100000))),
        Negative("no mean taken away, and a shift", Invariance(taken=lambda z: z)),
    ),
)

# --- two frozen layers ----------------------------------------------------------------------------


def of_the_input(z: Matrix) -> Matrix:
    """ρ² of each unit, for a batch of inputs: LayerNorm's."""
    return mean_square(z)


def of_groups(z: Matrix) -> Matrix:
    half = z.shape[-1] // 2
    return np.concatenate([mean_square(z[:, :half]), mean_square(z[:, half:])], axis=1)


def of_the_batch(z: Matrix) -> Matrix:
    return mean_square(z.T).T


@dataclass(frozen=True)
class LiveLayers:
    """The squares that the first norm divides by, how large shifts are, and what is behind M2."""

    square: Callable[[Matrix], Matrix] = of_the_input
    cap: Callable[[int], Any] = lambda n: n - 1  # t_j² = cap·s_j²
    cancelled: Callable[[Matrix], Matrix] = lambda t: t
    added: int = 0  # what of h_1 is added to the first output, ahead of the second norm
    eps: Fraction = Fraction(0)
    second: bool = True


@dataclass(frozen=True)
class Drawn:
    """Frozen M1, c, M2, the target's W, b, and s, t that meet the equations."""

    M1: Matrix
    c: Matrix
    M2: Matrix
    W: Matrix
    b: Matrix
    s: Matrix
    t: Matrix

    @classmethod
    def of(cls, rng: np.random.Generator, m: int, k: int, cap: Any) -> Drawn:
        """s first, then [W | b] from it; t positive, and a last column of M2 that cancels it."""
        n = (m - 1) * (k + 1) + 2
        M1, c, M2 = exact.integers(rng, n, k), exact.integers(rng, n), exact.integers(rng, m, n)
        s = exact.integers(rng, n)
        s[s == 0] = Fraction(1)
        t = np.array([abs(x) * root_above(cap) for x in s], dtype=object)
        M2[:, -1] = -(M2[:, :-1] @ t[:-1]) / t[-1]
        inner = centred(np.column_stack([M1, c]).T).T
        made = (M2 * s) @ inner
        return cls(M1, c, M2, made[:, :-1], made[:, -1], s, t)


def root_above(square: Any) -> Fraction:
    """A rational a little above the root of a rational."""
    scaled = Fraction(square) * 10**12
    return Fraction(isqrt(int(scaled)) + 1, 10**6)


def parts(claim: LiveLayers, drawn: Drawn, inputs: Matrix, index: int) -> dict[Fraction, Matrix]:
    """M2 σ(s∘P z/ρ + t) at one input of a batch: {q: vector}, the sum of vectors over √q."""
    z = inputs @ drawn.M1.T + drawn.c
    p = centred(z)
    q, t = claim.square(p)[index], claim.cancelled(drawn.t)
    above = drawn.s * p[index]
    active = np.array(
        [a >= 0 or x * x * r >= a * a for a, x, r in zip(above, t, q, strict=True)], dtype=bool
    )
    found = {Fraction(1): drawn.M2 @ (t * active) + beside(claim, drawn, inputs[index])}
    for r in sorted({Fraction(x) for x, on in zip(q, active, strict=True) if on}):
        mine = active & np.array([x == r for x in q])
        found[r] = found.get(r, 0) + drawn.M2 @ (above * mine)
    return found


def beside(claim: LiveLayers, drawn: Drawn, h: Matrix) -> Matrix:
    return np.asarray(claim.added * h[0] * np.eye(1, len(drawn.b), dtype=int)[0])


def compared(claim: LiveLayers, drawn: Drawn, inputs: Matrix, index: int) -> str | None:
    """What is wrong with the layers' output at one input; None where it is the target's."""
    value = parts(claim, drawn, inputs, index)
    wanted = drawn.W @ inputs[index] + drawn.b + beside(claim, drawn, inputs[index])
    if not claim.second:
        rest = {q: v for q, v in value.items() if q != 1 and v.any()}
        return None if not rest and (value[Fraction(1)] == wanted).all() else "rho is left"
    goal = centred(wanted[None])[0]
    if not goal.any():
        return None  # no variance: left out by the claim
    kept = {q: v for q, v in ((q, centred(v[None])[0]) for q, v in value.items()) if v.any()}
    for q, v in kept.items():
        if (np.outer(v, goal) != np.outer(goal, v)).any():
            return f"the part over the root of {q} points elsewhere"
    if len(kept) != 1:
        return f"{len(kept)} roots are mixed"
    ((q, v),) = kept.items()
    ours, theirs = mean_square(v)[0] / q + claim.eps, mean_square(goal)[0] + claim.eps
    same = v * v / q * theirs == goal * goal * ours
    return None if same.all() and v @ goal > 0 else "its size or sign is another"


@by(Method.RATIONAL)
def layers_agree_everywhere(claim: LiveLayers, effort: Effort) -> Finding:
    """Exact instances at inputs of any size: LN(M2 σ(LN(M1 h + c))) = LN(W h + b), root by root."""
    rng, count = np.random.default_rng(71), effort.choose(6, 30)
    for trial in range(count):
        m, k = 2 + trial % 3, 1 + trial % 2
        drawn = Drawn.of(rng, m, k, claim.cap((m - 1) * (k + 1) + 2))
        for size in (1, 1000, Fraction(1, 1000)):
            inputs = exact.integers(rng, 5, k) * size
            for index in range(len(inputs)):
                wrong = compared(claim, drawn, inputs, index)
                if wrong:
                    raise Counterexample(
                        f"M1={exact.show(drawn.M1)}, c={exact.show(drawn.c)}, "
                        f"M2={exact.show(drawn.M2)}, s={exact.show(drawn.s)}, "
                        f"t={exact.show(drawn.t)}, h={exact.show(inputs[index])}: {wrong}"
                    )
    return Finding(f"{count} layers, m ≤ 4, k ≤ 2, inputs of size 1e-3 to 1e4", "equal by ==")


@by(Method.STEP)
def one_root_comes_out(claim: LiveLayers, effort: Effort) -> Finding:
    """The two steps in symbols: the largest |P z|_j beside t, and Q y = Q(W h + b)/ρ."""
    for n in range(2, effort.choose(5, 7)):
        z = np.zeros((1, n), dtype=object)
        z[0, 0] = Fraction(-1)  # where |P z|_j = √(n − 1)·ρ
        p = centred(z)
        if claim.cap(n) * claim.square(p)[0, 0] < p[0, 0] ** 2:
            raise Counterexample(f"n={n}, z=-e_1, s=1: (P z)_1² = {p[0, 0] ** 2} is above t²·ρ²")
    m, n, k = 2, 3, 2
    M1, M2, s, h = unknowns("a", n, k), unknowns("b", m, n), unknowns("s", n), unknowns("h", k)
    inner = centred((M1 @ h)[None])[0]
    (r,) = unknowns("r", 1)  # 1/ρ
    left = centred((M2 @ (s * inner * r))[None])[0]
    W = (M2 * s) @ centred(M1.T).T
    identical("Q y - Q W h/rho", left, r * centred((W @ h)[None])[0])
    return Finding("n ≤ 4 for the shift, 2 × 2 maps in symbols", "Q y = Q(W h + b)/ρ")


def one_moved(t: Matrix) -> Matrix:
    """The first shift larger by a hundredth."""
    return np.concatenate([t[:1] * Fraction(101, 100), t[1:]])


LAYERS = Statement(
    name="live-layers-exact",
    claim="With Q M2 diag(s) P [M1 | c] = Q [W | b], Q M2 t = 0 and t_j ≥ |s_j| √(n − 1), "
    "LN(M2 σ(LN_{s,t}(M1 h + c))) = LN(W h + b) for every h where both variances are positive.",
    hypotheses=(
        "eps = 0",
        "statistics over all units of one input",
        "a second live norm right behind M2",
    ),
    paper="not in the paper; Theorem 1 for live statistics",
    depends_on=("live-scale-invariance", "live-norm-cap", "active-relu-is-identity"),
    subject=LiveLayers(),
    checks=(layers_agree_everywhere, one_root_comes_out),
    negatives=(
        Negative("two groups, each with statistics of its own", LiveLayers(square=of_groups)),
        Negative("statistics of the batch", LiveLayers(square=of_the_batch)),
        Negative("no second norm", LiveLayers(second=False)),
        Negative("eps", LiveLayers(eps=Fraction(1, 100000))),
        Negative("a sum between M2 and the second norm", LiveLayers(added=1)),
        Negative("shifts that do not cancel", LiveLayers(cancelled=one_moved)),
        Negative("shifts of half the size", LiveLayers(cap=lambda n: Fraction(n - 1, 4))),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (INVARIANCE, LAYERS)
