"""The deep and narrow construction: shapes, conditioning, failures that say so, exactness."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reconstruct as rc
from reconstruct.certificates.verdicts import Verdict
from reconstruct.constructions.chain import read_chains
from reconstruct.constructions.deep import Carried, solve_backward
from reconstruct.constructions.sites import find_sites
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Auto, ConjugateGradient, Status
from reconstruct.networks import Add, Affine, Node, Norm, Relu, Select, dense
from reconstruct.progress import silent
from tests.constructions.targets import difference, mlp, tolerance

HCAS = Path(__file__).parents[3] / "shared" / "targets" / "hcas"


def gaussian(d: int, m: int | None = None, seed: int = 0) -> rc.Network:
    """One map m × d with entries N(0, 1)/√d and a bias."""
    rng = np.random.default_rng(seed)
    rows = m or d
    return rc.Network.mlp([rng.normal(size=(rows, d)) / np.sqrt(d)], [rng.normal(size=rows)])


def rebuilt(target: rc.Network, block: int, ratio: float, seed: int = 0, **options) -> rc.Result:
    solver = options.pop("solver", None)
    frozen = rc.draw(target, rc.Deep(block=block, ratio=ratio), seed=seed, **options)
    return rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), solver=solver)


def relative_error(target: rc.Network, result: rc.Result) -> float:
    x = result.domain.of_size(target.size_in).sample(500, np.random.default_rng(1))
    g = target(x)
    return float(np.max(np.abs(result.network(x) - g) / np.maximum(1, np.abs(g))))


def chain_of(target: rc.Network, frozen: rc.Frozen):
    (site,) = find_sites(target, frozen.network, frozen.layout_of(target).blueprints)
    (chain,) = read_chains(site)
    return chain


# Shapes and activations


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    block=st.integers(1, 7),
    ratio=st.sampled_from([1.5, 2.0]),
    seed=st.integers(0, 1000),
    final=st.booleans(),
    statistics=st.booleans(),
)
def test_any_shape_and_block(sizes, block, ratio, seed, final, statistics):
    target = mlp(sizes, seed, final_activation=final)
    result = rebuilt(target, block, ratio, seed, statistics=statistics)
    if result.status is Status.SOLVED:  # tiny square blocks (m = 1) may be ill-conditioned
        assert difference(target, result) <= tolerance(result)
    else:
        assert result.status is Status.ILL_CONDITIONED and max(sizes) > 1


def test_blocks_that_do_not_divide_and_their_layers():
    plan = rc.Deep(block=3, ratio=2.0).plan(Affine(np.ones((4, 8)))).blueprint
    assert [(layer.width, layer.block, layer.carry) for layer in plan.layers] == [
        (24, (0, 3), False),
        (24, (3, 6), True),
        (24, (6, 8), True),
        (4, None, True),
    ]
    target = gaussian(8, 4)
    result = rebuilt(target, 3, 2.0)
    assert [row.cols for row in result.layers] == [3, 3, 2]
    assert relative_error(target, result) < 1e-12


@pytest.mark.parametrize(
    "activation",
    [rc.Relu(), rc.LeakyRelu(0.1), rc.Elu(), rc.Selu()],
    ids=repr,
)
@pytest.mark.parametrize("statistics", [False, True])
def test_every_activation_that_is_linear_on_a_half_line(activation, statistics):
    target = gaussian(8, 6)
    result = rebuilt(target, 2, 1.5, activation=activation, statistics=statistics)
    assert result.status is Status.SOLVED
    assert relative_error(target, result) < 1e-10


def test_an_activation_that_is_linear_on_an_interval_is_refused():
    with pytest.raises(InputError, match=r"half-line.* \[-1, 1\] only; use --construction wide"):
        rebuilt(gaussian(8), 2, 1.5, activation=rc.Clip(-1, 1))


def test_several_maps_in_a_row_certify():
    target = mlp([5, 7, 4, 3], 2)
    result = rebuilt(target, 2, 1.5)
    certificate = rc.certify(target, result.network, domain=result.domain)
    assert certificate.verdict is Verdict.CERTIFIED
    assert certificate.bound <= 1e-9
    assert difference(target, result) <= certificate.float64_bound


def test_solver_of_the_users_choice_is_used():
    target = gaussian(8)
    result = rebuilt(target, 4, 2.0, solver=ConjugateGradient())
    assert {row.solver for row in result.layers} == {"cg"}
    assert relative_error(target, result) < 1e-10


def brought(rng) -> rc.Network:
    """A deep site as a user may bring it: statistics, biases, layers of unlike width."""

    def norm(n):
        return Norm(*rng.normal(size=(3, n)), np.exp(rng.normal(size=n)), 1e-3)

    nodes = [
        Node("x1", Select(0, 2), ("input",)),
        Node("A1", Affine(rng.normal(size=(9, 2)), rng.normal(size=9)), ("x1",)),
        Node("N1", norm(9), ("A1",)),
        Node("r1", Relu(), ("N1",)),
        Node("M2", Affine(rng.normal(size=(7, 9)), rng.normal(size=7)), ("r1",)),
        Node("x2", Select(2, 4), ("input",)),
        Node("A2", Affine(rng.normal(size=(7, 2)), rng.normal(size=7)), ("x2",)),
        Node("sum", Add(), ("A2", "M2")),
        Node("N2", norm(7), ("sum",)),
        Node("r2", Relu(), ("N2",)),
        Node("out", Affine(rng.normal(size=(3, 7)), rng.normal(size=3)), ("r2",)),
        Node("N3", norm(3), ("out",)),
    ]
    return rc.Network(4, tuple(nodes), "N3")


def test_a_network_with_statistics_and_biases_of_its_own():
    target = gaussian(4, 3)
    frozen = rc.Frozen(brought(np.random.default_rng(0)), rc.Deep(block=2))
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    assert result.status is Status.SOLVED
    assert relative_error(target, result) < 1e-12


def test_one_neuron_too_narrow_names_the_block():
    target = gaussian(4, 4)
    frozen = brought(np.random.default_rng(0))
    out = Affine(np.ones((4, 7)))
    norm = Norm(np.ones(4), np.zeros(4), np.zeros(4), np.ones(4))
    wrong = rc.Frozen(frozen.with_ops({"out": out, "N3": norm}), rc.Deep(block=2))
    with pytest.raises(InputError, match=r"block 2 needs .*m·k = 4·2 = 8 .*has 7 neurons at 'N2'"):
        rc.reconstruct(target, wrong, domain=rc.Box(-1, 1))


@pytest.mark.parametrize("block", [0, -1])
def test_a_block_holds_at_least_one_input(block):
    with pytest.raises(InputError, match=f"at least 1.*but is {block}"):
        rc.Deep(block=block)


@pytest.mark.parametrize(("d", "block", "keep"), [(32, 8, 0.2), (16, 4, 0.5)])
def test_sparse_weights(d, block, keep):
    target = gaussian(d)
    result = rebuilt(target, block, 1.5, density=keep)
    assert result.status is Status.SOLVED
    assert relative_error(target, result) < 1e-11


def test_zeros_that_leave_a_block_out_of_reach_are_refused_by_name():
    with pytest.raises(InputError, match=r"map 1 .*, block 4 cannot be reached"):
        rebuilt(gaussian(16), 4, 1.5, density=0.1)


def test_singular_signs_are_said_with_the_rank():
    """±1 weights in a square system are often singular: two equal hidden units, for example."""
    result = rebuilt(gaussian(6), 2, 1.0, weights=rc.Weights.RADEMACHER)
    assert result.status is Status.RANK_DEFICIENT
    last = result.layers[-1]
    assert last.rank is not None and last.rank < 12
    assert f"rank {last.rank} of 12 needed" in last.message


# Conditioning


@pytest.mark.parametrize(
    ("block", "bound"), [(16, 1e-8), (8, 1e-8), (4, 1e-8), (2, 1e-8), (1, 1e-6)]
)
def test_errors_at_ratio_2(block, bound):
    """What the construction has to reach for a 32 × 32 map; it is at 1e-13, and 1e-12 for 1."""
    target = gaussian(32)
    result = rebuilt(target, block, 2.0)
    assert result.status is Status.SOLVED
    assert relative_error(target, result) <= bound / 1000


def test_the_gradient_of_what_is_minimised():
    rng = np.random.default_rng(0)
    B, M = rng.normal(size=(3, 8)), rng.normal(size=(8, 8))
    s, v, step = rng.normal(size=8), rng.normal(size=8), 1e-6
    carried = Carried(B, M, tau=0.7)
    slope = (carried.value(s + step * v)[0] - carried.value(s - step * v)[0]) / (2 * step)
    assert carried.value(s)[1] @ v == pytest.approx(slope, rel=1e-6)


def test_spare_width_is_spent_on_the_condition():
    target = gaussian(16)
    frozen = rc.draw(target, rc.Deep(block=1, ratio=2.0), seed=0)
    chain = chain_of(target, frozen)
    W = dense(target.nodes[0].op.weight)
    blocks = solve_backward(chain, W, Auto(), silent)
    assert max(block.condition for block in blocks) < 1e3
    for link, block in zip(chain.links, blocks, strict=True):
        start, stop = link.block
        made = (block.B * block.real) @ dense(link.entry)
        np.testing.assert_allclose(made.astype(float), W[:, start:stop], atol=1e-12)


def test_what_float64_cannot_carry_is_said_with_the_figure():
    result = rebuilt(gaussian(16), 1, 1.0)
    assert result.status is Status.ILL_CONDITIONED
    row = result.layers[0]
    assert f"relative residual {row.residual:.1e}" in row.message
    assert "block 1 of 16, inputs 0 to 0" in row.message and row.status.remedy in row.message
    assert all(np.isfinite(n.gamma).all() for n in result.norms.values())


@pytest.mark.parametrize("block", [1, 2, 3])
def test_honesty_without_spare_width(block):
    """A case that is called solved is solved, whatever the condition came to."""
    for d in (6, 9, 12, 15):
        for seed in range(4):
            target = gaussian(d, seed=seed)
            result = rebuilt(target, block, 1.0, seed)
            if result.status is Status.SOLVED:
                assert relative_error(target, result) <= 3e-6


# Zero blocks and zero columns


def with_zeros(first: int, stop: int) -> rc.Network:
    W = np.random.default_rng(3).normal(size=(6, 8))
    W[:, first:stop] = 0
    return rc.Network.mlp([W])


@pytest.mark.parametrize(("first", "stop"), [(4, 6), (2, 6), (0, 2), (6, 8), (0, 8)])
@pytest.mark.parametrize("block", [1, 2])
def test_zero_blocks_with_spare_width(first, stop, block):
    target = with_zeros(first, stop)
    result = rebuilt(target, block, 1.5)
    assert result.status is Status.SOLVED
    assert relative_error(target, result) < 1e-10


def test_zero_block_without_spare_width_is_said_with_the_numbers():
    result = rebuilt(with_zeros(4, 6), 2, 1.0)
    assert result.status is Status.RANK_DEFICIENT
    row = result.layers[2]
    assert row.status is Status.RANK_DEFICIENT
    assert "the block of W is zero, and with width 12 for 12 equations" in row.message
    assert "nothing of the 4 inputs before it" in row.message


def test_zero_blocks_that_carry_nothing_need_no_spare_width():
    for target in (with_zeros(0, 2), with_zeros(0, 6), with_zeros(0, 8)):
        result = rebuilt(target, 2, 1.0)
        assert result.status is Status.SOLVED
        assert relative_error(target, result) < 1e-11


def test_a_zero_column_inside_a_block_needs_no_spare_width():
    target = with_zeros(5, 6)
    result = rebuilt(target, 2, 1.0)
    assert result.status is Status.SOLVED
    assert relative_error(target, result) < 1e-11


@pytest.mark.parametrize("exponent", [-600, 600])
def test_scale_of_the_map_is_left_to_the_last_norm(exponent):
    W = np.ldexp(np.random.default_rng(0).normal(size=(4, 6)), exponent)
    target = rc.Network.mlp([W])
    result = rebuilt(target, 2, 1.5)
    assert result.status is Status.SOLVED
    x = np.random.default_rng(1).uniform(-1, 1, size=(50, 6))
    size = np.abs(target(x)).max()
    assert np.abs(result.network(x) - target(x)).max() / size < 1e-12


# Files


def test_onnx_has_real_sums_and_agrees(tmp_path):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    target = mlp([5, 4, 3], 1)
    result = rebuilt(target, 2, 1.5)
    path = tmp_path / "network.onnx"
    rc.save(result.network, path)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("Add") >= 2
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).uniform(-1, 1, size=(20, 5))
    (name,) = [value.name for value in session.get_inputs()]
    np.testing.assert_allclose(session.run(None, {name: x})[0], target(x), atol=1e-11)


@pytest.mark.skipif(not HCAS.is_dir(), reason="the shared target networks are not here")
def test_hcas_in_blocks_of_5():
    target = rc.load(min(HCAS.glob("*.nnet")))
    frozen = rc.draw(target, rc.Deep(block=5, ratio=1.5), seed=0)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-0.5, 0.5))
    certificate = rc.certify(target, result.network, domain=result.domain)
    assert certificate.verdict is Verdict.CERTIFIED
    assert difference(target, result) <= certificate.float64_bound
