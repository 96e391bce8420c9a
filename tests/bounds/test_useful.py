"""A box that is too large is refused before anything is solved; data are not."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.bounds import Interval, reach
from reconstruct.bounds.useful import require_useful
from reconstruct.errors import InputError
from reconstruct.networks import Box, Network, Points


def cancelling(layers: int, width: int = 64) -> Network:
    """Rows that cancel: values stay small, intervals grow at every layer."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(width, width)) / np.sqrt(width) for _ in range(layers)]
    return Network.mlp([w - w.mean(axis=1, keepdims=True) for w in weights])


def test_bounds_that_are_of_no_use_are_told_with_their_size_and_a_way_out():
    network = cancelling(48, width=24)
    known = reach(network, Box(-1, 1), Interval())
    top = max(float(np.abs(ends).max()) for ends in known.whole.values.values())
    with pytest.raises(InputError, match=re.escape(f"grow to {top:.1e} at")):
        require_useful(known)
    with pytest.raises(InputError, match="leave float64 no digits; bring data"):
        rc.reconstruct(network, rc.draw(network, seed=0), domain=Box(-1, 1), bounds=Interval())


def test_small_boxes_and_data_are_not_refused():
    require_useful(reach(cancelling(3), Box(-1, 1)))
    x = np.random.default_rng(1).uniform(-1, 1, (3, 64))
    require_useful(reach(cancelling(24), Points(x)))


def test_large_values_alone_are_no_reason():
    weights = [np.full((3, 3), 1e15), np.ones((2, 3))]
    require_useful(reach(Network.mlp(weights), Box(-1, 1)))


def test_what_would_take_hours_to_carry_back_is_bounded_by_intervals(monkeypatch):
    network = cancelling(3)
    assert reach(network, Box(-1, 1)).whole.backward
    module = sys.modules["reconstruct.bounds.reach"]
    monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, back=10))
    assert not reach(network, Box(-1, 1)).whole.backward
