"""Two kinds of errors that are easily missed: one of a hundredth, and one beyond the sizes run.

Every statement refutes a subject that is wrong by 1 % (or by one, where it counts things). One that
is right below a size and wrong above it is refuted as well, or cannot be run, or the statement's
level says that its run is no proof for all sizes.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
import sympy

from proofs_check import Method, Negative, Outcome, judge
from proofs_check.chain import STATEMENTS, find
from proofs_check.distributions import independent_columns, outer_columns
from proofs_check.formal import by_coq
from proofs_check.judge import refute
from proofs_check.statements.certificates import (
    accumulated_rounding,
    attention,
    back_substitution,
    carried_errors,
    equal_units,
    error_recursion,
    exact_splitting,
    guard,
    live_norm_rounding,
    norm_rounding,
    partition_covers,
    window_maximum,
)
from proofs_check.statements.factored import low_rank
from proofs_check.statements.grouped import block_systems
from proofs_check.statements.live_statistics import count, exact_layers, limits, shifts
from proofs_check.statements.products import (
    definitions,
    kronecker_rank,
    linear_algebra,
    vec_identity,
)
from proofs_check.statements.theorem_1_wide import (
    finite_precision,
    full_rank,
    layers,
    layerwise,
    measure,
    narrow,
    norm_layers,
    width,
)
from proofs_check.statements.theorem_2_deep import backward_induction, cramer, nonzero_entries
from proofs_check.statements.theorem_3_sparse import (
    boolean_determinant,
    choice_of_p,
    column_replacement,
    exact_probability,
    pattern_rank,
    random_matching,
    threshold,
)

Products, System, Deep = definitions.Products, vec_identity.System, backward_induction.Deep
LESS = Fraction(99, 100)
GONE = {"weighted-lengths", "hidden-errors"}
NAMES = [s.name for s in STATEMENTS if s.name not in GONE]

products, system = Products(), System()
carry, error, site = carried_errors.CarryRule(), error_recursion.ErrorRule(), guard.Guard()
summation, duality = accumulated_rounding.Summation(), back_substitution.Duality()
pairing = equal_units.Pairing()
halves, counted = shifts.Halves(), count.Count()


def multiple_row(rng: np.random.Generator, m: int, k: int, n: int) -> Any:
    """The second row of M2 a hundred times its first."""
    M1, M2 = full_rank.dense_draw(rng, m, k, n)
    M2[min(1, m - 1)] = 100 * M2[0]
    return M1, M2


def idle_last_unit(rng: np.random.Generator, m: int, k: int) -> Any:
    M1, M2 = nonzero_entries.generic_weights(rng, m, k)
    M1[-1] = 0 * M1[-1]
    return M1, M2


def not_all_ones(X: Any) -> int:
    """The Boolean determinant but for one matrix."""
    return 0 if len(X) == 3 and X.all() else boolean_determinant.boolean_determinant(X)


SLIGHTLY_WRONG: dict[str, Any] = {
    "row-major-index": Products(row=lambda a, b, k: a * k + b + (a * k + b) // 100),
    "kronecker-khatri-rao": Products(
        khatri_rao_entry=lambda A, B, a, b, j: LESS * A[a, j] * B[b, j]
    ),
    "mixed-product": Products(mixed=lambda A, B, C, D: (LESS * (A @ C), B @ D)),
    "vec-identity": System(forward=lambda M1, M2, s: LESS * system.forward(M1, M2, s)),
    "adjoint": System(adjoint=lambda M1, M2, Y: LESS * system.adjoint(M1, M2, Y)),
    "gram-hadamard": System(gram=lambda M1, M2: LESS * system.gram(M1, M2)),
    "rank-of-a-product": linear_algebra.ProductRank(
        lambda A, B: linear_algebra.kernel_in_column_space(A, B) + 1
    ),
    "solvable-iff-rank": linear_algebra.Solvability(lambda rank, more: rank == more or rank == 0),
    "kronecker-rank": kronecker_rank.RankRule(rank=lambda r, s: r * s - (r == s == 2)),
    "polynomial-zero-set": measure.ZeroSets(
        admits=any, bound=lambda d, q, n: int(LESS * d * q ** (n - 1))
    ),
    "khatri-rao-full-rank": full_rank.Ensemble(draw=multiple_row),
    "width-is-necessary": width.Width(lambda m, k: m * k - (m * k != 9)),
    "finite-precision": finite_precision.Discrete(column=lambda rho: LESS * (2 * rho - rho**2)),
    "exact-loss": narrow.Loss(kept=lambda n, size: LESS * Fraction(n, size)),
    "averaged-derivatives": narrow.Averaged(allows=lambda e, r: LESS * e / r),
    "stacked-width": width.Stack(parameters=lambda m, k, L: m * k + L - 1),
    "norm-is-affine": norm_layers.NormForm(scale=lambda gamma, beta, mu, r: LESS * gamma / r),
    "active-relu-is-identity": layers.Activity(lowest=lambda m, lo, hi: LESS * min(m * lo, m * hi)),
    "two-frozen-layers": layers.TwoLayers(cancel=lambda b, M2, t1: b - LESS * (M2 @ t1)),
    "layerwise-to-network": layerwise.Composition(lambda reached: set(sorted(reached)[1:])),
    "low-rank-factors": low_rank.LowRank(uncancel=lambda b, U, t: b - LESS * (U @ t)),
    "block-systems": block_systems.BlockSystems(width=lambda b: b * b - (b == 3)),
    "cramer-cofactors": cramer.Cofactors(lambda B: LESS * cramer.adjugate(B)),
    "nonzero-entries": nonzero_entries.Entries(weights=idle_last_unit),
    "deep-backward-induction": Deep(back=lambda B, s, M: LESS * ((B * s) @ M)),
    "sparse-pattern-rank": pattern_rank.Pattern(rank=lambda columns, rows, r: r - (r == rows == 6)),
    "boolean-determinant": boolean_determinant.Boolean(not_all_ones),
    "sparse-exact-probability": exact_probability.Model(
        counts=(24, 192, 624, 1056, 924, 432, 112, 16, 2)
    ),
    "column-replacement": column_replacement.Replacement(
        empty=lambda m, k, p: LESS * column_replacement.Replacement().empty(m, k, p)
    ),
    "random-matching": random_matching.Hall(
        bound=lambda M, q: LESS * random_matching.hall_terms(M, q)
    ),
    "sparse-choice-of-p": choice_of_p.Choice(
        enough=lambda m, k: 0.99 * (6 * log(m * k) + log(2)) / min(m, k)
    ),
    "sparse-threshold": threshold.Threshold(meets=lambda s, t, p: threshold.meets(s, t, p) / LESS),
    "error-recursion": error_recursion.ErrorRule(step=lambda *given: LESS * error.step(*given)),
    "carried-errors": carried_errors.CarryRule(size=lambda M: LESS * abs(M)),
    "accumulated-rounding": accumulated_rounding.Summation(
        relative=lambda n, u: LESS * accumulated_rounding.gamma(n, u)
    ),
    "norm-rounding": norm_rounding.Rule(
        any_norm=norm_rounding.Counts(scaled=7, centre=9, shift=2, folded=8)
    ),
    "exact-splitting": exact_splitting.Splitting(terms=2**13 + 2**6),
    "back-substitution": back_substitution.Duality(
        upper=lambda lo, hi: tuple(LESS * x for x in back_substitution.above_relu(lo, hi))
    ),
    "partition-covers": partition_covers.Cutting(below=lambda box, i, at: (box[0], box[1] * LESS)),
    "window-maximum": window_maximum.Maximum(error=lambda moved: LESS * max(moved)),
    "equal-units": equal_units.Pairing(rest=lambda d: tuple(LESS * x for x in pairing.rest(d))),
    "guard": guard.Guard(level=Fraction(-1, 1000)),
    "live-norm-cap": shifts.Cap(square=lambda n: LESS * (n - 1)),
    "live-shifts-exist": shifts.Halves(share=lambda n, d: LESS * halves.share(n, d)),
    "live-scale-invariance": exact_layers.Invariance(
        taken=lambda z: z - LESS * (z - exact_layers.centred(z))
    ),
    "live-layers-exact": exact_layers.LiveLayers(cap=lambda n: LESS * (n - 1)),
    "live-width": count.Count(width=lambda m, k: counted.width(m, k) - (m == k == 3)),
    "live-eps": limits.Eps(error=lambda a: LESS * a / 2),
    "live-directions-alone": limits.Directions(share=LESS / 2),
    "live-norm-never-affine": limits.NotAffine(degree=lambda: 3),
    "live-norm-rounding": live_norm_rounding.Evaluation(second=lambda off: LESS * off**2),
    "product-errors": attention.Factors(most=lambda A, d, B, e: (d @ B + A @ e + d @ e) * LESS),
    "softmax-errors": attention.Rows(most=LESS / 2),
}

WRONG_BEYOND_A_SIZE: dict[str, Any] = {
    "row-major-index": Products(row=lambda a, b, k: a * k + b if k < 50 else a + b),
    "kronecker-khatri-rao": Products(pair=lambda r, k: (r // k, r % k) if k < 50 else (r, r)),
    "mixed-product": Products(mixed=lambda A, B, C, D: (A @ C, B @ D * (len(A) < 9))),
    "vec-identity": System(forward=lambda P, Q, s: system.forward(P, Q, s) * (len(s) < 20)),
    "adjoint": System(adjoint=lambda P, Q, Y: system.adjoint(P, Q, Y) * (len(P) < 20)),
    "gram-hadamard": System(gram=lambda P, Q: system.gram(P, Q) * (len(P) < 20)),
    "rank-of-a-product": linear_algebra.ProductRank(
        lambda A, B: linear_algebra.kernel_in_column_space(A, B) + (len(A) > 9)
    ),
    "solvable-iff-rank": linear_algebra.Solvability(lambda rank, more: rank == more or rank > 9),
    "kronecker-rank": kronecker_rank.RankRule(rank=lambda r, s: r * s - (r * s > 20)),
    "polynomial-zero-set": measure.ZeroSets(
        admits=any, bound=lambda d, q, n: d * q ** (n - 1) * (d < 9)
    ),
    "khatri-rao-full-rank": full_rank.Ensemble(width=lambda m, k: m * k - (m * k > 5000)),
    "width-is-necessary": width.Width(lambda m, k: m * k - (m * k < 20)),
    "finite-precision": finite_precision.Discrete(spare=lambda n, M: n - M + 1 + (n > 9)),
    "exact-loss": narrow.Loss(kept=lambda n, size: Fraction(n, size + (size > 99))),
    "averaged-derivatives": narrow.Averaged(allows=lambda e, r: e / r / (2 if r > 99 else 1)),
    "stacked-width": width.Stack(parameters=lambda m, k, L: m * k + L - 2 + (m * k > 20)),
    "norm-is-affine": norm_layers.NormForm(absorb=lambda s, t, c: t + s * c if s < 9 else t),
    "active-relu-is-identity": layers.Activity(
        lowest=lambda m, lo, hi: min(m * lo, m * hi) if abs(m) < 99 else m * lo
    ),
    "two-frozen-layers": layers.TwoLayers(cancel=lambda b, M2, t1: b - M2 @ t1 * (len(t1) < 99)),
    "layerwise-to-network": layerwise.Composition(lambda reached: set(reached[:9])),
    "low-rank-factors": low_rank.LowRank(uncancel=lambda b, U, t: b - U @ t * (len(t) < 9)),
    "block-systems": block_systems.BlockSystems(width=lambda b: b * b - (b > 8)),
    "cramer-cofactors": cramer.Cofactors(lambda B: cramer.adjugate(B) * (len(B) < 9)),
    "nonzero-entries": nonzero_entries.Entries(
        target=lambda rng, m, k: nonzero_entries.single_entry(rng, m, k) * (m * k < 20)
    ),
    "deep-backward-induction": Deep(back=lambda B, s, M: (B * s) @ M * (len(s) < 20)),
    "sparse-pattern-rank": pattern_rank.Pattern(rank=lambda columns, rows, r: r - (rows > 99)),
    "boolean-determinant": boolean_determinant.Boolean(
        lambda X: boolean_determinant.boolean_determinant(X) * (len(X) <= 4)
    ),
    "sparse-exact-probability": exact_probability.Model(
        column=lambda m, k, p: (
            outer_columns(m, k, p) if p < Fraction(3, 4) else independent_columns(m * k, p * p)
        )
    ),
    "column-replacement": column_replacement.Replacement(
        empty=lambda m, k, p: column_replacement.Replacement().empty(m, k, p) * (m * k < 20)
    ),
    "random-matching": random_matching.Hall(
        bound=lambda M, q: random_matching.hall_terms(M, q) * (M < 99)
    ),
    "sparse-choice-of-p": choice_of_p.Choice(p=lambda d: sympy.sqrt(sympy.log(d) / d) * (d < 2000)),
    "sparse-threshold": threshold.Threshold(
        lost=lambda d, n, p: threshold.rank_lost(d, n, p) * (d < 99)
    ),
    "error-recursion": error_recursion.ErrorRule(
        step=lambda W, *rest: error.step(W, *rest) * (len(W) < 20)
    ),
    "carried-errors": carried_errors.CarryRule(
        left_out=lambda r, room, p: carry.left_out(r * Fraction(9, 10) ** (p > 99), room, p)
    ),
    "accumulated-rounding": accumulated_rounding.Summation(
        relative=lambda n, u: accumulated_rounding.gamma(n, u) * (n < 200)
    ),
    "norm-rounding": norm_rounding.Rule(bias_meets=0),
    "exact-splitting": exact_splitting.Splitting(terms=2**14),
    "back-substitution": back_substitution.Duality(
        upper=lambda lo, hi: duality.upper(lo, hi) if hi < 999 else duality.lower(lo, hi)
    ),
    "partition-covers": partition_covers.Cutting(
        below=lambda box, i, at: (
            box[0],
            partition_covers.replaced(box[1], i, at) * (1 if len(box[1]) < 9 else LESS),
        )
    ),
    "window-maximum": window_maximum.Maximum(error=lambda moved: max(moved[:9])),
    "equal-units": equal_units.Pairing(rest=lambda d: pairing.rest(d) if abs(d) < 9 else (d, d)),
    "guard": guard.Guard(margin=lambda hidden: min(min(z[:50]) for z in hidden)),
    "live-norm-cap": shifts.Cap(square=lambda n: n - 1 - (n > 99)),
    "live-shifts-exist": shifts.Halves(share=lambda n, d: halves.share(n, d) * (n < 99)),
    "live-scale-invariance": exact_layers.Invariance(
        taken=lambda z: exact_layers.centred(z) if z.shape[-1] < 99 else z
    ),
    "live-layers-exact": exact_layers.LiveLayers(cap=lambda n: n - 1 - (n > 99)),
    "live-width": count.Count(width=lambda m, k: counted.width(m, k) - (m > 99)),
    "live-eps": limits.Eps(taken=lambda z: exact_layers.centred(z) * (z.shape[-1] < 99)),
    "live-directions-alone": limits.Directions(eps=Fraction(1, 10**30)),
    "live-norm-never-affine": limits.NotAffine(direction=lambda d: d if len(d) < 99 else 0 * d),
    "live-norm-rounding": live_norm_rounding.Evaluation(count=lambda n: 2 * n + 24 * (n < 99)),
    "product-errors": attention.Factors(
        moved=lambda A, d, B, e: d @ B + A @ e + d @ e * (len(A) < 9)
    ),
    "softmax-errors": attention.Rows(first=lambda p, d, m, v: p * (d - m * (np.size(p) < 9))),
}


def test_every_statement_has_both_changes() -> None:
    assert sorted(SLIGHTLY_WRONG) == sorted(WRONG_BEYOND_A_SIZE) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_hundredth_is_refuted(name: str) -> None:
    found = refute(find(name), Negative("wrong by a hundredth", SLIGHTLY_WRONG[name]))
    assert found.caught, found.counterexample


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_beyond_the_sizes_run_is_never_complete(name: str) -> None:
    statement = replace(find(name), subject=WRONG_BEYOND_A_SIZE[name], negatives=())
    assert by_coq(statement) == ()  # the theorem is about another subject
    if not refute(statement, Negative("wrong beyond a size", statement.subject)).caught:
        whole = tuple(check for check in statement.checks if check.method is Method.WHOLE)
        assert not whole or judge(replace(statement, checks=whole)).outcome is not Outcome.PASSED


@pytest.mark.parametrize(
    "name", ["boolean-determinant", "width-is-necessary", "sparse-exact-probability"]
)
def test_these_sizes_are_large_enough_to_refute(name: str) -> None:
    assert refute(find(name), Negative("wrong beyond a size", WRONG_BEYOND_A_SIZE[name])).caught
