"""Shifts with the room that an evaluation in float32 needs, where that is what is written.

Larger shifts are rounded by more, so the error that is met grows a little; in return every hidden
unit provably stays on its piece, and `float32_bound` says something.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reconstruct.certificates.room import lacking_room
from reconstruct.constructions.construction import LayerSolution
from reconstruct.constructions.nodes import norm_at
from reconstruct.constructions.raising import raised
from reconstruct.pipeline import Result
from reconstruct.progress import Progress, Step, silent
from reconstruct.runs.files import Forms


def with_room(result: Result, forms: Forms, progress: Progress = silent) -> Result:
    """The result as it is written in these forms: with larger shifts where they are needed."""
    if forms.dtype != np.float32 or not forms.blocks or result.known is None or result.exact:
        return result
    progress(Step("room for float32", 0))
    lacking = lacking_room(result.known, forms.spelled(result.network), forms.dtype)
    norms = raised(result.network, result.sites, lacking, forms.dtype)
    if not norms:
        return result
    grown = replace(result, network=result.network.with_ops(norms))
    return replace(grown, layers=tuple(_told(grown, layer) for layer in grown.layers))


def _told(result: Result, layer: LayerSolution) -> LayerSolution:
    """The row of a map with the largest shift that its site has now."""
    first = next(site.layers[0] for site in result.sites if site.target == layer.name)
    shift = np.abs(norm_at(result.network, first.norm).effective()[1])
    return replace(layer, shift_max=max(layer.shift_max, float(shift.max())))
