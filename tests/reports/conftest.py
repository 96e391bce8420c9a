"""A finished run of a small network, and copies of it with other verdicts."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.equivalence.search import search
from reconstruct.networks import Affine, Network, Node, Relu
from reconstruct.reports.document import build_report, to_bytes
from reconstruct.reports.page import render
from reconstruct.reports.reading import read_run

EVIL = "<script>alert(1)</script>"
OPTIONS = {
    "target": "net & co.onnx",
    "output": "out",
    "domain": "-1,1",
    "seed": 3,
    "force": True,
    "json": False,
    "rank": None,
}


def small_target(name: str = "first") -> Network:
    rng = np.random.default_rng(1)
    nodes = (
        Node(name, Affine(rng.normal(size=(6, 4)), rng.normal(size=6)), ("input",)),
        Node("act1", Relu(), (name,)),
        Node("last", Affine(rng.normal(size=(3, 6)), rng.normal(size=3)), ("act1",)),
    )
    metadata = {"file": f"{name}.onnx", "sha256": "0" * 64}
    return Network(4, nodes, "last", metadata=metadata)


def run_in_memory(target: Network) -> tuple[dict[str, Any], bytes]:
    """report.json as a value and norms.npz as bytes."""
    box = rc.Box(-1, 1)
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(1.5), seed=3), domain=box)
    found = search(target, result.network, result.domain, samples=500)
    certificate = rc.certify(target, result.network, domain=result.domain)
    report = build_report(result, certificate, found, options=OPTIONS, seconds=0.5)
    arrays = {}
    for name, norm in result.norms.items():
        arrays[f"{name}.weight"], arrays[f"{name}.bias"] = norm.gamma, norm.beta
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return report, buffer.getvalue()


@pytest.fixture(autouse=True)
def with_figures(figures: None) -> None:
    """Pages are what these tests are about."""


@pytest.fixture(scope="session")
def finished() -> tuple[dict[str, Any], bytes]:
    return run_in_memory(small_target())


@pytest.fixture
def report(finished: tuple[dict[str, Any], bytes]) -> dict[str, Any]:
    return copy.deepcopy(finished[0])


@pytest.fixture
def folder(tmp_path: Path, finished: tuple[dict[str, Any], bytes]) -> Path:
    return write_folder(tmp_path, *finished)


@pytest.fixture(scope="session")
def page(finished: tuple[dict[str, Any], bytes], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the finished run, drawn once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RECONSTRUCT_FIGURES")
        return render(read_run(write_folder(tmp_path_factory.mktemp("page"), *finished)))


@pytest.fixture
def paged(folder: Path, page: str) -> Path:
    """The folder of the finished run with its page."""
    (folder / "report.html").write_text(page, encoding="utf-8")
    return folder


def write_folder(path: Path, report: dict[str, Any], norms: bytes | None) -> Path:
    (path / "report.json").write_bytes(to_bytes(report))
    if norms is not None:
        (path / "norms.npz").write_bytes(norms)
    return path


def refuted(report: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(report)
    changed["verdict"], changed["rigor"] = "refuted", "exact"
    changed["error"]["certified_bound"] = None
    changed["certificate"]["witness"] = {
        "point": [0.5, -0.25, 0.125, 1.0],
        "target": [1.0, 2.0, 3.0],
        "candidate": [1.0, 2.0, 3.25],
        "difference": 0.25,
        "exact": True,
        "strictly_inside": False,
    }
    return changed


def undecided(report: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(report)
    changed["verdict"], changed["rigor"] = "undecided", "numerical"
    for key in ("certified_bound", "float64_bound", "float32_bound"):
        changed["error"][key] = None
    return changed
