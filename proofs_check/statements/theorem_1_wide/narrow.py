"""Fewer than m·k hidden units: what is lost on average, and what no γ, β can reach.

Exact loss. Π is the orthogonal projection on the span of the n columns u_j ⊗ v_j of K. If the
entries of M2 are independent and of one symmetric distribution, then u_j and Q u_j have the same
law for every signed permutation Q; so do v_j and R v_j for M1: E Π commutes with Q ⊗ R. Changing
one sign shows that entries off the diagonal are zero, permuting that those on it are equal:
E Π = λI. The trace of Π is the rank of K, n with probability 1 where the weights have a density and
n ≤ m·k, so λ = n/(m·k), and for *every* W

    E‖W − ΠW‖² = <W, (I − EΠ) W> = (1 − n/(m·k))·‖W‖².

Averaged derivatives. Let f(x) = M2 σ(s∘(M1 x) + t) + t2 with any s, t, t2, kinks allowed, and
|f − (W x + b)| ≤ e on a box of half-widths r. Almost everywhere ∂_j f_i = Σ_l M2_il s_l 1_l M1_lj,
1_l = 1 where unit l is active. The average over the box is (M2 diag(s̄) M1)_ij with s̄_l = s_l times
the share of the box where l is active: one s̄ for all i, j. It is also the average of
(f_i(x_j = hi) − f_i(x_j = lo))/(2 r_j), which is W_ij up to 2e/(2 r_j). So some s̄ has

    |M2 diag(s̄) M1 − W|_ij ≤ e/r_j,   and  |<Y, W>| ≤ e·Σ|Y_ij|/r_j  for every Y with Kᵀ vec Y = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from math import sqrt
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
from proofs_check.statements.products.definitions import khatri_rao
from proofs_check.statements.theorem_1_wide.layers import relu

# --- what is lost on average ----------------------------------------------------------------------


def signed_permutations(size: int) -> Iterator[Matrix]:
    """All 2^size·size! of them, as matrices."""
    for order, signs in product(permutations(range(size)), product((1, -1), repeat=size)):
        yield np.eye(size, dtype=int)[list(order)] * np.array(signs)


def gaussian(rng: np.random.Generator, *shape: int) -> Matrix:
    return rng.standard_normal(shape)


@dataclass(frozen=True)
class Loss:
    """The changes of u and v that leave their law alone, the weights, and the share kept."""

    changes: Callable[[int], Iterator[Matrix]] = signed_permutations
    weights: Callable[..., Matrix] = gaussian
    kept: Callable[[int, int], Fraction] = lambda n, size: Fraction(n, size)


def projection(K: Matrix) -> Matrix:
    """K (KᵀK)⁻¹ Kᵀ in rationals, column by column."""
    gram = K.T @ K
    columns: list[Any] = [exact.solve(gram, K.T[:, i]) for i in range(len(K))]
    return np.asarray(K @ np.column_stack(columns))


@by(Method.STEP)
def average_over_the_group(claim: Loss, effort: Effort) -> Finding:
    """One draw of integers, Π averaged over all changes of u and v: n/(m·k) times I, by ==."""
    rng = np.random.default_rng(45)
    for m, k, n in ((2, 2, 1), (2, 2, 3), (1, 3, 2), *effort.choose((), ((2, 3, 2),))):
        P = projection(khatri_rao(exact.integers(rng, m, n), exact.integers(rng, n, k).T))
        total, count = 0 * P, 0
        for Q, R in product(claim.changes(m), list(claim.changes(k))):
            turn = np.kron(Q, R)
            total, count = total + turn @ P @ turn.T, count + 1
        wanted = claim.kept(n, m * k) * np.eye(m * k, dtype=int)
        exact.same(f"average of Π, m={m}, k={k}, n={n}", total / Fraction(count), wanted)
    return Finding("m, k ≤ 3, n ≤ 3", "the average is (n/mk)·I, in rationals")


@by(Method.NUMERICAL)
def sampled_loss(claim: Loss, effort: Effort) -> Finding:
    """W with equal entries, which a positive mean would favour: within five deviations."""
    rng, draws, parts = np.random.default_rng(46), effort.choose(1500, 10000), []
    for m, k, n in ((3, 4, 3), (4, 4, 10)):
        W = np.full(m * k, 1 / sqrt(m * k))
        losses = []
        for _ in range(draws):
            M2, M1 = claim.weights(rng, m, n), claim.weights(rng, n, k)
            basis = np.linalg.qr((M2[:, None, :] * M1.T[None]).reshape(m * k, n))[0]
            losses.append(1 - float(((basis.T @ W) ** 2).sum()))
        mean, said = float(np.mean(losses)), 1 - float(claim.kept(n, m * k))
        parts.append(f"{mean:.3f} ({said:.3f})")
        if abs(mean - said) > 5 * float(np.std(losses)) / sqrt(draws):
            raise Counterexample(
                f"m={m}, k={k}, n={n}: mean loss {mean:.4f}, said to be {said:.4f}"
            )
    return Finding(f"3x4, 4x4, {draws} draws", "loss " + ", ".join(parts), None)


LOSS = Statement(
    name="exact-loss",
    claim="With n ≤ m·k hidden units of random weights the best s leaves, for every W, exactly "
    "E‖W − M2 diag(s) M1‖² = (1 − n/(m·k))·‖W‖².",
    hypotheses=(
        "entries of each matrix independent, of one symmetric distribution with a density",
        "n ≤ m·k",
    ),
    paper="not in the paper; the loss below the width of Theorem 1",
    depends_on=("khatri-rao-full-rank",),
    subject=Loss(),
    checks=(average_over_the_group, sampled_loss),
    negatives=(
        Negative(
            "weights that are not symmetric: permutations alone",
            Loss(changes=lambda size: (abs(Q) for Q in signed_permutations(size))),
        ),
        Negative(
            "units that are not alike: signs alone",
            Loss(changes=lambda size: (np.diag(d) for d in product((1, -1), repeat=size))),
        ),
        Negative("one equation more", Loss(kept=lambda n, size: Fraction(n, size + 1))),
    ),
)

# --- what no γ, β can reach -----------------------------------------------------------------------


def active_share(row: Matrix, t: Any, lo: Matrix, hi: Matrix) -> Fraction:
    """The share of the box in the plane where row·x + t > 0: the area of a clipped polygon."""
    corners = [
        np.array(c, dtype=object) for c in ((lo[0], lo[1]), (hi[0], lo[1]), hi, (lo[0], hi[1]))
    ]
    height = [row @ c + t for c in corners]
    inside: list[Matrix] = []
    for i in range(4):
        a, b, before, after = corners[i - 1], corners[i], height[i - 1], height[i]
        if (before > 0) != (after > 0):
            inside.append(a + (b - a) * Fraction(before) / (before - after))
        if after > 0:
            inside.append(b)
    pairs = [(inside[i - 1], inside[i]) for i in range(len(inside))]
    area = sum(a[0] * b[1] - a[1] * b[0] for a, b in pairs) / Fraction(2)
    return Fraction(area / ((hi[0] - lo[0]) * (hi[1] - lo[1])))


def mean_relu(slope: Any, start: Any, width: Any) -> Fraction:
    """The mean of σ(start + slope·y) over 0 ≤ y ≤ width."""
    end = start + slope * width
    if slope == 0:
        return Fraction(max(start, 0))
    return Fraction((max(end, 0) ** 2 - max(start, 0) ** 2) / Fraction(2 * slope * width))


@dataclass(frozen=True)
class Averaged:
    """How much of a unit counts, and what an error of e allows of W_ij."""

    share: Callable[[Matrix, Any, Matrix, Matrix], Fraction] = active_share
    allows: Callable[[Any, Any], Any] = lambda e, r: e / r


@by(Method.STEP)
def one_s_for_all_derivatives(claim: Averaged, effort: Effort) -> Finding:
    """Boxes in the plane, in rationals: mean of (f(hi) − f(lo))/(2r) = M2 diag(s̄) M1, both j."""
    rng, count = np.random.default_rng(47), effort.choose(30, 200)
    for _ in range(count):
        M1, M2 = exact.integers(rng, 3, 2), exact.integers(rng, 2, 3)
        s, t = exact.integers(rng, 3), exact.integers(rng, 3)
        lo = exact.integers(rng, 2, bound=2)
        hi = lo + abs(exact.integers(rng, 2, bound=2)) + 1
        rows = s[:, None] * M1
        share = [claim.share(row, c, lo, hi) for row, c in zip(rows, t, strict=True)]
        slopes = M2 @ (np.array(share)[:, None] * rows)
        for j, i in product(range(2), range(2)):
            across = 1 - j
            ends = [
                M2[i]
                @ np.array(
                    [
                        mean_relu(
                            row[across],
                            row[j] * x + row[across] * lo[across] + c,
                            (hi - lo)[across],
                        )
                        for row, c in zip(rows, t, strict=True)
                    ]
                )
                for x in (lo[j], hi[j])
            ]
            found = (ends[1] - ends[0]) / (hi - lo)[j]
            exact.same(
                f"mean of ∂_{j} f_{i}, rows {exact.show(rows)}, t {exact.show(t)}",
                slopes[i, j],
                found,
            )
    return Finding(f"{count} networks 2-3-2", "one s̄ for both inputs and both outputs, by ==")


@by(Method.RATIONAL)
def no_network_beats_the_bound(claim: Averaged, effort: Effort) -> Finding:
    """One input, two outputs, one unit: the sup at the kink and the ends, never below the dual."""
    rng, count = np.random.default_rng(48), effort.choose(300, 2000)
    for trial in range(count):
        M1, M2 = exact.integers(rng, 1, 1), exact.integers(rng, 2, 1)
        s, t, W = (exact.integers(rng, size) for size in (1, 1, 2))
        r, shift = Fraction(1 + trial % 3), exact.integers(rng, 2) / 4
        if trial == 0:  # the zero network against (x, −x): here the bound is attained
            M2, s, t, W, shift = M2 * 0 + 1, s * 0, t * 0, np.array([1, -1]), shift * 0
        slope = (s * M1[:, 0])[0]
        kinks = [-t[0] / slope] if slope and abs(t[0] / slope) < r else []
        sup = max(
            abs(M2[:, 0] * relu(slope * x + t[0]) + shift - W * x).max() for x in (-r, r, *kinks)
        )
        for Y in exact.null_space((M2[:, 0] * M1[0, 0])[None]).T:  # Kᵀ vec Y = 0
            if abs(Y @ W) > sum(abs(y) * claim.allows(sup, r) for y in Y):
                raise Counterexample(
                    f"M2={exact.show(M2)}, W={exact.show(W)}, Y={exact.show(Y)}, r={r}: |<Y, W>| = "
                    f"{abs(Y @ W)}, but the error is {sup} only"
                )
    return Finding(f"{count} networks 1-1-2, the sup exact", "|<Y, W>| ≤ e·Σ|Y|/r, once attained")


AVERAGED = Statement(
    name="averaged-derivatives",
    claim="If |M2 σ(s∘(M1 x) + t) + t2 − (W x + b)| ≤ e on a box of half-widths r, for any s, t, "
    "t2, then |M2 diag(s̄) M1 − W|_ij ≤ e/r_j for some s̄; so Kᵀ vec Y = 0 gives "
    "e ≥ |<Y, W>| / Σ|Y_ij|/r_j.",
    hypotheses=("one hidden layer", "the error bounded on the whole box"),
    paper="not in the paper; the converse for ReLUs that bend",
    depends_on=("adjoint", "width-is-necessary"),
    subject=Averaged(),
    checks=(one_s_for_all_derivatives, no_network_beats_the_bound),
    negatives=(
        Negative(
            "every unit counted as active", Averaged(share=lambda row, t, lo, hi: Fraction(1))
        ),
        Negative(
            "active or not at the centre",
            Averaged(share=lambda row, t, lo, hi: Fraction(int(row @ (lo + hi) + 2 * t > 0))),
        ),
        Negative("half the error: e/(2r)", Averaged(allows=lambda e, r: e / (2 * r))),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (LOSS, AVERAGED)
