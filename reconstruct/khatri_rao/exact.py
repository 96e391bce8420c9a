"""Exact rational solve (settings only for now)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exact:
    """Settings of the exact solver: rational arithmetic, every float a dyadic rational."""
