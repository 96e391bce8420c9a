"""Attacks on certificates: networks at the ends of the number line, and forged documents.

Every case here was, or might have been, a false claim; differences are exhibited in exact
rationals, and forged documents carry a fresh digest, because the digest is no signature.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import reconstruct as rc
from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.reading import digest
from reconstruct.certificates.certify import _blank
from reconstruct.certificates.document import write_certificate
from reconstruct.certificates.error_recursion import deviation
from reconstruct.certificates.verdicts import Rigor, Segment, Verdict
from reconstruct.equivalence.witness import enclose
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Clip,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
    Select,
    Selu,
)

from .building import random_target, wide


def chain(size: int, *ops) -> Network:
    names = ["input", *(f"n{i}" for i in range(len(ops)))]
    nodes = [Node(names[i + 1], op, (names[i],)) for i, op in enumerate(ops)]
    return Network(size, tuple(nodes), names[-1])


def sound(target: Network, candidate: Network, box: Box, points) -> rc.Certificate:
    """Certify, and compare every figure with what exact rationals show at the points."""
    with np.errstate(all="ignore"):
        found = rc.certify(target, candidate, domain=box, time_limit=2, bound_anyway=True)
    for point in np.asarray(points, dtype=float):
        left, right = enclose(target, point), enclose(candidate, point)
        pairs = list(zip(left, right, strict=True))
        gap = max(max(a - d, c - b) for (a, b), (c, d) in pairs)
        assert found.bound is None or gap <= Fraction(found.bound)
        for kind in (np.float64, np.float32):
            figure = getattr(found, f"{np.dtype(kind).name}_bound")
            with np.errstate(over="ignore"):
                near = point.astype(kind)
            if figure is None or not np.array_equal(near.astype(float), point):
                continue
            with np.errstate(all="ignore"):
                values = candidate(near, dtype=kind).tolist()
            assert np.isfinite(values).all()
            gaps = [
                max(a - Fraction(v), Fraction(v) - b)
                for (a, b), v in zip(left, values, strict=True)
            ]
            assert max(gaps) <= Fraction(figure), kind
    return found


# --- bounds that are not numbers ------------------------------------------------------------------


def overflowing() -> tuple[Network, Network, Box]:
    """An inner ReLU whose input overflows float64 on a box where half of it is cut off."""
    candidate = chain(1, Affine([[1e200]]), Relu(), Affine([[1e-300]]))
    return chain(1, Affine([[1e-100]])), candidate, Box([-1e150], [1e150])


def test_an_unbounded_inner_unit_is_not_taken_for_a_line() -> None:
    target, candidate, box = overflowing()
    assert sound(target, candidate, box, [[-1e149]]).verdict is not Verdict.CERTIFIED


@pytest.mark.parametrize("op", [Relu(), Clip(-np.inf, 1.0), Clip(-np.inf, np.inf), Selu()])
def test_a_range_that_is_not_a_number_leaves_every_line(op) -> None:
    lo, hi = np.array([np.nan, -np.inf, np.nan]), np.array([1.0, np.inf, np.nan])
    doubt, _ = deviation(op, lo, hi)
    straight = op == Clip(-np.inf, np.inf)
    expected = [np.inf, 0.0 if straight else np.inf, np.inf]
    assert doubt.tolist() == expected


@pytest.mark.parametrize("var", [1e-320, 1e-310, 5e-324, 1e-300])
def test_no_radius_is_negative(var) -> None:
    with np.errstate(all="ignore"):  # as where it is called
        parts = Norm([1.0], [0.5], [1.0], [var], 0.0).enclosed()
    assert not any((part.radius < 0).any() for part in parts)


def test_entries_that_a_sparse_matrix_holds_twice_are_one_number() -> None:
    data = np.array([1.0] + [2.0**-25] * 2000, dtype=np.float32)
    weight = sparse.csr_array((data, np.zeros(2001, int), np.array([0, 2001])), shape=(1, 1))
    sound(chain(1, Affine([[1.0]])), chain(1, Affine(weight)), Box([-1.0], [1.0]), [[1.0]])


# --- ends of the formats --------------------------------------------------------------------------

SMALL = 2.0**-140 * (1 + 2.0**-10)


@pytest.mark.parametrize(
    ("target", "candidate", "reach"),
    [
        (Affine([[1e-20]]), Norm([1.0], [0.0], [0.0], [1e40], 0.0), 2.0**66),
        (Affine([[1e39]]), Norm([1e39], [0.0], [0.0], [1.0], 0.0), 2.0**-100),
        (Affine([[SMALL * 2.0**52]]), Norm([SMALL], [0.0], [0.0], [2.0**-104], 0.0), 2.0**70),
        (Selu(1.0, SMALL), Selu(1.0, SMALL), 2.0**120),
        (Elu(1e39), Elu(1e39), 2.0**-30),
        (LeakyRelu(1e10), LeakyRelu(1e10), 1.0),
        (Affine([[1e300]]), Affine([[1e300]]), 2.0**-990),
        (Affine([[1e-310]]), Affine([[1e-310]]), 2.0**1000),
    ],
)
def test_parameters_at_the_ends_of_a_format(target, candidate, reach) -> None:
    points = [[reach], [-reach], [-0.75 * reach]]
    sound(chain(1, target), chain(1, candidate), Box([-reach], [reach]), points)


ACTS = [
    *(LeakyRelu(slope) for slope in (5.0, -3.0, 0.0, 1.0)),
    *(Clip(*ends) for ends in ((1, 1), (-np.inf, 0.0), (0.0, np.inf), (2, 5))),
    *(Elu(-2.0), Elu(1e-310), Selu(-1.0, 2.0), Selu(2.0, -1.0), Selu(1.0, 0.0), Selu(0.0, 0.1)),
]


@pytest.mark.parametrize("op", ACTS, ids=str)
def test_odd_activations_at_cuts_and_inside(op) -> None:
    start, last = Affine([[1.0], [2.0]], [0.3, -0.7]), Affine([[1.0, -1.0]])
    moved = Affine([[1.0], [2.0]], [0.3, -0.7 * (1 + 1e-7)])
    back = (Affine([[1.0], [1.0]], [3.0, 1.0]), op, Affine([[1.0, 0.0]], [-3.0]))
    target, points = chain(1, start, op, last), [[0.5], [-1.0], [0.375], [0.25]]
    for candidate in (chain(1, moved, op, last), chain(1, start, op, last, *back)):
        sound(target, candidate, Box([-1.0], [1.0]), points)


def test_a_valley_is_enclosed_from_below() -> None:
    root = Norm([1.0], [0.0], [0.0], [2.0], 0.0)  # 1/√2 is known as an interval only
    spread = chain(1, root, Affine([[0.0]], [-1e-100]), LeakyRelu(-2.0))
    ((low, high),) = enclose(spread, [1.0])
    assert low <= 2 * Fraction(1e-100) <= high


def test_an_end_at_infinity_clips_nothing() -> None:
    for op, value in (
        (Clip(0.0, np.inf), 1),
        (Clip(-np.inf, np.inf), 1),
        (Clip(-np.inf, 0.5), 0.5),
    ):
        assert enclose(chain(1, op), [1.0]) == ((Fraction(value), Fraction(value)),)


# --- graphs ---------------------------------------------------------------------------------------


def test_sums_of_one_node_selections_dead_branches_and_the_bare_input() -> None:
    box, points = Box([-1.0, -1.0], [1.0, 1.0]), [[0.5, 0.25], [-1.0, 1.0]]
    nodes = (
        Node("twice", Add(), ("input", "input")),
        Node("dead", Affine([[1e308, 1e308]]), ("twice",)),
        Node("bent", Relu(), ("dead",)),
        Node("first", Select(0, 1), ("twice",)),
    )
    found = sound(chain(2, Affine([[2.0, 0.0]])), Network(2, nodes, "first"), box, points)
    assert found.verdict is Verdict.CERTIFIED
    same = sound(chain(2, Affine(np.eye(2))), Network(2, (), "input"), box, points)
    assert same.verdict is Verdict.CERTIFIED


@pytest.mark.parametrize("depth", [1e-3, 1e-9, 1e-14])
def test_a_unit_that_sleeps_in_a_tiny_corner(depth) -> None:
    ones = np.ones((1, 6))
    bent = (Affine(ones, [6 - depth]), Relu(), Affine([[1.0]], [depth - 6]))
    box = Box(-np.ones(6), np.ones(6))
    sound(chain(6, Affine(ones)), chain(6, *bent), box, [-np.ones(6)])


def test_mixed_magnitudes_and_widths_above_a_chunk() -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((9000, 1))
    second = rng.standard_normal((1, 9000)) * 10.0 ** rng.integers(-30, 30, (1, 9000))
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(first[:, 0], second[0], strict=True))
    target = chain(1, Affine([[float(exact)]]))
    found = sound(target, chain(1, Affine(first), Affine(second)), Box([-1.0], [1.0]), [[1.0]])
    assert found.bound is not None and found.bound <= 2.0**-40 * float(abs(exact))


# --- forged documents -----------------------------------------------------------------------------


def forge(folder, target, candidate, box, bound, pairs=()) -> None:
    """A document that claims `bound` outright, every segment as large as can be."""
    rc.save(target, folder / "t.onnx")
    rc.save(candidate, folder / "c.onnx")
    names = (*pairs, ("output", "output"))
    figures = ("residual_bound", "constant_bound", "error_in", "error_out")
    huge = dict.fromkeys(figures, 1e300)
    rows = [Segment(*n, rows=1, columns=1, inner=(), margin=None, maps=(), **huge) for n in names]
    claim = replace(
        _blank(box, bound, 1.0),
        verdict=Verdict.CERTIFIED,
        rigor=Rigor.RIGOROUS,
        method="layered",
        bound=bound,
        alignment=tuple(pairs),
        segments=tuple(rows),
    )
    files = {"target": folder / "t.onnx", "candidate": folder / "c.onnx"}
    write_certificate(folder / "certificate.json", claim, **files)


def test_the_checker_takes_no_bound_from_what_is_not_a_number(tmp_path) -> None:
    target, candidate, box = overflowing()
    forge(tmp_path, target, candidate, box, 1e40)
    with np.errstate(all="ignore"):
        assert not check(tmp_path).accepted


def test_the_checker_knows_that_a_negative_gain_falls(tmp_path) -> None:
    fall = (Affine([[1.0]]), Selu(1.0, -1.0))
    bent = (Affine([[1.0]], [0.2]), Relu(), Affine([[1.0]], [-0.2]))
    target, candidate = chain(1, *fall, Affine([[1.0]])), chain(1, *fall, *bent)
    forge(tmp_path, target, candidate, Box([-1.0], [1.0]), 1e-6, (("n1", "n1"),))
    assert not check(tmp_path).accepted


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genuine")
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (2, 3, 2)), Box([-1.0, -1.0], [1.0, 1.0])
    rc.save(target, folder / "t.onnx")
    rc.save(wide(target, box, rng), folder / "c.onnx")
    files = {"target": folder / "t.onnx", "candidate": folder / "c.onnx"}
    found = rc.certify(*(rc.load(file) for file in files.values()), domain=box)
    write_certificate(folder / "certificate.json", found, **files)
    assert check(folder).accepted
    return folder


def forged(genuine, **changes) -> CheckStatus:
    """The status of the genuine document with some fields changed and a fresh digest."""
    document = json.loads((genuine / "certificate.json").read_text()) | changes
    document["digest"] = digest(document)
    (genuine / "forged.json").write_text(json.dumps(document))
    return check(genuine / "forged.json").status


HALF, HUGE = (0.5).hex(), "0x1p99999"
WITNESS = {"difference": "0x1/0x1"}


@pytest.mark.parametrize(
    "changes",
    [
        *({"bound": b} for b in ("0x0p+0", "0x1p-60", "nan", "inf", "-0x1p-5", HUGE, "a", 5, [])),
        *({"verdict": v} for v in ("CERTIFIED", "proved", "certified ", None, "refuted")),
        *({"rigor": r} for r in ("exact", "numerical", "sure", None)),
        *({"method": m} for m in ("exact", "sampling", None)),
        *({"tolerance": t} for t in (None, "0x0p+0", "nan", HUGE, 3)),
        *({"float64_bound": f} for f in ("0x0p+0", "zzz", "nan")),
        {"float32_bound": "0x1p-80"},
        {"bound": None},
        *(
            {"domain": {"lo": ["-0x1p0"] * 2, "hi": h}}
            for h in ([HUGE] * 2, ["nan"] * 2, "00", [1])
        ),
        {"domain": {"lo": ["-0x1p0"] * 2, "hi": ["0x1p1"] * 2}},
        *({"alignment": a} for a in ([], [1], [["act1"]], None, [["input", "input"]], "ab")),
        *({"segments": s} for s in ([], None, [{}], [1, 2], {})),
        *({"scales": scales} for scales in ([], "x")),
        *({"exact_identity": e} for e in ("yes", 1, True)),
        {"exact_identity": True, "rigor": "exact", "exact_norms": {}},
        {"exact_identity": True, "rigor": "exact", "exact_norms": {"layer1.N1": 5}},
        *(
            {"verdict": "refuted", "witness": WITNESS | {"point": p}}
            for p in ([], [HALF], [HALF] * 2, [HALF] * 3, [HUGE] * 2, ["nan"] * 2, ["0x1p3"] * 2)
        ),
        {"verdict": "refuted", "witness": {"point": [HALF] * 2, "difference": "-0x1/0x1"}},
        *({"target": t} for t in (None, {}, {"file": 5}, {"file": "."}, {"file": "x" * 5000})),
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_forged_field_is_rejected(genuine, changes) -> None:
    assert forged(genuine, **changes) is CheckStatus.REJECTED


def test_segments_that_nobody_derived_are_rejected(genuine) -> None:
    rows = json.loads((genuine / "certificate.json").read_text())["segments"]
    assert forged(genuine, segments=rows * 2) is CheckStatus.REJECTED


def test_another_network_under_its_own_hash_is_rejected(genuine) -> None:
    rc.save(random_target(np.random.default_rng(5), (2, 3, 2)), genuine / "u.onnx")
    (genuine / "junk.onnx").write_bytes(b"junk\x00" * 50)
    for name in ("u.onnx", "junk.onnx"):
        code = hashlib.sha256((genuine / name).read_bytes()).hexdigest()
        part = {"file": name, "sha256": code}
        assert forged(genuine, target=part) is CheckStatus.REJECTED


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "\ufffd", '{"schema": 5}'])
def test_what_is_no_document_is_unreadable(tmp_path, text) -> None:
    (tmp_path / "certificate.json").write_text(text)
    assert check(tmp_path).status is CheckStatus.UNREADABLE


def test_a_name_that_occurs_twice_is_rejected(genuine) -> None:
    text = (genuine / "certificate.json").read_text()
    (genuine / "forged.json").write_text('{"bound": "0x0p+0",' + text.lstrip()[1:])
    report = check(genuine / "forged.json")
    assert report.status is CheckStatus.UNREADABLE and "bound" in report.reason
