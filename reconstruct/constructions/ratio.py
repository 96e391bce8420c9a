"""The width for a wanted accuracy: what rounding should cost, before anything is drawn.

A site for W (m × k, n hidden units, unit variance) has scales of about ‖W‖_F/√(n(n − mk)), and
shifts of that times r, the reach of a random functional of its inputs (taken from the bounds). Each
hidden value is kept with a relative error of about u, and so is each partial sum behind it:

    variance of an output ≈ u² ‖W‖_F² r² / (n − mk) · (1 + L/20),     L = log2(n) + 1,

for sums as float32 networks have them, in blocks and without the shifts, carried on by the target's
own slopes. More width lowers it towards the sums' own part: √(c/(c − 1)) falls from 4.6 at ratio
c = 1.05 over 1.7 at 1.5 to 1.1 at 8, and no further.
Numerical: a prediction, not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.constructions.frozen import Layout
from reconstruct.constructions.sites import hidden_width, mixing_at
from reconstruct.constructions.tasks import functionals_of
from reconstruct.errors import InputError
from reconstruct.networks import Domain, Network, dense
from reconstruct.networks.gradients import adjoints
from reconstruct.networks.normal_form import rebuilt_nodes
from reconstruct.numbers.arrays import Vector

RATIOS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.6, 3.3, 4.0, 5.0, 6.5, 8.0)
VARYING = 0.1  # of the squares of shifts: what hidden values vary by


@dataclass(frozen=True)
class SiteRatio:
    """What a map's prediction needs: its size, ‖W‖_F, and r."""

    equations: int
    norm: float
    reach: float

    def variance(self, ratio: float) -> float:
        """Of each of its outputs, in units of u², if none is lifted."""
        n = hidden_width(ratio, self.equations)
        levels = 1 + VARYING * (math.log2(n) + 1) / 2
        return (self.norm * self.reach) ** 2 / max(n - self.equations, 1) * levels


@dataclass(frozen=True, eq=False)
class RatioForecast:
    """The float32 error to expect of a target with these sites, at any ratio.

    `reached` is what a variance of 1 in front of a map's lifts becomes at the outputs, at sampled
    inputs.
    """

    sites: Mapping[str, SiteRatio]
    reached: Mapping[str, Vector]
    outputs: int

    def error(self, ratio: float, only: str | None = None, samples: int = 10_000) -> float:
        """The largest error to expect among so many inputs, from all maps or from one."""
        names = self.sites if only is None else (only,)
        parts = {name: self.sites[name].variance(ratio) * self.reached[name] for name in names}
        return 2.0**-24 * deviation(parts) * math.sqrt(2 * math.log(samples * self.outputs))

    def shares(self, ratio: float) -> dict[str, float]:
        """What each map alone adds to it."""
        return {name: self.error(ratio, only=name) for name in self.sites}


def forecast(layout: Layout, known: Reach) -> RatioForecast:
    """The prediction for a target as it is laid out and balanced, which `known` bounds."""
    rng, form = np.random.default_rng(20240520), layout.form.network
    sites, own = {}, {}
    for node in rebuilt_nodes(form):
        op = mixing_at(form, node.name)
        m, k = op.kernels[0].shape
        lift = layout.lifts.get(node.name, np.zeros(m, dtype=np.int64))
        squares = [float(np.sum(np.ldexp(dense(W), lift[:, None]) ** 2)) for W in op.kernels]
        rows = rng.standard_normal((32, k))  # so many tell the reach of a map's inputs
        lo, hi = functionals_of(known, node.inputs[0], op)(rows)
        reach = math.sqrt(float(np.mean((lo**2 + hi**2) / 2)))
        sites[node.name] = SiteRatio(m * k, math.sqrt(max(squares)), reach)
        own[node.name] = 4.0**-lift if lift.any() else 1.0
    return RatioForecast(sites, variances_at_outputs(form, known.box, own), form.size_out)


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


# --- errors of random sign through a network ----------------------------------------------------


def variances_at_outputs(
    network: Network, domain: Domain, own: Mapping[str, Vector | float]
) -> dict[str, Vector]:
    """What the variances that maps add to their values, by name, become at the outputs: for each
    map one number for every sampled input and output.

    Errors of random sign: variances add, and the network's slopes at sampled inputs carry them on
    by their squares. Numerical: predictions rest on it, no bound.
    """
    count = max(16, min(500, 2**23 // sum(network.sizes.values())))  # 2^23 values: 64 MB
    values = network.values(domain.sample(count, np.random.default_rng(11)))
    found: dict[str, list[Vector]] = {name: [] for name in own}
    for j in range(min(network.size_out, 16)):
        seed = np.zeros((len(values[network.output]), network.size_out))
        seed[:, j] = 1.0
        slopes = adjoints(network, values, {network.output: seed})
        for name, variance in own.items():
            whole = np.broadcast_to(variance, network.sizes[name])
            reached = slopes[name] ** 2 @ whole if name in slopes else np.zeros(len(seed))
            found[name].append(np.asarray(reached))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def deviation(variances: Mapping[str, Vector]) -> float:
    """The deviation of their sum, where inputs at which it is large count for more."""
    whole = np.sum(list(variances.values()), axis=0) if variances else np.zeros(1)
    return math.sqrt(math.sqrt(float(np.mean(whole**2))))
