"""How often the parts of a norm or of a scaling are rounded when a program evaluates it.

Rests on proofs_check: norm-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from proofs_check.certificates.arithmetic import Floats


@dataclass(frozen=True)
class Counts:
    """Roundings, casts included: of s z, s μ and the shift before the last sum, and of s W beyond
    those of W.

    A norm casts γ, casts v and ε, adds, takes the root, its inverse and a product: 6 for s. The
    formula then has z − μ and a product, a shift computed first a cast, a product and a difference;
    folded, s W is a product, and s (b − μ) + β a difference, a product and a sum. Where μ = 0 and
    v + ε = 1 exactly only γ z is left, and no cast where γ and β are numbers of the format; a
    scaling casts two numbers, and has a quotient, perhaps by an inverse, and a product. Where it
    multiplies by 1 and adds numbers of the format, there is nothing but its sum.
    """

    scaled: int
    centre: int
    shift: int
    folded: int


NORM = Counts(scaled=8, centre=9, shift=2, folded=8)
GAMMA_ALONE = Counts(scaled=2, centre=0, shift=1, folded=2)
GAMMA_HELD = Counts(scaled=1, centre=0, shift=0, folded=1)
SCALING = Counts(scaled=5, centre=0, shift=1, folded=5)
SHIFTED = Counts(scaled=0, centre=0, shift=0, folded=0)


class Parts(NamedTuple):
    """Bounds of |s|, |s ẑ|, |s μ|, of the shift, and of what a map gives, all unit by unit."""

    scale: Floats
    scaled: Floats
    centre: Floats
    shift: Floats
    result: Floats
