"""Whether bounds over a box are of any use, told before hours are spent on a solve.

Shifts have to cover the bounds of what hidden units meet, and a number that is shifted by S keeps
its digits above u·S only. Intervals of a deep network over a large box grow by a factor at every
layer: of ResNet-20 over all images to 10^14 times what occurs. No shift in float64 can cover that.
"""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.reach import Reach
from reconstruct.errors import InputError
from reconstruct.networks import Box

USEFUL = 2.0**40  # times what occurs: float64 has 13 bits left then


def require_useful(known: Reach, rational: bool = False) -> None:
    """Refuses a box whose bounds leave float64 no digits; data are never too large.

    `rational` gammas and betas have all the digits that there are.
    """
    if rational or not isinstance(known.box, Box):
        return
    network = known.network
    points = known.box.sample(4, np.random.default_rng(20240601))
    with np.errstate(all="ignore"):
        occurs = {name: float(np.abs(v).max()) for name, v in network.values(points).items()}
        tops = {
            name: float(max(np.abs(lo).max(), np.abs(hi).max()))
            for name, (lo, hi) in known.whole.values.items()
        }
    scale = max(occurs.values())
    name = max(tops, key=lambda node: tops[node])
    if np.isfinite(scale) and scale > 0 and tops[name] > USEFUL * scale:
        raise InputError(
            f"over this box the bounds of the target's values grow to {tops[name]:.1e} at "
            f"{name!r}, {tops[name] / scale:.1e} times what occurs at sampled inputs, so that "
            "shifts which cover them leave float64 no digits; bring data (--domain DATA.npz with "
            "an array x, and --radius for boxes around it), or a smaller box"
        )
