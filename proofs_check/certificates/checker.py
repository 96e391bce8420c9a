"""The checker: re-proves a certificate from the files, trusting nothing of who made it.

It reads the two networks and the claims, composes both networks exactly (`affine`), bounds the
target's values with its own outward-rounded arithmetic (`ranges`), repeats the error recursion
(`recursion`), and accepts only if every claim follows. What it takes from the certificate without
proof is where to cut the networks and which lines to draw below bent units: any choice is sound,
and a bad one makes the claims fail.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from proofs_check.certificates import reading
from proofs_check.certificates.arithmetic import gradual_underflow
from proofs_check.certificates.cuts import scaled
from proofs_check.certificates.identity import Identity, LiveIdentity
from proofs_check.certificates.joint import prove_jointly
from proofs_check.certificates.points import check_witness, prove_at_points
from proofs_check.certificates.rationals import RationalNorm
from proofs_check.certificates.reach import prove_reach
from proofs_check.certificates.recursion import KINDS, Recursion, figures
from proofs_check.certificates.report import CheckFailed, CheckReport, CheckStatus, NotCheckable
from reconstruct.formats.files import as_path
from reconstruct.networks import LiveNorm, Network
from reconstruct.networks.maps import Norm

PathLike = str | os.PathLike[str]

_GENERAL = "the bound of both networks together does not say the steps of its proof"


def check(
    path: PathLike,
    *,
    target: PathLike | None = None,
    candidate: PathLike | None = None,
) -> CheckReport:
    """Re-verify the certificate in a folder or file; `target` and `candidate` say where the
    networks are if not where the certificate says."""
    start = time.perf_counter()
    places = [
        None if place is None else as_path(place, "a network") for place in (target, candidate)
    ]
    where = as_path(path, "a certificate")
    try:
        with np.errstate(all="ignore"):
            report = _check(where, places[0], places[1])
    except CheckFailed as failure:
        report = _failed(failure)
    except (OverflowError, MemoryError) as error:  # numbers longer than the checker holds
        report = _failed(NotCheckable(str(error) or "it does not fit into memory"))
    return replace(report, seconds=time.perf_counter() - start)


def _failed(failure: CheckFailed) -> CheckReport:
    """Why it ended, in characters that every terminal can show."""
    field = failure.field and failure.field.encode("utf-8", "backslashreplace").decode()
    reason = str(failure).encode("utf-8", "backslashreplace").decode()
    return CheckReport(failure.status, field, reason)


def _check(path: Path, target: Path | None, candidate: Path | None) -> CheckReport:
    if not gradual_underflow():
        raise NotCheckable(
            "this process flushes numbers below 2^-1022 to zero, so that no rounding here is "
            "outward; unload what was compiled with -ffast-math (see LD_PRELOAD) and check again"
        )
    content, folder = reading.read_certificate(path)
    document = reading.parse(content)
    if document["schema"] == reading.REACH:
        return _check_reach(document, folder, target, candidate)
    claims = reading.read(document)
    ours = reading.read_network(claims.target, "target", target, folder)
    theirs = reading.read_network(claims.candidate, "candidate", candidate, folder)
    _require_sizes(claims, ours, theirs)
    _require_order(claims)
    verified, found = _prove(claims, ours, theirs)
    _require_words(claims)
    if document.get("digest") != reading.digest(document):
        raise CheckFailed("digest", "the certificate was changed after it was written")
    figures = {name: getattr(claims, name) for name in ("bound", *KINDS)}
    claimed = {name: figure for name, figure in figures.items() if figure is not None}
    return CheckReport(
        CheckStatus.ACCEPTED,
        reason="what was verified follows from the files" if verified else "nothing is claimed",
        bound=claims.bound,
        verified=verified,
        unverified=tuple(name for name in KINDS if name in claimed and name not in verified),
        shared=_shared(ours, theirs),
        figures=found,
        claimed=claimed,
    )


def _shared(*networks: Network) -> tuple[str, ...]:
    """Which of the two networks were read by the certifier's reader, and without a second one."""
    pairs = zip(("target", "candidate"), networks, strict=True)
    found = [
        (name, network.metadata) for name, network in pairs if reading.SHARED in network.metadata
    ]
    alone = " (not compared with another program)"
    return tuple(name + alone * (told.get("compared", {}) is None) for name, told in found)


def _check_reach(
    document: dict[str, reading.Json], folder: Path, target: Path | None, candidate: Path | None
) -> CheckReport:
    """A lower bound: what no norms can do."""
    given = {"target": target, "candidate": candidate}
    networks = {
        name: reading.read_network(reading.as_file(document.get(name), name), name, place, folder)
        for name, place in given.items()
    }
    reason = prove_reach(document, networks["target"], networks["candidate"])
    shared = _shared(*networks.values())
    return CheckReport(CheckStatus.ACCEPTED, reason=reason, verified=("bound",), shared=shared)


def _require_order(claims: reading.Claims) -> None:
    """A figure of an evaluation holds the bound at least: both are claimed or neither is."""
    for name in KINDS:
        figure: float | None = getattr(claims, name)
        if figure is not None and (claims.bound is None or figure < claims.bound):
            raise CheckFailed(name, f"{figure} is claimed, which is below the bound {claims.bound}")


def _require_sizes(claims: reading.Claims, target: Network, candidate: Network) -> None:
    for size in ("size_in", "size_out"):
        if getattr(target, size) != getattr(candidate, size):
            raise CheckFailed("candidate", f"the two networks differ in {size}")
    if claims.domain[0].size != target.size_in:
        raise CheckFailed("domain", f"{target.size_in} inputs need as many ends")


def _prove(
    claims: reading.Claims, target: Network, candidate: Network
) -> tuple[tuple[str, ...], dict[str, float]]:
    """Prove again what the verdict rests on; the names of what was proved, and the figures of
    evaluations in floats that follow."""
    verified, found = list[str](), dict[str, float]()
    if claims.method == "general":
        if claims.tree is None or claims.bound is None:
            raise NotCheckable(_GENERAL)
        if claims.exact_identity or claims.witness is not None or claims.verdict == "refuted":
            raise CheckFailed("method", "a bound on boxes proves neither identity nor refutation")
        prove_jointly(claims, target, candidate)
        return ("bound",), found
    model = scaled(target, claims.scales)
    if claims.method == "pointwise" or (claims.bound is not None and not claims.segments):
        prove_at_points(claims, model, candidate)
        verified.append("bound")
    elif claims.bound is not None:
        found = _prove_figures(claims, Recursion(claims, model, candidate))
        verified += [name for name in found if found[name] <= getattr(claims, name)]
    if claims.exact_identity:
        norms = _rational_norms(claims, candidate)
        if any(isinstance(node.op, LiveNorm) for node in candidate.nodes):
            LiveIdentity(claims, target, candidate, norms).run()
        else:
            Identity(claims, model, candidate, norms).run()
        verified.append("exact_identity")
    if claims.verdict == "refuted" or claims.witness is not None:
        check_witness(claims, target, candidate)
        verified.append("witness")
    return tuple(verified), found


def _prove_figures(claims: reading.Claims, recursion: Recursion) -> dict[str, float]:
    """Prove the bound again; and what follows for evaluations in floats, be it more or less than
    what is claimed of them."""
    recursion.run()
    found = figures(recursion)
    reading.covers("bound", claims.bound, found["bound"])
    return found


def _rational_norms(claims: reading.Claims, candidate: Network) -> dict[str, RationalNorm]:
    """The rational norms of an exact certificate, one gamma and beta per channel."""
    if claims.exact_norms is None:
        raise CheckFailed("exact_norms", "an exact identity needs rational norms")
    norms = {n.name: n.op for n in candidate.nodes if isinstance(n.op, Norm | LiveNorm)}
    for name, parts in claims.exact_norms.items():
        if name not in norms or any(len(part) != len(norms[name].gamma) for part in parts):
            raise CheckFailed(f"exact_norms.{name}", "one gamma and beta per channel is needed")
    return dict(claims.exact_norms)


def _require_words(claims: reading.Claims) -> None:
    """Verdict and rigor are what the proofs give, and no more."""
    if claims.verdict == "certified":
        if claims.bound is None:
            raise CheckFailed("verdict", "a certified verdict needs a bound, but there is none")
        if claims.tolerance is None or not claims.bound <= claims.tolerance:
            raise CheckFailed("verdict", "the bound is above the tolerance")
    values = () if claims.witness is None else claims.witness.target + claims.witness.candidate
    known = all(low == high for low, high in values)  # else they are enclosed, and not exact
    wanted = {
        "certified": ("exact",) if claims.exact_identity else ("rigorous",),
        "refuted": ("exact", "rigorous") if known else ("rigorous",),
        "undecided": ("numerical",),
    }[claims.verdict]
    if claims.rigor not in wanted:
        raise CheckFailed("rigor", f"{claims.verdict} is {wanted[-1]} here, not {claims.rigor}")
