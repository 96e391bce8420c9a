"""The exceptions of the package.

Input faults raise one of these at the boundary, before any work. Numerical outcomes (a singular
system, a solve that did not converge) are statuses on results, not exceptions. Every message is
one sentence with four parts: what was wrong, what was needed, what came, what to do.
"""

from __future__ import annotations


class ReconstructError(Exception):
    """Base of everything that the package raises on purpose."""


class InputError(ReconstructError, ValueError):
    """A file, an array or an option cannot be used as it is."""


class UnsupportedError(InputError):
    """A network is well formed, but holds something outside of what the theorem covers."""


class MissingDependencyError(ReconstructError, ImportError):
    """An optional package is needed for what was asked."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'reconstruct[{extra}]'"
        )
