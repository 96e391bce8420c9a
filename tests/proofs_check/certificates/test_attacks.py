"""Forged certificates that were accepted once, and honest ones that were rejected.

Each case comes with the difference that the networks have in exact rationals: a claim below it
must not pass, whatever the numbers of the files.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.activations import Bend
from proofs_check.certificates.points import evaluate
from proofs_check.certificates.report import NotCheckable
from proofs_check.cli import main
from reconstruct.certificates import Verdict, certify
from reconstruct.networks import Affine, Box, Elu, LeakyRelu, Network, Node, Norm, Relu
from reconstruct.networks.activations import Exponential, Line
from tests.proofs_check.certificates.making import (
    certified,
    document_of,
    edit,
    forged,
    simple,
    write,
)


def chain(*ops, source: str = "input") -> Network:
    names = [source, *"abcdefgh"]
    nodes = tuple(Node(names[i + 1], op, (names[i],)) for i, op in enumerate(ops))
    return Network(1, nodes, names[len(ops)], source=source)


def apart(first: Network, second: Network, x: float) -> Fraction:
    ((low, high),), ((least, most),) = (evaluate(n, np.array([x])) for n in (first, second))
    return max(low - most, least - high)


# --- underflow ------------------------------------------------------------------------------------


def test_a_slope_that_underflows_on_its_way_back_is_not_lost(tmp_path) -> None:
    """What an error is behind a flat activation says nothing of what it is in front of it."""
    maps = Affine([[2.0**1022]]), LeakyRelu(2.0**-54), Affine([[2.0**-1022]]), Affine([[2.0**56]])
    g, f = (chain(Affine([[1.0]], [shift]), *maps) for shift in (0.0, -0.25))
    assert apart(g, f, -1.25) == 1
    forged(tmp_path, g, f, ([-1.5], [-1.25]), 1e-14, ("a", "c", "d"), figure=2.0**1023)
    assert check(tmp_path).field == "bound"
    box = Box(-1.5, -1.25).of_size(1)
    assert certify(g, f, domain=box).verdict is not Verdict.CERTIFIED


@pytest.mark.parametrize("slope", [2.0**-1074, 5 * 2.0**-1074])
def test_a_slope_of_which_half_is_no_float_is_taken_as_it_is(slope, tmp_path) -> None:
    maps = Affine([[2.0**60]]), LeakyRelu(slope), Affine([[2.0**1014]])
    g, f = (chain(Affine([[1.0]], [shift]), *maps) for shift in (0.0, -0.25))
    true = float(apart(g, f, -1.25))
    assert true == np.ldexp(slope, 1072)
    for claim in (1e-14, 0.9 * true):
        forged(tmp_path, g, f, ([-1.5], [-1.25]), claim, ("c",), figure=2.0**1000)
        edit(tmp_path, "tolerance", value=(2.0).hex())
        assert check(tmp_path).field == "bound"


def test_a_residual_below_the_smallest_float_is_not_lost(tmp_path) -> None:
    """2^-1080 is no float, but times 2^1023 and 2^65 it is 256."""
    small, large, end = 2.0**-540, 2.0**65, 2.0**1023
    g = chain(Affine([[small]]), Affine([[small]]), Relu(), Affine([[large]]))
    f = chain(Affine([[small]]), Affine([[0.0]]), Relu(), Affine([[large]]))
    assert apart(g, f, end) == 2**8
    forged(tmp_path, g, f, ([0.0], [end]), 2.0**-900, ("c",))
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "segments[0].error_out")
    forged(tmp_path, g, f, ([0.0], [end]), 1e-7, ("c",), figure=1e300)
    assert check(tmp_path).field == "bound"


def test_a_coefficient_that_underflows_on_its_way_back_is_not_lost(tmp_path) -> None:
    def net(last: float) -> Network:
        scales = (2.0**1023, 2.0**-160, 2.0**-960)
        steps = [op for scale in scales for op in (Affine([[scale]]), Relu())]
        return chain(*steps, Affine([[last]]))

    g, f = net(0.0), net(2.0**97)
    assert apart(g, f, 1.0) == 1
    box = ([2.0**-45], [1.0])
    forged(tmp_path, g, f, box, 1e-11, ("b", "d", "f"), figure=1.7e308)
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "bound")


@pytest.mark.parametrize("exponent", [-1070, -1060, -900, -540, -200])
def test_no_scale_hides_a_difference(tmp_path, exponent) -> None:
    """A tiny weight and the large one that undoes it: only the product matters."""
    down, up = 2.0**exponent, 2.0 ** min(1000, -exponent)
    g = chain(Affine([[down]]), Relu(), Affine([[up]]))
    f = chain(Affine([[down * 0.5]]), Relu(), Affine([[up]]))
    difference = apart(g, f, 1.0)
    assert difference > 0
    for claim in (float(difference) * 0.999, float(difference) * (1.01 if down > 1e-300 else 8)):
        forged(tmp_path, g, f, ([-1.0], [1.0]), claim, ("b",), figure=1e300)
        edit(tmp_path, "tolerance", value=(1e300).hex())
        assert check(tmp_path).accepted == (Fraction(claim) >= difference)


def test_ends_of_one_enclosure_are_not_moved_by_the_errors_of_another(tmp_path) -> None:
    """The first activation is off its line with the error alone, the form behind it forgets the
    error: node by node the second is on its line at h, and the form says that nothing moves it."""
    error, room = 2.0**-22, 2.0**-30
    pair = Affine([[1.0], [1.0]], [0.0, 1.0])
    last = Affine([[-1.0, 1.0]], [room - 1.0]), LeakyRelu(2.0**20), Affine([[1.0]])
    f = chain(Affine([[1.0]], [-error]), pair, Relu(), *last)
    g = chain(Affine([[1.0]]), Affine([[0.0]], [room]))
    assert apart(g, f, 0.0) > 0.249
    forged(tmp_path, g, f, ([0.0], [2.0**-40]), 2.5e-7, ("a",), figure=1.0)
    assert check(tmp_path).field == "bound"


def test_a_hidden_unit_that_errors_push_off_its_line_is_not_on_it(tmp_path) -> None:
    """At the target's values it stays active; the candidate's are less by 2^-6, and cost 99 times
    as much as the composed map says."""
    off = 2.0**-6
    g = chain(Affine([[1.0]], [1.0]), Relu(), Affine([[1.0]], [-1.0]))
    hidden = Affine([[100.0], [99.0]], [-100.0, 101.0]), Relu(), Affine([[1.0, -1.0]], [200.0])
    f = chain(Affine([[1.0]], [1.0 - off]), Relu(), *hidden)
    difference = apart(g, f, 0.0)
    assert difference == 99 * Fraction(off)
    for claim, status in ((3 * off, CheckStatus.REJECTED), (400 * off, CheckStatus.ACCEPTED)):
        forged(tmp_path, g, f, ([0.0], [1.0]), claim, ("b",), figure=1e300)
        edit(tmp_path, "tolerance", value=(1e300).hex())
        assert check(tmp_path).status is status


@pytest.mark.parametrize("exact", [False, True])
def test_an_activation_of_the_target_alone_is_no_line_where_it_bends(tmp_path, exact) -> None:
    g = chain(Affine([[1.0]], [-0.5]), Relu(), Affine([[1.0]]))
    f = chain(Affine([[1.0]], [-0.5]), Affine([[1.0]]))
    forged(tmp_path, g, f, ([0.0], [1.0]), 1e-9)
    changes = {"exact_identity": True, "rigor": "exact", "exact_norms": {}} if exact else {}
    write(tmp_path, document_of(tmp_path) | changes)
    assert check(tmp_path).status is CheckStatus.REJECTED
    forged(tmp_path, g, f, ([0.5], [1.0]), 1e-9)
    write(tmp_path, document_of(tmp_path) | changes)
    assert check(tmp_path).accepted


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["", "output", "input", "\ud800"])
def test_an_input_of_any_name_is_not_the_constant(tmp_path, source) -> None:
    g = chain(Affine([[6.0]], [0.0]), Relu(), Affine([[1.0]]), source="x")
    f = chain(Affine([[1.0]]), Affine([[1.0]], [5.0]), Relu(), Affine([[1.0]]), source="x")
    assert apart(g, f, 0.0) == 5
    forged(tmp_path, g, f, ([0.0], [1.0]), 1e-9)
    document = document_of(tmp_path)
    for exact in (False, True):
        changes = {"exact_identity": exact, "rigor": "exact" if exact else "rigorous"}
        norms = {"exact_norms": {} if exact else None}
        write(tmp_path, document | changes | norms | {"alignment": [["b", "c"]]})
        assert not check(tmp_path).accepted


def test_a_cut_that_no_output_depends_on_is_rejected_by_name(tmp_path) -> None:
    net = chain(Affine([[1.0]]), Relu(), Affine([[1.0]]))
    idle = Node("idle", Relu(), (net.nodes[0].name,))
    with_idle = Network(net.size_in, (*net.nodes, idle), net.output, net.source)
    forged(tmp_path, with_idle, with_idle, ([0.0], [1.0]), 1e-9, ("b", "idle"))
    assert check(tmp_path).field == "alignment"


def test_forms_over_a_source_without_a_name_keep_their_constant() -> None:
    from proofs_check.certificates.affine import Form

    named = Form.over_source("", np.array([[0], [1]]), np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 7.0]]))
    other = Form.over_source("x", np.array([[0]]), np.zeros((2, 2)))
    moved = other.plus(named)
    assert moved.whole.integers() == [0, 1, 0, 5, 0, 0, 1, 7]


# --- honest certificates --------------------------------------------------------------------------


def normed(last: float) -> Network:
    norm = Norm([1.0, 3.0], [0.0, 1.0], [0.0, 0.5], [4.0, 4.0], 0.0)
    return two(norm, Relu(), last)


def two(norm: Norm | None, act, last: float) -> Network:
    nodes = [Node("a", Affine([[1.0, 2.0], [3.0, -1.0]]), ("input",))]
    if norm is not None:
        nodes.append(Node("n", norm, ("a",)))
    nodes.append(Node("r", act, (nodes[-1].name,)))
    nodes.append(Node("o", Affine([[1.0, last]]), ("r",)))
    return Network(2, tuple(nodes), "o")


SPREAD = Norm([1.0, 3.0], [0.0, 1.0], [0.0, 0.5], [2.0, 0.7], 1e-5)
THIRD = Norm([1.0, 3.0], [0.0, 1.0], [0.0, 0.5], [9.0, 9.0], 0.0)


@pytest.mark.parametrize("norm", [normed(1.0).nodes[1].op, SPREAD, THIRD], ids=["2", "irr", "3"])
def test_equal_networks_with_any_variance_are_accepted(tmp_path, norm) -> None:
    network, box = two(norm, Relu(), 1.0), Box(-1.0, 1.0).of_size(2)
    assert certified(tmp_path, network, network, box).verdict is Verdict.CERTIFIED
    assert check(tmp_path).accepted, check(tmp_path)


@pytest.mark.parametrize(
    ("norm", "act"), [(SPREAD, Relu()), (None, Elu()), (None, Relu()), (THIRD, Elu(0.7))]
)
def test_true_witnesses_are_accepted(tmp_path, norm, act) -> None:
    pair = two(norm, act, 1.0), two(norm, act, 1.1)
    certificate = certified(tmp_path, *pair, Box(-1.0, 1.0).of_size(2))
    assert certificate.verdict is Verdict.REFUTED
    report = check(tmp_path)
    assert report.accepted and "witness" in report.verified, report


# --- numbers that are none ------------------------------------------------------------------------


class Declared:
    """An activation by its pieces alone."""

    def __init__(self, *pieces) -> None:
        self.pieces = pieces


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (Line(-inf, inf, nan, 0.0),),
        (Line(-inf, inf, 1.0, inf),),
        (Line(-inf, inf, 0.0, inf),),
        (Line(-inf, 0.0, 0.0, 0.0),),
        (Line(-inf, 0.0, 0.0, 0.0), Line(1.0, inf, 1.0, 0.0)),
        (Line(-inf, 0.0, 0.0, 1.0), Line(0.0, inf, 1.0, 0.0)),
        (Exponential(-inf, 0.0, nan, 1.0), Line(0.0, inf, 1.0, 0.0)),
        (Exponential(-inf, 1.0, 1.0, 1.0), Line(1.0, inf, 1.0, 0.0)),
        (Exponential(-inf, -1.0, 1.0, 1.0), Line(-1.0, inf, 1.0, 0.0)),
        ("a line",),
    ],
    ids=str,
)
def test_pieces_that_are_no_function_are_not_checkable(pieces) -> None:
    with pytest.raises(NotCheckable):
        Bend(Declared(*pieces))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("bound",), 10**400, "bound"),
        (("seconds",), 10**400, None),
        (("segments", 0, "target_node"), "\ud800", "segments[0].target_node"),
        (("alignment", 0, 0), "\ud800", "alignment"),
        (("target", "file"), "\ud800.npz", "target.file"),
        (("target", "file"), "a\x00b", "target.file"),
        (("target", "file"), "x" * 5000, "target.file"),
        (("domain", "lo", 0), "-0x1.0000000000000000000000001p-1", "domain.lo"),
        (("domain", "hi", 0), "0x1p99999", "domain.hi"),
        (("domain", "hi", 0), "-0x1p3", "domain.hi"),
        (("domain", "lo", 0), (0.75).hex(), "domain"),
        (("tolerance",), "0x1.00000000000000000p-3", "tolerance"),
    ],
)
def test_odd_values_are_answered_by_name(tmp_path, capsys, path, value, field) -> None:
    simple(tmp_path)
    edit(tmp_path, *path, value=value)
    report = check(tmp_path)
    assert report.field == field and report.accepted == (field is None), report
    code = 0 if field is None else 2 if field == "target.file" else 1
    assert main(["certificate", str(tmp_path)]) == code
    capsys.readouterr().out.encode("utf-8")
    assert main(["certificate", "--json", str(tmp_path)]) == code
    assert json.loads(capsys.readouterr().out)["field"] == field


def test_an_integer_longer_than_python_reads_is_rejected(tmp_path) -> None:
    simple(tmp_path)
    place = tmp_path / "certificate.json"
    place.write_text('{"seconds": ' + "9" * 5000 + ", " + place.read_text().lstrip()[1:])
    assert check(tmp_path).field == "certificate"


# --- witnesses ------------------------------------------------------------------------------------


def doubled(pair: list[str]) -> list[str]:
    return [f"{int(text.split('/')[0], 16) * 2:#x}/{text.split('/')[1]}" for text in pair]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("target", 0), doubled, "witness.target"),
        (("target", 0, 1), "0x1/0x1", "witness.target"),
        (("candidate", 0), ["-0x1/0x1000", "0x1/0x1000"], "witness.candidate"),
        (("candidate",), [], "witness.candidate"),
        (("candidate", 0), ["0x1/0x1", "-0x1/0x1"], "witness.candidate"),
        (("strictly_inside",), False, "witness.strictly_inside"),
        (("strictly_inside",), 1, "witness.strictly_inside"),
        (("difference",), "0x1/0x0", "witness.difference"),
        (("difference",), "-0x1/0x1", "witness.difference"),
        (("point",), [], "witness.point"),
        (("point", 0), (0.5).hex(), "witness.target"),
        (("point", 0), "0x1.8000000000000000001p-1", "witness.point"),
    ],
)
def test_what_a_witness_says_is_checked(tmp_path, path, value, field) -> None:
    pair = two(None, Relu(), 1.0), two(None, Relu(), 1.1)
    certified(tmp_path, *pair, Box(-1.0, 1.0).of_size(2))
    assert check(tmp_path).accepted
    edit(tmp_path, "witness", *path, value=value)
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, field), report


def test_values_that_are_enclosed_are_not_called_exact(tmp_path) -> None:
    pair = two(None, Elu(), 1.0), two(None, Elu(), 1.1)
    certified(tmp_path, *pair, Box(-1.0, -0.5).of_size(2))
    assert check(tmp_path).accepted and document_of(tmp_path)["rigor"] == "rigorous"
    edit(tmp_path, "rigor", value="exact")
    report = check(tmp_path)
    assert (report.status, report.field) == (CheckStatus.REJECTED, "rigor"), report


def test_a_witness_on_the_border_has_to_say_so(tmp_path) -> None:
    pair = two(None, Relu(), 1.0), two(None, Relu(), 1.1)
    certified(tmp_path, *pair, Box(-1.0, 1.0).of_size(2))
    corner = np.array([1.0, -1.0])
    values = [evaluate(network, corner) for network in pair]
    texts = [[[f"{x.numerator:#x}/{x.denominator:#x}" for x in v] for v in side] for side in values]
    ((a, _),), ((b, _),) = values
    edit(
        tmp_path,
        "witness",
        value={
            "point": [x.hex() for x in corner.tolist()],
            "target": texts[0],
            "candidate": texts[1],
            "difference": f"{abs(a - b).numerator:#x}/{abs(a - b).denominator:#x}",
            "strictly_inside": False,
        },
    )
    assert check(tmp_path).accepted
    edit(tmp_path, "witness", "strictly_inside", value=True)
    assert check(tmp_path).field == "witness.strictly_inside"


def test_rows_of_which_some_are_known_exactly_are_looked_at_together(tmp_path) -> None:
    """Two blocks of rows, of which the second looks at nothing and has no radius."""
    size = 2**11 + 4
    weight, gamma = np.zeros((size, 1)), np.zeros(size)
    weight[:10], gamma[:10] = 1.0, 1.0
    norm = Norm(gamma, np.zeros(size), np.zeros(size), np.full(size, 2.0), 0.0)
    first, last = Affine([[1.0]]), np.zeros((1, size))
    last[0, 0] = np.sqrt(2.0)
    f = chain(first, Affine(weight), norm, Relu(), Affine(last))
    forged(tmp_path, chain(first, first), f, ([-(2.0**-30)], [1.0]), 1e-6, ("a",), figure=1.0)
    for field in ("float64_bound", "float32_bound"):
        edit(tmp_path, field, value=(1.0).hex())
    assert check(tmp_path).accepted
