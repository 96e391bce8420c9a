"""The floating-point figures proved again: scalings, and what is said of figures that are not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from proofs_check.certificates import check
from proofs_check.certificates.command import as_text
from reconstruct.networks import Box, Clip, Network, Node, Scaling
from tests.certificates.building import random_target, wide
from tests.certificates.test_seams import BOX, rebuilt
from tests.proofs_check.certificates.making import certified, close, edit

FIGURES = ("float64_bound", "float32_bound")


def scaled() -> Network:
    """Numbers that no format holds, unit by unit: only a scaling rounds here."""
    rng = np.random.default_rng(3)
    factor, divisor = rng.uniform(-3, 3, 6), rng.uniform(0.5, 70, 6)
    op = Scaling(factor, divisor, rng.uniform(-0.1, 0.1, 6))
    return Network(6, (Node("s", op, ("x",)),), "s", "x")


def rounding(network: Network, points: np.ndarray) -> float:
    """What an evaluation in float32 is off by, against rationals."""
    op = network.node("s").op
    assert isinstance(op, Scaling)
    numbers = [[Fraction(float(v)) for v in part] for part in (op.factor, op.divisor, op.offset)]
    worst = Fraction(0)
    for x, y in zip(points, network(points, np.float32), strict=True):
        for z, f, d, t, found in zip(x, *numbers, y, strict=True):
            worst = max(worst, abs(Fraction(float(z)) * f / d + t - Fraction(float(found))))
    return float(worst)


def test_the_rounding_of_a_scaling_is_proved_again_and_less_than_it_is_not(tmp_path) -> None:
    network, box = scaled(), Box(-1.0, 1.0).of_size(6)
    made = certified(tmp_path, network, network, box)
    report = check(tmp_path)
    assert report.accepted and close(report, tmp_path), report
    x = box.sample(500, np.random.default_rng(4)).astype(np.float32)
    true = rounding(network, x)
    assert 0 < true <= made.float32_bound < 50 * true
    for share in (1.0, 0.5):
        edit(tmp_path, "float32_bound", value=(share * true).hex())
        report = check(tmp_path)
        assert report.accepted and "float32_bound" in report.unverified, report
        assert report.figures["float32_bound"] >= true
        reached = f"{1.005 * report.figures['float32_bound']:.3g}"
        assert f"float32_bound: claim not reached, proved up to {reached}" in as_text(report)


@pytest.mark.parametrize("name", ["option A", "windows", "ceiling"])
def test_figures_of_networks_with_averages_are_proved_again(name, tmp_path) -> None:
    target, network = rebuilt(name)
    certified(tmp_path, target, network, BOX)
    report = check(tmp_path)
    assert report.accepted and close(report, tmp_path), report
    assert "not verified" not in as_text(report)
    for field in FIGURES:
        edit(tmp_path, field, value=lambda text: (0.1 * float.fromhex(text)).hex())
        assert field in check(tmp_path).unverified
        edit(tmp_path, field, value=lambda text: (20 * float.fromhex(text)).hex())
        assert field in check(tmp_path).verified


@pytest.mark.parametrize("number", [1e-40, 1e300])
def test_numbers_that_leave_a_format_leave_its_figure_open(number, tmp_path) -> None:
    op = Scaling(np.array([number, 1.0]), np.array([number, 3.0]))
    network = Network(2, (Node("s", op, ("x",)),), "s", "x")
    made = certified(tmp_path, network, network, Box(-1.0, 1.0).of_size(2))
    report = check(tmp_path)
    assert report.accepted and "float32_bound" not in report.verified
    assert ("float32_bound" in report.unverified) == (made.float32_bound is not None)


def test_the_answer_says_what_was_not_verified(tmp_path) -> None:
    rng, box = np.random.default_rng(5), Box(0.0, 1.0).of_size(2)
    target = random_target(rng, (2, 3, 2), activation=Clip(-1, 1))
    certified(tmp_path, target, wide(target, box, rng), box)
    report = check(tmp_path)
    assert report.accepted and report.unverified == FIGURES
    text = as_text(report)
    assert float(text.partition("|f − g| ≤ ")[2].split()[0]) >= report.bound
    for bound in (1.00499, 9.99499e-16, 1.235):
        said = as_text(replace(report, bound=bound), quiet=True)
        assert bound <= float(said.partition("|f − g| ≤ ")[2].split()[0]) <= 1.011 * bound
    assert "verified again: bound; float64_bound: not verified; float32_bound: not verified" in text
