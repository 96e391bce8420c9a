"""What every solver in floats does around its method: scale, ask the zero pattern, judge a loss.

Entries are brought near 1 by powers of two, which changes no digit. Where hidden units are of very
different size each gets a power of its own. Systems that their zero pattern forbids are refused. A
rank lost numerically is told apart from one lost to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.rank import prove_full_rank
from reconstruct.khatri_rao.solution import ACCEPTED_DEFICIENT, Solution, relative_residual
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Powers, largest, scaled, to_dense
from reconstruct.khatri_rao.structure import StructuralObstruction, structural_obstruction

Array: TypeAlias = NDArray[np.float64]
Attempt: TypeAlias = Callable[[KhatriRao, Array], Solution]

MOST_ENTRIES = 1 << 26  # of a sparse K: 12 bytes each
PROOF_LIMIT = 400  # equations up to which a rank modulo a prime takes less than a second
SAFE_EXPONENT = 30  # weights within 2^±30 need no rescaling, in float32 either
UNEVEN = 2.0  # times what Gaussian units have: from here on an iteration takes half as long evened
SMALL_VIOLATOR = 512  # equations up to which consistency is decided by a dense least squares


def in_floats(operator: KhatriRao, W: Array, attempt: Attempt) -> Solution:
    """The solution of `attempt` on the scaled system, scaled back.

    Sparse systems are solved whole by each holder of the engine.
    """
    operator = operator.whole() if operator.sparse else operator
    a, b = _exponent(operator, "M1"), _exponent(operator, "M2T")
    c = int(np.frexp(largest(W))[1])
    operator = operator.scaled(-a, -b)
    first, second = even_powers(operator)
    solution = _unless_refused(operator.scaled(first, second), scaled(W, -c), attempt)
    each = operator.of_all_units(first + second)
    with np.errstate(over="ignore", under="ignore"):
        s = np.ldexp(solution.s, c - a - b + each)
    if not np.isfinite(s).all():
        return solution.replace(s=np.zeros_like(s), status=Status.ILL_CONDITIONED, residual=1.0)
    return solution.replace(s=s)


def even_powers(operator: KhatriRao) -> tuple[Powers, Powers]:
    """Powers of two by which units of very different size become equally large; else 0.

    With `σ_l = ‖M1[l, :]‖ ‖M2[:, l]‖` the solution of least norm puts `σ_l²` on a unit, so that
    about `(Σσ²)²/Σσ⁴` of the n units carry it (Gaussian ones: n over `(1 + 2/m)(1 + 2/k)`). If
    these are few, K is ill-conditioned whatever the width. Then the least `Σ (σ_l s_l)²` is taken,
    which is what shifts and rounding errors grow with.
    """
    m, k = operator.map_shape
    sizes = operator.unit_squares()
    product = sizes[0] * sizes[1]
    moments = np.array([np.count_nonzero(product), product.sum(), product @ product])
    count, second, fourth = operator.engine.add(moments)
    usual = (1 + 2 / m) * (1 + 2 / k)
    if not 0 < fourth < np.inf or count * fourth <= UNEVEN * usual * second**2:
        return 0, 0
    exponents = (np.frexp(np.where(product > 0, one, 1.0))[1] for one in sizes)
    first, last = (np.asarray(-(one // 2), np.intc) for one in exponents)
    return first, last


def _exponent(operator: KhatriRao, name: str) -> int:
    """The power of two to scale weights down by: 0 unless they are far from 1."""
    size = operator.engine.largest(largest(getattr(operator, name)))
    if not np.isfinite(size):
        raise InputError(
            f"{name.rstrip('T')} drew an entry of size {size}, but weights must be finite; "
            "repair the source that draws it"
        )
    power = int(np.frexp(size)[1])
    return power if abs(power) > SAFE_EXPONENT else 0


def _unless_refused(operator: KhatriRao, W: Array, attempt: Attempt) -> Solution:
    """Ask the zero pattern first where that is cheap, and after a failure in any case."""
    known = operator.sparse and operator.entries() <= MOST_ENTRIES
    obstruction = _obstruction(operator) if known else None
    if obstruction is not None and (refused := _refusal(operator, W, obstruction)) is not None:
        return refused
    solution = attempt(operator, W)
    if obstruction is None and solution.status is Status.RANK_DEFICIENT:
        if not known and operator.rows * operator.width <= MOST_ENTRIES:
            obstruction = _obstruction(operator)
        if obstruction is None and _is_regular(operator):
            return solution.replace(status=Status.ILL_CONDITIONED, rank=operator.rows)
    return solution.replace(obstruction=obstruction)


def _obstruction(operator: KhatriRao) -> StructuralObstruction | None:
    whole = operator.whole()
    return structural_obstruction(whole.M1, whole.M2T.T)


def _is_regular(operator: KhatriRao) -> bool:
    """Whether a numerical loss of rank is due to rounding alone, proved modulo a prime."""
    if operator.rows > PROOF_LIMIT:
        return False
    whole = operator.whole()
    return prove_full_rank(whole.M1, whole.M2T.T).proved


def _refusal(operator: KhatriRao, W: Array, obstruction: StructuralObstruction) -> Solution | None:
    """RANK_DEFICIENT at once, if `W` does not fit on the equations of the violator; else None.

    A special W (one with zeros in the right places) may still be in the range of K: that is
    decided on the violator alone when it is small, and left to the solver when it is not.
    """
    if len(obstruction.equations) > SMALL_VIOLATOR or _fits(operator, W, obstruction):
        return None
    zero = np.zeros(operator.width)
    return Solution(
        s=zero,
        status=Status.TOO_NARROW if operator.width < operator.rows else Status.RANK_DEFICIENT,
        solver="pattern",
        residual=relative_residual(operator, zero, W)[1],
        shape=operator.map_shape,
        rank=obstruction.rank,
        obstruction=obstruction,
    )


def _fits(operator: KhatriRao, W: Array, obstruction: StructuralObstruction) -> bool:
    """Whether the violator's equations have a common solution, by dense least squares."""
    i, j = np.array(obstruction.equations).T
    units = np.array(obstruction.units, dtype=int)
    left, right = to_dense(operator.M2T[units]), to_dense(operator.M1[units])
    K = (left[:, i] * right[:, j]).T.astype(np.float64)
    w = W[i, j]
    s = np.linalg.lstsq(K, w)[0] if units.size else np.zeros(0)
    return bool(np.linalg.norm(K @ s - w) <= ACCEPTED_DEFICIENT * np.linalg.norm(W))
