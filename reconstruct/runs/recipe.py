"""How a frozen network was made, so that it can be made again: seed, construction, distribution.

Together with the target and the norms it is the whole network, in kilobytes instead of gigabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from reconstruct.constructions import CONSTRUCTIONS, Construction, Frozen, draw
from reconstruct.errors import InputError
from reconstruct.networks import Activation, Network
from reconstruct.networks.draw import Weights
from reconstruct.networks.operation import KINDS
from reconstruct.runs.files import Forms

if TYPE_CHECKING:
    from reconstruct.runs.job import Job


@dataclass(frozen=True)
class Recipe:
    """What `draw` was given, and in which forms and precision the network was written.

    `seed` is None for a frozen network that the user brought: `file_sha256` pins its file.
    """

    construction: str
    settings: Mapping[str, Any]
    merge: bool
    dtype: str
    folded: bool
    guarded: bool
    seed: int | None = None
    weights: str | None = None
    density: float | None = None
    statistics: bool = False
    activation: Mapping[str, str] | None = None
    file: str | None = None
    file_sha256: str | None = None
    blocks: bool = False  # whether long sums are written as trees of short ones
    memory: int | None = None  # within which weights were drawn: those not held lie in a data file
    tree: str = "coarse"  # of blocks

    @classmethod
    def of(cls, job: Job) -> Recipe:
        """The recipe of a run's network."""
        origin, construction = job.frozen.origin, job.frozen.construction
        inner, forms = origin.get("activation"), job.forms
        return cls(
            construction.name,
            asdict(construction) if is_dataclass(construction) else {},
            job.frozen.merge,
            job.dtype,
            forms.folded,
            forms.guarded,
            origin.get("seed"),
            origin.get("weights"),
            origin.get("sparsity"),
            bool(origin.get("statistics", False)),
            None if inner is None else _told(inner),
            origin.get("file"),
            origin.get("file_sha256"),
            forms.blocks,
            forms.memory,
            forms.tree or "coarse",
        )

    def forms(self) -> Forms:
        """How the network was written."""
        tree = self.tree if self.blocks else None
        return Forms(np.dtype(self.dtype), self.folded, self.guarded, tree, self.memory)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def made(self) -> Construction:
        """The construction with its settings."""
        known = CONSTRUCTIONS.get(self.construction)
        if known is None:
            raise InputError(
                f"the construction {self.construction!r} is not one of {', '.join(CONSTRUCTIONS)}"
            )
        made: Construction = known(**self.settings)
        return made

    def draw(self, target: Network) -> Frozen:
        """The same frozen network again."""
        assert self.seed is not None and self.weights is not None
        return draw(
            target,
            self.made(),
            seed=self.seed,
            weights=Weights(self.weights),
            sparsity=self.density,
            statistics=self.statistics,
            activation=None if self.activation is None else _restored(self.activation),
            merge=self.merge,
            memory=self.memory,
        )


def _told(activation: Activation) -> dict[str, str]:
    """Kind and settings; numbers as text, for JSON knows no infinity."""
    return {"kind": activation.kind, **{k: repr(v) for k, v in activation.settings().items()}}


def _restored(told: Mapping[str, str]) -> Activation:
    settings = {name: float(text) for name, text in told.items() if name != "kind"}
    return cast(Activation, KINDS[told["kind"]](_no_array, settings))


def _no_array(name: str) -> Any:
    raise InputError(f"an activation is made of plain numbers, but this one needs {name!r}")
