"""Whether bounds over a box are of any use, told before hours are spent on a solve.

Shifts have to cover the bounds of what hidden units meet, and a number that is shifted by S keeps
its digits above u·S only. Intervals of a deep network over a large box grow by a factor at every
layer: of ResNet-20 over all images to 10^14 times what occurs. No shift in float64 can cover that.
"""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.reach import Reach
from reconstruct.errors import InputError
from reconstruct.networks import Box, Domain, LiveNorm, Network, Points

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


def require_variance(network: Network, domain: Domain) -> None:
    """Refuses inputs at which a live norm without eps is not defined: all of it, or its zero."""
    live = [(n, n.op) for n in network.nodes if isinstance(n.op, LiveNorm) and n.op.eps == 0]
    if not live or not isinstance(domain, Box | Points):
        return
    x = domain.x if isinstance(domain, Points) else np.clip(0.0, domain.lo, domain.hi)[None]
    with np.errstate(all="ignore"):
        values = network.values(x)
    for node, op in live:
        rows = values[node.inputs[0]].reshape(-1, op.channels)
        none = np.flatnonzero(
            (np.ptp(rows, axis=1) if op.centred else np.abs(rows).max(axis=1)) == 0
        )
        if len(none):
            where = np.array2string(x[none[0] // op.positions], threshold=6, precision=3)
            raise InputError(
                f"node {node.name!r} is a {op.kind} with eps = 0, which needs an input with "
                f"variance, but at x = {where} of the domain there is none; leave such inputs out, "
                f"or give the norm an eps"
            )
