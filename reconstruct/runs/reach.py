"""`rc.reach`: what no γ, β of a given frozen network can do, proved, and what a fit does reach.

The theorem (`khatri_rao/converse.py`) is about two frozen maps with one activation between them,
against a target that is affine: derivatives are averaged over the whole box, and the mean of a
product of several layers is no product. All norms at the hidden units may be tuned, as may the
shift of the last norm; its scale is that of the file, since with m more scales the bound would not
be a linear program.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.certificates.document import Source, digest_of, domain_part
from reconstruct.constructions.fitted import least_squares
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao.converse import LowerBound, expressible, lower_bound
from reconstruct.networks import Box, Mixing, Network, Norm, Unitwise, dense
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.exact import RationalInterval, RationalMatrix, root_bounds
from reconstruct.reports.document import to_bytes
from reconstruct.reports.folder import ROLES, OutputFolder, as_output
from reconstruct.runs import given
from reconstruct.runs.files import copies_before, take_along
from reconstruct.runs.given import Given, PathLike, Where

SCHEMA = "reconstruct.reach/1"
ROOT_BITS = 200  # to which √(v + ε) of the last norm is enclosed


@dataclass(frozen=True, eq=False)
class ReachOutcome:
    """`bound`: no γ, β of the hidden units bring sup |f − g| below it; 0: nothing is excluded.

    `fitted` is what least squares reach with every unit active, a number and no bound; `update`
    what the norms cannot express of an update, relative to it; `random` its mean for random
    weights.
    """

    bound: float
    fitted: float
    units: int
    equations: int
    update: float | None
    random: float | None
    report: Mapping[str, Any]
    output: Path | None

    def __repr__(self) -> str:
        return f"ReachOutcome({self.sentence})"

    @property
    def sentence(self) -> str:
        sizes = f"{self.units} hidden units for {self.equations} equations"
        if self.bound > 0:
            return (
                f"no γ, β of the hidden units, and no β behind them, bring |f − g| below "
                f"{self.bound:.4g} on the domain (proved; {sizes})"
            )
        return f"nothing is excluded: the lower bound is 0 ({sizes})"


def reach(
    frozen: Given,
    target: Given,
    domain: Where,
    *,
    update: Given | None = None,
    output: PathLike | None = None,
    force: bool = False,
) -> ReachOutcome:
    """`reconstruct reach`: a lower bound of sup |f − g| over all γ and β at f's hidden units.

    `update` is the target after fine-tuning. With `output` a certificate and both networks are
    written, which `check` proves again.
    """
    start = time.perf_counter()
    ours, theirs = given.network(target, "the target"), given.network(frozen, "the frozen network")
    M1, M2, c = _site(theirs)
    W = _affine(ours, "the target")
    if (len(W), len(W[0])) != (len(M2), M1.shape[1]):
        raise InputError(
            f"the frozen network needs the target's {len(W[0])} inputs and {len(W)} outputs, but "
            f"has {M1.shape[1]} and {len(M2)}; draw one for this target"
        )
    place = given.domain(domain, ours, None)
    if not isinstance(place, Box):
        raise InputError(
            "reach needs a box, over which derivatives are averaged, but the domain is made of "
            "data; give --domain LO,HI"
        )
    home = None if output is None else as_output(output)
    ends = zip(place.lo.tolist(), place.hi.tolist(), strict=True)
    r = [(Fraction(high) - Fraction(low)) / 2 for low, high in ends]
    scaled = np.asarray(M2 / np.array([[float(low)] for low, _ in c]))  # diag(s2) M2 in floats
    left = None if update is None else _update(M1, scaled, W, update)
    with nullcontext() if home is None else OutputFolder(home, force=force) as folder:
        found = lower_bound(M1, M2, W, r, c)
        units, equations = len(M1), len(W) * len(W[0])
        # of the least-squares s, with every unit active and no error at the centre
        wanted, half = np.array(W, dtype=np.float64), np.array(r, dtype=np.float64)
        h = np.vstack([np.diag(half), -np.diag(half)])
        s = least_squares(M1, scaled, h, h @ wanted.T)
        fitted = float(np.max(np.abs((scaled * s) @ M1 - wanted) @ half))
        random = None if left is None else sqrt(max(0.0, 1 - units / equations))
        report = {
            "schema": SCHEMA,
            "bound": found.bound,
            "rigor": "exact",
            "fitted": fitted,
            "hidden_units": units,
            "equations": equations,
            "update": None if left is None else {"left_out": left, "random": random},
            **given.words(target=target, frozen=frozen),
            "domain": {"lo": place.lo.tolist(), "hi": place.hi.tolist()},
            "seconds": time.perf_counter() - start,
        }
        if folder is not None:
            pair = zip((ours, theirs), map(given.path, (target, frozen)), ROLES, strict=True)
            sources = [take_along(network, path, folder, role) for network, path, role in pair]
            content = to_bytes(_document(found, place, sources, folder.path))
            write_atomically(folder.staging / "certificate.json", content)
            write_atomically(folder.staging / "report.json", to_bytes(report))
            folder.publish(earlier=copies_before(folder.path))
    return ReachOutcome(found.bound, fitted, units, equations, left, random, report, home)


def _document(found: LowerBound, place: Box, sources: list[Source], home: Path) -> dict[str, Any]:
    document = {
        "schema": SCHEMA,
        "target": sources[0].part(home),
        "candidate": sources[1].part(home),
        "domain": domain_part(place),
        "bound": found.bound.hex(),
        "dual": [[i, j, f"{value:#x}"] for i, j, value in found.dual],
    }
    return {**document, "digest": digest_of(document)}


def _chain(network: Network, role: str) -> tuple[str, list[Any]]:
    """The operations of a network that goes straight from its input to its output, and a letter for
    each: linear, convolution, norm, activation."""
    last, letters, found = network.source, "", []
    for node in network.ending_at(network.output).nodes:
        if node.inputs != (last,):
            raise UnsupportedError(
                f"{role} must be layers in a row, but {node.name!r} takes {', '.join(node.inputs)}"
                f"; reach speaks of one map, give that one"
            )
        op = node.op
        if isinstance(op, Mixing):
            letters += "L" if op.kind == "Affine" else "C"
        else:
            letters += "N" if isinstance(op, Norm) else "A" if isinstance(op, Unitwise) else "?"
        found.append(op)
        last = node.name
    return letters, found


def _affine(network: Network, role: str) -> list[list[Fraction]]:
    """W of an affine target, linear maps in a row multiplied over the rationals."""
    letters, ops = _chain(network, role)
    if not re.fullmatch("L+", letters):
        raise UnsupportedError(
            f"{role} must be affine, linear layers alone, because derivatives are averaged over "
            f"the whole box, but has {', '.join(op.kind for op in ops) or 'no layer'}; give one of "
            f"its maps as a network of its own"
        )
    product = RationalMatrix.exact(dense(ops[0].matrix))
    for op in ops[1:]:
        product = RationalMatrix.exact(dense(op.matrix)) @ product
    return [[Fraction(x, product.denominator) for x in row] for row in product.numbers.tolist()]


def _site(network: Network) -> tuple[Array, Array, list[RationalInterval]]:
    """M1, M2 and intervals of 1/s2, s2 = γ/√(v + ε) being the scale of the last norm, if any."""
    letters, ops = _chain(network, "the frozen network")
    if not re.fullmatch("LN?AN?LN?", letters):
        said = ", ".join(op.kind for op in ops) or "nothing"
        raise UnsupportedError(
            "the frozen network must be one hidden layer between two linear ones (linear, norm, "
            f"activation, linear, norm), because the mean of several is no product, but is {said}; "
            "draw one for a single map"
        )
    first, second = (dense(op.matrix).astype(np.float64) for op in ops if isinstance(op, Mixing))
    last = ops[-1]
    if not isinstance(last, Norm):
        return first, second, [(Fraction(1), Fraction(1))] * len(second)
    if not np.all(last.gamma):
        raise InputError(
            f"the last norm of the frozen network must have γ ≠ 0, because its scale stays as it "
            f"is, but γ_{int(np.flatnonzero(last.gamma == 0)[0])} is 0; set it to 1"
        )
    c = []
    for gamma, var in zip(last.gamma.tolist(), last.var.tolist(), strict=True):
        low, high = root_bounds(Fraction(var) + Fraction(last.eps), ROOT_BITS)
        ends = (low / Fraction(gamma), high / Fraction(gamma))
        c.append((min(ends), max(ends)))
    return first, second, c


def _update(M1: Array, M2: Array, W: list[list[Fraction]], tuned: Given) -> float:
    """What the norms cannot express of the tuned target minus the target."""
    after = _affine(given.network(tuned, "the tuned network"), "the tuned network")
    if (len(after), len(after[0])) != (len(W), len(W[0])):
        raise InputError(
            f"the tuned network must have the target's shape, {len(W)}×{len(W[0])}, but has "
            f"{len(after)}×{len(after[0])}; give the same map after fine-tuning"
        )
    change = np.array(
        [[float(a - b) for a, b in zip(*rows, strict=True)] for rows in zip(after, W, strict=True)]
    )
    if not np.any(change):
        raise InputError(
            "an update needs a tuned network that differs from the target, but both have the same "
            "weights; give the network after fine-tuning"
        )
    return expressible(M1, M2, change)
