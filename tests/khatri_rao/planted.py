"""Systems with a known answer, and the one place that tolerances come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

WEIGHTS = ("gaussian", "uniform", "positive", "rademacher")


@dataclass(frozen=True)
class Planted:
    """`M2 diag(s) M1 = W` with `s` known, and K by its definition (entry by entry)."""

    M1: Any
    M2: Any
    W: np.ndarray
    s: np.ndarray

    @property
    def K(self) -> np.ndarray:
        """`K[(i, j), l] = M2[i, l] M1[l, j]`, written as the definition says."""
        M1, M2 = dense(self.M1), dense(self.M2)
        m, n = M2.shape
        k = M1.shape[1]
        return np.array([M2[i] * M1[:, j] for i in range(m) for j in range(k)]).reshape(m * k, n)

    @property
    def condition(self) -> float:
        return float(np.linalg.cond(self.K))


def dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=np.float64)


def draw(rng: np.random.Generator, shape: tuple[int, int], weights: str) -> np.ndarray:
    """Float32-representable random weights, as frozen networks hold them."""
    kinds = {
        "gaussian": lambda: rng.standard_normal(shape),
        "uniform": lambda: rng.uniform(-1, 1, shape),
        "positive": lambda: rng.uniform(0, 1, shape),
        "rademacher": lambda: rng.choice([-1.0, 1.0], shape),
    }
    return kinds[weights]().astype(np.float32)


def plant(m: int, k: int, ratio: float = 1.5, weights: str = "gaussian", seed: int = 0) -> Planted:
    """A system whose W comes from a planted s."""
    rng = np.random.default_rng([seed, m, k, WEIGHTS.index(weights)])
    n = int(np.ceil(ratio * m * k))
    M1, M2 = draw(rng, (n, k), weights), draw(rng, (m, n), weights)
    s = rng.standard_normal(n)
    return Planted(M1, M2, dense(M2) @ (s[:, None] * dense(M1)), s)


def sparsify(planted: Planted, p: float, seed: int = 0) -> Planted:
    """The same weights, each kept with probability p, in sparse storage."""
    rng = np.random.default_rng([seed, 1])
    M1 = sp.csr_array(planted.M1 * (rng.random(planted.M1.shape) < p))
    M2 = sp.csr_array(planted.M2 * (rng.random(planted.M2.shape) < p))
    return Planted(M1, M2, dense(M2) @ (planted.s[:, None] * dense(M1)), planted.s)


def tolerance(condition: float = 1.0, size: int = 1, dtype: Any = np.float64) -> float:
    """Largest relative error to accept: `16 ε √size κ`.

    `√size` is how errors of random sign add up, `κ = condition` how much the problem amplifies
    them (1 for a residual or a product, the condition number for the solution itself).
    """
    return float(16 * np.finfo(dtype).eps * np.sqrt(size) * condition)


def relative(difference: np.ndarray, reference: np.ndarray) -> float:
    """`‖difference‖ / ‖reference‖`, shapes checked first."""
    assert difference.shape == reference.shape
    norm = float(np.linalg.norm(reference))
    size = float(np.linalg.norm(difference))
    return size / norm if norm > 0 else size


def residual(planted: Planted, s: np.ndarray) -> float:
    """Relative residual by NumPy alone."""
    product = dense(planted.M2) @ (s[:, None] * dense(planted.M1))
    return relative(product - planted.W, planted.W)


def residual_tolerance(planted: Planted, s: np.ndarray) -> float:
    """What rounding leaves of a residual: `ε ‖|M2| diag|s| |M1|‖ / ‖W‖` and a margin."""
    size = abs(dense(planted.M2)) @ (abs(s)[:, None] * abs(dense(planted.M1)))
    return tolerance() * relative(size, planted.W)
