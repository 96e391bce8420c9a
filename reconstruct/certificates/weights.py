"""Weights in which errors at the cuts are measured by their length.

Any are allowed; good ones make errors count alike. With f² the size of errors that arrive at a unit
through maps of random signs, and b² how far they reach from there, those are w = √(b/f): then f in
these weights is what b is in their inverse. Half of the units let errors through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from reconstruct.certificates.views import Form
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import Enclosure

LEAST = 2.0**-20  # of the largest square: units that hardly count are not measured any finer


def weights(cuts: Mapping[str, Form[Enclosure]], end: Form[Enclosure]) -> dict[str, Array]:
    """Those of each cut, from the target's forms at the cuts, in order, and at its end."""
    arriving: dict[str, Array] = {}
    leaving = {name: np.zeros(form.matrix.shape[0]) for name, form in cuts.items()}
    with np.errstate(all="ignore"):  # what is no number in the end is one
        for name, form in cuts.items():
            arriving[name] = leaving[name] + sum(
                square @ (arriving[source] / 2 if source in arriving else np.ones(square.shape[1]))
                for source, square in _squares(form)
            )
        _pull(leaving, end, np.ones(end.matrix.shape[0]))
        for name, form in reversed(list(cuts.items())):
            _pull(leaving, form, leaving[name] / 2)
        return {name: _between(leaving[name], arriving[name]) for name in cuts}


def _pull(leaving: dict[str, Array], form: Form[Enclosure], ahead: Array) -> None:
    """Add what a form makes of its sources."""
    for source, square in _squares(form):
        if source in leaving:
            leaving[source] = leaving[source] + ahead @ square


def _squares(form: Form[Enclosure]) -> Iterator[tuple[str, Array]]:
    for view, matrix in form.parts():
        yield view.source, matrix.high * matrix.high


def _between(leaving: Array, arriving: Array) -> Array:
    """The fourth root of the quotient of squares; ones where there is none."""
    ends = [np.maximum(part, LEAST * np.max(part, initial=0.0)) for part in (leaving, arriving)]
    found = np.sqrt(np.sqrt(ends[0] / ends[1]))
    return np.where(np.isfinite(found) & (found > 0), found, 1.0)
