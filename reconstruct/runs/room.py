"""Shifts with the room that an evaluation in float32 needs, where that is what is written.

With it every hidden unit provably stays on its piece, and `float32_bound` says something. But
larger shifts are rounded by more: what is met grows with them. So by itself room is given where
shifts at most triple; where they would have to grow by more, it has to be asked for.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from math import inf

import numpy as np

from reconstruct.certificates.room import lacking_room
from reconstruct.constructions.construction import LayerSolution
from reconstruct.constructions.sites import norm_at
from reconstruct.constructions.two_layers import with_headroom
from reconstruct.errors import InputError
from reconstruct.pipeline import Result
from reconstruct.progress import Progress, Step, silent
from reconstruct.runs.files import Forms


class Room(StrEnum):
    """When shifts grow so that evaluation in float32 is bounded."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def as_room(word: Room | str) -> Room:
    """The member that is meant."""
    try:
        return Room(word)
    except ValueError:
        words = ", ".join(Room)
        raise InputError(f"room must be one of {words}, but is {word!r}") from None


MOST_RAISED = {Room.AUTO: 2.0, Room.ALWAYS: inf}  # of the median shift of a site


def with_room(
    result: Result, forms: Forms, room: Room = Room.AUTO, progress: Progress = silent
) -> Result:
    """The result as it is written in these forms: with larger shifts where they are needed."""
    written = forms.dtype == np.float32 and forms.blocks and not result.exact
    if room is Room.NEVER or not written or result.known is None:
        return result
    progress(Step("room for float32", 0))
    lacking = lacking_room(result.known, forms.spelled(result.network), forms.dtype)
    norms = with_headroom(result.network, result.sites, lacking, forms.dtype, MOST_RAISED[room])
    if not norms:
        return result
    grown = replace(result, network=result.network.with_ops(norms))
    return replace(grown, layers=tuple(_told(grown, layer) for layer in grown.layers))


def _told(result: Result, layer: LayerSolution) -> LayerSolution:
    """The row of a map with the largest shift that its site has now."""
    first = next(site.layers[0] for site in result.sites if site.target == layer.name)
    shift = np.abs(norm_at(result.network, first.norm).effective()[1])
    return replace(layer, shift_max=max(layer.shift_max, float(shift.max())))
