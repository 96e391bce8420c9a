"""A forger changes every field of honest certificates in turn and signs them anew.

The digest is no signature, so a forged document is as well-formed as an honest one. Whatever is
still accepted has to be true: the bound is held against exact differences at points of the domain
that the document names, and the witness is evaluated by the package's own exact arithmetic.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.report import CheckReport
from reconstruct.bounds import Split
from reconstruct.certificates import Certificate, enclose
from reconstruct.constructions import Wide, draw
from reconstruct.formats import load
from reconstruct.khatri_rao import Exact
from reconstruct.networks import Box, Elu
from reconstruct.pipeline import reconstruct
from tests.certificates.building import random_target, wide
from tests.proofs_check.certificates.making import certified, document_of, write

BOX = Box(-0.5, 0.5).of_size(2)


def rebuilt(folder: Path) -> Certificate:
    rng = np.random.default_rng(1)
    target = random_target(rng, (2, 3, 2))
    return certified(folder, target, wide(target, BOX, rng), BOX)


def with_statistics(folder: Path) -> Certificate:
    rng = np.random.default_rng(2)
    target = random_target(rng, (2, 2, 1), activation=Elu())
    network = wide(target, BOX, rng, statistics=True)
    return certified(folder, target, network, BOX, bounds=Split(parts=2))


def refuted(folder: Path) -> Certificate:
    rng = np.random.default_rng(3)
    return certified(folder, random_target(rng, (2, 3, 2)), random_target(rng, (2, 3, 2)), BOX)


def exact(folder: Path) -> Certificate:
    target = random_target(np.random.default_rng(4), (2, 2, 1))
    result = reconstruct(target, draw(target, Wide(), seed=3), domain=BOX, solver=Exact())
    assert result.exact is not None
    return certified(folder, target, result.network, result.domain, exact_norms=result.exact)


HONEST: dict[str, Callable[[Path], Certificate]] = {
    "rebuilt": rebuilt,
    "statistics": with_statistics,
    "refuted": refuted,
    "exact": exact,
}


@pytest.fixture(scope="module", params=HONEST, ids=HONEST)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp(str(request.param))
    HONEST[str(request.param)](place)
    return place


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to every value, list and object; of a list the first and the last entry."""
    if path:
        yield path
    entries = list(node.items() if isinstance(node, dict) else enumerate(node))
    inner = entries if isinstance(node, dict) else [*entries[:1], *entries[1:][-1:]]
    for key, value in inner:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        elif (*path, key) != ("digest",):
            yield (*path, key)


def changes(value: Any) -> list[Any]:
    """What a forger might write in place of a value."""
    if isinstance(value, dict):
        return [{}, [], {**value, "more": 1}]
    if isinstance(value, list):
        return [[], value[:-1], value[::-1], [*value, *value[-1:]], value * 2, {}]
    if isinstance(value, bool):
        return [not value, None, 1]
    if isinstance(value, str):
        return [*numbers(value), "", value + "x", "certified", "output", None]
    return [value and -value, 0, 10**30, None, [value], "0x0.0p+0", "0x0/0x1"]


def numbers(text: str) -> list[str]:
    """Other numbers: smaller, larger, of the other sign, and such as no number is."""
    if "/" in text and text.count("/") == 1 and "0x" in text:
        above, below = (int(part, 16) for part in text.split("/"))
        return [f"{n:#x}/{d:#x}" for n, d in ((above, 2 * below), (-above, below), (0, 1), (1, 0))]
    try:
        number = float.fromhex(text)
    except ValueError:
        return []
    others = (number * 0.9, number * 1.5, -number, 0.0, 2.0**-1074, 1e300, number + 1e-9)
    return [*(x.hex() for x in others), "nan", "inf", text + "0" * 30]


def forgeries(document: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for path in leaves(document):
        held: Any = document
        for key in path:
            held = held[key]
        for value in changes(held):
            forged = copy.deepcopy(document)
            holder: Any = forged
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            yield path, forged


def is_true(folder: Path, document: dict[str, Any], report: CheckReport) -> bool:
    """Whether what was accepted holds, by exact values at points of the document's domain."""
    sides = (tuple(document["domain"][side]) for side in ("lo", "hi"))
    bound, tolerance = report.bound, document["tolerance"]
    if bound is not None and worst(folder, *sides) > Fraction(bound):
        return False
    if document["verdict"] == "certified":
        return bound is not None and bound <= float.fromhex(tolerance)
    if document["verdict"] == "refuted":
        gap = worst(folder, *(tuple(document["witness"]["point"]),) * 2)
        return gap > Fraction(float.fromhex(tolerance))
    return True


@cache
def worst(folder: Path, lo: tuple[str, ...], hi: tuple[str, ...]) -> Fraction:
    """The largest difference at a few points of a box, exactly."""
    pair = load(folder / "target.npz"), load(folder / "network.npz")
    box = Box(*(np.array([float.fromhex(x) for x in side]) for side in (lo, hi)))
    rng = np.random.default_rng(0)
    points = [*box.sample(6, rng), *box.corners(4, rng)]
    return max(apart(*(enclose(network, x) for network in pair)) for x in points)


def apart(first: Any, second: Any) -> Fraction:
    """A lower bound of the largest difference."""
    pairs = zip(first, second, strict=True)
    return max(max(a - d, c - b) for (a, b), (c, d) in pairs)


PROVED = ("bound", "residual_bound", "constant_bound", "error_in", "error_out")


def test_whatever_a_forger_changes_nothing_false_is_accepted(folder: Path) -> None:
    document = document_of(folder)
    assert check(folder).accepted
    count = 0
    for path, forged in forgeries(document):
        write(folder, forged)
        report = check(folder)
        count += 1
        assert not report.accepted or is_true(folder, forged, report), (path, report)
        assert report.status is not CheckStatus.NOT_CHECKABLE or path == ("method",), (path, report)
        assert report.accepted or report.field or path == ("method",), (path, report)
    write(folder, document)
    assert check(folder).accepted
    assert count > 150


@pytest.mark.parametrize("name", ["rebuilt", "statistics"])
def test_every_proved_figure_is_tight(tmp_path: Path, name: str) -> None:
    """A tenth less than what is claimed is no longer proved, unless nothing is left of it."""
    folder = tmp_path
    HONEST[name](folder)
    document = document_of(folder)
    for path in leaves(document):
        held: Any = document
        for key in path:
            held = held[key]
        if path[-1] not in PROVED or held is None or float.fromhex(held) < 1e-290:
            continue
        forged = copy.deepcopy(document)
        holder: Any = forged
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = (0.9 * float.fromhex(held)).hex()
        write(folder, forged)
        report = check(folder)
        field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
        assert report.status is CheckStatus.REJECTED and report.field == field.lstrip("."), report


def test_a_certificate_of_one_pair_is_not_one_of_another(tmp_path: Path) -> None:
    for name in ("rebuilt", "refuted"):
        (tmp_path / name).mkdir()
        HONEST[name](tmp_path / name)
    ours, theirs = (document_of(tmp_path / name) for name in ("rebuilt", "refuted"))
    for field in ("target", "candidate"):
        write(tmp_path / "rebuilt", ours | {field: theirs[field]})
        assert check(tmp_path / "rebuilt").field == f"{field}.sha256"
        place = {field: tmp_path / "refuted" / theirs[field]["file"]}
        report = check(tmp_path / "rebuilt", **place)
        assert report.status is CheckStatus.REJECTED and report.field, report
