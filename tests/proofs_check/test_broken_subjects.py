"""Break each statement's code on purpose, in ways its own negatives do not, and see it refuted."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from proofs_check import Negative, Outcome, exact, judge
from proofs_check.chain import STATEMENTS, find
from proofs_check.distributions import independent_columns
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

Products, System = definitions.Products, vec_identity.System
Activity, TwoLayers = layers.Activity, layers.TwoLayers


def without_last_term(M1: Any, M2: Any, s: Any) -> Any:
    """M2 diag(s) M1 with the last hidden neuron left out."""
    return M2[:, :-1] @ (s[:-1, None] * M1[:-1])


def last_neuron_copied(rng: np.random.Generator, m: int, k: int, n: int) -> Any:
    M1, M2 = full_rank.dense_draw(rng, m, k, n)
    M1[-1], M2[:, -1] = M1[0], 2 * M2[:, 0]
    return M1, M2


def short_diagonals(m: int, k: int, n: int) -> Any:
    """A witness that reaches only the first neurons."""
    return np.eye(n, k, dtype=int), np.eye(m, n, dtype=int)


def unsigned_expansion(B: Any) -> Any:
    """The adjugate with one sign wrong."""
    out = cramer.adjugate(B)
    out[0, -1] = -out[0, -1]
    return out


BROKEN: list[tuple[str, str, Any]] = [
    # wrong index order
    ("row-major-index", "pair reversed", Products(pair=lambda r, k: (r % k, r // k))),
    ("row-major-index", "off by one", Products(row=lambda a, b, k: a * k + b + 1)),
    (
        "kronecker-khatri-rao",
        "columns of B shifted",
        Products(kronecker_entry=lambda A, B, a, b, c, d: A[a, d] * B[b, c]),
    ),
    (
        "mixed-product",
        "B's indices exchanged",
        Products(kronecker_entry=lambda A, B, a, b, c, d: A[a, c] * B[d, b]),
    ),
    ("vec-identity", "rows reversed", System(vec=lambda W: W[::-1].reshape(-1))),
    (
        "sparse-pattern-rank",
        "column pattern ignored",
        pattern_rank.Pattern(rank=lambda columns, rows, r: min(rows, len(columns))),
    ),
    # transposed factor
    (
        "mixed-product",
        "D transposed",
        Products(mixed=lambda A, B, C, D: (A @ C, B @ D.T)),
    ),
    (
        "gram-hadamard",
        "M2 M2ᵀ in place of M2ᵀ M2, cut to size",
        System(gram=lambda M1, M2: (M1 @ M1.T) * np.resize(M2 @ M2.T, (len(M1), len(M1)))),
    ),
    (
        "adjoint",
        "factors exchanged",
        System(adjoint=lambda M1, M2, Y: System().adjoint(M1[::-1], M2, Y)),
    ),
    (
        "two-frozen-layers",
        "target transposed",
        TwoLayers(system=lambda M1, M2: definitions.khatri_rao(M2, M1.T)[::-1]),
    ),
    (
        "deep-backward-induction",
        "scale on the other side of M",
        backward_induction.Deep(back=lambda B, s, M: (B @ M) * s),
    ),
    # missing term
    ("vec-identity", "one neuron missing", System(forward=without_last_term)),
    (
        "adjoint",
        "M2 missing",
        System(adjoint=lambda M1, M2, Y: np.array([Y.sum(axis=0) @ row for row in M1])),
    ),
    (
        "norm-is-affine",
        "mean not removed",
        norm_layers.NormForm(shift=lambda gamma, beta, mu, r: beta),
    ),
    (
        "norm-is-affine",
        "γ not rescaled on the way back",
        norm_layers.NormForm(gamma=lambda s, t, mu, r: s),
    ),
    ("active-relu-is-identity", "no shift at all", Activity(lowest=lambda m, lo, hi: 0 * m)),
    (
        "active-relu-is-identity",
        "shift twice as large: not the least",
        Activity(lowest=lambda m, lo, hi: 2 * min(m * lo, m * hi) - 1),
    ),
    (
        "two-frozen-layers",
        "shift cancelled with the wrong sign",
        TwoLayers(cancel=lambda b, M2, t1: b + M2 @ t1),
    ),
    (
        "low-rank-factors",
        "shift taken back twice",
        low_rank.LowRank(uncancel=lambda b, U, t: b - 2 * (U @ t)),
    ),
    (
        "layerwise-to-network",
        "agreement at one value only",
        layerwise.Composition(agreement=lambda reached: set(reached[:1])),
    ),
    (
        "error-recursion",
        "constant forgotten",
        error_recursion.ErrorRule(step=lambda W, R, e, H, c: (abs(W) + abs(R)) @ e + abs(R) @ H),
    ),
    (
        "error-recursion",
        "errors of earlier layers forgotten",
        error_recursion.ErrorRule(step=lambda W, R, e, H, c: abs(R) @ H + abs(c)),
    ),
    (
        "carried-errors",
        "a unit that rises taken for one at rest",
        carried_errors.CarryRule(slopes=lambda lo, hi: (0 * lo, 0 * lo, abs(lo))),
    ),
    (
        "deep-backward-induction",
        "skip connection halved",
        backward_induction.Deep(inject=lambda A, x: A @ x / Fraction(2)),
    ),
    # wrong rule
    (
        "kronecker-rank",
        "smaller of the two ranks",
        kronecker_rank.RankRule(rank=lambda r, s: min(r, s)),
    ),
    (
        "kronecker-rank",
        "entries added",
        kronecker_rank.RankRule(product=lambda A, B: np.kron(A, B) + 1),
    ),
    (
        "rank-of-a-product",
        "nullity of B",
        linear_algebra.ProductRank(lambda A, B: exact.null_space(B).shape[1]),
    ),
    (
        "solvable-iff-rank",
        "augmented rank exactly one larger",
        linear_algebra.Solvability(lambda rank, augmented: augmented == rank + 1),
    ),
    ("cramer-cofactors", "one sign wrong", cramer.Cofactors(unsigned_expansion)),
    ("cramer-cofactors", "B itself", cramer.Cofactors(lambda B: B)),
    (
        "polynomial-zero-set",
        "half the degree",
        measure.ZeroSets(admits=any, bound=lambda d, q, n: d * q ** (n - 1) // 2),
    ),
    (
        "khatri-rao-full-rank",
        "two neurons parallel",
        full_rank.Ensemble(draw=last_neuron_copied),
    ),
    (
        "khatri-rao-full-rank",
        "witness with the factors' indices exchanged",
        full_rank.Ensemble(witness=short_diagonals),
    ),
    (
        "khatri-rao-full-rank",
        "Hadamard sum in place of the product",
        full_rank.Ensemble(
            product=lambda A, B: (A[:, None, :] + B[None, :, :]).reshape(-1, A.shape[1])
        ),
    ),
    (
        "stacked-width",
        "two parameters more",
        width.Stack(parameters=lambda m, k, L: m * k + L),
    ),
    (
        "accumulated-rounding",
        "rounded down in place of to nearest",
        accumulated_rounding.Summation(
            rounded=lambda x, bits, tiny: min(
                accumulated_rounding.nearest(x, bits, tiny),
                accumulated_rounding.nearest(x * Fraction(7, 8), bits, tiny),
            )
        ),
    ),
    (
        "accumulated-rounding",
        "half of γ_n",
        accumulated_rounding.Summation(relative=lambda n, u: n * u / 2),
    ),
    (
        "norm-rounding",
        "the inverse of a root forgotten",
        norm_rounding.Rule(
            any_norm=norm_rounding.Counts(scaled=7, centre=8, shift=2, folded=7),
        ),
    ),
    (
        "norm-rounding",
        "the casts of a norm without statistics forgotten",
        norm_rounding.Rule(
            gamma_alone=norm_rounding.Counts(scaled=1, centre=0, shift=0, folded=1),
        ),
    ),
    (
        "exact-splitting",
        "rounded to even multiples",
        exact_splitting.Splitting(
            slices=lambda x, e, b, n: [
                q // 2 * 2 for q in exact_splitting.rounded_slices(x, e, b, n)
            ]
        ),
    ),
    (
        "back-substitution",
        "a lower line of slope 2",
        back_substitution.Duality(lower=lambda lo, hi: (Fraction(2), Fraction(0))),
    ),
    (
        "back-substitution",
        "a chord that starts at zero",
        back_substitution.Duality(upper=lambda lo, hi: (Fraction(1), Fraction(0))),
    ),
    (
        "window-maximum",
        "the least error",
        window_maximum.Maximum(error=min),
    ),
    (
        "product-errors",
        "the factors in the other order",
        attention.Factors(moved=lambda A, d, B, e: d @ B + e @ A + d @ e),
    ),
    ("softmax-errors", "p beside its mean", attention.Rows(first=lambda p, d, m, v: p - d * m)),
    (
        "partition-covers",
        "parts that swap coordinates",
        partition_covers.Cutting(
            below=lambda box, i, at: (box[0], partition_covers.replaced(box[1], 0, at))
        ),
    ),
    (
        "equal-units",
        "the partner's input forgotten",
        equal_units.Pairing(shared=lambda c, z, value: abs(c) * value),
    ),
    ("equal-units", "a leaky unit", equal_units.Pairing(sigma=lambda z: max(z, z / 10))),
    (
        "guard",
        "the mean in place of the least",
        guard.Guard(margin=lambda hidden: min(sum(z) / len(z) for z in hidden)),
    ),
    (
        "guard",
        "the last site alone",
        guard.Guard(margin=lambda hidden: min(hidden[-1])),
    ),
    (
        "finite-precision",
        "as rare as one value",
        finite_precision.Discrete(column=lambda rho: rho + rho**2 / 2),
    ),
    (
        "exact-loss",
        "weights of a positive mean",
        narrow.Loss(weights=lambda rng, *shape: rng.standard_normal(shape) + 1),
    ),
    (
        "averaged-derivatives",
        "half of each unit",
        narrow.Averaged(share=lambda row, t, lo, hi: Fraction(1, 2)),
    ),
    ("width-is-necessary", "one neuron more", width.Width(lambda m, k: m * k + 1)),
    (
        "nonzero-entries",
        "one weight matrix of ones and zeros",
        nonzero_entries.Entries(
            weights=lambda rng, m, k: (
                exact.integers(rng, m * k, k, bound=999),
                nonzero_entries.witness_weights(rng, m, k)[1],
            )
        ),
    ),
    (
        "sparse-pattern-rank",
        "one short",
        pattern_rank.Pattern(rank=lambda columns, rows, r: max(r - 1, 0)),
    ),
    (
        "boolean-determinant",
        "only the diagonal looked at",
        boolean_determinant.Boolean(lambda X: int(all(X[i, i] for i in range(len(X))))),
    ),
    (
        "sparse-exact-probability",
        "p used once",
        exact_probability.Model(column=lambda m, k, p: independent_columns(m * k, p)),
    ),
    (
        "column-replacement",
        "u and v both needed empty",
        column_replacement.Replacement(empty=lambda m, k, p: (1 - p) ** (m + k)),
    ),
    (
        "random-matching",
        "only empty rows and columns counted",
        random_matching.Hall(bound=lambda M, q: 2 * M * (1 - q) ** M / (M if M > 1 else 1)),
    ),
    (
        "sparse-choice-of-p",
        "p = ln d / d",
        choice_of_p.Choice(p=lambda d: sympy.log(d) / d),
    ),
    (
        "sparse-threshold",
        "always an empty row",
        threshold.Threshold(empty=lambda d, n, p: 1),
    ),
    (
        "block-systems",
        "as many units as a block has inputs and outputs",
        block_systems.BlockSystems(width=lambda b: 2 * b - 1),
    ),
    ("live-norm-cap", "√n", shifts.Cap(square=lambda n: n)),
    (
        "live-shifts-exist",
        "one dimension more",
        shifts.Halves(share=lambda n, d: shifts.Halves().share(n, d + 1)),
    ),
    (
        "live-scale-invariance",
        "the sum taken away in place of the mean",
        exact_layers.Invariance(taken=lambda z: z - z.sum(axis=-1, keepdims=True)),
    ),
    (
        "live-layers-exact",
        "a deviation for each unit",
        exact_layers.LiveLayers(
            square=lambda z: exact_layers.mean_square(z) * (1 + np.arange(z.shape[-1]))
        ),
    ),
    ("live-width", "m·k units", count.Count(width=lambda m, k: m * k)),
    ("live-eps", "a larger eps", limits.Eps(seen=lambda eps, factor: eps * factor**2)),
    ("live-eps", "the root of the gap", limits.Eps(moved=lambda square, least: square / least**2)),
    (
        "live-norm-rounding",
        "differences alone",
        live_norm_rounding.Evaluation(parts=lambda u, z, a, s: abs(z) + a),
    ),
    ("live-directions-alone", "no gap", limits.Directions(share=Fraction(0))),
    (
        "live-norm-never-affine",
        "a root less",
        limits.NotAffine(square=lambda p: ((p * p).sum() + 1) ** 2),
    ),
]


@pytest.mark.parametrize(
    ("name", "subject"), [(n, s) for n, _, s in BROKEN], ids=[f"{n}: {w}" for n, w, _ in BROKEN]
)
def test_broken_code_is_refuted_with_a_counterexample(name: str, subject: object) -> None:
    found = refute(find(name), Negative("broken", subject))
    assert found.caught and found.counterexample


def test_every_statement_is_broken_at_least_once() -> None:
    assert {name for name, _, _ in BROKEN} == {s.name for s in STATEMENTS}


def test_a_p_that_stops_rising_is_not_proved() -> None:
    """Enough at the start, too little later: the general argument must not be fooled."""
    fading = choice_of_p.Choice(p=lambda d: 100 / d)
    claim = replace(find("sparse-choice-of-p"), subject=fading, negatives=())
    assert judge(claim).outcome is not Outcome.PASSED
