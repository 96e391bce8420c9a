"""The least and the largest value of a channel at a given input, over all positions at once.

With c ± r around what a row a ± e meets, |(a ± e)·h − fl(a·c)| ≤ ‖a‖(‖r‖ + γ‖h‖) + ‖e‖‖h‖ by Cauchy
and Schwarz, of which the worst position is taken: one product, and nothing else that is as large as
rows × positions.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

import numpy as np

from proofs_check.certificates.arithmetic import TINY, above, gamma, norms, plus, times
from proofs_check.certificates.forms import Form
from proofs_check.certificates.reachable import Range, Ranges, widened


def extremes(near: Ranges, form: Form, floats: Range) -> Range:
    """Bounds of each row of a form of the values that `near` knows."""
    middle, error = floats
    total = np.repeat(middle[:, -1:], form.positions, axis=1)
    size, room = np.abs(middle[:, -1]), error[:, -1]
    for view, part in form.parts():
        lo, hi = (view.met(end).reshape(view.columns, -1) for end in near.ranges[view.source])
        with np.errstate(all="ignore"):
            centre = np.where(lo == hi, lo, 0.5 * lo + 0.5 * hi)
            radius = np.where(lo == hi, 0.0, above(np.maximum(hi - centre, centre - lo)))
            total += middle[:, part] @ centre
        far = norms(np.maximum(np.abs(lo), np.abs(hi))).max()
        terms = np.full(form.rows, gamma(view.columns + 1))
        length, off = norms(middle[:, part].T), norms(error[:, part].T)
        reached = times(length, np.full(form.rows, far))
        size = plus(size, reached)
        room = plus(room, times(length, np.full(form.rows, norms(radius).max())))
        room = plus(room, times(reached, terms), times(off, np.full(form.rows, far)))
        room = above(room + view.columns * TINY)
    adding = np.full(form.rows, gamma(len(form.layout) + 1))
    room = plus(room, times(size, adding))
    return widened(total.min(axis=1), total.max(axis=1), room)
