"""LayerNorm and RMSNorm: norms by the statistics of their own input.

    LN(z) = gamma ∘ P z / ρ + beta,   ρ = √(|P z|²/n + eps),   P z = z − mean(z)   (RMSNorm: P = I)

over the n units of a layer, or over the n channels at each of several positions. Unlike a norm with
frozen statistics this is no affine map, and unlike other activations each unit depends on all: it
stands in f as in g, or, where it has a partner behind it, in a hidden layer (`constructions/live`).

With u = P z/ρ, |u|² ≤ n and u_i = p/√((p² + rest)/n + eps), p = (P z)_i: u_i rises with p, and
falls in size when the squares of the others, `rest`, grow; for LayerNorm rest ≥ p²/(n − 1), so
that |u_i| ≤ √(n − 1) for every z. The derivative is J = (P − u uᵀ/n)/ρ, 0 ≤ J ≤ P/ρ, hence

    |J δ|_i ≤ min(√(n − 1)·rms(δ), |δ_i| + mean|δ| + |u_i|·rms(δ)) / ρ.

Rests on proofs_check: live-norm-cap, live-scale-invariance, live-norm-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.activations.activation import Activation, scaled
from reconstruct.networks.operation import ANY_POSITIONS, counted, one, set_once
from reconstruct.numbers.arrays import Array, Range, Vector, frozen_array
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.exact import Dyadic, RationalInterval, root_bounds, times
from reconstruct.numbers.given import number
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import down, gamma, magnitude, up


@dataclass(frozen=True, eq=False)
class LiveNorm(Activation):
    """What LayerNorm and RMSNorm share; unit `p·n + c` is channel c at position p."""

    centred: ClassVar[bool]
    keys: ClassVar[dict[str, str]] = {"gamma": "weight", "beta": "bias"}

    gamma: Vector
    beta: Vector
    eps: float
    positions: int

    def __init__(
        self, gamma: ArrayLike, beta: ArrayLike, eps: float = 1e-5, positions: int = 1
    ) -> None:
        arrays = [frozen_array(a) for a in (gamma, beta)]
        if arrays[0].shape != arrays[1].shape or arrays[0].ndim != 1 or not arrays[0].size:
            raise InputError(
                f"{self.kind} needs gamma and beta of one length, but got shapes "
                f"{arrays[0].shape} and {arrays[1].shape}"
            )
        if self.centred and len(arrays[0]) < 2:
            raise InputError(
                f"{self.kind} needs 2 or more units, but has {len(arrays[0])}: a single unit is "
                f"its own mean, so that nothing is left of it; use RMSNorm or a wider layer"
            )
        if not (isfinite(number(eps, "eps")) and eps >= 0):
            raise InputError(f"{self.kind} needs a finite eps ≥ 0, but got {eps}")
        count = counted(positions, f"{self.kind} needs positions")
        set_once(self, gamma=arrays[0], beta=arrays[1], eps=float(eps), positions=count)

    def tuned(self, gamma: ArrayLike, beta: ArrayLike) -> LiveNorm:
        """The same norm with these gammas and betas."""
        return type(self)(gamma, beta, self.eps, self.positions)

    @property
    def channels(self) -> int:
        return len(self.gamma)

    @property
    def tunable(self) -> int:
        return 2 * self.channels

    @property
    def cap(self) -> float:
        """|u_i| ≤ √(n − 1) for every z, √n without a mean, rounded up."""
        return float(up(sqrt(self.channels - self.centred)))

    def size(self, *inputs: int) -> int:
        return one(inputs, self.kind, self.channels * self.positions)

    def positions_for(self, *counts: int) -> int | None:
        return 1 if counts[0] in (ANY_POSITIONS, 1) else None

    def _rows(self, values: Array) -> Array:
        """(…, positions, channels)."""
        return values.reshape(*values.shape[:-1], self.positions, self.channels)

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        u, _ = self._unit(z)
        kind = z.dtype
        out = u * self.gamma.astype(kind) + self.beta.astype(kind)
        return np.asarray(out.reshape(z.shape))

    def _unit(self, z: Array) -> Range:
        """u and ρ in the precision of z: mean first, then the squares around it."""
        rows = self._rows(z)
        if self.centred:
            rows = rows - rows.mean(axis=-1, keepdims=True)
        square = (rows * rows).mean(axis=-1, keepdims=True)
        root = np.sqrt(square + z.dtype.type(self.eps))
        with np.errstate(invalid="ignore", divide="ignore"):
            return rows / root, root

    def pull(self, rows: Array, z: Array) -> Array:
        """Jᵀ(gamma∘rows) = (P r − u (u·r)/n)/ρ."""
        u, root = self._unit(z)
        r = self._rows(rows) * self.gamma
        along = (u * r).mean(axis=-1, keepdims=True)
        if self.centred:
            r = r - r.mean(axis=-1, keepdims=True)
        return np.asarray(((r - u * along) / root).reshape(z.shape))

    # --- bounds ---------------------------------------------------------------------------------

    def _centred(self, lo: Array, hi: Array) -> Range:
        """Bounds of P z, (boxes, positions, n); a unit's own part in the mean is its own."""
        lo, hi = self._rows(lo), self._rows(hi)
        if not self.centred:
            return lo, hi
        n, size = self.channels, magnitude(lo, hi)
        slack = gamma(n + 8) * up(size + 2 * up(size.mean(axis=-1, keepdims=True)))
        low = lo - (hi.sum(axis=-1, keepdims=True) - hi + lo) / n
        high = hi - (lo.sum(axis=-1, keepdims=True) - lo + hi) / n
        return down(low - up(2 * slack)), up(high + up(2 * slack))

    def _squares(self, lo: Array, hi: Array) -> tuple[Range, Range, Range]:
        """P z, its squares, and their sums, each between two floats."""
        p_lo, p_hi = self._centred(lo, hi)
        small = np.maximum(np.maximum(p_lo, -p_hi), 0.0)
        least, most = down(small * small), up(magnitude(p_lo, p_hi) ** 2)
        least = np.maximum(least, 0.0)
        wide = gamma(self.channels + 4)
        total = (
            down(least.sum(axis=-1, keepdims=True) * (1 - wide)),
            up(most.sum(axis=-1, keepdims=True) * (1 + wide)),
        )
        return (p_lo, p_hi), (least, most), (np.maximum(total[0], 0.0), total[1])

    def units(self, lo: Array, hi: Array) -> Range:
        """Bounds of u for `lo ≤ z ≤ hi`, (boxes, positions, n)."""
        with np.errstate(all="ignore"):
            (p_lo, p_hi), (least, most), (below, above) = self._squares(lo, hi)
            wide = gamma(self.channels + 16)
            fewest = np.maximum(below - up(least * (1 + wide)), 0.0)
            others = np.maximum(up(above - down(most * (1 - wide))), 0.0)
            ends = []
            for p, outward in ((p_lo, p_lo <= 0), (p_hi, p_hi >= 0)):
                rest = np.where(outward, fewest, others)
                if self.centred:
                    rest = np.where(outward, np.maximum(rest, p * p / (self.channels - 1)), rest)
                ends.append(p / np.sqrt((p * p + rest) / self.channels + self.eps))
            low, high = (
                np.where(np.isfinite(end), end, s) for end, s in zip(ends, (-inf, inf), strict=True)
            )
            low, high = down(low - wide * np.abs(low)), up(high + wide * np.abs(high))
        return np.maximum(low, -self.cap), np.minimum(high, self.cap)

    def deviation(self, lo: Array, hi: Array) -> Range:
        """The least and the largest ρ for `lo ≤ z ≤ hi`, (boxes, positions, 1)."""
        with np.errstate(all="ignore"):
            _, _, (below, above) = self._squares(lo, hi)
            low = down(np.sqrt(down(down(below / self.channels) + self.eps)))
            high = up(np.sqrt(up(up(above / self.channels) + self.eps)))
        least = max(float(down(sqrt(self.eps))), 0.0)
        return np.where(low >= least, low, least), np.where(np.isnan(high), inf, high)

    def image(self, lo: Array, hi: Array) -> Range:
        low, high = scaled(*self.units(lo, hi), np.broadcast_to(self.gamma, self._rows(lo).shape))
        beta = self.beta
        low = np.where(beta == 0, low, down(low + beta))
        high = np.where(beta == 0, high, up(high + beta))
        return low.reshape(lo.shape), high.reshape(hi.shape)

    @property
    def lipschitz(self) -> float:
        """max|gamma|·√(n − 1)/√eps in the maximum norm; none without eps."""
        if self.eps == 0:
            return inf
        return float(upward(np.abs(self.gamma).max() * self.cap / sqrt(self.eps)))

    def carried(self, error: Array) -> Array:
        return self._carried(error, np.full_like(error, -inf), np.full_like(error, inf))

    def carried_near(self, error: Array, lo: Array, hi: Array) -> Array:
        """The same where z is known to lie in `[lo, hi]`: ρ is then no smaller than there."""
        with np.errstate(all="ignore"):
            return self._carried(error, down(lo - error), up(hi + error))

    def _carried(self, error: Array, lo: Array, hi: Array) -> Array:
        """|J δ| on all of the segment, and never more than all of u's range."""
        e = self._rows(error)
        with np.errstate(all="ignore"):
            mean = up(e.mean(axis=-1, keepdims=True)) if self.centred else 0.0
            rms = up(np.sqrt(up((e * e).mean(axis=-1, keepdims=True))))
            low, high = self.units(lo, hi)
            near = np.minimum(self.cap * rms, e + mean + magnitude(low, high) * rms)
            least, _ = self.deviation(lo, hi)
            moved = upward((1 + gamma(self.channels + 8)) * near / least)
            moved = np.where(e.max(axis=-1, keepdims=True) == 0, 0.0, moved)
            moved = np.fmin(moved, up(high - low))
            return upward(np.abs(self.gamma) * moved).reshape(error.shape)

    def unit(self, size: Array) -> Array:
        """|u| for |z| ≤ size, (…, positions, n): no more than the cap, nor than |P z|/√eps."""
        return np.fmin(self.cap, self._spread(size))

    def magnitude(self, size: Array) -> Array:
        found = upward(np.abs(self.gamma) * self.unit(size) + np.abs(self.beta))
        return found.reshape(size.shape)

    def parts(self, size: Array, root: Array | float, unit: Array) -> Array:
        """How large what is added and multiplied on the way is, for |z| ≤ size, ρ ≥ root, |u| ≤
        unit: each of about n roundings moves the value by no more than u times that.

        The mean errs by u·mean|z|; a variance in one pass, mean(z²) − mean(z)², by u·mean(z²).
        """
        z = self._rows(size)
        mean = z.mean(axis=-1, keepdims=True)
        square = (z * z).mean(axis=-1, keepdims=True)
        inner = unit * (1 + square / root**2) + (z + mean) / root
        return upward(np.abs(self.gamma) * inner + np.abs(self.beta)).reshape(size.shape)

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """In any order, the variance in one pass or in two; without eps nothing is known.

        n + 1 roundings of the mean, n + 3 of a difference; of a variance 3n + 7 in one pass, which
        its root halves; casts, the root, quotients and products are 10 more. Underflow: of squares,
        beside eps, and of what gamma multiplies, or is multiplied with. A variance in one pass errs
        by (3n + 7)·u·mean(z²): up to eps/4 its root is covered, with eps it may have none.
        """
        if self.eps <= 4 * precision.tiny or self.eps >= precision.largest / 4:
            return np.full_like(computed, inf)
        lost = precision.gamma(2 * self.channels + 24)
        size = self.parts(computed, sqrt(self.eps), self.unit(computed))
        most = (1 + float(np.abs(self.gamma).max())) * (1 + float(computed.max(initial=0.0)))
        below = 4 * self.channels * self.cap * precision.tiny * most / min(self.eps, 1.0)
        z = self._rows(computed)
        off = (3 * self.channels + 8) * precision.unit * (z * z).mean(axis=-1, keepdims=True)
        known = np.broadcast_to(off <= self.eps / 4, z.shape).reshape(computed.shape)
        found = upward((1 + gamma(self.channels)) * (lost * size + below))
        return np.where(known, found, inf)

    def on_line(self, error: Array) -> Array:
        """|gamma P δ|/√eps: what errors of the input become where ρ is taken for √eps."""
        return upward(np.abs(self.gamma) * self._spread(error)).reshape(error.shape)

    def off_line(self, size: Array) -> Array:
        """How far the norm may be off that line for |z| ≤ size: |gamma u|·|P z|²/(2·n·eps)."""
        p = self._spread(size)
        square = (p * p).mean(axis=-1, keepdims=True)
        return upward((1 + gamma(self.channels)) * np.abs(self.gamma) * p * square / 2).reshape(
            size.shape
        )

    def _spread(self, size: Array) -> Array:
        """|P z|/√eps for |z| ≤ size, (…, positions, n)."""
        z = self._rows(size)
        mean = z.mean(axis=-1, keepdims=True) if self.centred else 0.0
        with np.errstate(all="ignore"):
            return upward((1 + gamma(self.channels)) * (z + mean) / sqrt(self.eps))

    def sizes(self, z: Array) -> Array:
        """The same at given z, in plain floats."""
        u, root = self._unit(z)
        return self.parts(np.abs(z), root, np.abs(u))

    # --- exactly --------------------------------------------------------------------------------

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """Rationals but for the root, which is enclosed to `bits`."""
        pairs: list[RationalInterval] = []
        numbers = value.fractions()
        for start in range(0, len(numbers), self.channels):
            pairs += self._exact(list(numbers[start : start + self.channels]), bits)
        return Dyadic.around(pairs, bits)

    def _exact(self, z: list[RationalInterval], bits: int) -> list[RationalInterval]:
        n = self.channels
        if self.centred:
            low, high = (sum((pair[i] for pair in z), Fraction(0)) / n for i in (0, 1))
            z = [(a - high, b - low) for a, b in z]
        squares = [times(pair, pair) for pair in z]
        least = sum((max(a, Fraction(0)) for a, _ in squares), Fraction(0)) / n + Fraction(self.eps)
        most = sum((b for _, b in squares), Fraction(0)) / n + Fraction(self.eps)
        if least <= 0:
            raise InputError(
                f"{self.kind} with eps = {self.eps:g} is not defined where its input has no "
                f"variance, but it may have none here; leave such inputs out of the domain, or "
                f"give the norm an eps"
            )
        root = root_bounds(least, bits)[0], root_bounds(most, bits)[1]
        inverse = 1 / root[1], 1 / root[0]
        found = []
        for pair, g, b in zip(z, self.gamma, self.beta, strict=True):
            factor, offset = Fraction(float(g)), Fraction(float(b))
            low, high = times(times(pair, inverse), (factor, factor))
            found.append((low + offset, high + offset))
        return found


class LayerNorm(LiveNorm):
    """Mean and variance of the units themselves."""

    kind = "LayerNorm"
    centred = True


class RMSNorm(LiveNorm):
    """The root of the units' mean square; no mean is taken away."""

    kind = "RMSNorm"
    centred = False
