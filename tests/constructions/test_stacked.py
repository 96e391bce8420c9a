"""Stacked layers without skip connections: planted products, derivatives, failures that say so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reconstruct as rc
from reconstruct.certificates.verdicts import Verdict
from reconstruct.constructions import stacked
from reconstruct.constructions.stacked import Product, StackLimits, fit, shared_out
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Exact, Status
from reconstruct.networks import Affine, Node, Norm
from reconstruct.progress import silent
from tests.constructions.targets import difference, mlp, tolerance

HCAS = Path(__file__).parents[3] / "shared" / "targets" / "hcas"


def random_product(sizes: list[int], seed: int = 0) -> Product:
    rng = np.random.default_rng(seed)
    pairs = zip(sizes[1:], sizes, strict=False)
    return Product(tuple(rng.normal(size=(b, a)) / np.sqrt(a) for b, a in pairs))


def rebuilt(target: rc.Network, layers: int, ratio: float = 1.3, **options) -> rc.Result:
    solver = options.pop("solver", None)
    frozen = rc.draw(target, rc.Stacked(layers, ratio), seed=1, **options)
    return rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), solver=solver)


# The product and its derivative


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=3, max_size=6), seed=st.integers(0, 100))
def test_the_jacobian_is_the_derivative_and_passes_the_dot_test(sizes, seed):
    product, rng = random_product(sizes, seed), np.random.default_rng(seed)
    scales = tuple(rng.normal(size=n) for n in product.widths)
    jacobian = product.jacobian(scales)
    step, Y = rng.normal(size=sum(product.widths)), rng.normal(size=(sizes[-1], sizes[0]))
    image = jacobian.apply(step)
    assert np.vdot(image, Y) == pytest.approx(
        step @ jacobian.apply_transposed(Y), rel=1e-9, abs=1e-9
    )
    np.testing.assert_allclose(jacobian.dense() @ step, image.ravel(), atol=1e-9)
    h = 1e-6
    ahead, behind = (product.value(product.moved(scales, t * step)) for t in (h, -h))
    size = 1 + np.abs(image).max()
    np.testing.assert_allclose((ahead - behind) / (2 * h), image, atol=1e-4 * size)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_planted_scales_are_matched(layers):
    widths = shared_out(40 + layers, [6] * layers)
    product = random_product([5, *widths, 6])
    rng = np.random.default_rng(5)
    W = product.value([rng.normal(size=n) for n in widths])
    found = fit(product, W, silent)
    assert found.converged and found.residual < 1e-12
    np.testing.assert_allclose(product.value(found.scales), W, atol=1e-11 * np.abs(W).max())


def test_one_neuron_below_the_count_of_parameters_is_not_reached():
    """Σ n_i = m·k + L − 2: a generic W is out of reach, and it is said."""
    product = random_product([4, 8, 8, 4])
    W = np.random.default_rng(0).normal(size=(4, 4))
    found = fit(product, W, silent)
    assert not found.converged and found.residual > 1e-6


# The construction


@settings(max_examples=10, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    layers=st.integers(1, 3),
    statistics=st.booleans(),
    seed=st.integers(0, 100),
)
def test_any_shape(sizes, layers, statistics, seed):
    target = mlp(sizes, seed)
    result = rebuilt(target, layers, 2.0, statistics=statistics)
    if result.status is Status.SOLVED:  # tiny maps leave little room: a start may be unlucky
        assert difference(target, result) <= 10 * tolerance(result)
    else:
        failed = [row for row in result.layers if not row.solved]
        assert all("use a larger --ratio" in row.message for row in failed)


@pytest.mark.parametrize("activation", [rc.Relu(), rc.Selu()], ids=repr)
def test_certified_like_the_others(activation):
    target = mlp([4, 6, 5, 3], 2)
    result = rebuilt(target, 2, 1.4, activation=activation)
    assert result.status is Status.SOLVED
    certificate = rc.certify(target, result.network, domain=result.domain)
    assert certificate.verdict is Verdict.CERTIFIED and certificate.bound < 1e-10
    assert difference(target, result) <= certificate.float64_bound


def test_maps_whose_derivatives_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "LIMITS", StackLimits(dense_bytes=1000))
    with pytest.raises(InputError, match=r"map 1 .* 5·6 equations.*use --construction grouped"):
        rebuilt(mlp([6, 5], 0), 2)


def test_widths_are_shared_out_and_ends_are_wide_enough():
    plan = rc.Stacked(4, 1.3).plan(Affine(np.ones((25, 3))))
    assert plan.needed == 78 and sum(plan.widths) == 102  # ⌈1.3·78⌉
    assert plan.widths[0] >= 3 and plan.widths[-1] >= 25 and min(plan.widths) >= 3
    wide = rc.Stacked(3, 1.0).plan(Affine(np.ones((6, 6))))
    assert wide.widths == (13, 13, 12)
    few = rc.Stacked(50, 1.0).plan(Affine(np.ones((3, 3))))
    assert few.widths[0] >= 3 and sum(few.widths) == 9 + len(few.widths) - 1


def test_a_zero_map_needs_no_step():
    target = rc.Network.mlp([np.zeros((3, 4))], [np.ones(3)])
    result = rebuilt(target, 2)
    assert result.status is Status.SOLVED and difference(target, result) < 1e-13


def test_what_does_not_converge_is_said_with_the_numbers():
    result = rebuilt(mlp([3, 5], 0), 5, 1.0)
    (row,) = result.layers
    assert row.status is Status.NOT_CONVERGED and result.status is Status.NOT_CONVERGED
    widths = rc.Stacked(5, 1.0).plan(Affine(np.ones((5, 3)))).widths
    assert f"{len(widths)} hidden layers of {' + '.join(map(str, widths))}" in row.message
    assert f"relative residual {row.residual:.1e}" in row.message


def site(widths: list[int], m: int, k: int) -> rc.Network:
    """A plain stack with these hidden widths, as a user may bring it."""
    rng = np.random.default_rng(0)
    nodes, last, size = [], "input", k
    for i, n in enumerate([*widths, m], start=1):
        nodes.append(Node(f"lin{i}", Affine(rng.normal(size=(n, size))), (last,)))
        nodes.append(Node(f"bn{i}", Norm.neutral(n), (f"lin{i}",)))
        last, size = f"bn{i}", n
        if i <= len(widths):
            nodes.append(Node(f"relu{i}", rc.Relu(), (last,)))
            last = f"relu{i}"
    return rc.Network(k, tuple(nodes), last)


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ([8, 8], r"at least m·k \+ L − 1 = 17 in all, .* has 8 \+ 8 = 16; widen it by 1"),
        ([3, 20], r"at least 4 neurons in hidden layer 1 of 2 .* but it has 3"),
        ([20, 3], r"at least 4 neurons in hidden layer 2 of 2 .* but it has 3"),
    ],
)
def test_too_few_neurons_are_refused_by_number(widths, message):
    frozen = rc.Frozen(site(widths, 4, 4), rc.Stacked(2))
    with pytest.raises(InputError, match=message):
        rc.reconstruct(mlp([4, 4], 0), frozen, domain=rc.Box(-1, 1))


def test_a_network_that_was_brought():
    target = mlp([4, 4], 0)
    frozen = rc.Frozen(site([12, 14], 4, 4), rc.Stacked(2))
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert result.status is Status.SOLVED and difference(target, result) <= 10 * tolerance(result)


def test_refusals():
    with pytest.raises(InputError, match=r"half-line.* \[-1, 1\] only; use --construction wide"):
        rebuilt(mlp([3, 3], 0), 2, activation=rc.Clip(-1, 1))
    with pytest.raises(InputError, match="layers must be at least 1, but is 0"):
        rc.Stacked(0)
    with pytest.raises(InputError, match=r"at least 1, .* but is 0\.5"):
        rc.Stacked(2, 0.5)
    target = mlp([3, 3], 0)
    with pytest.raises(InputError, match="polynomial equations"):
        rebuilt(target, 2, solver=Exact())


@pytest.mark.skipif(not HCAS.is_dir(), reason="the shared target networks are not here")
def test_hcas_in_two_hidden_layers_per_map():
    target = rc.load(min(HCAS.glob("*.nnet")))
    frozen = rc.draw(target, rc.Stacked(2, 1.3), seed=0)
    for node in target.mixing_nodes():
        m, k = node.op.shape
        assert sum(rc.Stacked(2, 1.3).plan(node.op).widths) <= 1.4 * m * k
    result = rc.reconstruct(target, frozen, domain=rc.Box(-0.5, 0.5))
    certificate = rc.certify(target, result.network, domain=result.domain)
    assert certificate.verdict is Verdict.CERTIFIED
    assert certificate.bound <= 1e-8 * certificate.output_scale


def test_steps_end_where_they_gain_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its solution a fit tries a few dampings more, not all: each is a factorisation."""
    calls: list[int] = []
    solved = stacked.la.cho_solve
    monkeypatch.setattr(stacked.la, "cho_solve", lambda *given: calls.append(1) or solved(*given))
    # how close is close enough is for the steps to find out
    monkeypatch.setattr(stacked, "LIMITS", StackLimits(close=0.0))
    product = random_product([6, 40, 30, 5])
    W = np.random.default_rng(1).normal(size=(5, 6))
    found = fit(product, W, silent)
    assert found.converged and found.residual < 1e-13
    assert len(calls) <= len(found.history) + 12
