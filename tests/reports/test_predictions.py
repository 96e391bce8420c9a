"""What rounding should cost is of the size that it does cost, images, groups and pools included."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.networks import Network
from reconstruct.reports.measurements import measurements
from tests.constructions.test_images import one_convolution
from tests.networks.test_images import small_network

SAMPLES = 400
CASES = ("padded", "stride 2", "two groups", "depthwise")


def compared(target: Network) -> tuple[float, float]:
    """The predicted and the largest measured difference in float64."""
    result = rc.reconstruct(target, rc.draw(target, seed=0), domain=rc.Box(-1, 1))
    x = result.domain.sample(SAMPLES, np.random.default_rng(1))
    measured = float(np.abs(result.network(x) - target(x)).max())
    told = measurements(result, SAMPLES)
    return told["predicted"]["float64"], measured


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    predicted, measured = compared(one_convolution(name))
    assert measured / 30 < predicted < 30 * measured


def test_pools_and_placements() -> None:
    predicted, measured = compared(small_network())
    assert measured / 30 < predicted < 100 * measured
