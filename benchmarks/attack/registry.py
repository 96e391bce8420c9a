"""What an attack is: a function that draws one case and says how it went.

`attempt(rng)` draws everything from `rng`, so that a case is known by class, seed and index. An
outcome is a word that is counted; a violation is an outcome with what was violated and the files
that show it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True)
class Outcome:
    """How one case went; `violation` says what was violated, if anything was."""

    word: str
    violation: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


Attempt: TypeAlias = Callable[[np.random.Generator], Outcome]
ATTACKS: dict[str, Attempt] = {}


def attack(name: str) -> Callable[[Attempt], Attempt]:
    """Registers the function below it as the attack of that name."""

    def registered(attempt: Attempt) -> Attempt:
        ATTACKS[name] = attempt
        return attempt

    return registered


def generator(name: str, seed: int, index: int) -> np.random.Generator:
    """The random numbers of one case: the same ones whenever it is tried again."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), index])
