"""How much headroom the hidden units of a network lack, for an evaluation in floats to be bounded.

A hidden unit is shifted so far that it stays on its piece in real arithmetic, and a little more.
What rounding did before it may push it further: then its error passes through |M2| instead of the
composed map, and a bound of the evaluation says nothing. This tells by how much shifts have to
grow, unit by unit, so that no error that can be excluded pushes any unit off its piece. Nothing is
proved here: whoever raises the shifts has the network certified as it is then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import alignments
from reconstruct.certificates.error_recursion import Layered, bound_layers
from reconstruct.certificates.on_boxes import Indices, OnBoxes
from reconstruct.certificates.propagate import Walk
from reconstruct.certificates.roundoff import Roundoff, Value
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Network
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.parallel import parallel_map

SPARE = 1.02  # larger shifts are themselves rounded by more


class _WithHeadroom(Roundoff):
    """An evaluation whose inner activations are given the headroom that they lack."""

    @cached_property
    def lacking(self) -> dict[str, Array]:
        return {}

    def _margin(self, op: Activation, name: str, value: Value) -> Array:
        margin, wanted = super()._margin(op, name, value), SPARE * value.error
        self.lacking[name] = np.maximum(wanted - margin, 0.0).max(axis=0)
        return np.maximum(margin, wanted)


def lacking_headroom(known: Reach, network: Network, dtype: Any) -> Mapping[str, Array]:
    """By inner activation what its units lack in an evaluation in `dtype`, 0 where nothing.

    `known` bounds the target with its units scaled as the network's are. Empty where the error
    would not be bounded even then.
    """
    for alignment in alignments(known.network, network, known.box):
        try:
            found = _lacking(bound_layers(known, network, alignment), dtype)
        except UnsupportedError:
            continue
        if found is not None:
            return found
    return {}


def _lacking(layered: Layered, dtype: Any) -> Mapping[str, Array] | None:
    """The most that units lack on any box; None where the error is not bounded."""
    facts = OnBoxes(layered)
    walk = Walk(facts)

    def on(rows: Indices) -> tuple[float, _WithHeadroom]:
        evaluation = _WithHeadroom(facts.of_candidate(rows), dtype, layered.arrivals)
        return float(walk.run(rows, [evaluation])[0]), evaluation

    most: dict[str, Array] = {}
    for error, evaluation in parallel_map(on, facts.groups()):
        if not isfinite(error) or evaluation.reason:
            return None
        for name, lacking in evaluation.lacking.items():
            most[name] = np.maximum(most.get(name, 0.0), lacking)
    return most
