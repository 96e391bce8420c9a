"""Fewer hidden neurons than equations: the normal equations, honesty, and the digits."""

from __future__ import annotations

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.certificates.verdicts import Verdict
from reconstruct.checkpoint import SiteStore
from reconstruct.constructions import fitted
from reconstruct.constructions.fitted import least_squares
from reconstruct.demo import digits, share_recognised
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Exact, Status
from reconstruct.networks import Affine, Convolution, Geometry, Node, Relu
from tests.constructions.targets import difference, mlp


def test_the_scales_are_those_of_a_dense_least_squares():
    rng = np.random.default_rng(0)
    M1, M2 = rng.normal(size=(6, 4)), rng.normal(size=(3, 6))
    h, z = rng.normal(size=(50, 4)), rng.normal(size=(50, 3))
    inputs, wanted = h - h.mean(axis=0), z - z.mean(axis=0)
    columns = [np.outer(inputs @ M1[i], M2[:, i]).ravel() for i in range(6)]
    expected = np.linalg.lstsq(np.array(columns).T, wanted.ravel())[0]
    np.testing.assert_allclose(least_squares(M1, M2, h, z), expected, rtol=1e-6)


def test_where_the_data_say_nothing_the_map_itself_decides():
    """Data on a line: across it the fit is that of W, by far closer than without."""
    rng = np.random.default_rng(0)
    M1, M2, W = rng.normal(size=(9, 4)), rng.normal(size=(3, 9)), rng.normal(size=(3, 4))
    h = np.outer(rng.normal(size=50), [1.0, 0, 0, 0])
    found = [(M2 * least_squares(M1, M2, h, h @ W.T, V)) @ M1 - W for V in (None, W)]
    assert np.linalg.norm(found[1]) < 0.8 * np.linalg.norm(found[0])
    assert np.linalg.norm(found[1][:, 0]) < 0.05 * np.linalg.norm(W[:, 0])


def test_a_map_within_reach_is_found():
    """With W = M2 diag(s) M1 planted, half of the neurons of the theorem are enough."""
    rng = np.random.default_rng(1)
    frozen = rc.draw(rc.Network.mlp([np.ones((4, 6))]), rc.Fitted(0.5), seed=2)
    M1, M2 = (frozen.network.node(f"layer1.M{i}").op.weight.astype(float) for i in (1, 2))
    assert M1.shape == (12, 6)
    W = (M2 * rng.normal(size=12)) @ M1
    target = rc.Network.mlp([W], [rng.normal(size=4)])
    result = rc.reconstruct(target, rc.Frozen(frozen.network, rc.Fitted(0.5)), domain=rc.Box(-1, 1))
    assert difference(target, result) < 1e-6


def test_an_approximation_is_called_one_and_its_bound_holds():
    target = mlp([4, 6, 5, 2], 3)
    frozen = rc.draw(target, rc.Fitted(0.6), seed=0)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert result.status is Status.TOO_NARROW
    assert "15 neurons for 24 equations" in result.layers[0].message  # ⌈0.6·24⌉
    assert "an approximation" in result.layers[0].message
    certificate = rc.certify(target, result.network, domain=result.domain, bound_anyway=True)
    assert certificate.verdict is not Verdict.CERTIFIED
    assert certificate.bound is not None and difference(target, result) <= certificate.bound


def test_what_earlier_maps_leave_out_widens_the_shifts(tmp_path):
    target = mlp([4, 6, 5, 2], 3)
    frozen = rc.draw(target, rc.Fitted(0.6), seed=0)
    store = SiteStore(tmp_path)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), checkpoint=store)
    kept = store.load("layer1")
    assert kept is not None and kept.left_out is not None and kept.left_out.weight.max() > 0.01
    again = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), checkpoint=store)
    for name, norm in result.norms.items():
        assert np.array_equal(again.norms[name].beta, norm.beta)
    x = result.domain.sample(500, np.random.default_rng(9))
    values = result.network.values(x)
    hidden = [n for n in values if ".norm1" in n]
    assert min(values[name].min() for name in hidden) >= 0  # every hidden unit stays active


def test_data_say_where_the_fit_has_to_be_good():
    shipped = digits()
    fit_on, rest = shipped.images[:225], shipped.images[225:]
    frozen = rc.draw(shipped.target, rc.Fitted(0.75), seed=0)
    on_box = rc.reconstruct(shipped.target, frozen, domain=shipped.domain)
    on_data = rc.reconstruct(shipped.target, frozen, domain=shipped.domain, data=fit_on)
    scores = [share_recognised(r.network, rest, shipped.labels[225:]) for r in (on_box, on_data)]
    assert scores[1] > scores[0] and scores[1] > 0.8


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_fitted_on_its_patches(groups):
    """At ratio 1.5 the fit is the map; below, wider layers fit better, and the bound holds."""
    target, images = small_cnn(groups), np.random.default_rng(0).random((60, 50))
    seen, errors = rc.Points(images[:40]), []
    for ratio in (0.3, 0.9, 1.5):
        frozen = rc.draw(target, rc.Fitted(ratio), seed=1)
        result = rc.reconstruct(target, frozen, domain=seen)
        errors.append(float(np.linalg.norm(result.network(seen.x) - target(seen.x))))
        certificate = rc.certify(target, result.network, domain=seen, bound_anyway=True)
        assert certificate.bound is not None and difference_on(seen, result) <= certificate.bound
    assert errors[0] > errors[1] > 100 * errors[2]


def test_without_the_gram_matrix_it_is_the_same_fit(monkeypatch):
    rng = np.random.default_rng(0)
    M1, M2 = rng.normal(size=(9, 4)), rng.normal(size=(3, 9))
    h, z = rng.normal(size=(50, 4)), rng.normal(size=(50, 3))
    expected = least_squares(M1, M2, h, z)
    monkeypatch.setattr(fitted, "LIMITS", fitted.FitLimits(dense=0))
    np.testing.assert_allclose(least_squares(M1, M2, h, z), expected, rtol=1e-5)


def small_cnn(groups: int) -> rc.Network:
    """Two channels of 5 × 5, a convolution in one or two groups, a ReLU, a dense head."""
    rng = np.random.default_rng(3)
    place = Geometry(2, 5, 5, (3, 3), pads=(1, 1, 0, 1))
    first = Convolution(rng.normal(size=(2, 2 // groups, 3, 3)), place, rng.normal(size=2), groups)
    head = Affine(rng.normal(size=(3, first.shape[0])), rng.normal(size=3))
    nodes = (
        Node("conv", first, ("input",)),
        Node("bend", Relu(), ("conv",)),
        Node("output", head, ("bend",)),
    )
    return rc.Network(50, nodes, "output")


def difference_on(domain: rc.Points, result: rc.Result) -> float:
    return float(np.abs(result.network(domain.x) - result.target(domain.x)).max())


def test_refusals():
    with pytest.raises(InputError, match=r"must be above 0, .* but is 0;"):
        rc.Fitted(0.0)
    target = mlp([3, 3], 0)
    frozen = rc.draw(target, rc.Fitted(0.5))
    with pytest.raises(InputError, match="least-squares fit on data"):
        rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), solver=Exact())
    with pytest.raises(InputError, match="has 3 inputs, but the points have 2"):
        rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), data=np.zeros((4, 2)))
