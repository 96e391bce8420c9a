"""The primitives of outward rounding against exact rationals."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from reconstruct.bounds import Crown, crown, reach
from reconstruct.bounds.crown import source, transfer
from reconstruct.networks import (
    Activation,
    Affine,
    Box,
    Geometry,
    LeakyRelu,
    MaxPool,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
)
from reconstruct.numbers import rounding

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def exact_product(left, right):
    return [
        [
            sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, column, strict=True)))
            for column in np.asarray(right).T
        ]
        for row in np.asarray(left)
    ]


def enclosed(left, right):
    """The bounds of `left @ right` as an affine map finds them, columns for rows."""
    lo, hi = Affine(left).image(right.T, right.T)
    assert not np.isnan(lo).any() and not np.isnan(hi).any()
    return lo.T, hi.T


def holds(bounds, left, right):
    lo, hi = bounds
    return all(
        lo[i, j] <= value <= hi[i, j]  # Python compares fractions with floats exactly
        for i, row in enumerate(exact_product(left, right))
        for j, value in enumerate(row)
    )


@pytest.mark.parametrize(
    "scales", [(1, 1), (1e-200, 1e-150), (1e200, 1e150), (1e-310, 1), (1e8, 1)]
)
@pytest.mark.parametrize("terms", [1, 2, 7, 40])
def test_a_product_is_enclosed(scales, terms):
    rng = np.random.default_rng(terms)
    left, right = rng.normal(size=(4, terms)) * scales[0], rng.normal(size=(terms, 3)) * scales[1]
    left[:, 0] *= -1e3
    bounds = enclosed(left, right)
    assert holds(bounds, left, right)
    assert np.isfinite(bounds).all() or max(scales) == 1e200


def test_a_sparse_product_is_enclosed_as_the_dense_one_is():
    rng = np.random.default_rng(0)
    left = rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.4)
    right = rng.normal(size=(6, 2))
    assert holds(enclosed(sparse.csr_array(left), right), left, right)


@pytest.mark.parametrize(
    "gamma_beta_mean_var",
    [
        (1.2864025252190205, 2.130028822983861, 1.8043891931718714, 1.1875163148722319),
        (1.5569801148891091, 2.167254612243127, 1.662328802837274, 1.42618897492605),
        (1.9593880455018127, 2.1851681102507756, 1.1634674049698805, 1.0883677177585067),
    ],
)
def test_a_shift_that_cancels_to_its_last_digits_is_not_taken_for_a_float(gamma_beta_mean_var):
    """β is the float nearest to γμ/√(v + ε): what is left of it is known to few digits, and the
    bound of a functional has to leave as much as these do not say."""
    norm = Norm(*([part] for part in gamma_beta_mean_var), eps=1e-5)
    network = Network(1, (Node("norm", norm, ("input",)),), "norm")
    lo, hi = reach(network, Box([0.0], [0.0]), Crown()).functionals("norm", np.array([[1.0]]))
    ((low, high),) = norm.rationals(400)[1]
    assert Fraction(lo.item()) <= low <= high <= Fraction(hi.item())


def test_a_product_of_zeros_is_exactly_zero():
    lo, hi = enclosed(np.zeros((2, 3)), np.ones((3, 2)))
    assert np.array_equal(lo, np.zeros((2, 2))) and np.array_equal(hi, np.zeros((2, 2)))


def test_an_overflow_has_no_bound_and_no_nan():
    lo, hi = enclosed(np.full((1, 2), 1e300), np.array([[1e300], [-1e300]]))
    assert lo[0, 0] == -np.inf and hi[0, 0] == np.inf


@given(st.integers(1, 2**39))
def test_gamma_is_an_upper_bound(terms):
    nu = Fraction(terms, 2**53)
    assert nu / (1 - nu) <= Fraction(rounding.gamma(terms))


def test_gamma_refuses_sums_beyond_its_derivation():
    with pytest.raises(ValueError, match="outside"):
        rounding.gamma(2**40)


@given(FLOATS, FLOATS)
def test_a_midpoint_covers_both_ends(first, second):
    lo, hi = np.array([min(first, second)]), np.array([max(first, second)])
    centre, radius = rounding.midpoint(lo, hi)
    if np.isfinite(radius[0]):
        assert Fraction(centre[0]) - Fraction(radius[0]) <= Fraction(lo[0])
        assert Fraction(centre[0]) + Fraction(radius[0]) >= Fraction(hi[0])


@given(
    st.floats(-1e300, 1e300),
    st.floats(-1e300, 1e300),
    st.floats(0, 1e100),
    st.sampled_from([2.0**-17, 2.0**-3, 1.0]),
)
def test_the_effective_scale_and_shift_of_a_norm_are_enclosed(gamma, mean, var, eps):
    norm = Norm([gamma], [1.5], [mean], [var], eps)
    ((lo,), (hi,)), ((below,), (above,)) = norm.bounds()
    low, high = _root(Fraction(var) + Fraction(eps))
    ends = [Fraction(gamma) / low, Fraction(gamma) / high]
    assert (lo == -np.inf or Fraction(lo) <= min(ends)) and (
        hi == np.inf or Fraction(hi) >= max(ends)
    )
    lo, hi = below, above
    shifts = [Fraction(1.5) - s * Fraction(mean) for s in ends]
    assert (lo == -np.inf or Fraction(lo) <= min(shifts)) and (
        hi == np.inf or Fraction(hi) >= max(shifts)
    )


def _root(value: Fraction) -> tuple[Fraction, Fraction]:
    """The square root between two rationals 2^-900 apart: far closer than floats are."""
    scale = 2**900
    whole = isqrt(value.numerator * scale * scale // value.denominator)
    low = Fraction(whole, scale)
    return low, low if low * low == value else Fraction(whole + 1, scale)


def test_drawn_norms_have_an_exact_scale():
    gamma = np.array([0.3, -7.0, 0.0])
    norm = Norm(gamma, np.ones(3), np.zeros(3), np.full(3, 1 - 2.0**-17))
    assert np.array_equal(norm.bounds(), ((gamma, gamma), (np.ones(3), np.ones(3))))


@pytest.mark.parametrize("reach", [1.0, 2.0**300, 2.0**-1030, 2.0**-1070])
def test_coefficients_that_meet_at_a_node_keep_the_rounding_of_their_sum(reach):
    # 1 + 2^-53 rounds to 1, so that the sum of the two lines lies 2^-53·reach too high at −reach.
    one, small = np.array([[[1.0]]]), np.array([[[2.0**-53]]])
    pending = {"h": one}
    ends = (np.array([[-reach]]), np.array([[reach]]))
    const = crown._collect(pending, "h", small, np.zeros((1, 1)), ends)
    total, kept = Fraction(float(pending["h"][0, 0, 0])), Fraction(float(const[0, 0]))
    exact = Fraction(1) + Fraction(2.0**-53)
    assert kept - total * Fraction(reach) <= -exact * Fraction(reach)


def test_large_coefficients_of_tiny_values_keep_the_rounding_of_their_sum():
    """u·2^-1060 is 0 in floats, and not where the coefficient is 2^500."""
    large, small, reach = np.full((1, 1, 1), 2.0**500), np.full((1, 1, 1), 2.0**447), 2.0**-1060
    pending = {"h": large}
    ends = (np.array([[-reach]]), np.array([[reach]]))
    const = crown._collect(pending, "h", small, np.zeros((1, 1)), ends)
    lost = Fraction(2.0**500) + Fraction(2.0**447) - Fraction(pending["h"].item())
    assert lost > 0 and Fraction(const.item()) <= -lost * Fraction(reach)


def test_the_sum_of_many_coefficients_keeps_each_rounding():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(2, 1, 3, 40))
    reach = np.exp(rng.normal(size=(1, 40)) * 5)
    pending = {"h": first}
    const = crown._collect(pending, "h", second, np.zeros((1, 3)), (-reach, reach))
    for row in range(3):
        parts = zip(first[0, row], second[0, row], pending["h"][0, row], reach[0], strict=True)
        lost = sum(
            abs(Fraction(a) + Fraction(b) - Fraction(c)) * Fraction(r) for a, b, c, r in parts
        )
        assert lost > 0 and Fraction(float(const[0, row])) <= -lost


# --- activations seen backwards: what their own products and sums round ---------------------------


def seen_backwards(op: Activation, box: tuple[list[float], list[float]], z: Any, form: Any) -> bool:
    """`Λ·v ≥ pull(Λ)·z + constant` at one input of the box, in rational numbers."""
    ranges = {"x": (np.array([box[0]]), np.array([box[1]]))}
    step = transfer(Node("v", op, ("x",)), ranges)
    rows = np.array(form).reshape(1, 1, -1)
    constant = step.constant(rows, np.zeros((1, 1))).item()
    value = op(np.array([z]))[0]

    def dot(first: Any, second: Any) -> Fraction:
        pairs = zip(np.ravel(first).tolist(), np.ravel(second).tolist(), strict=True)
        return sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))

    return dot(form, value) >= dot(step.pull(rows, None), z) + Fraction(constant)


def test_a_product_with_a_slope_is_charged_for_its_rounding() -> None:
    """One draw in eighty would break the bound without it: the intercept is rounded, too."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        hi, lo, form = 2.0**20 * rng.uniform(1.5, 2), -rng.uniform(0.5, 1), -rng.uniform(1, 2)
        assert seen_backwards(Relu(), ([lo], [hi]), [hi], [form])


def test_a_pixel_that_two_windows_choose_is_charged_for_the_sum() -> None:
    """1 and 1.5·2^-53 add up to 1 + 2^-52."""
    pool = MaxPool(Geometry(1, 1, 3, (1, 2)))
    box = [0.0, 1.0, 0.0], [0.5, 1.0, 0.5]
    assert seen_backwards(pool, box, [0.25, 1.0, 0.25], [1.0, 1.5 * 2.0**-53])


@pytest.mark.parametrize(
    ("op", "end"),
    [
        (Affine([[2.0**-600]]), 2.0**1000),
        (Scaling([2.0**-600]), 2.0**1000),
        (LeakyRelu(2.0**-600), -(2.0**1000)),
    ],
)
def test_coefficients_that_underflow_are_charged_for_what_they_would_have_met(op, end) -> None:
    """2^-600 · 2^-600 is 0 in floats, and not where the input is 2^1000."""
    ends = np.full((1, 1), min(end, 0.0)), np.full((1, 1), max(end, 0.0))
    step = transfer(Node("v", op, ("x",)), {"x": ends})
    form = np.full((1, 1, 1), -(2.0**-600) * np.sign(end))
    assert not step.pull(form, None).any()
    constant = step.constant(form, np.zeros((1, 1))).item()
    assert -(Fraction(2) ** -200) >= Fraction(constant)


@pytest.mark.parametrize("op", [Scaling([1.49 * 2.0**-1021]), LeakyRelu(1.49 * 2.0**-1021)])
def test_a_factor_whose_unit_roundoff_underflows_is_charged_for_all_of_it(op) -> None:
    """u·1.49·2^-1021 is 1.49 of the smallest number, in floats 1; and inputs reach 2^1000."""
    slope, reach = 1.49 * 2.0**-1021, 2.0**1000
    step = transfer(Node("v", op, ("x",)), {"x": (np.full((1, 1), -reach), np.zeros((1, 1)))})
    rng = np.random.default_rng(0)
    for form in (2.0**50 * rng.uniform(1, 2, 2000) * rng.choice([-1, 1], 2000)).tolist():
        rows = np.array([[[form]]])
        constant = Fraction(step.constant(rows, np.zeros((1, 1))).item())
        pulled, z = Fraction(step.pull(rows, None).item()), -Fraction(reach)
        assert Fraction(form) * Fraction(slope) * z >= pulled * z + constant


@pytest.mark.parametrize("op", [Affine([[1.49 * 2.0**-540]]), Scaling([1.49 * 2.0**-540])])
def test_a_loss_that_underflows_is_charged_where_coefficients_are_large(op) -> None:
    """u·2^-540·2^-530 is 0 in floats, and not where a coefficient is 2^1000."""
    slope, reach = 1.49 * 2.0**-540, 2.0**-530
    step = transfer(Node("v", op, ("x",)), {"x": (np.full((1, 1), -reach), np.zeros((1, 1)))})
    rng = np.random.default_rng(0)
    for form in (2.0**999 * rng.uniform(1, 2, 200) * rng.choice([-1, 1], 200)).tolist():
        rows = np.array([[[form]]])
        constant = Fraction(step.constant(rows, np.zeros((1, 1))).item())
        pulled, z = Fraction(step.pull(rows, None).item()), -Fraction(reach)
        assert Fraction(form) * Fraction(slope) * z >= pulled * z + constant


def test_products_with_coefficients_that_underflow_are_charged_in_all() -> None:
    """64 products of an eighth of the smallest number each are none in floats."""
    step = transfer(
        Node("v", Affine(np.zeros((64, 1)), np.full(64, 2.0**-540)), ("x",)),
        {"x": (np.zeros((1, 1)), np.zeros((1, 1)))},
    )
    form = np.full((1, 1, 64), -(2.0**-537))
    assert not (form * 2.0**-540).any()
    constant = step.constant(form, np.zeros((1, 1))).item()
    assert -64 * Fraction(2) ** -1077 >= Fraction(constant)


def test_the_ranges_of_inputs_around_zero_are_charged_for_their_rounding() -> None:
    """1 and a thousand numbers below u: nothing is charged for the middle, which is 0."""
    reach, form = np.full((1, 1001), 0.99 * 2.0**-53), np.ones((1, 1, 1001))
    reach[0, 0] = 1.0
    least = source(-reach, reach).constant(form, np.zeros((1, 1))).item()
    assert Fraction(least) <= -sum(map(Fraction, reach.ravel().tolist()))


def test_a_scale_that_is_no_float_is_charged_for_what_it_may_be() -> None:
    """What is lost is the root's own distance to a float, and what its product rounds."""
    rng = np.random.default_rng(3)
    for number in range(2, 30):
        norm = Norm([1.0], [0.0], [0.0], [float(number)], eps=0.0)
        step = transfer(Node("v", norm, ("x",)), {"x": (np.array([[-64.0]]), np.array([[64.0]]))})
        low, high = (Fraction(1) / end for end in reversed(_root(Fraction(number))))
        for form in (rng.uniform(1, 2, 60) * rng.choice([-1, 1], 60)).tolist():
            rows = np.array([[[form]]])
            constant = Fraction(step.constant(rows, np.zeros((1, 1))).item())
            pulled = Fraction(step.pull(rows, None).item())
            for z in (-64, 64):
                least = min(Fraction(form) * z * end for end in (low, high))
                assert least >= pulled * z + constant
