"""A network of two inputs as three maps: g, and |f − g| in each precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.reports.markup import Markup
from reconstruct.reports.plots import Axis, Figure, Linear, Logarithmic, Panel, Picture
from reconstruct.reports.plots.axis import Ruler

HEIGHT = 245.0
STEPS = 64  # of the scale of colours
MAPS = (
    ("target", "g", Linear()),
    ("float64", "|f − g|, float64", Logarithmic()),
    ("float32", "|f − g|, float32", Logarithmic()),
)


def plane_figure(plane: Mapping[str, Any] | None) -> Markup | None:
    """Three pictures of the box, each above its own scale of colours."""
    if not plane:
        return None
    side = int(plane["side"])
    pictures = {name: np.asarray(plane[name]).reshape(side, side).T for name, *_ in MAPS}
    scales = [_tones(pictures[name], Axis(scale=scale)) for name, _, scale in MAPS]
    maps = [
        _map(plane, pictures[name], title, tones)
        for (name, title, _), tones in zip(MAPS, scales, strict=True)
    ]
    double, single = max(plane["float64"]), max(plane["float32"])
    title = (
        f"Output {plane['output']} over the box: g, and |f − g|, which reaches {double:.2g} in "
        f"float64 and {single:.2g} in float32"
    )
    rows = (_named(maps), tuple(map(_bar, scales)))
    return Figure("plane", title, rows, height=HEIGHT, heights=(12.0, 1.0)).svg()


def _tones(picture: Array, axis: Axis) -> Ruler:
    """The range of a picture's values, from the least that its scale can show to the largest."""
    known = picture[axis.scale.usable(picture)]
    ends = (float(known.min()), float(known.max())) if known.size else (None, None)
    axis = replace(axis, low=ends[0], high=ends[1])
    return Ruler(axis, *axis.span(picture.ravel()))


def _map(plane: Mapping[str, Any], picture: Array, title: str, tones: Ruler) -> Panel:
    """What the scale of colours cannot show, such as a difference of 0, is at its lower end."""
    x, y = ((plane["lo"][i], plane["hi"][i]) for i in (0, 1))
    marks = (Picture(tones.at(picture), x, y),)
    return Panel(marks, Axis(low=x[0], high=x[1]), Axis(low=y[0], high=y[1]), title, grid=False)


def _named(maps: list[Panel]) -> tuple[Panel, ...]:
    """The names of the inputs, each once."""
    first, middle, last = maps
    return (
        replace(first, y=replace(first.y, label="second input")),
        replace(middle, x=replace(middle.x, label="first input"), y=_silent(middle.y)),
        replace(last, y=_silent(last.y)),
    )


def _silent(axis: Axis) -> Axis:
    return replace(axis, named=False)


def _bar(tones: Ruler) -> Panel:
    """The scale of colours as a picture of its own."""
    ramp = Picture(np.linspace(0.0, 1.0, STEPS)[None, :], (tones.low, tones.high), (0.0, 1.0))
    x = replace(tones.axis, low=tones.low, high=tones.high)
    return Panel((ramp,), x, Axis(shown=False, low=0.0, high=1.0), grid=False)
