"""A forger changes every field of honest certificates in turn and signs them anew.

Whatever is still accepted has to be true: see `benchmarks.attack.forger`. One change in five is
tried here; the attack `forged` goes on with random ones.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from benchmarks.attack.forger import at, fields, forge, forgeries, is_true
from proofs_check.certificates import CheckStatus, check, reading
from proofs_check.certificates.reading import Claims, FilePart, RationalNorm, Segment, Witness
from proofs_check.certificates.reading import read as parse_claims
from reconstruct.bounds import Adaptive
from reconstruct.certificates import Certificate
from reconstruct.constructions import Wide, draw
from reconstruct.khatri_rao import Exact
from reconstruct.networks import (
    Affine,
    Box,
    Elu,
    Geometry,
    MaxPool,
    Mixing,
    Network,
    Node,
    Relu,
)
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
    return certified(folder, target, network, BOX, bounds=Adaptive(boxes=16))


def refuted(folder: Path) -> Certificate:
    rng = np.random.default_rng(3)
    return certified(folder, random_target(rng, (2, 3, 2)), random_target(rng, (2, 3, 2)), BOX)


def exact(folder: Path) -> Certificate:
    target = random_target(np.random.default_rng(4), (2, 2, 1))
    result = reconstruct(target, draw(target, Wide(), seed=3), domain=BOX, solver=Exact())
    assert result.exact is not None
    return certified(folder, target, result.network, result.domain, exact_norms=result.exact)


def pooled(folder: Path) -> Certificate:
    """A maximum over windows, and a partition of a domain of two inputs."""
    window = Geometry(1, 1, 2, (1, 2))
    rng = np.random.default_rng(5)
    nodes = (
        Node("a", Affine(rng.normal(size=(2, 2)), rng.normal(size=2)), ("x",)),
        Node("r", Relu(), ("a",)),
        Node("m", MaxPool(window), ("r",)),
        Node("y", Affine(rng.normal(size=(1, 1))), ("m",)),
    )
    target = Network(2, nodes, "y", "x")
    result = reconstruct(target, draw(target, Wide(), seed=3), domain=BOX)
    return certified(folder, target, result.network, BOX)


def together(folder: Path) -> Certificate:
    """Two networks without common cuts: pairs of units on the boxes of a tree."""
    rng = np.random.default_rng(6)
    target = random_target(rng, (2, 3, 1))
    first, last = (node.op for node in target.nodes if isinstance(node.op, Mixing))
    W, V = (op.tile(0, op.shape[0]) for op in (first, last))
    more = Network.mlp(
        [np.concatenate([W, W[:1]]), np.concatenate([V, V[:, :1] * 0], axis=1)],
        [np.concatenate([first.bias, first.bias[:1]]), last.bias],
    )
    return certified(folder, target, more, BOX, tolerance=1e-3)


HONEST: dict[str, Callable[[Path], Certificate]] = {
    "rebuilt": rebuilt,
    "statistics": with_statistics,
    "refuted": refuted,
    "exact": exact,
    "pooled": pooled,
    "together": together,
}


@pytest.fixture(scope="module", params=HONEST, ids=HONEST)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp(str(request.param))
    HONEST[str(request.param)](place)
    return place


KINDS = (Claims, Segment, Witness, FilePart, RationalNorm, reading._Ends)


def test_every_field_of_the_schema_is_forged(tmp_path: Path) -> None:
    """But for what stands only where files do: data beside a model, casts, headers."""
    named = set[str]()
    known = {name for kind in KINDS for name in get_type_hints(kind)}
    for name, make in HONEST.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name)
        named |= {key for path in fields(document_of(tmp_path / name)) for key in path}
        parse_claims(document_of(tmp_path / name))
    elsewhere = {"kind", "data_sha256", "path", "nnet_header", "casts"}
    assert len(known) > 30
    assert known - named <= elsewhere, known - named


PROVED = ("bound", "residual_bound", "constant_bound", "error_in", "error_out")


def test_whatever_a_forger_changes_nothing_false_is_accepted(folder: Path) -> None:
    document = document_of(folder)
    assert check(folder).accepted
    count = 0
    for path, forged in islice(forgeries(document), 0, None, 5):
        write(folder, forged)
        report = check(folder)
        count += 1
        assert not report.accepted or is_true(folder, forged, report), (path, report)
        other_proof = path[0] in ("method", "alignment")  # perhaps one that is not known
        assert report.status is not CheckStatus.NOT_CHECKABLE or other_proof, (path, report)
        assert report.accepted or report.field or other_proof, (path, report)
    write(folder, document)
    assert check(folder).accepted
    assert count > 40


@pytest.mark.parametrize("name", ["rebuilt", "statistics"])
def test_every_proved_figure_is_tight(tmp_path: Path, name: str) -> None:
    """A tenth less than what is claimed is no longer proved, unless nothing is left of it; a
    hundredth of errors at cuts, which the checker finds with their signs too."""
    folder = tmp_path
    HONEST[name](folder)
    document = document_of(folder)
    for path in fields(document):
        held = at(document, path)
        if path[-1] not in PROVED or held is None or float.fromhex(held) < 1e-290:
            continue
        share = 0.01 if "error" in str(path[-1]) else 0.9
        write(folder, forge(document, path, (share * float.fromhex(held)).hex()))
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
