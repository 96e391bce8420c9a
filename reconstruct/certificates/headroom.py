"""How much headroom the hidden units of a network lack, for an evaluation in floats to be bounded.

A hidden unit is shifted so far that it stays on its piece in real arithmetic, and a little more.
What rounding did before it may push it further: then its error passes through |M2| instead of the
composed map, and a bound of the evaluation says nothing. This tells by how much shifts have to
grow, unit by unit, so that no error that can be excluded pushes any unit off its piece. Nothing is
proved here: whoever raises the shifts has the network certified as it is then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import alignments
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.on_leaves import Indices, OnLeaves
from reconstruct.certificates.propagate import Floats, Walk
from reconstruct.certificates.roundoff import Evaluated, Roundoff, Value
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Network
from reconstruct.numbers.double_double import Array
from reconstruct.numbers.parallel import parallel_map

SPARE = 1.02  # larger shifts are themselves rounded by more


class _WithHeadroom(Roundoff):
    """An evaluation whose inner activations are given the headroom that they lack."""

    def __init__(self, known: Evaluated, dtype: Any) -> None:
        super().__init__(known, dtype)
        self.lacking: dict[str, Array] = {}

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
            layered = bound_layers(known.network, network, known, alignment)
        except UnsupportedError:
            continue
        found = _lacking(OnLeaves(known, network, alignment, layered), dtype)
        if found is not None:
            return found
    return {}


def _lacking(facts: OnLeaves, dtype: Any) -> Mapping[str, Array] | None:
    """The most that units lack on any leaf; None where the error is not bounded."""
    facts = replace(facts, apart=facts.pays)
    every, walk = np.arange(facts.count), Walk(facts)
    groups = facts.groups(every) if facts.apart else [every]

    def on(rows: Indices) -> tuple[float, _WithHeadroom]:
        evaluation = _WithHeadroom(facts.of_candidate(rows), dtype)
        errors = walk.run(facts, rows, [Floats(evaluation, facts.layered.arrivals)])
        return float(np.max(errors)), evaluation

    most: dict[str, Array] = {}
    for error, evaluation in parallel_map(on, groups):
        if not isfinite(error) or evaluation.reason:
            return None
        for name, lacking in evaluation.lacking.items():
            most[name] = np.maximum(most.get(name, 0.0), lacking)
    return most
