"""What the checker says, and how it stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class CheckStatus(Enum):
    """The outcome of a check."""

    ACCEPTED = "accepted"  # every claim of the certificate follows from the files
    REJECTED = "rejected"  # a claim does not
    MISSING = "missing"  # a file that the certificate speaks of was not found
    UNREADABLE = "unreadable"  # this is no certificate that can be read
    NOT_CHECKABLE = "not checkable"  # the proof is of a kind that this checker does not repeat


@dataclass(frozen=True)
class CheckReport:
    """`field` names what failed; `verified` the claims that were proved again.

    `unverified` names the figures that are `claimed` and that this checker does not prove;
    `figures` says what it found, of evaluations in floats perhaps more than what is claimed.
    `shared` names the networks that were read by the certifier's reader, the checker's own being
    too small.
    """

    status: CheckStatus
    field: str | None = None
    reason: str = ""
    bound: float | None = None
    verified: tuple[str, ...] = ()
    seconds: float = 0.0
    unverified: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    claimed: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        return self.status is CheckStatus.ACCEPTED


class CheckFailed(Exception):
    """The check ends here: `field` is what decided."""

    status = CheckStatus.REJECTED

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field


class Missing(CheckFailed):
    """A file is not there."""

    status = CheckStatus.MISSING


class Unreadable(CheckFailed):
    """A file is there and is no certificate, or one of another version."""

    status = CheckStatus.UNREADABLE


class NotCheckable(CheckFailed):
    """Nothing is wrong, but the checker cannot prove it."""

    status = CheckStatus.NOT_CHECKABLE

    def __init__(self, message: str) -> None:
        super().__init__(None, message)
