"""Whoever adds a map, an activation, a construction, a solver, a format or a statement touches what
the page says.

A toy of each is defined here, outside of the package, and goes all the way: written and read,
reconstructed, certified, checked by the independent checker, reported; the statement is proved, and
a broken one is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import reconstruct as rc
from proofs_check import Counterexample, Effort, Finding, Method, Negative, chain
from proofs_check.cli import main as prove
from proofs_check.core import Statement, by
from reconstruct.certificates.document import write_certificate
from reconstruct.cli import main
from reconstruct.constructions.chain import Chain, ChainPlan, read_chains
from reconstruct.constructions.construction import Construction, GroupSolution, Task
from reconstruct.constructions.sites import Blueprint, LayerPlan, Site
from reconstruct.constructions.wide import full_rank, solve_two_layers
from reconstruct.equivalence.search import search
from reconstruct.formats.files import Around
from reconstruct.formats.network_file import FORMATS, FileFormat
from reconstruct.khatri_rao import KhatriRao, RankProof, Solution, Solver, Status
from reconstruct.khatri_rao.solution import relative_residual
from reconstruct.khatri_rao.solvers import Cost
from reconstruct.networks import Affine, Mixing, Network, Node, Relu
from reconstruct.networks.activations.piecewise import Kink
from reconstruct.networks.operation import KINDS, register
from reconstruct.numbers.arrays import Array
from reconstruct.progress import Progress
from reconstruct.reports.document import build_report, to_bytes
from reconstruct.reports.page import write_page

BOX = rc.Box(-1, 1)


@dataclass(frozen=True, eq=False)
class Circulant(Mixing):
    """A toy map: `L[i, j] = first[(j − i) mod n]`, stored as one row."""

    kind = "Circulant"
    keys: ClassVar[dict[str, str]] = {"first": "first", "bias": "bias"}

    first: Array
    bias: Array

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.first), len(self.first)

    def tile(self, start: int, stop: int) -> Array:
        return np.stack([np.roll(self.first, i) for i in range(start, stop)])

    def columns(self, start: int, stop: int) -> Array:
        return self.tile(0, len(self.first))[:, start:stop]

    def linear(self, rows: Array) -> Array:
        whole = self.tile(0, len(self.first)).astype(rows.dtype)
        return np.asarray(rows @ whole.T)

    def pull(self, form: Array, size: int) -> Array:
        return np.asarray(form @ self.tile(0, size).astype(form.dtype))

    def absolute(self, reach: Array) -> Array:
        return np.asarray(reach @ np.abs(self.tile(0, len(self.first))).T)

    @property
    def least(self) -> float:
        return float(np.min(np.abs(self.first[self.first != 0]), initial=inf))

    @property
    def largest(self) -> float:
        return float(np.max(np.abs(self.first)))

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.first)) * len(self.first)


@dataclass(frozen=True)
class Crease(Kink):
    """A toy activation: 2z for z ≥ 0 and z/4 below."""

    kind = "Crease"

    @property
    def sides(self) -> tuple[float, float]:
        return 0.25, 2.0


@dataclass(frozen=True)
class Spacious(Construction):
    """A toy construction: wide, with as many spare neurons as one likes."""

    spare: int = 3

    @property
    def summary(self) -> str:
        return "each affine map is rebuilt with room to spare"

    def plan(self, op: Mixing) -> SpaciousPlan:
        m, k = op.shape
        return SpaciousPlan(op, m * k + self.spare)

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": None, "spare": self.spare}


@dataclass(frozen=True)
class SpaciousPlan(ChainPlan):
    """What one map becomes: two layers, nothing left out."""

    width: int

    @property
    def blueprint(self) -> Blueprint:
        hidden = LayerPlan(self.width, (0, self.cols), carry=False)
        return Blueprint(self.rows, self.cols, (hidden, LayerPlan(self.rows, None, carry=True)))

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, self.width),)

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        return solve_two_layers(chain, task, solver, progress)

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        return tuple(full_rank(chain) for chain in read_chains(site))

    def describe(self) -> Mapping[str, Any]:
        return {"spare": self.width - self.rows * self.cols}


@dataclass(frozen=True)
class Pseudoinverse:
    """A toy solver: the pseudoinverse of the dense matrix, and nothing refined."""

    rational: ClassVar[bool] = False

    def solve(
        self,
        operator: KhatriRao,
        W: Array,
        progress: Progress | None = None,
    ) -> Solution:
        s = np.linalg.pinv(operator.dense()) @ W.reshape(-1)
        _, residual = relative_residual(operator, s, W)
        status = Status.SOLVED if residual < 1e-12 else Status.ILL_CONDITIONED
        return Solution(s, status, "pseudoinverse", residual, operator.map_shape)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        return Cost(self, 8.0 * m * k * n, 4.0 * n * (m * k) ** 2)


def read_toy(content: bytes, around: Around) -> Network:
    """A toy format: rows of weights as text, a layer after a blank line."""
    layers = content.decode().removeprefix("toy:").strip().split("\n\n")
    return Network.mlp(
        [np.array([row.split() for row in rows.split("\n")], float) for rows in layers]
    )


def write_toy(network: Network, path: Path) -> None:
    layers = [node.op.matrix for node in network.mixing_nodes()]
    text = "\n\n".join("\n".join(" ".join(map(repr, row)) for row in W.tolist()) for W in layers)
    path.write_text(f"toy:\n{text}\n")


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    """The toys are known to files while a test runs, and not afterwards."""
    known = dict(KINDS)
    register(Circulant, Crease)
    FORMATS[".toy"] = FileFormat(read_toy, lambda content: content.startswith(b"toy:"))
    yield
    del FORMATS[".toy"]
    KINDS.clear()
    KINDS.update(known)


def plain() -> Network:
    rng = np.random.default_rng(0)
    return Network.mlp([rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [np.ones(4), np.ones(2)])


def with_circulant() -> Network:
    rng = np.random.default_rng(1)
    first = Circulant(rng.normal(size=3), rng.normal(size=3))
    nodes = (Node("turn", first, ("input",)), Node("act", Relu(), ("turn",)))
    last = Node("last", Affine(rng.normal(size=(2, 3)), np.zeros(2)), ("act",))
    return Network(3, (*nodes, last), "last")


CASES = {
    "map": (with_circulant, rc.Wide(1.5), None, rc.Auto()),
    "activation": (plain, rc.Wide(1.5), Crease(), rc.Auto()),
    "construction": (plain, Spacious(), None, rc.Auto()),
    "solver": (plain, rc.Wide(1.5), None, Pseudoinverse()),
}


def test_a_toy_format_goes_all_the_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    made = Network.mlp([rng.normal(size=(4, 3)), rng.normal(size=(2, 4))])
    for name in ("target.toy", "noname"):
        write_toy(made, tmp_path / name)
    x = BOX.of_size(3).sample(50, rng)
    assert np.array_equal(rc.load(tmp_path / "noname")(x), made(x))
    words = ["run", str(tmp_path / "target.toy"), "-o", str(tmp_path / "out"), "--domain=-1,1"]
    assert main([*words, "--bounds", "crown", "--quiet"]) == 0
    assert main(["check", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert report["target"]["file"] == "target.toy"


@by(Method.RATIONAL)
def sums_of_odd_numbers(square: Callable[[int], int], effort: Effort) -> Finding:
    """1 + 3 + … + (2n − 1), number by number."""
    for n in range(effort.choose(20, 50)):
        found = sum(range(1, 2 * n, 2))
        if found != square(n):
            raise Counterexample(f"n = {n}: the sum is {found}, not {square(n)}")
    return Finding("n < 20", "equal")


ODD = Statement(
    name="odd-numbers",
    claim="The first n odd numbers add up to n².",
    hypotheses=("n is whole",),
    paper="",
    depends_on=("vec-identity",),
    subject=lambda n: n * n,
    checks=(sums_of_odd_numbers,),
    negatives=(Negative("one too many", lambda n: n * n + 1),),
)


def test_a_toy_statement_joins_the_chain(monkeypatch, capsys) -> None:
    monkeypatch.setattr(chain, "STATEMENTS", (*chain.STATEMENTS, ODD))
    assert prove(["--only", "odd-numbers"]) == 0
    assert "odd-numbers" in capsys.readouterr().out
    assert ("vec-identity", "odd-numbers") in chain.graph().edges
    broken = replace(ODD, subject=lambda n: n * n + n)
    monkeypatch.setattr(chain, "STATEMENTS", (*chain.STATEMENTS[:-1], broken))
    assert prove(["--only", "odd-numbers"]) == 1
    assert "n = 1: the sum is 1, not 2" in capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_a_toy_goes_all_the_way(case: str, tmp_path: Path) -> None:
    made, construction, activation, solver = CASES[case]
    rc.save(made(), tmp_path / "target.npz")
    target = rc.load(tmp_path / "target.npz")
    x = BOX.of_size(3).sample(100, np.random.default_rng(2))
    assert np.array_equal(target(x), made()(x))

    frozen = rc.draw(target, construction, seed=3, activation=activation)
    result = rc.reconstruct(target, frozen, domain=BOX, solver=solver)
    rc.save(result.network, tmp_path / "network.npz")
    network = rc.load(tmp_path / "network.npz")
    assert np.abs(network(x) - target(x)).max() < 1e-12

    certificate = rc.certify(target, network, domain=result.domain)
    assert certificate.verdict.value == "certified" and certificate.rigor.value == "rigorous"
    assert certificate.bound is not None and certificate.bound < 1e-12
    files = {"target": tmp_path / "target.npz", "candidate": tmp_path / "network.npz"}
    write_certificate(tmp_path / "certificate.json", certificate, **files)
    report = rc.check(tmp_path / "certificate.json", **files)
    assert report.accepted, report

    found = search(target, network, result.domain, samples=500)
    proofs = result.prove_ranks()
    assert [proof is not None and proof.proved for proof in proofs] == [True, True]
    page = build_report(result, certificate, found, options={}, seconds=1.0)
    if case == "construction":
        assert page["frozen"]["construction"] == "spacious" and page["frozen"]["ratio"] is None
        assert [row["spare"] for row in page["frozen"]["factors"]] == [3, 3]
    (tmp_path / "report.json").write_bytes(to_bytes(page))
    write_page(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    if case == "construction":
        assert "Construction “spacious”: each affine map is rebuilt with room to spare." in text
    assert "Certified" in text and (case != "solver" or "pseudoinverse" in text)


def test_a_toy_that_is_changed_is_refuted() -> None:
    target = with_circulant()
    frozen = rc.draw(target, rc.Wide(1.5), seed=3, activation=Crease())
    result = rc.reconstruct(target, frozen, domain=BOX)
    rng = np.random.default_rng(1)
    turned = Circulant(np.roll(rng.normal(size=3), 1), rng.normal(size=3))
    other = target.with_ops({"turn": turned})
    assert rc.certify(other, result.network, domain=result.domain).verdict.value == "refuted"
