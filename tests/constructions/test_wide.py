"""The wide construction end to end on drawn and on given frozen networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reconstruct as rc
from reconstruct import pipeline
from reconstruct.certificates.verdicts import Verdict
from reconstruct.constructions.chain import cancelling
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.khatri_rao import Status
from reconstruct.networks import Affine, Node, Norm, Relu
from reconstruct.networks.activations.piecewise import Kink
from tests.certificates.building import random_target
from tests.constructions.targets import difference, mlp, tolerance


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    ratio=st.sampled_from([1.0, 1.3, 2.0]),
    seed=st.integers(0, 1000),
    final=st.booleans(),
    statistics=st.booleans(),
)
def test_any_shape_and_ratio(sizes, ratio, seed, final, statistics):
    target = mlp(sizes, seed, final_activation=final)
    frozen = rc.draw(target, rc.Wide(ratio), seed=seed, statistics=statistics)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 2))
    assert result.status is Status.SOLVED
    assert difference(target, result) <= tolerance(result)


@pytest.mark.parametrize(
    "activation",
    [rc.Relu(), rc.LeakyRelu(0.1), rc.Elu(), rc.Selu(), rc.Clip(0, 6), rc.Clip(-1, 1)],
    ids=repr,
)
@pytest.mark.parametrize("slope", [None, 0.2])
def test_every_activation_with_a_linear_piece(activation, slope):
    target = mlp([3, 5, 4, 2], 1, activation=None if slope is None else rc.LeakyRelu(slope))
    frozen = rc.draw(target, rc.Wide(1.5), seed=3, activation=activation)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert difference(target, result) <= tolerance(result)


@pytest.mark.parametrize("weights", list(rc.Weights))
def test_every_distribution_at_ratio_1_5(weights):
    target = mlp([4, 6, 3], 2)
    frozen = rc.draw(target, rc.Wide(1.5), seed=0, weights=weights)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert result.status is Status.SOLVED
    assert difference(target, result) <= tolerance(result)


def test_singular_signs_are_said_with_the_rank():
    """±1 weights in a square system are often singular: two equal hidden units, for example."""
    target = rc.Network.mlp([np.random.default_rng(0).normal(size=(3, 3))])
    frozen = rc.draw(target, rc.Wide(1.0), seed=0, weights=rc.Weights.RADEMACHER)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    (row,) = result.layers
    assert row.status is Status.RANK_DEFICIENT and result.status is Status.RANK_DEFICIENT
    assert row.rank is not None and row.rank < 9
    assert f"rank {row.rank} of 9 needed" in row.message


def brought(rng, *, width=20, eps=1e-3) -> rc.Network:
    """A frozen network as a user may bring it: statistics, biases, float64 weights."""
    nodes, last = [], "input"
    for i, (n, k) in enumerate([(width, 3), (5, width), (width, 5), (2, width)], start=1):
        weight, bias = rng.normal(size=(n, k)), rng.normal(size=n)
        nodes.append(Node(f"lin{i}", Affine(weight, bias), (last,)))
        stats = (rng.normal(size=n), rng.normal(size=n), 3 * rng.normal(size=n))
        nodes.append(
            Node(f"bn{i}", Norm(*stats, np.exp(3 * rng.normal(size=n)), eps), (f"lin{i}",))
        )
        last = f"bn{i}"
        if i < 4:
            nodes.append(Node(f"relu{i}", Relu(), (last,)))
            last = f"relu{i}"
    return rc.Network(3, tuple(nodes), last)


def test_a_network_with_statistics_and_biases_of_its_own():
    target = mlp([3, 5, 2], 5)
    result = rc.reconstruct(target, brought(np.random.default_rng(0)), domain=rc.Box(-1, 1))
    assert difference(target, result) <= tolerance(result)
    frozen = brought(np.random.default_rng(0))
    for node in frozen.mixing_nodes():
        np.testing.assert_array_equal(result.network.node(node.name).op.weight, node.op.weight)
    for name, norm in result.norms.items():
        np.testing.assert_array_equal(norm.mean, frozen.node(name).op.mean)
        assert norm.eps == float(np.float32(1e-3))


def test_one_neuron_too_narrow_names_layer_needed_and_given():
    target = mlp([3, 5, 2], 5)
    narrow = brought(np.random.default_rng(0), width=14)
    with pytest.raises(InputError, match=r"map 1 .*m·k = 5·3 = 15 .*has 14 neurons at 'bn1'"):
        rc.reconstruct(target, narrow, domain=rc.Box(-1, 1))


def swapped(network: rc.Network) -> rc.Network:
    """The same layers with each norm behind its activation."""
    nodes = list(network.nodes)
    renamed = []
    for node in nodes:
        inputs = node.inputs
        if node.name.startswith("bn") and node.name != "bn4":
            inputs = (node.name.replace("bn", "relu"),)
        elif node.name.startswith("relu"):
            inputs = (node.name.replace("relu", "lin"),)
        elif node.name.startswith("lin") and node.name != "lin1":
            inputs = (f"bn{int(node.name[3:]) - 1}",)
        renamed.append(Node(node.name, node.op, inputs))
    order = {"lin": 0, "relu": 1, "bn": 2}
    renamed.sort(key=lambda n: (int(n.name[-1]), order[n.name[:-1]]))
    return rc.Network(3, tuple(renamed), "bn4")


def test_a_norm_behind_the_activation_is_refused_with_the_reason():
    late = swapped(brought(np.random.default_rng(0)))
    with pytest.raises(
        UnsupportedError, match=r"norm after the activation.*shift ahead of the ReLU"
    ):
        rc.reconstruct(mlp([3, 5, 2], 5), late, domain=rc.Box(-1, 1))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([4, 5, 2], "as many inputs as the target, 4, but takes 3"),
        ([3, 5], "5 outputs|must end where the target ends"),
        ([3, 5, 2, 2], "needs a linear layer after|Relu"),
        ([3, 4, 2], "needs 4 outputs, but the frozen site has 5"),
    ],
)
def test_frozen_networks_of_another_shape_are_refused(sizes, message):
    with pytest.raises(InputError, match=message):
        rc.reconstruct(mlp(sizes, 0), brought(np.random.default_rng(0)), domain=rc.Box(-1, 1))


def test_targets_with_norms_runs_and_branches():
    rng = np.random.default_rng(8)
    nodes = (
        Node("a", Affine(rng.normal(size=(4, 3))), ("input",)),
        Node(
            "n",
            Norm(rng.normal(size=4), rng.normal(size=4), rng.normal(size=4), rng.random(4), 1e-3),
            ("a",),
        ),
        Node("r", Relu(), ("n",)),
        Node("b", Affine(rng.normal(size=(3, 4))), ("r",)),
        Node("sum", rc.networks.Add(), ("b", "input")),
        Node("r2", Relu(), ("sum",)),
        Node("c", Affine(rng.normal(size=(3, 3))), ("r2",)),
        Node("d", Affine(rng.normal(size=(2, 3)), rng.normal(size=2)), ("c",)),
    )
    target = rc.Network(3, nodes, "d")
    for merge in (True, False):
        frozen = rc.draw(target, rc.Wide(1.5), seed=0, merge=merge)
        result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
        assert difference(target, result) <= tolerance(result)
        assert ("d" in result.form.merged) is merge


def test_awkward_maps_are_normal():
    W1 = np.zeros((4, 3))
    W1[0, 1] = 2.0
    target = rc.Network.mlp([W1, np.zeros((2, 4)), np.ones((3, 2))], [None, np.ones(2), None])
    result = rc.reconstruct(target, rc.draw(target), domain=rc.Box(-1, 1))
    assert difference(target, result) <= 1e-13


def test_float32_norms_are_float32_numbers():
    target = mlp([3, 4, 2], 3)
    result = rc.reconstruct(target, rc.draw(target), domain=rc.Box(-1, 1), dtype=np.float32)
    for norm in result.norms.values():
        np.testing.assert_array_equal(norm.gamma, norm.gamma.astype(np.float32))
        np.testing.assert_array_equal(norm.beta, norm.beta.astype(np.float32))
    assert difference(target, result) <= 1e-3


def test_exact_norms_make_an_identity():
    from fractions import Fraction

    target = mlp([2, 3, 2], 4)
    result = rc.reconstruct(target, rc.draw(target), domain=rc.Box(-1, 1), solver=rc.Exact())
    assert result.exact is not None and set(result.exact) == set(result.norms)
    for name, norm in result.norms.items():
        gammas = [float(v) for v in result.exact[name].gamma]
        np.testing.assert_allclose(norm.gamma, gammas, rtol=1e-15)
    first = result.network.node("layer1.M1").op.weight
    second = result.network.node("layer1.M2").op.weight
    s = result.exact["layer1.norm1"].gamma
    W = target.node("layer1").op.weight
    for i in range(3):
        for j in range(2):
            terms = (
                Fraction(float(second[i, v])) * s[v] * Fraction(float(first[v, j]))
                for v in range(len(s))
            )
            assert sum(terms, Fraction(0)) == Fraction(float(W[i, j]))


def test_ratio_below_one_is_refused():
    with pytest.raises(InputError, match="at least 1"):
        rc.Wide(0.9)


@pytest.mark.parametrize(
    "activation",
    [rc.Clip(0, 6), rc.Clip(-1, 1), rc.Elu(0.5), rc.Selu(), rc.LeakyRelu(-0.3)],
    ids=repr,
)
def test_any_activation_of_the_target_stands_in_the_frozen_network_too(activation):
    target = mlp([3, 6, 5, 2], 0, activation=activation, final_activation=True)
    frozen = rc.draw(target, rc.Wide(1.5))
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    certificate = rc.certify(target, result.network, domain=result.domain)
    assert certificate.verdict is Verdict.CERTIFIED
    assert difference(target, result) <= certificate.float64_bound
    kinds = [node.op for node in result.network.activation_nodes()]
    assert kinds.count(activation) == 3


class Cliff(Kink):
    """Claims no bound of its slope."""

    kind = "Cliff"
    sides = (0.0, 1.0)

    @property
    def lipschitz(self) -> float:
        return float("inf")


def test_an_activation_without_a_bound_of_its_slope_is_refused_by_name():
    target = mlp([2, 3, 2], 0, activation=Cliff())
    with pytest.raises(UnsupportedError, match="'act1' of the target is a Cliff"):
        rc.draw(target)


def test_a_run_finds_its_sites_once_and_factors_each_map_once(monkeypatch, tmp_path):
    from reconstruct.constructions import factored

    def counted(function):
        def wrapper(*args, **options):
            calls.append(function.__name__)
            return function(*args, **options)

        return wrapper

    calls: list[str] = []
    monkeypatch.setattr(factored, "factor", counted(factored.factor))
    monkeypatch.setattr(pipeline, "find_sites", counted(pipeline.find_sites))
    rc.save(mlp([3, 4, 2], 0), tmp_path / "target.npz")
    made = {"construction": rc.Factored(), "domain": (-1, 1)}
    report = rc.run(tmp_path / "target.npz", tmp_path / "out", **made).report
    assert sorted(calls) == ["factor", "factor", "find_sites"]
    assert [row["rank"] for row in report["frozen"]["factors"]] == [3, 2]


def test_an_exact_solve_beyond_4300_digits_is_kept_and_resumed(tmp_path):
    from fractions import Fraction

    from reconstruct.checkpoint import SiteStore
    from reconstruct.constructions import ExactNorm, SiteSolution

    long = Fraction(3**20000 + 1, 2**40001)
    norm = Norm.neutral(2)
    store = SiteStore(tmp_path)
    exact = {"n": ExactNorm((long, -long), (Fraction(0), Fraction(-1, 3)))}
    store.store("map", SiteSolution({"n": norm}, (), exact))
    again = SiteStore(tmp_path).load("map")
    assert again is not None and again.exact == exact


def test_a_float32_network_has_float32_norms_and_is_the_target_still() -> None:
    target = random_target(np.random.default_rng(4), (3, 10, 10, 2))
    box = rc.Box(-1.0, 1.0).of_size(3)
    frozen = rc.draw(target, rc.Wide(), seed=0)
    result = rc.reconstruct(target, frozen, domain=box, dtype=np.float32)
    for node in result.network.norm_nodes():
        for part in (node.op.gamma, node.op.beta):
            assert np.array_equal(part, part.astype(np.float32))
    assert rc.certify(target, result.network, domain=box).bound < 2e-6


def test_shifts_that_cancel_are_no_smaller_and_leave_a_small_sum() -> None:
    rng = np.random.default_rng(0)
    second, least = rng.normal(size=(6, 300)), rng.uniform(0.1, 3.0, size=300)
    raised = cancelling(second, least)
    assert (raised >= least).all()
    assert np.abs(second @ raised).max() < 1e-3 * np.abs(second @ least).max()
    many, wanted = rng.normal(size=(50, 375)), rng.exponential(size=375)  # sizes of ACAS Xu
    for scale in (1.0, 1e-200, 1e306):
        raised = cancelling(scale * many, wanted)
        assert (raised >= wanted).all()
        assert np.abs(many @ raised).max() < 1e-9 * np.abs(many @ wanted).max()
    few = rng.normal(size=(6, 7))  # nothing can cancel here: the shifts stay as they are
    assert np.array_equal(cancelling(few, least[:7]), least[:7])
