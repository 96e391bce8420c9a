"""The width for a wanted accuracy: what rounding should cost, before anything is drawn.

A site for W (m × k, n hidden units, unit variance) has scales of about ‖W‖_F/√(n(n − mk)), and
shifts of that times r, the reach of a random functional of its inputs (taken from the bounds). Each
hidden value is kept with a relative error of about u, and so is each partial sum behind it:

    variance of an output ≈ u² ‖W‖_F² r² / (n − mk) · (1 + L/2),     L = log2(n) + 1,

carried on by the squares of the target's own entries. More width lowers it towards the sums' own
part: √(c/(c − 1)) falls from 4.6 at ratio c = 1.05 over 1.7 at 1.5 to 1.1 at 8, and no further.
Numerical: a prediction, not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.constructions.blueprint import hidden_width
from reconstruct.constructions.layout import Layout
from reconstruct.constructions.nodes import mixing_at
from reconstruct.constructions.tasks import functionals_of
from reconstruct.constructions.variances import variance_at_output
from reconstruct.errors import InputError
from reconstruct.networks import Network, dense
from reconstruct.networks.normal_form import rebuilt_nodes
from reconstruct.numbers.arrays import Vector

RATIOS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.6, 3.3, 4.0, 5.0, 6.5, 8.0)
ROWS = 32  # random functionals from which the reach of a map's inputs is taken
SEED = 20240520
FLOAT32 = 2.0**-24
SAMPLES = 10_000  # inputs among which the largest error is meant


@dataclass(frozen=True)
class SiteRatio:
    """What a map's prediction needs: its size, ‖W‖_F, r, and the share of a variance that its
    outputs get where its rows were lifted."""

    equations: int
    norm: float
    reach: float
    share: Vector | float = 1.0

    def variance(self, ratio: float) -> Vector | float:
        """Of each of its outputs, in units of u²."""
        n = hidden_width(ratio, self.equations)
        levels = 1 + (math.log2(n) + 1) / 2
        return (self.norm * self.reach) ** 2 / max(n - self.equations, 1) * levels * self.share


@dataclass(frozen=True, eq=False)
class RatioForecast:
    """The float32 error to expect of a target with these sites, at any ratio."""

    network: Network
    sites: Mapping[str, SiteRatio]

    def error(self, ratio: float) -> float:
        """The largest error to expect among `SAMPLES` inputs."""
        own = {name: site.variance(ratio) for name, site in self.sites.items()}
        deviation = math.sqrt(variance_at_output(self.network, own))
        count = SAMPLES * self.network.size_out
        return FLOAT32 * deviation * math.sqrt(2 * math.log(count))

    def shares(self, ratio: float) -> dict[str, float]:
        """What each map alone adds to it."""
        found = {}
        for name, site in self.sites.items():
            found[name] = RatioForecast(self.network, {name: site}).error(ratio)
        return found


def forecast(layout: Layout, known: Reach) -> RatioForecast:
    """The prediction for a target as it is laid out and balanced, which `known` bounds."""
    rng, form = np.random.default_rng(SEED), layout.form.network
    sites = {}
    for node in rebuilt_nodes(form):
        op = mixing_at(form, node.name)
        m, k = op.kernels[0].shape
        lift = layout.lifts.get(node.name, np.zeros(m, dtype=np.int64))
        squares = [float(np.sum(np.ldexp(dense(W), lift[:, None]) ** 2)) for W in op.kernels]
        rows = rng.standard_normal((ROWS, k))
        lo, hi = functionals_of(known, node.inputs[0], op)(rows)
        reach = math.sqrt(float(np.mean((lo**2 + hi**2) / 2)))
        share = 4.0**-lift if lift.any() else 1.0
        sites[node.name] = SiteRatio(m * k, math.sqrt(max(squares)), reach, share)
    return RatioForecast(form, sites)


def ratio_for(layout: Layout, known: Reach, wanted: float) -> float:
    """The least ratio of a list at which no more than `wanted` is predicted."""
    expected = forecast(layout, known)
    for ratio in RATIOS:
        if expected.error(ratio) <= wanted:
            return ratio
    least = expected.error(RATIOS[-1])
    raise InputError(
        f"a float32 error of {wanted:.3g} is wanted, but at ratio {RATIOS[-1]:g} still {least:.2g} "
        f"is predicted, and more width gains nothing; tighten the ranges (--bounds adaptive, a "
        f"smaller domain), or ask for {least:.1g} or more"
    )
