"""What a certificate says: verdict, rigor, the three figures, and what they rest on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconstruct.equivalence.pairing import PairOfUnits
from reconstruct.equivalence.witness import Witness
from reconstruct.networks import Domain
from reconstruct.notebook import table
from reconstruct.numbers.double_double import upward

PathLike = str | os.PathLike[str]


class Rigor(StrEnum):
    """How a statement is known; the three words are never mixed."""

    EXACT = "exact"  # an identity of rational numbers, checked with ==
    RIGOROUS = "rigorous"  # a bound in which every rounding error is accounted for
    NUMERICAL = "numerical"  # observed at sampled points, which proves nothing about others


class Verdict(StrEnum):
    """The answer to: do the two networks agree on the domain to within the tolerance?"""

    CERTIFIED = "certified"  # they differ by at most the tolerance everywhere on the domain
    REFUTED = "refuted"  # at an input in the domain, the witness, they differ by more
    UNDECIDED = "undecided"  # no proof was found that they agree, and no input where they do not


PUBLISHED = 1 + 2.0**-8  # claims are rounded up by this much, so that another proof may differ


def published(value: float) -> float:
    """The figure as it is claimed: a little above what was proved."""
    return float(upward(value * PUBLISHED))


@dataclass(frozen=True)
class Segment:
    """One affine piece, from the cuts before it to `target_node`, and what was proved of it.

    `residual_bound` bounds every entry of the difference of the two composed matrices,
    `constant_bound` that of the constants; `error_in` and `error_out` bound |f − g| at the cuts
    before and at this one; `margin` is the least distance of an inner activation's input from
    the end of its linear piece (None without inner activations; below 0: it may leave the piece);
    `maps` are the target's affine nodes in this segment.
    """

    target_node: str
    candidate_node: str
    rows: int
    columns: int
    residual_bound: float
    constant_bound: float
    error_in: float
    error_out: float
    inner: tuple[str, ...]
    margin: float | None
    maps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """The outcome of `certify`; a figure that is not known is None.

    `bound` ≥ sup over the domain of max_j |f_j − g_j|, both in real arithmetic; `float64_bound` and
    `float32_bound` bound |fl(f)(x) − g(x)| for f evaluated in that precision, in any order of
    summation, at inputs that are numbers of that precision. `exact_identity` says that the network
    with rational norms equals the target by `==`; `bound` is then still that of the network as
    written in floats. `alignment` and `tree` are the steps of the proof that a checker follows: the
    cuts and the partition of the domain (see `bounds.Partition`), and, where both networks are
    bounded together, `pairs` of units that are nearly multiples of each other. With `scales`,
    segments speak of the target with the units of these activations multiplied by powers of two,
    which is the same function. The target's own bounds, of |fl(g) − g| for g with its units so
    scaled, are there to compare with.
    """

    verdict: Verdict
    rigor: Rigor
    domain: Domain
    bound: float | None
    float64_bound: float | None
    float32_bound: float | None
    tolerance: float
    output_scale: float
    method: str
    segments: tuple[Segment, ...] = ()
    alignment: tuple[tuple[str, str], ...] = ()
    witness: Witness | None = None
    exact_identity: bool = False
    tried: tuple[str, ...] = ()
    tree: bytes | None = field(default=None, repr=False)
    pairs: tuple[PairOfUnits, ...] = field(default=(), repr=False)
    scales: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    target_float64_bound: float | None = None
    target_float32_bound: float | None = None
    seconds: float = 0.0
    found: float = 0.0  # beyond a search: the largest |f − g| in float64 that was met, no bound

    def __bool__(self) -> bool:
        """True for a certified pair alone: not for one that is refuted or undecided."""
        return self.verdict is Verdict.CERTIFIED

    def save(self, path: PathLike, *, target: PathLike, candidate: PathLike) -> None:
        """Write certificate.json for two networks in files, which are read for their hashes."""
        from reconstruct.certificates.document import write_certificate  # it is about this class

        write_certificate(path, self, target=target, candidate=candidate)

    def __repr__(self) -> str:
        bound = "none" if self.bound is None else f"{self.bound:.3g}"
        return (
            f"Certificate({self.verdict.value}, {self.rigor.value}, bound {bound}, "
            f"tolerance {self.tolerance:.3g}, by {self.method})"
        )

    def _repr_html_(self) -> str:
        """In a notebook: what is proved in each arithmetic."""
        bounds = (self.bound, self.float64_bound, self.float32_bound)
        rows = zip(("real", "float64", "float32"), bounds, strict=True)
        title = f"{self.verdict.value} ({self.rigor.value}), tolerance {self.tolerance:.3g}"
        told = [(kind, "not proved" if b is None else f"{b:.3g}") for kind, b in rows]
        return table(title, ("arithmetic", "|f − g| at most"), told)
