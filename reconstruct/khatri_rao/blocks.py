"""Many small systems at once: `B_g diag(s_g) A_g = W_g` for g = 1 … G, all of one shape.

Where hidden units see a block of inputs and feed a block of outputs, the Khatri-Rao matrix is block
diagonal: each of its blocks K_g (e × q, e equations in q unknowns) is solved by itself, with the
least norm, s = Kᵀ(K Kᵀ)⁻¹ w. The Gram matrices of a few hundred blocks are inverted by one call, so
that the time is linear in the number of blocks. Squaring costs half of the digits; two steps of
refinement bring them back while the condition of K_g is below 1e6, and the few blocks beyond it
are solved by their singular values.

Layers that somebody else made may be of this kind, too, in whatever order their units are:
`solve_apart` finds the blocks as connected components.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from reconstruct.khatri_rao.solution import EPS, Solution, Status, is_solved
from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import Auto, Solver
from reconstruct.numbers.arrays import Array, Matrix, Vector, dense
from reconstruct.numbers.parallel import parallel_map
from reconstruct.progress import Progress, Step, silent

NUMBERS = 2**18  # of the blocks K_g that are held together: 2 MiB stay near the processor
REFINED = 2  # steps: the first brings the digits back, the second shows that they are
POWERS = 4  # iterations for a lower estimate of the condition, within some tens of per cent
SQUARED = 1e6  # condition of K_g up to which its Gram matrix is inverted
TOLERANCE = 1e-12  # relative residual that is asked for
PATTERN = 2**24  # entries of rectangles in which blocks are looked for: a second, 400 MB


def khatri_rao_blocks(A: Array, B: Array) -> Array:
    """K_g, (G, o·c, q), of A (G, q, c) and B (G, o, q): row (i, j) is B_g[i, :] ∘ A_g[:, j]."""
    groups, q, c = A.shape
    rows = B[:, :, None, :] * A.transpose(0, 2, 1)[:, None]
    return np.asarray(rows.reshape(groups, B.shape[1] * c, q))


def solve_blocks(
    A: Array, B: Array, W: Array, solver: Solver | None = None, progress: Progress = silent
) -> tuple[Solution, Array]:
    """One `Solution` for all blocks, the worst figures of each kind in it, and s as (G, q).

    A is (G, q, c), B (G, o, q), W (G, o, c). A solver other than `Auto` solves block by block.
    """
    start = time.perf_counter()
    groups, q, _ = A.shape
    batched = solver is None or isinstance(solver, Auto)
    step = max(1, NUMBERS // max(1, W[0].size * q)) if batched else 1
    spans = [slice(i, min(i + step, groups)) for i in range(0, groups, step)]

    def one(span: slice) -> Solution:
        if solver is None or batched:
            return _solved(A[span].astype(np.float64), B[span].astype(np.float64), W[span])
        return solve(A[span.start], B[span.start], W[span.start], solver)

    parts = []
    with np.errstate(all="ignore"):  # what is no number is a failure
        found = parallel_map(one, spans) if batched else map(one, spans)
        for span, part in zip(spans, found, strict=True):
            parts.append(part)
            progress(Step("blocks solved", span.stop, groups))
    s = np.concatenate([part.s for part in parts])
    whole = _joined(parts, [W[span] for span in spans])
    shape, seconds = (groups * W.shape[1], W.shape[2]), time.perf_counter() - start
    return whole.replace(s=s, shape=shape, seconds=seconds), s.reshape(groups, q)


def _joined(parts: Sequence[Solution], rights: Sequence[Array]) -> Solution:
    """The worst figures of each kind in several solutions."""
    worst = max(parts, key=lambda part: (not part.solved, part.residual))
    norms = [float(np.linalg.norm(W)) for W in rights]
    left = [part.residual * (norm or 1.0) for part, norm in zip(parts, norms, strict=True)]
    residual = math.hypot(*left) / (math.hypot(*norms) or 1.0)
    ranks = [part.rank for part in parts if part.rank is not None]
    exact = [part.rationals for part in parts if part.rationals is not None]
    return worst.replace(
        residual=residual,
        condition=max((p.condition for p in parts if p.condition is not None), default=None),
        rank=sum(ranks) if len(ranks) == len(parts) else None,
        rationals=tuple(itertools.chain(*exact)) if len(exact) == len(parts) else None,
    )


def _solved(A: Array, B: Array, W: Array) -> Solution:
    """Some blocks: by Gram matrices, and by singular values where these say too little."""
    K = khatri_rao_blocks(A, B)
    w = W.reshape(len(W), -1, 1)
    equations, q = K.shape[1:]
    s = np.zeros((len(K), q, 1))
    condition, rank = np.full(len(K), np.inf), np.full(len(K), equations)
    weak = np.ones(len(K), dtype=bool)
    if q > equations:
        gram = K @ K.transpose(0, 2, 1)
        try:
            inverse = np.linalg.inv(gram)
        except np.linalg.LinAlgError:  # one of them is singular to the last bit
            inverse = np.full_like(gram, np.nan)
        condition = np.sqrt(_norm(gram) * _norm(inverse))
        weak = ~(condition <= SQUARED)
        for _ in range(1 + REFINED):
            s += K.transpose(0, 2, 1) @ (inverse @ (w - K @ s))
    if weak.any():
        s[weak], condition[weak], rank[weak] = _by_singular_values(K[weak], w[weak])
    size = float(np.linalg.norm(W)) or 1.0
    residual = float(np.linalg.norm(W - B @ (s * A))) / size
    attainable = 4 * EPS * float(np.linalg.norm(np.abs(B) @ np.abs(s * A))) / size
    full = int(rank.sum()) == W.size
    if is_solved(residual, TOLERANCE, attainable, full):
        status = Status.SOLVED
    elif q < equations:
        status = Status.TOO_NARROW
    else:
        status = Status.ILL_CONDITIONED if full else Status.RANK_DEFICIENT
    worst = float(np.max(condition))
    shape = (len(W) * W.shape[1], W.shape[2])
    return Solution(
        s.ravel(), status, "blocks", residual, shape, int(rank.sum()), worst, (residual,)
    )


def _norm(matrices: Array) -> Vector:
    """2-norms of symmetric matrices by a few power iterations: lower estimates."""
    v = np.ones((*matrices.shape[:2], 1)) + np.arange(matrices.shape[1])[:, None] % 3
    size = np.linalg.norm(v, axis=1, keepdims=True)
    for _ in range(POWERS):
        v = matrices @ (v / size)
        size = np.linalg.norm(v, axis=1, keepdims=True)
    return np.asarray(size[:, 0, 0])


def _by_singular_values(K: Array, w: Array) -> tuple[Array, Vector, Array]:
    """Least-norm solutions (one step of refinement), conditions and numerical ranks."""
    if not np.isfinite(K).all():
        nothing = np.full((len(K), K.shape[2], 1), np.nan)
        return nothing, np.full(len(K), np.inf), np.zeros(len(K), dtype=np.int64)
    U, sigma, V = np.linalg.svd(K, full_matrices=False)
    cut = sigma[:, :1] * max(K.shape[1:]) * EPS
    kept = sigma > cut
    inverse = np.where(kept, 1.0 / np.where(kept, sigma, 1.0), 0.0)[:, :, None]
    s = np.zeros((len(K), K.shape[2], 1))
    for _ in range(2):
        s += V.transpose(0, 2, 1) @ (inverse * (U.transpose(0, 2, 1) @ (w - K @ s)))
    full = kept.sum(axis=1) == K.shape[1]
    least = np.where(full, sigma[:, -1], 1.0)
    return s, np.where(full, sigma[:, 0] / least, np.inf), kept.sum(axis=1)


# --- blocks that are found ------------------------------------------------------------------------

Block: TypeAlias = tuple[Array, Array, Array]  # hidden units, outputs and inputs


def blocks_of(M1: Matrix, M2: Matrix) -> list[Block] | None:
    """The independent systems into which `M2 diag(s) M1 = W` falls apart; None if there is one.

    A unit takes part in the equations of a rectangle: outputs that it feeds × inputs that it sees.
    Blocks are the connected components of rectangles that share equations. None, too, where they
    do not cover all equations, or are no rectangles themselves: then all is solved together.
    """
    seen, fed = dense(M1) != 0, (dense(M2) != 0).T
    if seen.all() or fed.all():
        return None
    keys = np.concatenate([np.packbits(part, axis=1) for part in (seen, fed)], axis=1)
    _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    sizes = seen[first].sum(axis=1) * fed[first].sum(axis=1)
    if sizes.sum() > PATTERN:
        return None
    k, equations = seen.shape[1], seen.shape[1] * fed.shape[1]
    cells = [np.flatnonzero(fed[f])[:, None] * k + np.flatnonzero(seen[f]) for f in first]
    at = np.repeat(np.arange(len(first)), sizes), np.concatenate([c.ravel() for c in cells])
    touched = sparse.coo_matrix((np.ones(len(at[0])), at), shape=(len(first), equations))
    label = connected_components(sparse.bmat([[None, touched], [touched.T, None]]))[1]
    own = np.where(sizes > 0, label[: len(first)], -1)[kind.ravel()]
    found: list[Block] = []
    for one in np.unique(own[own >= 0]):
        units = np.flatnonzero(own == one)
        outputs, inputs = (np.flatnonzero(part[units].any(axis=0)) for part in (fed, seen))
        found.append((units, outputs, inputs))
    covered = sum(len(rows) * len(columns) for _, rows, columns in found)
    whole = len(np.unique(at[1])) == equations == covered
    return found if whole and len(found) > 1 else None


def solve_apart(
    M1: Matrix, M2: Matrix, W: Array, solver: Solver, progress: Progress = silent
) -> Solution | None:
    """`M2 diag(s) M1 = W` block by block, those of one shape at once; None if it is one block."""
    start = time.perf_counter()
    blocks = None if solver.rational else blocks_of(M1, M2)
    if blocks is None:
        return None
    first, second = dense(M1), dense(M2)
    shapes: dict[tuple[int, ...], list[Block]] = {}
    for block in blocks:
        shapes.setdefault(tuple(map(len, block)), []).append(block)
    s, found, rights = np.zeros(len(first)), [], []
    for same in shapes.values():
        A = np.stack([first[np.ix_(units, columns)] for units, _, columns in same])
        B = np.stack([second[np.ix_(rows, units)] for units, rows, _ in same])
        parts = np.stack([W[np.ix_(rows, columns)] for _, rows, columns in same])
        solution, values = solve_blocks(A, B, parts, solver, progress)
        for (units, _, _), one in zip(same, values, strict=True):
            s[units] = one
        found.append(solution)
        rights.append(parts)
    seconds = time.perf_counter() - start
    return _joined(found, rights).replace(s=s, shape=W.shape, seconds=seconds)
