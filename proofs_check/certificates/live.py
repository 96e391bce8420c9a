"""LayerNorm and RMSNorm by live statistics, as the checker evaluates them at a given input.

    y = gamma ∘ P z/ρ + beta,   ρ = √(|P z|²/n + eps),   P z = z − mean(z)   (RMSNorm: P = I)

In integers: with z = N/D, p = n·N − ΣN is P z times n·D, and ρ is a root of a rational, taken to
2^-bits from below. Radii: ρ moves by no more than rms(r) when z moves by r, and the derivative
J = (P − u uᵀ/n)/ρ has rows of Euclidean norm at most 1/ρ, so that y_i moves by at most
|gamma_i|·‖r‖/ρ', ρ' = max(√eps, ρ − rms(r)).

On a box such a norm is a map as far as ρ is one number, all but √eps: `nearly_constant`.

Rests on proofs_check: live-eps, live-norm-cap.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from proofs_check.certificates.arithmetic import Floats, Whole, above, float_above, norms, times
from proofs_check.certificates.balls import Balls
from proofs_check.certificates.columns import Interval
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks import LiveNorm

BITS = 640


def normed(value: Balls, op: LiveNorm) -> Balls:
    """Behind the norm: the value of the middles, and how far the radii may move it."""
    numbers = value.whole.integers()
    n, unit = op.channels, 1 << value.bits
    found: list[int] = []
    radius: list[Floats] = []
    for start in range(0, len(numbers), n):
        part = slice(start, start + n)
        made, root = _exactly(numbers[part], unit, op, value.bits)
        found += made
        radius.append(_moved(value.radius[part], root, op, value.bits))
    whole = Whole.of_integers(found, (len(found), 1))
    return Balls(whole, np.concatenate(radius), value.bits)


def nearly_constant(op: LiveNorm, square: Fraction) -> list[Interval]:
    """gamma/(n·ρ) of each unit where |n·P z|² is no more than `square`; ρ² is no less than eps."""
    n = op.channels
    if op.eps == 0:
        raise NotCheckable(f"{op.kind} without eps is nowhere nearly a map")
    least, most = (_root(Fraction(op.eps) + more) for more in (0, square / n**3))
    ends = 1 / (n * (most + Fraction(1, 1 << BITS))), 1 / (n * least)
    return [(min(g * e for e in ends), max(g * e for e in ends)) for g in map(Fraction, op.gamma)]


def _root(square: Fraction) -> Fraction:
    """√square from below, short by no more than 2^-BITS."""
    return Fraction(isqrt((square.numerator << 2 * BITS) // square.denominator), 1 << BITS)


def _exactly(numbers: list[int], unit: int, op: LiveNorm, bits: int) -> tuple[list[int], Fraction]:
    """⌊y·2^bits⌋ but for a few units of 2^-bits·(1 + |gamma|), and ρ from below."""
    n, total = len(numbers), sum(numbers) if op.centred else 0
    scale = n if op.centred else 1
    p = [scale * number - total for number in numbers]
    square = Fraction(sum(v * v for v in p), n * (scale * unit) ** 2) + Fraction(op.eps)
    if square <= 0:
        raise NotCheckable(f"{op.kind} without eps is given a value of no variance")
    # ρ ≥ R/2^places, short by less than one unit: relative to ρ that is 2^-bits at most
    places = bits + max(
        0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2 + 2
    )
    root = isqrt((square.numerator << 2 * places) // square.denominator)
    made = []
    for v, g, b in zip(p, op.gamma.tolist(), op.beta.tolist(), strict=True):
        factor, offset = Fraction(g), Fraction(b)
        top = v * factor.numerator << (bits + places)
        made.append(
            top // (scale * unit * root * factor.denominator)
            + (offset.numerator << bits) // offset.denominator
        )
    return made, Fraction(root, 1 << places)


def _moved(radius: Floats, root: Fraction, op: LiveNorm, bits: int) -> Floats:
    """What the radii do, and the roundings: |u| ≤ √n, so that a root that is short by 2^-bits of
    it moves y by |gamma|·√n·2^-bits, and the two quotients by 2^-bits each."""
    length = float(norms(radius[:, None])[0])
    spread = float_above(Fraction(length) / isqrt(op.channels)) if np.isfinite(length) else np.inf
    least = float(Fraction(root)) * (1 - 2.0**-50) - spread
    floor = float(np.sqrt(op.eps)) * (1 - 2.0**-50)
    least = max(least, floor)
    size = np.abs(op.gamma)
    with np.errstate(all="ignore"):
        moved = np.full(len(radius), float(above(length / least)) if least > 0 else np.inf)
        moved = np.where(length == 0, 0.0, moved)
        own = above(2.0**-bits * (2 * above(size * (2.0 + np.sqrt(op.channels))) + 2))
    return np.asarray(above(times(size, moved) + own))
