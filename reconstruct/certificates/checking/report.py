"""What the checker says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckStatus(Enum):
    """The outcome of a check."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NOT_CHECKABLE = "not checkable"

    @property
    def explanation(self) -> str:
        return {
            CheckStatus.ACCEPTED: "every claim of the certificate follows from the files",
            CheckStatus.REJECTED: "a claim of the certificate does not follow from the files",
            CheckStatus.NOT_CHECKABLE: "the proof is of a kind that this checker does not repeat",
        }[self]


@dataclass(frozen=True)
class CheckReport:
    """`field` names what failed; `verified` the claims that were proved again."""

    status: CheckStatus
    field: str | None
    reason: str
    bound: float | None
    verified: tuple[str, ...]
    seconds: float

    @property
    def accepted(self) -> bool:
        return self.status is CheckStatus.ACCEPTED
