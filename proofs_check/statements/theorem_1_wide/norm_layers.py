"""A norm layer with frozen statistics is affine, and every affine scaling is a norm layer.

N(z) = γ∘(z − μ)/√(v+ε) + β = s∘z + t            s = γ/√(v+ε), t = β − s∘μ
N(z + c) = s∘z + (t + s∘c)                       a bias c ahead of it is absorbed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from proofs_check.core import (
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.symbols import identical


@dataclass(frozen=True)
class NormForm:
    """Effective form of a norm layer and the way back to its parameters; r = √(v + ε)."""

    scale: Callable[..., Any] = lambda gamma, beta, mu, r: gamma / r
    shift: Callable[..., Any] = lambda gamma, beta, mu, r: beta - gamma / r * mu
    gamma: Callable[..., Any] = lambda s, t, mu, r: s * r
    beta: Callable[..., Any] = lambda s, t, mu, r: t + s * mu
    absorb: Callable[..., Any] = lambda s, t, c: t + s * c
    root: Callable[[Any, Any], Any] = lambda v, eps: sympy.sqrt(v + eps)


@by(Method.WHOLE)
def one_neuron_is_all(form: NormForm, effort: Effort) -> Finding:
    """A norm layer acts on each neuron alone, so one neuron in symbols is every width."""
    gamma, beta, mu, z, c, s, t = sympy.symbols("gamma beta mu z c s t")
    v, eps = sympy.symbols("v epsilon", positive=True)
    r = form.root(v, eps)
    true = gamma * (z - mu) / sympy.sqrt(v + eps) + beta
    effective = form.scale(gamma, beta, mu, r) * z + form.shift(gamma, beta, mu, r)
    identical("N(z) - (s z + t)", sympy.simplify(true - effective), 0)
    g, b = form.gamma(s, t, mu, r), form.beta(s, t, mu, r)
    back = g * (z - mu) / sympy.sqrt(v + eps) + b
    identical("N(z) with γ, β from (s, t)", sympy.simplify(back - (s * z + t)), 0)
    identical("a bias c ahead of N", s * (z + c) + t, s * z + form.absorb(s, t, c))
    return Finding("every width: neuron by neuron", "both directions, and the bias ahead of N")


NORM = Statement(
    name="norm-is-affine",
    claim="A norm layer with frozen statistics is z ↦ s∘z + t, every (s, t) is reached by some "
    "(γ, β), and a bias c ahead of it only moves t by s∘c.",
    hypotheses=("v ≥ 0, ε ≥ 0, v + ε > 0", "statistics frozen"),
    paper="setting of the paper: scale and shift of a norm layer",
    depends_on=(),
    subject=NormForm(),
    checks=(one_neuron_is_all,),
    negatives=(
        Negative("ε forgotten under the root", NormForm(root=lambda v, eps: sympy.sqrt(v))),
        Negative("mean forgotten on the way back", NormForm(beta=lambda s, t, mu, r: t)),
        Negative("bias absorbed without its scale", NormForm(absorb=lambda s, t, c: t + c)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (NORM,)
