"""Certificates of pairs of any origin: followed box by box, and never past a true difference."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates.reading import digest
from reconstruct.certificates.document import write_certificate
from reconstruct.certificates.verdicts import Rigor, Verdict
from reconstruct.equivalence.branch_and_bound import bound_difference
from reconstruct.networks import Affine, Convolution, Geometry, Network, Node, Norm, Relu
from tests.certificates.test_general import pair, rational_output


def split(network: Network, rng: np.random.Generator) -> Network:
    """The first map as p = relu(p) − relu(−p), moved by a constant that is taken back later."""
    first = network.mixing_nodes()[0].op
    m = len(first.bias)
    move, order = rng.integers(-4, 5, m).astype(float), rng.permutation(2 * m)
    rows = np.concatenate([first.matrix, -first.matrix])[order]
    offsets = np.concatenate([first.bias + move, -first.bias - move])[order]
    join = np.concatenate([np.eye(m), -np.eye(m)], axis=1)[:, order]
    nodes = [
        Node("p", Affine(rows, offsets), (network.source,)),
        Node("bent", Relu(), ("p",)),
        Node(network.nodes[0].name, Affine(join, -move), ("bent",)),
        *network.nodes[1:],
    ]
    return Network(network.size_in, tuple(nodes), network.output, network.source)


def largest(first: Network, second: Network) -> float:
    """The largest exact difference on a grid of [-1, 1]²."""
    grid = [(x / 4, y / 4) for x in range(-4, 5) for y in range(-4, 5)]
    gaps = [
        abs(a - b)
        for point in grid
        for a, b in zip(rational_output(first, point), rational_output(second, point), strict=True)
    ]
    return float(max(gaps))


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """A pair whose proof divides the box, with the largest difference that is known."""
    folder = tmp_path_factory.mktemp("joint")
    first, second = pair(3, 1e-3)
    rc.save(first, folder / "g.npz")
    rc.save(second, folder / "f.npz")
    known = largest(first, second)
    outcome = rc.verify(
        folder / "g.npz", folder / "f.npz", domain=(-1, 1), tolerance=2 * known, output=folder / "o"
    )
    certificate = outcome.certificate
    assert certificate.verdict.value == "certified" and certificate.method == "general"
    assert len(certificate.tree) > 1 and certificate.pairs
    assert rc.check(folder / "o").verified == ("bound",)
    return folder / "o", known


def changed(folder, name, change):
    document = json.loads((folder / "certificate.json").read_text())
    change(document)
    document["digest"] = digest(document)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return rc.check(path)


@pytest.mark.parametrize("seed", [0, 2])
def test_units_that_are_split_are_certified_and_accepted(seed, tmp_path):
    rng = np.random.default_rng(seed)
    shapes = ((6, 3), (5, 6), (2, 5))
    weights = [rng.integers(-64, 65, shape) / 64.0 for shape in shapes]
    network = Network.mlp(weights, [rng.integers(-64, 65, shape[0]) / 64.0 for shape in shapes])
    rc.save(network, tmp_path / "a.npz")
    rc.save(split(network, rng), tmp_path / "b.npz")
    for names in (("a.npz", "b.npz"), ("b.npz", "a.npz")):
        paths, out = [tmp_path / name for name in names], tmp_path / f"out-{names[0]}"
        found = rc.verify(*paths, domain=(-1, 1), tolerance=1e-12, samples=100, output=out)
        assert found.certificate.verdict.value == "certified"
        assert rc.check(out).accepted


def test_grouped_convolutions_are_bounded_together_and_accepted(tmp_path):
    """A pair with a grouped map in the middle, of which the first map is split."""
    rng = np.random.default_rng(1)
    first, kernel, last = (
        rng.integers(-64, 65, shape) / 64.0 for shape in ((8, 3), (4, 1, 1, 1), (2, 16))
    )
    grouped = Convolution(kernel, Geometry(2, 2, 2, (1, 1)), np.zeros(4), 2)
    nodes = (
        Node("a", Affine(first), ("x",)),
        Node("r", Relu(), ("a",)),
        Node("c", grouped, ("r",)),
        Node("s", Relu(), ("c",)),
        Node("o", Affine(last), ("s",)),
    )
    network = Network(3, nodes, "o", "x")
    rc.save(network, tmp_path / "a.npz")
    rc.save(split(network, rng), tmp_path / "b.npz")
    paths, out = [tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "out"
    found = rc.verify(*paths, domain=(-1, 1), tolerance=1e-12, samples=100, output=out)
    certificate = found.certificate
    assert certificate.verdict.value == "certified" and certificate.method == "general"
    assert rc.check(out).accepted


def test_no_choice_of_boxes_and_pairs_proves_less_than_a_known_difference(verified):
    folder, known = verified
    rng = np.random.default_rng(0)
    nodes = [("target", 6, 5), ("candidate", 6, 5)]
    names = [(f"{side}.act{i + 1}", sizes[i]) for side, *sizes in nodes for i in range(2)]

    def wrong(document):
        later = rng.integers(1, 4)
        units = rng.permutation(names[later][1])[:3]
        document["pairs"] = []
        for unit in units.tolist():
            partner, size = names[rng.integers(0, later)]
            factor = float(rng.choice([0.0, 1.0, -1.0, rng.normal()]))
            row = [names[later][0], unit, partner, int(rng.integers(size)), factor.hex()]
            document["pairs"].append(row)
        document["tree"] = ["00", "010000", "0200010000"][rng.integers(3)]
        document["bound"] = (0.999 * known).hex()

    for trial in range(30):
        report = changed(folder, f"wrong{trial}", wrong)
        assert (report.status.value, report.field) == ("rejected", "bound")


def _lower(document):
    document["bound"] = (float.fromhex(document["bound"]) * 0.9).hex()
    for name in ("float64_bound", "float32_bound"):
        document[name] = None


def _shorter(document):
    document["tree"] = document["tree"][:-2]


def _longer(document):
    document["tree"] += "00"


def _foreign(document):
    document["tree"] = "09" + "0000"


def _undivided(document):
    document["tree"] = "00"


def _unpaired(document):
    document["pairs"] = []


def _turned(document):
    for row in document["pairs"]:
        row[4] = (-float.fromhex(row[4])).hex()


def _unknown(document):
    document["pairs"][0][0] = "candidate.nothing"


def _later(document):
    document["pairs"][0][2] = "candidate.act2"
    document["pairs"][0][0] = "candidate.act1"


def _outside(document):
    document["pairs"][0][3] = 600


def _twice(document):
    document["pairs"].append(document["pairs"][0])


def _words(document):
    document["pairs"][0][1] = "0"


def _larger(document):
    document["domain"]["hi"][0] = (1.5).hex()


def _tighter(document):
    document["tolerance"] = (float.fromhex(document["bound"]) * 0.99).hex()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_lower, "bound"),
        (_shorter, "tree"),
        (_longer, "tree"),
        (_foreign, "tree"),
        (_undivided, "bound"),
        (_unpaired, "bound"),
        (_turned, "bound"),
        (_unknown, "pairs"),
        (_later, "pairs"),
        (_outside, "pairs"),
        (_twice, "pairs"),
        (_words, "pairs"),
        (_larger, "bound"),
        (_tighter, "verdict"),
    ],
)
def test_forged_steps_are_rejected_though_signed_anew(verified, change, field):
    report = changed(verified[0], change.__name__, change)
    assert (report.status.value, report.field) == ("rejected", field), report.reason


def test_boxes_around_data_have_a_tree_each(tmp_path):
    first, second = pair(4, 1e-3)
    rc.save(first, tmp_path / "g.npz")
    rc.save(second, tmp_path / "f.npz")
    data = rc.Points([[0.5, 0.5], [-0.5, 0.25]], radius=0.4)
    found = rc.verify(
        tmp_path / "g.npz", tmp_path / "f.npz", domain=data, tolerance=0.011, output=tmp_path / "o"
    )
    assert found.certificate.method == "general" and found.certificate.tree.count(0) > 2
    assert rc.check(tmp_path / "o").accepted
    lost = changed(tmp_path / "o", "lost", lambda d: d.update(tree=d["tree"][:-2]))
    assert lost.field == "tree"


@pytest.mark.parametrize(
    "claim",
    [
        {"verdict": "refuted", "tolerance": (1e-9).hex()},
        {"rigor": "exact", "exact_identity": True, "exact_norms": {}},
    ],
    ids=["refuted", "identity"],
)
def test_a_bound_on_boxes_proves_nothing_else(verified, tmp_path, claim) -> None:
    document = json.loads((verified[0] / "certificate.json").read_text("utf-8"))
    document.update(claim)
    document["digest"] = digest(document)
    folder = tmp_path / "forged"
    shutil.copytree(verified[0], folder)
    (folder / "certificate.json").write_text(json.dumps(document), "utf-8")
    report = rc.check(folder)
    assert report.status.value == "rejected" and "neither identity nor refutation" in report.reason


def test_pairs_behind_a_norm_of_which_some_units_alone_are_open(tmp_path) -> None:
    """Coefficients of the open units go through the pairs of all units."""
    rng = np.random.default_rng(0)
    first, second, last = (rng.normal(size=size) for size in ((3, 3), (3, 3), (1, 3)))
    norm = Norm([1.0, 2, 0.5], [10.0, -0.3, -0.2], np.zeros(3), np.ones(3), 0.0)

    def network(weights: np.ndarray) -> Network:
        nodes = (
            Node("a", Affine(first, np.zeros(3)), ("x",)),
            Node("ra", Relu(), ("a",)),
            Node("norm", norm, ("ra",)),
            Node("rb", Relu(), ("norm",)),
            Node("c", Affine(weights, np.full(3, 20.0)), ("rb",)),
            Node("rc", Relu(), ("c",)),
            Node("o", Affine(last, np.zeros(1)), ("rc",)),
        )
        return Network(3, nodes, "o", "x")

    target = network(second)
    candidate = network(second * (1 + 1e-3 * rng.normal(size=second.shape)))
    box = rc.Box(-1.0, 1.0).of_size(3)
    outcome = bound_difference(target, candidate, box, tolerance=0.1, time_limit=20.0)
    points = box.sample(500, rng)
    assert 0 < np.abs(target(points) - candidate(points)).max() <= outcome.bound <= 0.1
    proof = asdict(outcome.proof)
    assert {pair[0] for pair in proof["pairs"]} >= {"candidate.ra", "candidate.rb"}
    files = {"target": tmp_path / "g.npz", "candidate": tmp_path / "f.npz"}
    rc.save(target, files["target"])
    rc.save(candidate, files["candidate"])
    made = rc.certify(target, candidate, domain=box, tolerance=0.1)
    bare = replace(made, segments=(), alignment=(), scales={}, tree=None, float64_bound=None)
    bare = replace(bare, float32_bound=None, verdict=Verdict.CERTIFIED, rigor=Rigor.RIGOROUS)
    claimed = replace(bare, bound=float(outcome.bound), method="general", **proof)
    write_certificate(tmp_path / "certificate.json", claimed, **files)
    report = rc.check(tmp_path / "certificate.json", **files)
    assert report.status.value == "accepted" and report.verified == ("bound",), report
