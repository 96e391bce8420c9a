"""Where a refined solve is, and its way into a checkpoint and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.checkpoint import Checkpoint, Clock, State, fingerprint
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solvers.cgls import Inner, Iterate
from reconstruct.khatri_rao.storage import Matrix
from reconstruct.progress import OutOfTime

VECTORS = ("s", "d", "p")  # over hidden units: each holder has a part
FORMAT = "s d r p q"  # what a state is made of: those of another make are not taken up


@dataclass
class RoundsState:
    """The sum `s` of the rounds so far, the round under way, and what the report needs."""

    s: NDArray[np.float64]
    dtype: np.dtype[Any]
    residual: float = 1.0
    rounds: int = 0
    condition: float | None = None
    orthogonal: bool = False
    ended: bool = False
    history: list[float] = field(default_factory=list)
    inner: Inner | None = None

    def judge(
        self, found: Inner, candidate: NDArray[np.float64], new: float, R: Matrix, R_new: Matrix
    ) -> Matrix:
        """Take the round's correction if it helps; float64 next, or the end, if it did not."""
        history = [*self.history, *(self.residual * size for size in found.residuals)]
        enough, better = new <= self.residual / 2, new < self.residual
        if better and found.residuals:
            history[-1] = new
        if not enough:
            self.ended = self.dtype == np.float64
            self.dtype = np.dtype(np.float64)
        self.orthogonal = found.orthogonal
        self.history, self.inner, self.rounds = history, None, self.rounds + 1
        if not better:
            return R
        self.s, self.residual = candidate, new
        return R_new

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state as arrays, cut to what the iterate knows."""
        out: dict[str, NDArray[Any]] = {
            "s": self.s,
            "dtype": np.array(self.dtype.name),
            "rounds": np.array(self.rounds),
            "condition": np.array(np.nan if self.condition is None else self.condition),
            "orthogonal": np.array(self.orthogonal),
            "history": np.array(self.history),
        }
        if self.inner is not None:
            now, inner = self.inner.now, self.inner
            turns = now.steps if now.turned else max(now.steps - 1, 0)
            out |= {"d": now.d, "r": now.r, "p": now.p, "q": now.q}
            out["scalars"] = np.array([inner.norm, inner.gain, inner.smallest, now.zz])
            out["turned"] = np.array(now.turned)
            out["residuals"] = np.array(inner.residuals[: now.steps])
            out["alphas"] = np.array(inner.alphas[: now.steps])
            out["betas"] = np.array(inner.betas[:turns])
        return out

    @staticmethod
    def from_arrays(data: State) -> RoundsState:
        """The state back from its arrays."""
        condition = float(data["condition"])
        state = RoundsState(
            np.asarray(data["s"], np.float64),
            np.dtype(str(data["dtype"])),
            rounds=int(data["rounds"]),
            condition=None if np.isnan(condition) else condition,
            orthogonal=bool(data["orthogonal"]),
            history=data["history"].tolist(),
        )
        if "d" in data:
            norm, gain, smallest, zz = data["scalars"].tolist()
            residuals, turned = data["residuals"].tolist(), bool(data["turned"])
            vectors = data["d"], data["r"], data["p"], data["q"]
            now = Iterate(*vectors, zz, len(residuals), turned)
            lists = residuals, data["alphas"].tolist(), data["betas"].tolist()
            state.inner = Inner(norm, now, gain, smallest, False, *lists)
        return state


class Keeper:
    """Offers states to a checkpoint at its pace, at an interrupt too, and takes one up again."""

    def __init__(
        self, operator: KhatriRao, checkpoint: Checkpoint | None, system: tuple[Any, ...]
    ) -> None:
        self._operator, self._checkpoint = operator, checkpoint
        if checkpoint is not None:
            sizes = operator.map_shape, operator.width, f"{operator.squared_norm():.5e}"
            self._key = fingerprint(FORMAT, *system, *sizes)
            self._clock = Clock(checkpoint.seconds)

    def resumed(self) -> RoundsState | None:
        """The state that was kept, if it is one of this very system."""
        if self._checkpoint is None:
            return None
        engine = self._operator.engine
        data = engine.first_says(self._checkpoint.load(self._key) if engine.first else None)
        if data is None:
            return None
        held = engine.held(self._operator.width)
        return RoundsState.from_arrays(
            {name: part[held] if name in VECTORS else part for name, part in data.items()}
        )

    def offer(self, state: RoundsState) -> None:
        """Save if it is time, by the clock of the first holder."""
        if self._checkpoint is None:
            return
        if self._operator.engine.first_says(self._clock.due()):
            self._save(state)

    @contextmanager
    def watching(self, state: RoundsState) -> Iterator[None]:
        """Save at an interrupt and when the time is over, before that goes on."""
        try:
            yield
        except (KeyboardInterrupt, OutOfTime):
            if self._checkpoint is not None and self._operator.engine.holders == 1:
                self._save(state)
            raise

    def done(self) -> None:
        """The solve has come to its end."""
        if self._checkpoint is not None and self._operator.engine.first:
            self._checkpoint.clear(self._key)

    def _save(self, state: RoundsState) -> None:
        engine, width = self._operator.engine, self._operator.width
        arrays = state.arrays()
        for name in VECTORS:
            if name in arrays:
                arrays[name] = engine.gather(arrays[name], width)
        if self._checkpoint is not None and engine.first:
            self._checkpoint.save(self._key, arrays)
