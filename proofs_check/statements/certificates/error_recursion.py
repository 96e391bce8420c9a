"""Error by layer, for the certificate: residuals are small, and the recursion adds them up.

f's map i is (W_i + R_i) h + b_i + c_i where g's is W_i h + b_i; with δ the error so far,

    (W + R)(h + δ) + c − W h = (W + R) δ + R h + c,         |σ(x) − σ(y)| ≤ |x − y|,

so e_i = (|W_i| + |R_i|) e_{i−1} + |R_i| H_{i−1} + |c_i| bounds |f − g|, H the bound of |h| on g.
The same with |W_i| e_{i−1} alone is sound only if H is widened by e_{i−1}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

from proofs_check import exact
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Formal,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.statements.theorem_1_wide.layers import inside, relu
from proofs_check.statements.theorem_1_wide.layerwise import image
from proofs_check.symbols import identical


@dataclass(frozen=True)
class ErrorRule:
    """e_i from |W|, |R|, e_{i−1}, H, |c|."""

    step: Callable[..., Matrix] = lambda W, R, e, H, c: (abs(W) + abs(R)) @ e + abs(R) @ H + abs(c)


@by(Method.RATIONAL)
def bound_on_perturbed_networks(rule: ErrorRule, effort: Effort) -> Finding:
    """f = g with each map perturbed by (R, c): the true error never exceeds the bound."""
    rng = np.random.default_rng(64)
    count = effort.choose(20, 100)
    for _ in range(count):
        lo, hi = exact.matrix([[-1] * 3])[0], exact.matrix([[1] * 3])[0]
        exact_values, values, e = inside(lo, hi), inside(lo, hi), 0 * lo
        for _ in range(3):
            W, b = exact.integers(rng, 3, 3), exact.integers(rng, 3)
            R, c = exact.integers(rng, 3, 3) / 50, exact.integers(rng, 3) / 50
            H = np.maximum(abs(lo), abs(hi))
            e = rule.step(W, R, e, H, c)
            exact_values = [relu(W @ h + b) for h in exact_values]
            values = [relu((W + R) @ h + b + c) for h in values]
            lo, hi = image(W, b, lo, hi)
            for x, y in zip(values, exact_values, strict=True):
                if (abs(x - y) > e).any():
                    raise Counterexample(
                        f"W={exact.show(W)}, R={exact.show(R)}, c={exact.show(c)}: |f − g| = "
                        f"{exact.show(abs(x - y))} exceeds the bound {exact.show(e)}"
                    )
    return Finding(f"{count} networks 3-3-3-3", "true error ≤ bound, in rationals")


@by(Method.STEP)
def error_splits(rule: ErrorRule, effort: Effort) -> Finding:
    """(W+R)(h+δ) + c − W h = (W+R) δ + R h + c; then the triangle inequality and 1-Lipschitz σ."""
    W, R, h, d, c = sympy.symbols("W R h delta c", real=True)
    identical("split of the error", (W + R) * (h + d) + c - W * h, (W + R) * d + R * h + c)
    for n in (1, 2, 5, 8):  # no sign anywhere: the bound is attained
        whole = [np.full((n, n), Fraction(i + 1, n)) for i in range(2)]
        flat = [np.full(n, Fraction(i, 3)) for i in range(1, 4)]
        reached = sum(whole) @ (flat[1] + flat[0]) + flat[2] - whole[0] @ flat[1]
        if (rule.step(*whole, *flat) < reached).any():
            raise Counterexample(
                f"{n} units, all signs positive: the error is {reached[0]}, the bound "
                f"{rule.step(*whole, *flat)[0]}"
            )
    for x, y in product(range(-6, 7), repeat=2):
        if abs(max(x, 0) - max(y, 0)) > abs(x - y):
            raise Counterexample(f"σ is not 1-Lipschitz at {x}, {y}")
    for w, r, v, e, const in product((-2, 0, 1), (-1, 0, 1), (-2, 0, 2), (-1, 0, 1), (-1, 0, 1)):
        arrays = [np.array([[w]]), np.array([[r]]), np.array([abs(e)]), np.array([abs(v)])]
        bound = rule.step(*arrays, np.array([const]))[0]
        if abs((w + r) * (v + e) + const - w * v) > bound:
            raise Counterexample(
                f"W={w}, R={r}, h={v}, δ={e}, c={const}: the error is "
                f"{abs((w + r) * (v + e) + const - w * v)}, the bound {bound}"
            )
    return Finding("entries add up", "the split in symbols, 243 sign cases")


ERROR = Statement(
    name="error-recursion",
    claim="e_i = (|W_i| + |R_i|) e_{i−1} + |R_i| max|h_{i−1}| + |c_i| bounds |f − g| after map "
    "i, R_i the residual of the map and c_i of its constant.",
    hypotheses=("all hidden ReLUs of f active", "absolute values entry by entry"),
    paper="not in the paper, which solves exactly; the certificate needs it",
    depends_on=("layerwise-to-network", "active-relu-is-identity"),
    subject=ErrorRule(),
    checks=(bound_on_perturbed_networks, error_splits),
    negatives=(
        Negative(
            "signs kept: W in place of |W|",
            ErrorRule(step=lambda W, R, e, H, c: (W + abs(R)) @ e + abs(R) @ H + abs(c)),
        ),
        Negative(
            "residual forgotten",
            ErrorRule(step=lambda W, R, e, H, c: abs(W) @ e + abs(c)),
        ),
        Negative(
            "second-order term |R| e forgotten",
            ErrorRule(step=lambda W, R, e, H, c: abs(W) @ e + abs(R) @ H + abs(c)),
        ),
    ),
    formal=Formal("error_recursion", "error_recursion", ErrorRule()),
)

STATEMENTS: tuple[Statement[Any], ...] = (ERROR,)
