"""What a certificate claims, typed: nothing of it is believed before it is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from proofs_check.certificates.rationals import RationalNorm
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import Box


@dataclass(frozen=True)
class Derived:
    """What the checker found for a segment; each has to be covered by the claim."""

    residual_bound: float
    constant_bound: float
    error_in: float
    error_out: float


@dataclass(frozen=True)
class Segment:
    """What is claimed of one affine piece."""

    target_node: str
    candidate_node: str
    residual_bound: float
    constant_bound: float
    error_in: float
    error_out: float


@dataclass(frozen=True)
class Witness:
    """A point, the values that are claimed there, and their difference."""

    point: tuple[float, ...]
    target: tuple[tuple[Fraction, Fraction], ...]
    candidate: tuple[tuple[Fraction, Fraction], ...]
    difference: Fraction
    strictly_inside: bool


@dataclass(frozen=True)
class PairClaim:
    """Unit `unit` of an activation may be written through unit `index` of `partner`, an earlier
    one: their inputs are nearly multiples of each other by `factor`."""

    node: str
    unit: int
    partner: str
    index: int
    factor: float


@dataclass(frozen=True)
class FilePart:
    """How a document names a network: its file, the hashes that pin it, where it may lie."""

    file: str
    path: str | None
    sha256: str
    data_sha256: Mapping[str, str]
    nnet_header: bool
    casts: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Claims:
    """A certificate, read and typed; nothing in it is believed yet."""

    verdict: str
    rigor: str
    method: str
    target: FilePart
    candidate: FilePart
    domain: tuple[Box, ...]  # the boxes that it is made of
    tolerance: float | None
    bound: float | None
    float64_bound: float | None
    float32_bound: float | None
    alignment: tuple[tuple[str, str], ...]
    tree: bytes | None
    pairs: tuple[PairClaim, ...]
    scales: Mapping[str, tuple[int, ...]]
    segments: tuple[Segment, ...]
    exact_identity: bool
    exact_norms: Mapping[str, RationalNorm] | None
    witness: Witness | None

    def check_segment(self, index: int, names: tuple[str, str], derived: Derived) -> None:
        """The claims of one segment have to cover what was derived."""
        if index >= len(self.segments):
            raise CheckFailed("segments", f"there is no segment {index}")
        row, path = self.segments[index], f"segments[{index}]."
        if (row.target_node, row.candidate_node) != names:
            raise CheckFailed(path + "target_node", f"the cut here is at {names}")
        for field in ("residual_bound", "constant_bound", "error_in", "error_out"):
            covers(path + field, getattr(row, field), getattr(derived, field))


def covers(field: str, claimed: float | None, derived: float) -> None:
    """The claimed upper bound has to be at least what was derived."""
    if claimed is None or not claimed >= derived:
        raise CheckFailed(field, f"{claimed} is claimed, but only {derived} follows")
