"""What one would do without this package: SciPy and PyTorch on the same system.

Each takes `M1` (`n × k`), `M2` (`m × n`), `W` and a relative residual to reach, and gives `s` and
the number of its iterations.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, lsmr

from reconstruct.numbers.parallel import cpu_count

Array: TypeAlias = NDArray[Any]

LIMIT = 20.0  # seconds for one solve
LOOK = 20  # iterations of training between two looks at the residual


class Missing(Exception):
    """A package that this method needs is not there."""


class OutOfTime(Exception):
    """The time is over; `s` is the best so far."""

    def __init__(self, s: Array, iterations: int) -> None:
        super().__init__(f"stopped after {iterations} iterations")
        self.s, self.iterations = s, iterations


def lapack_least_squares(M1: Array, M2: Array, W: Array, aim: float) -> tuple[Array, int]:
    """The dense matrix by SciPy, and the minimum-norm solution by LAPACK's `gelsy`."""
    K = la.khatri_rao(M2.astype(np.float64), M1.T.astype(np.float64))
    return np.asarray(la.lstsq(K, W.ravel(), lapack_driver="gelsy", overwrite_a=True)[0]), 1


def lapack_square(M1: Array, M2: Array, W: Array, aim: float) -> tuple[Array, int]:
    """The dense matrix of a square system, and LAPACK's LU."""
    K = la.khatri_rao(M2.astype(np.float64), M1.T.astype(np.float64))
    return np.asarray(la.solve(K, W.ravel(), overwrite_a=True)), 1


def scipy_lsmr(M1: Array, M2: Array, W: Array, aim: float) -> tuple[Array, int]:
    """LSMR on `s ↦ M2 diag(s) M1`, two matrix products in float64."""
    A, B = M1.astype(np.float64), np.ascontiguousarray(M2.T, dtype=np.float64)
    m, k = W.shape
    operator: Any = LinearOperator(
        (m * k, len(A)),
        matvec=lambda s: (B.T @ (s.ravel()[:, None] * A)).ravel(),
        rmatvec=lambda y: np.einsum("ij,ij->i", B @ y.reshape(m, k), A),
        dtype=np.float64,
    )
    found = lsmr(operator, W.ravel(), atol=aim / 100, btol=aim, maxiter=10_000)
    return np.asarray(found[0]), int(found[2])


def torch_adam(M1: Array, M2: Array, W: Array, aim: float) -> tuple[Array, int]:
    """γ trained by Adam in float32, the learning rate halved whenever a look shows no gain."""
    torch, gamma, loss = _training(M1, M2, W, "float32")
    optimizer = torch.optim.Adam([gamma], lr=1.0 / np.sqrt(len(M1)))
    best, start, iterations = np.inf, time.perf_counter(), 0
    while True:
        for _ in range(LOOK):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
        iterations += LOOK
        size = float(value.detach()) ** 0.5
        if size <= aim:
            return gamma.detach().numpy(), iterations
        if size > 0.99 * best:
            optimizer.param_groups[0]["lr"] *= 0.5
        best = min(best, size)
        if time.perf_counter() - start > LIMIT:
            raise OutOfTime(gamma.detach().numpy(), iterations)


def torch_lbfgs(M1: Array, M2: Array, W: Array, aim: float) -> tuple[Array, int]:
    """γ trained by L-BFGS with a strong Wolfe line search, in float64."""
    torch, gamma, loss = _training(M1, M2, W, "float64")
    optimizer = torch.optim.LBFGS(
        [gamma],
        lr=1.0,
        max_iter=LOOK,
        history_size=50,
        line_search_fn="strong_wolfe",
        tolerance_grad=0.0,
        tolerance_change=0.0,
    )
    start, iterations = time.perf_counter(), 0

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    while True:
        optimizer.step(closure)
        iterations += LOOK
        if float(loss().detach()) ** 0.5 <= aim:
            return gamma.detach().numpy(), iterations
        if time.perf_counter() - start > LIMIT:
            raise OutOfTime(gamma.detach().numpy(), iterations)


def _training(M1: Array, M2: Array, W: Array, dtype: str) -> tuple[Any, Any, Callable[[], Any]]:
    """torch, the parameter γ = 0, and `‖M2 diag(γ) M1 − W‖² / ‖W‖²`."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        raise Missing("PyTorch is not installed") from None
    torch.set_num_threads(cpu_count())
    kind = getattr(torch, dtype)
    A, B, right = (torch.tensor(np.ascontiguousarray(one), dtype=kind) for one in (M1, M2, W))
    gamma = torch.zeros(len(M1), dtype=kind, requires_grad=True)
    scale = float(np.sum(W**2))

    def loss() -> Any:
        return ((B @ (gamma[:, None] * A) - right) ** 2).sum() / scale

    return torch, gamma, loss


METHODS: dict[str, Callable[[Array, Array, Array, float], tuple[Array, int]]] = {
    "LAPACK least squares": lapack_least_squares,
    "LAPACK square": lapack_square,
    "SciPy LSMR": scipy_lsmr,
    "torch Adam": torch_adam,
    "torch L-BFGS": torch_lbfgs,
}
