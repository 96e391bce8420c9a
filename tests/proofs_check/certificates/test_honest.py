"""Honest certificates are accepted, however the networks, the boxes and the bounds are chosen.

The networks are rebuilt with hardly any room for their hidden units, so that rounding alone may
push one over the edge of its piece: the checker has to be as tight there as who made the claim.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from reconstruct.bounds import Adaptive, Crown, Interval
from reconstruct.networks import Affine, Box, Clip, Elu, LeakyRelu, Mixing, Network, Relu, Selu
from tests.certificates.building import random_target, wide
from tests.proofs_check.certificates.making import certified

ACTIVATIONS = [Relu(), LeakyRelu(0.1), LeakyRelu(3.0), LeakyRelu(-0.5), Elu(0.3), Selu()]
ACTIVATIONS += [Clip(-1.0, 1.0), Clip(0.0, 6.0), Clip(-np.inf, 2.0)]
METHODS = [Crown(), Interval(), Adaptive(boxes=16)]


def perturbed(target: Network) -> Network:
    """The same network with its weights off by a billionth."""
    maps = {n.name: n.op for n in target.nodes if isinstance(n.op, Mixing)}
    return target.with_ops(
        {name: Affine(op.tile(0, op.shape[0]) * (1 + 1e-9), op.bias) for name, op in maps.items()}
    )


@pytest.mark.parametrize("seed", range(36))
def test_an_honest_certificate_is_accepted(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    sizes = tuple(int(n) for n in rng.integers(1, 6, rng.integers(2, 5)))
    lo = rng.normal(size=sizes[0]) * 10.0 ** rng.integers(-3, 3)
    box = Box(lo, lo + np.abs(rng.normal(size=sizes[0])) * 10.0 ** rng.integers(-3, 2))
    target = random_target(
        rng,
        sizes,
        activation=ACTIVATIONS[seed % len(ACTIVATIONS)],
        final_activation=bool(rng.integers(2)),
        scale=float(10.0 ** rng.integers(-3, 4)),
    )
    method = METHODS[seed % 3]
    if seed % 4 == 3:
        network = perturbed(target)
    else:
        network = wide(target, box, rng, statistics=bool(seed % 2), method=method)
    certificate = certified(tmp_path, target, network, box, bounds=method, time_limit=3)
    report = check(tmp_path)
    general = certificate.method == "general"
    assert report.accepted or (general and report.status is CheckStatus.NOT_CHECKABLE), report
