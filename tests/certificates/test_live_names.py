"""Names of live norms: one that means two values proves nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import reconstruct as rc
from reconstruct.certificates.document import write_certificate
from reconstruct.certificates.verdicts import Rigor
from reconstruct.networks import Affine, LayerNorm, Network, Node
from reconstruct.networks.operation import Add


def test_an_inner_norm_with_the_name_of_the_input_is_no_identity(tmp_path) -> None:
    """Read as the input, the candidate's first norm would make two networks equal that are not."""
    n, scale = 4, np.array([1.0, 2, 3, 8])
    one, zero, centre = np.ones(n), np.zeros(n), np.eye(n) - np.ones((n, n)) / n
    a = np.array([[1.0, 0, 0, 2], [0, 1, 0, 0], [0, 1, 1, 0], [3, 0, 0, 1]])
    b = np.array([[1.0, 2, 0, 0], [0, 1, 0, 5], [1, 0, 1, 0], [0, 0, 0, 1]])
    ends = (Node("n2", LayerNorm(one, zero, 0.0), ("l2",)),)
    tail = (Node("n1", LayerNorm(one, zero, 0.0), ("l1",)), Node("sum", Add(), ("n1", "n2")))
    second = Node("l2", Affine(a @ np.diag(scale) @ centre, zero), ("x",))
    first = Node("l1", Affine(b @ np.diag(scale) @ centre, zero), ("x",))
    target = Network(n, (second, *ends, first, *tail), "sum", "x")
    inner = (
        Node("l0", Affine(np.eye(n), zero), ("in",)),
        Node("x", LayerNorm(scale, zero, 0.0), ("l0",)),
        Node("l2", Affine(a, zero), ("x",)),
    )
    last = (Node("l1", Affine(b, zero), ("in",)), *tail)
    candidate = Network(n, (*inner, *ends, *last), "sum", "in")
    files = {"target": tmp_path / "g.npz", "candidate": tmp_path / "f.npz"}
    rc.save(target, files["target"])
    rc.save(candidate, files["candidate"])
    points = np.random.default_rng(0).normal(size=(3, n))
    assert np.abs(target(points) - candidate(points)).max() > 1
    pair = rc.load(files["target"]), rc.load(files["candidate"])
    made = rc.certify(*pair, domain=rc.Points(points), tolerance=100.0, exact_norms={})
    assert not made.exact_identity
    cuts = (("n2", "n2"), ("n1", "n1"))
    forged = replace(made, exact_identity=True, rigor=Rigor.EXACT, alignment=cuts)
    write_certificate(tmp_path / "certificate.json", forged, **files, exact_norms={})
    report = rc.check(tmp_path / "certificate.json", **files)
    assert report.status.value == "rejected" and report.field == "exact_norms"


def test_a_layer_norm_that_stands_in_both_networks_is_checked_at_inputs(tmp_path) -> None:
    rng = np.random.default_rng(1)
    nodes = (
        Node("a", Affine(rng.normal(size=(5, 3)), rng.normal(size=5)), ("x",)),
        Node("n", LayerNorm(np.ones(5), np.zeros(5), 1e-5), ("a",)),
        Node("b", Affine(rng.normal(size=(2, 5)), np.zeros(2)), ("n",)),
    )
    target, points = Network(3, nodes, "b", "x"), rc.Points(rng.uniform(-1, 1, (4, 3)))
    made = rc.run(target, tmp_path / "out", domain=points, construction=rc.Wide(norm="batch"))
    assert made.report["verdict"] == "certified"
    assert rc.check(tmp_path / "out").status.value == "accepted"


def test_a_norm_in_two_pairs_stands_for_the_last_one_alone(tmp_path) -> None:
    """The first pair names a norm of the target that then has no partner, and no scale either."""
    rng, nodes, last = np.random.default_rng(0), list[Node](), "x"
    for i in range(3):
        nodes.append(Node(f"l{i}", Affine(rng.integers(-4, 5, size=(3, 3))), (last,)))
        nodes.append(Node(f"n{i}", LayerNorm(np.ones(3), np.zeros(3), 0.0), (f"l{i}",)))
        last = f"n{i}"
    network, point = Network(3, tuple(nodes), last, "x"), rc.Points(rng.normal(size=(1, 3)))
    files = {"target": tmp_path / "g.npz", "candidate": tmp_path / "f.npz"}
    for place in files.values():
        rc.save(network, place)
    pair = rc.load(files["target"]), rc.load(files["candidate"])
    made = rc.certify(*pair, domain=point, exact_norms={})
    same = tuple((f"n{i}", f"n{i}") for i in range(3))
    for cuts, status in ((same, "accepted"), ((("n0", "n0"), *same[1:], ("n1", "n0")), "rejected")):
        forged = replace(made, exact_identity=True, rigor=Rigor.EXACT, alignment=cuts)
        write_certificate(tmp_path / "certificate.json", forged, **files, exact_norms={})
        assert rc.check(tmp_path / "certificate.json", **files).status.value == status
