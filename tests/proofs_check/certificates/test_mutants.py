"""Each step of the figures, weakened, confirms a forged certificate that the checker does not.

What is forged lies below what an evaluation does that the model allows, or below what follows in
real arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs_check.certificates import CheckReport, between, check, points, recursion
from proofs_check.certificates import checker as checking
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Cast,
    Network,
    Node,
    Points,
    Relu,
    Scaling,
    Select,
)
from tests.certificates.test_carrying import tree_pair
from tests.certificates.test_roundoff import DROP, SHIFTS, behind_a_long_sum, exact, folded, spelled
from tests.proofs_check.certificates.making import certified, document_of, edit, write
from tests.proofs_check.certificates.test_roundoff import rounding, scaled


def weakened(module: Any, step: str, weaker: str) -> dict[str, Any]:
    """The names of a module whose source has one step changed."""
    source = Path(module.__file__).read_text("utf-8")
    assert source.count(step) == 1, (step, source.count(step))
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(step, weaker), module.__file__, "exec"), names)
    return names


# --- what evaluations in float32 do: a pair of networks, a box, and an error that is met ----------


def long_sum() -> tuple[Network, Network, Box, float]:
    op = SHIFTS["a scaling"]
    network, box = behind_a_long_sum(op)
    error = abs(Fraction(folded(op, box.hi)) - exact(op, box.hi))
    return network, network, box, float(error)


def plain_sum() -> tuple[Network, Network, Box, float]:
    """What is added to 1 in turn does not move it."""
    x = np.array([1.0] + [float(DROP)] * 300)
    network = Network(301, (Node("y", Affine(np.ones((1, 301))), ("x",)),), "y", "x")
    return network, network, Box(x, x), float(x[1:].sum())


def tree_of_sums() -> tuple[Network, Network, Box, float]:
    count = 31
    nodes = [Node(f"t{i}", Select(i, i + 1), ("x",)) for i in range(count)]
    nodes += [Node(f"p{i}", Affine(np.ones((1, 1))), (f"t{i}",)) for i in range(count)]
    names = ["p0", *(f"s{i}" for i in range(1, count))]
    nodes += [Node(names[i], Add(), (names[i - 1], f"p{i}")) for i in range(1, count)]
    x = np.array([1.0] + [float(DROP)] * (count - 1))
    plain = Network(count, (Node("y", Affine(np.ones((1, count))), ("x",)),), "y", "x")
    return plain, Network(count, tuple(nodes), names[-1], "x"), Box(x, x), float(x[1:].sum())


def underflow() -> tuple[Network, Network, Box, float]:
    network = Network(1, (Node("map", Affine(np.full((1, 1), 2.0**-80)), ("x",)),), "map", "x")
    return network, network, Box(0.0, 2.0**-80).of_size(1), 2.0**-160


def biases() -> tuple[Network, Network, Box, float]:
    large = 2.0**20 + 2.0**-5
    network = Network(4, spelled("x", np.ones((1, 4)), [large, -large - 2.0**-4], "y"), "y", "x")
    held = np.float32(large) + np.float32(-large - 2.0**-4)
    return network, network, Box(np.zeros(4), np.full(4, 2.0**-10)), abs(float(held) + 2.0**-4)


def to_half() -> tuple[Network, Network, Box, float]:
    """1 + 2^-11 lies in the middle between two numbers of float16."""
    first = Node("a", Affine(np.ones((1, 1))), ("x",))
    last = Node("y", Affine(np.ones((1, 1))), ("c",))
    target = Network(1, (first, Node("y", last.op, ("a",))), "y", "x")
    network = Network(1, (first, Node("c", Cast(1, 11), ("a",)), last), "y", "x")
    return target, network, Box(1.0, 1.0 + 2.0**-11).of_size(1), 2.0**-11


def divisions() -> tuple[Network, Network, Box, float]:
    network, box = scaled(), Box(-1.0, 1.0).of_size(6)
    x = box.sample(500, np.random.default_rng(4)).astype(np.float32)
    return network, network, box, rounding(network, x)


def a_shift() -> tuple[Network, Network, Box, float]:
    """1 + 2^-24 lies in the middle between two numbers of float32."""
    network = Network(
        1, (Node("y", Scaling(np.ones(1), np.ones(1), np.ones(1)), ("x",)),), "y", "x"
    )
    return network, network, Box(0.0, 2.0**-24).of_size(1), 2.0**-24


STEPS = [
    ("weight + (terms + MAP) * gross", "weight", plain_sum),
    ("counts * gross + more * constant", "counts * gross", long_sum),
    ("gross, upper(weight + more * gross)", "gross, weight", tree_of_sums),
    ("self.tiny * (terms + 4) * reach", "0.0 * reach", underflow),
    ("gross = upper(gross + np.abs(bias))", "gross = upper(gross)", biases),
    ("(computed * 2.0**-digits + 2.0**least)", "(computed * 0.0)", to_half),
    ("PLAIN, SCALING = 2, 12, 2, 6", "PLAIN, SCALING = 2, 0, 0, 0", divisions),
    ("moved = upper(self.error(value) + lost)", "moved = upper(self.error(value))", a_shift),
    ("share * weight)", "0.0 * weight)", divisions),
]


@pytest.mark.parametrize(("step", "weaker", "make"), STEPS)
def test_every_rounding_is_needed(
    step: str,
    weaker: str,
    make: Callable[[], tuple[Network, Network, Box, float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, network, box, error = make()
    made = certified(tmp_path, target, network, box)
    assert made.bound is not None and made.bound < error
    edit(tmp_path, "float32_bound", value=(error * (1 - 2.0**-20)).hex())
    assert "float32_bound" in check(tmp_path).unverified
    monkeypatch.setattr(recursion, "Between", weakened(between, step, weaker)["Between"])
    assert "float32_bound" in check(tmp_path).verified


@pytest.mark.parametrize(
    ("step", "weaker"),
    [
        ("plus(fresh, self._with_signs(step))", "self._with_signs(step)"),
        ("plus(times(slope, plus(fresh, rounded, lost)), noise)", "noise"),
        ("plus(bent.noise(total), behind)", "behind"),
        ("radius = np.where(least == most, 0.0,", "radius = np.where(least < np.inf, 0.0,"),
        ("self._weighed(a, self.noise[name])", "0.5 * self._weighed(a, self.noise[name])"),
    ],
)
def test_every_step_of_the_errors_is_needed(
    step: str, weaker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree_pair(tmp_path)
    edit(tmp_path, "bound", value=(2.0**-1000).hex())
    (found,) = re.findall("only (.*) follows", check(tmp_path).reason)  # box by box, with signs
    edit(tmp_path, "bound", value=(float(found) * 0.999).hex())
    assert check(tmp_path).field == "bound"
    monkeypatch.setattr(checking, "figures", weakened(recursion, step, weaker)["figures"])
    assert check(tmp_path).accepted


@pytest.mark.parametrize(
    ("step", "weaker"),
    [
        (
            "carried = over_boxes(ours, (middle, radius), self.moved)",
            "carried = 0 * middle.T, 0 * middle.T",
        ),
        ("over_boxes(gap, gap.floats(), self.near)", "over_boxes(gap, gap.floats(), self.moved)"),
        ("self.theirs.doubts[node.name] = doubt", "self.theirs.doubts[node.name] = 0.0 * doubt"),
        ("met(change, stretched(lo, hi, slopes.middle, slopes.radius))", "(lo * 0.0, hi * 0.0)"),
    ],
)
def test_every_step_at_given_inputs_is_needed(
    step: str, weaker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two maps with an error in each, an inner unit that leaves its line, and a cut between."""
    hidden = Affine(np.array([[1.0], [1.0]]), np.array([2.0, 0.5]))
    parts = [
        Node("h", hidden, ("x",)),
        Node("inner", Relu(), ("h",)),
        Node("m", Affine(np.array([[1.0, 1.0]]), np.array([-2.5])), ("inner",)),
        Node("cut", Relu(), ("m",)),
        Node("y", Affine(np.array([[1.0]])), ("cut",)),
    ]
    first = Node("m", Affine(np.array([[2.0]])), ("x",))
    target = Network(1, (first, *parts[3:]), "y", "x")
    parts[4] = Node("y", Affine(np.array([[1.25]])), ("cut",))
    network = Network(1, tuple(parts), "y", "x")
    x = np.array([[1.0], [-0.75]])
    certified(tmp_path, target, network, Points(x), tolerance=100.0)

    def claim(bound: float) -> CheckReport:
        document = document_of(tmp_path) | {"method": "pointwise", "segments": [], "scales": {}}
        figures = {"float64_bound": None, "float32_bound": None, "bound": bound.hex()}
        write(tmp_path, document | figures | {"alignment": [["cut", "cut"]]})
        return check(tmp_path)

    (found,) = re.findall("only (.*) follows", claim(2.0**-1000).reason)
    assert float(found) >= max(abs(float(network(row)[0] - target(row)[0])) for row in x)
    assert claim(float(found)).accepted and claim(float(found) * 0.999).field == "bound"
    names = weakened(points, step, weaker)
    monkeypatch.setattr(checking, "prove_at_points", names["prove_at_points"])
    assert check(tmp_path).accepted
