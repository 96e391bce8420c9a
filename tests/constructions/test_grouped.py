"""Grouped frozen layers: planted answers, dense LAPACK as oracle, and what is refused."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import CheckStatus, check
from proofs_check.certificates.affine import Forms
from reconstruct.constructions.wide import raised_norms
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Status
from reconstruct.khatri_rao.blocks import blocks_of, khatri_rao_blocks, solve_apart, solve_blocks
from reconstruct.networks import Add, Affine, Convolution, Geometry, Network, Node, Relu
from reconstruct.networks.maps import Placement
from reconstruct.runs.given import advice
from tests.proofs_check.certificates.making import certified, edit


def systems(groups: int = 40, o: int = 3, c: int = 4, q: int = 18, seed: int = 0):
    rng = np.random.default_rng(seed)
    shapes = (groups, q, c), (groups, o, q), (groups, o, c)
    return tuple(rng.standard_normal(shape) for shape in shapes)


def mlp(*sizes: int, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.standard_normal((m, k)) / np.sqrt(k) for k, m in pairs]
    return Network.mlp(weights, [0.1 * rng.standard_normal(m) for _, m in pairs])


def image_network(groups: int = 1, stride: int = 1) -> Network:
    rng = np.random.default_rng(3)
    first = Geometry(2, 5, 5, (3, 3), (stride, stride), (1, 1, 1, 1))
    down, across = first.output
    second = Geometry(6, down, across, (3, 3), pads=(1, 1, 1, 1))
    kernel = rng.standard_normal((6, 6 // groups, 3, 3)) / 6
    nodes = (
        Node("c1", Convolution(rng.standard_normal((6, 2, 3, 3)) / 4, first), ("input",)),
        Node("r1", Relu(), ("c1",)),
        Node("c2", Convolution(kernel, second, rng.standard_normal(6), groups), ("r1",)),
        Node("sum", Add(), ("c2", "r1")),
        Node("r2", Relu(), ("sum",)),
        Node("end", Affine(rng.standard_normal((4, 6 * down * across)) / 9), ("r2",)),
    )
    return Network(50, nodes, "end")


def rebuilt(target: Network, construction: rc.Grouped, lo: float = -0.5, hi: float = 0.5, **more):
    frozen = rc.draw(target, construction, seed=1)
    return rc.reconstruct(target, frozen, domain=rc.Box(lo, hi), **more)


def gap(target: Network, network: Network, samples: int = 50) -> float:
    x = np.random.default_rng(7).uniform(-0.5, 0.5, (samples, target.size_in))
    return float(np.max(np.abs(network(x) - target(x))))


# --- systems --------------------------------------------------------------------------------------


def test_each_block_is_the_least_norm_solution_of_lapack() -> None:
    A, B, W = systems()
    solution, s = solve_blocks(A, B, W)
    assert solution.status is Status.SOLVED and s.shape == (40, 18)
    for K, w, found in zip(khatri_rao_blocks(A, B), W, s, strict=True):
        oracle = np.linalg.lstsq(K, w.ravel(), rcond=None)[0]
        np.testing.assert_allclose(found, oracle, atol=1e-11)


def test_a_planted_solution_of_square_blocks_is_found() -> None:
    A, B, _ = systems(q=12)
    planted = np.random.default_rng(5).standard_normal((40, 12))
    W = B @ (planted[:, :, None] * A)
    solution, s = solve_blocks(A, B, W)
    assert solution.status is Status.SOLVED
    assert np.max(np.abs(s - planted)) <= 1e-14 * solution.condition * np.max(np.abs(planted))


def test_condition_is_that_of_the_worst_block() -> None:
    A, B, W = systems()
    true = max(np.linalg.cond(K) for K in khatri_rao_blocks(A, B))
    found = solve_blocks(A, B, W)[0].condition
    assert found is not None and 0.5 * true <= found <= 1.01 * true


def test_one_singular_block_among_many_is_a_failure_that_says_so() -> None:
    A, B, W = systems()
    A[17, :, 1] = A[17, :, 0]
    solution, _ = solve_blocks(A, B, W)
    assert solution.status is Status.RANK_DEFICIENT
    assert solution.rank == 40 * 12 - 3 and solution.condition == np.inf


def test_too_few_units_and_numbers_that_are_not_finite_are_failures() -> None:
    A, B, W = systems(q=11)
    assert solve_blocks(A, B, W)[0].status is Status.TOO_NARROW
    A, B, W = systems()
    A[3, 0, 0] = np.nan
    assert not solve_blocks(A, B, W)[0].solved


@pytest.mark.parametrize("solver", [rc.Direct(), rc.Exact(), rc.ConjugateGradient()])
def test_other_solvers_solve_block_by_block(solver) -> None:
    A, B, W = systems(groups=3, o=2, c=2, q=6)
    solution, s = solve_blocks(A, B, W, solver)
    assert solution.solved
    np.testing.assert_allclose(s, solve_blocks(A, B, W)[1], atol=1e-6)  # of float32 iterations


def planted(groups=(3, 2), o=4, c=3, q=20, seed=0):
    """Dense matrices whose supports are blocks, their units, inputs and outputs in any order."""
    rng = np.random.default_rng(seed)
    outs, ins = groups
    A, B, W = systems(outs * ins, o, c, q, seed)
    M1, M2 = np.zeros((outs * ins * q, ins * c)), np.zeros((outs * o, outs * ins * q))
    whole = np.zeros((outs * o, ins * c))
    for g, (i, j) in enumerate(np.ndindex(outs, ins)):
        units, rows, cols = (
            slice(g * q, g * q + q),
            slice(i * o, i * o + o),
            slice(j * c, j * c + c),
        )
        M1[units, cols], M2[rows, units], whole[rows, cols] = A[g], B[g], W[g]
    units, rows, cols = (rng.permutation(size) for size in (len(M1), len(M2), ins * c))
    return M1[np.ix_(units, cols)], M2[np.ix_(rows, units)], whole[np.ix_(rows, cols)]


def test_blocks_are_found_by_their_supports_in_any_order() -> None:
    M1, M2, W = planted()
    blocks = blocks_of(M1, M2)
    assert blocks is not None and {tuple(map(len, b)) for b in blocks} == {(20, 4, 3)}
    assert len(blocks) == 6
    solution = solve_apart(M1, M2, W, rc.Auto())
    assert solution is not None and solution.status is Status.SOLVED and solution.rank == W.size
    np.testing.assert_allclose((M2 * solution.s) @ M1, W, atol=1e-12)
    K = khatri_rao_blocks(M1[None], M2[None])[0]
    oracle = np.linalg.lstsq(K, W.ravel(), rcond=None)[0]
    np.testing.assert_allclose(solution.s, oracle, atol=1e-10)


def test_what_hangs_together_is_one_system() -> None:
    M1, M2, _ = planted()
    M1[0, :], M2[:, 0] = 1.0, 1.0  # a unit that takes part in all equations
    assert blocks_of(M1, M2) is None
    rng = np.random.default_rng(0)
    assert blocks_of(rng.standard_normal((20, 3)), rng.standard_normal((4, 20))) is None
    M1, M2, _ = planted()
    blocks = blocks_of(M1, M2)
    assert blocks is not None
    M2[:, blocks[0][0]] = 0.0  # equations in which no unit takes part
    assert blocks_of(M1, M2) is None


def test_a_frozen_network_with_planted_blocks_is_solved_block_by_block(tmp_path) -> None:
    """Dense layers in a file, brought with --frozen, for the wide construction."""
    M1, M2, W = planted(q=24)
    target = Network.mlp([W], [np.ones(len(W))])
    drawn = rc.draw(target, rc.Wide(ratio=2.0), seed=0)
    maps = drawn.network.mixing_nodes()
    network = drawn.network.with_ops(
        {node.name: Affine(M) for node, M in zip(maps, (M1, M2), strict=True)}
    )
    rc.save(network, tmp_path / "frozen.npz", dtype=None)
    result = rc.reconstruct(target, rc.load(tmp_path / "frozen.npz"), domain=(-0.5, 0.5))
    assert [layer.solver for layer in result.layers] == ["blocks"]
    assert gap(target, result.network) < 1e-12


@pytest.mark.parametrize("target", [mlp(7, 13, 5), mlp(8, 4)])
def test_grouped_layers_that_are_brought_need_no_word_for_it(tmp_path, target) -> None:
    """Their file says what they are: the wide construction solves them block by block."""
    drawn = rc.draw(target, rc.Grouped(block=3), seed=2)
    rc.save(drawn.network, tmp_path / "frozen.onnx")
    brought = rc.load(tmp_path / "frozen.onnx")
    result = rc.reconstruct(target, brought, domain=(-0.5, 0.5))
    assert {layer.solver for layer in result.layers} == {"blocks"}
    assert gap(target, result.network) < 1e-10
    assert all(proof is not None and proof.proved for proof in result.prove_ranks())


def test_dense_layers_with_blocks_of_zeros_are_solved_apart_whatever_is_asked_for() -> None:
    M1, M2, W = planted(q=24)
    target = Network.mlp([W], [np.ones(len(W))])
    drawn = rc.draw(target, rc.Wide(ratio=2.0), seed=0).network
    maps = zip(drawn.mixing_nodes(), (M1, M2), strict=True)
    network = drawn.with_ops({node.name: Affine(M) for node, M in maps})
    frozen = rc.Frozen(network, rc.Grouped(block=8))
    result = rc.reconstruct(target, frozen, domain=(-0.5, 0.5))
    assert [layer.solver for layer in result.layers] == ["blocks"]
    assert len(result.prove_ranks()) == 1 and gap(target, result.network) < 1e-12


# --- networks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_sizes_that_the_block_does_not_divide(block: int, ratio: float) -> None:
    target = mlp(7, 13, 11, 3)
    result = rebuilt(target, rc.Grouped(block=block, ratio=ratio))
    assert result.status is Status.SOLVED
    worst = max(layer.condition for layer in result.layers)
    assert gap(target, result.network) <= 1e-13 * worst


def test_weights_grow_with_the_block_and_not_with_the_layer() -> None:
    target = mlp(64, 64, 64)
    frozen = rc.draw(target, rc.Grouped(block=8), seed=0)
    width = 1.5 * 64 * 64
    assert sum(node.op.weights for node in frozen.network.nodes) == 2 * 2 * 8 * width


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_groups_and_branches(groups: int, stride: int) -> None:
    target = image_network(groups, stride)
    result = rebuilt(target, rc.Grouped(block=4))
    assert result.status is Status.SOLVED and gap(target, result.network) < 1e-12
    certificate = rc.certify(target, result.network, domain=result.domain)
    assert certificate.verdict.value == "certified" and certificate.bound < 1e-9


@pytest.mark.parametrize("activation", [rc.LeakyRelu(0.1), rc.Clip(0.0, 6.0), rc.Elu(1.0)])
def test_activations_as_wide_takes_them(activation) -> None:
    target = mlp(6, 9, 4)
    frozen = rc.draw(target, rc.Grouped(block=3), seed=2, activation=activation, statistics=True)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-0.5, 0.5))
    assert result.status is Status.SOLVED and gap(target, result.network) < 1e-10


@pytest.mark.parametrize("bounds", [rc.Interval(), rc.Crown()])
def test_the_certificate_is_near_the_error(bounds) -> None:
    target = mlp(7, 24, 10, 5)
    result = rebuilt(target, rc.Grouped(block=4), bounds=bounds)
    certificate = rc.certify(target, result.network, domain=result.domain, bounds=bounds)
    assert certificate.verdict.value == "certified"
    assert certificate.bound <= 1e-11
    assert gap(target, result.network) <= certificate.float64_bound  # as it is evaluated


def test_an_exact_solve_is_an_exact_identity() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.integers(-3, 4, shape).astype(float) for shape in ((4, 3), (2, 4))]
    target = Network.mlp(weights, [np.ones(4), np.zeros(2)])
    result = rebuilt(target, rc.Grouped(block=2), solver=rc.Exact())
    certificate = rc.certify(target, result.network, domain=result.domain, exact_norms=result.exact)
    assert certificate.rigor.value == "exact"


def test_given_points_are_a_domain() -> None:
    target = mlp(12, 20, 5)
    x = np.random.default_rng(1).uniform(-1, 1, (16, 12))
    frozen = rc.draw(target, rc.Grouped(), seed=0)
    result = rc.reconstruct(target, frozen, domain=rc.Points(x))
    assert np.max(np.abs(result.network(x) - target(x))) < 1e-12
    assert np.all(result.margin(x) >= 0)
    assert rc.certify(target, result.network, domain=rc.Points(x)).verdict.value == "certified"


def test_ranks_of_all_blocks_are_proved() -> None:
    result = rebuilt(mlp(4, 6, 2), rc.Grouped(block=2))
    proofs = result.prove_ranks()
    assert len(proofs) == len(result.layers) == 2
    assert all(proof.proved and proof.needed >= 12 for proof in proofs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnxruntime_computes_the_same(tmp_path, dtype) -> None:
    runtime = pytest.importorskip("onnxruntime")
    target = image_network()
    result = rebuilt(target, rc.Grouped(block=4))
    rc.save(result.network, tmp_path / "f.onnx", dtype=dtype)
    session = runtime.InferenceSession(str(tmp_path / "f.onnx"))
    entry = session.get_inputs()[0]
    x = np.random.default_rng(0).uniform(-0.5, 0.5, 50).astype(dtype)
    shape = [size if isinstance(size, int) else 1 for size in entry.shape]
    (found,) = session.run(None, {entry.name: x.reshape(shape)})
    close = 1e-12 if dtype == np.float64 else 1e-3
    assert np.max(np.abs(found.ravel() - target(x[None].astype(float))[0])) < close


@pytest.mark.parametrize("suffix", ["onnx", "npz"])
def test_a_file_keeps_the_groups_and_is_solved_as_a_frozen_network_again(tmp_path, suffix) -> None:
    target = mlp(16, 24, 10)
    frozen = rc.draw(target, rc.Grouped(block=4), seed=0)
    path = tmp_path / f"f.{suffix}"
    rc.save(frozen.network, path)
    again = rc.load(path)
    assert sum(node.op.weights for node in again.nodes) == sum(
        node.op.weights for node in frozen.network.nodes
    )
    brought = rc.draw(target, rc.Grouped(block=7), seed=0)  # of another block than the file's
    from reconstruct.constructions import Frozen

    result = rc.reconstruct(target, Frozen(again, brought.construction), domain=rc.Box(-0.5, 0.5))
    assert result.status is Status.SOLVED and gap(target, result.network) < 1e-12


# --- the checker ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [rc.Crown(), rc.Adaptive(boxes=32)])
@pytest.mark.parametrize("target", [mlp(7, 24, 10, 5), mlp(3, 9, 2), image_network(2, 2)])
def test_the_checker_accepts_blocks_and_no_other_claim(tmp_path, target, bounds) -> None:
    domain = rc.Box(-0.5, 0.5).of_size(target.size_in)
    frozen = rc.draw(target, rc.Grouped(block=4), seed=1)
    result = rc.reconstruct(target, frozen, domain=domain, bounds=bounds)
    found = certified(tmp_path, target, result.network, domain, bounds=bounds)
    assert found.verdict.value == "certified"
    report = check(tmp_path / "certificate.json")
    assert report.status is CheckStatus.ACCEPTED, report
    edit(tmp_path, "bound", value=(found.bound / 1e6).hex())
    assert check(tmp_path / "certificate.json").status is not CheckStatus.ACCEPTED


@pytest.mark.parametrize("target", [mlp(7, 24, 10, 5), image_network()])
def test_the_checker_sees_one_weight_that_was_changed(tmp_path, target) -> None:
    """An honest certificate of another network than the one that is claimed: none of the blocks
    is left out of the comparison."""
    domain = rc.Box(-0.5, 0.5).of_size(target.size_in)
    result = rebuilt(target, rc.Grouped(block=4))
    found = certified(tmp_path, target, result.network, domain)
    maps = [node for node in result.network.nodes if isinstance(node.op, Convolution)]
    for number, node in enumerate(maps):
        kernel = np.array(node.op.kernel)
        kernel[(0, len(kernel) // 2, -1)[number % 3], 0] += 1.0  # entry 0 is never a filled up one
        changed = Convolution(kernel, node.op.geometry, node.op.offsets, node.op.groups)
        other = result.network.with_ops({node.name: changed})
        rc.save(other, tmp_path / "network.npz", dtype=None)
        digest = hashlib.sha256((tmp_path / "network.npz").read_bytes()).hexdigest()
        edit(tmp_path, "candidate", "sha256", value=digest)
        assert check(tmp_path / "certificate.json").status is not CheckStatus.ACCEPTED, node.name
    assert found.verdict.value == "certified"


def test_composed_blocks_are_the_unrolled_forms() -> None:
    """The checker's forms of a grouped site, group by group, against its matrices multiplied."""
    target = mlp(7, 13)
    network = rebuilt(target, rc.Grouped(block=3)).network
    (act,) = (node for node in network.nodes if isinstance(node.op, Relu))
    forms = Forms(network, {network.source: "x"})
    forms.doubts[act.name] = np.zeros(network.sizes[act.name])
    whole = forms.whole(network.output)
    middle, _ = whole.floats()
    assert np.array_equal(whole.layout[0].index[:, 0], np.arange(network.size_in))
    np.testing.assert_allclose(middle[:, :-1], target.nodes[0].op.matrix, atol=1e-12)
    np.testing.assert_allclose(middle[:, -1], target.nodes[0].op.bias, atol=1e-11)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"block": 0}, "block must be at least 1"), ({"ratio": 0.9}, "ratio must be at least 1")],
)
def test_settings_out_of_range_are_refused(settings, words) -> None:
    with pytest.raises(InputError, match=words):
        rc.Grouped(**settings)


def test_a_network_one_unit_too_narrow_says_its_numbers() -> None:
    target = mlp(6, 4)
    network = frozen_by_hand(target, width=11)
    from reconstruct.constructions import Frozen

    with pytest.raises(InputError, match=r"2·6 = 12 hidden units .* has 11 .* widen it by 1"):
        rc.reconstruct(target, Frozen(network, rc.Grouped()), domain=rc.Box(-1, 1))


def test_blocks_that_do_not_cover_the_inputs_are_refused() -> None:
    target = mlp(6, 4)
    network = frozen_by_hand(target, width=12, index=[0, 1, 2, 3, 4, 4, 0, 1, 2, 3, 4, 5])
    from reconstruct.constructions import Frozen

    with pytest.raises(InputError, match="sees 6 inputs, 5 of them different"):
        rc.reconstruct(target, Frozen(network, rc.Grouped()), domain=rc.Box(-1, 1))


def frozen_by_hand(target: Network, width: int, index: list[int] | None = None) -> Network:
    """Two blocks of outputs, one of inputs, `width` hidden units for each pair."""
    rng = np.random.default_rng(0)
    moved = Placement(index or [*range(6), *range(6)], 6)
    first = rng.standard_normal((2 * width, 6, 1, 1))
    second = rng.standard_normal((4, width, 1, 1))
    nodes = (
        Node("repeat", moved, ("input",)),
        Node("M1", Convolution(first, Geometry(12, 1, 1, (1, 1)), None, 2), ("repeat",)),
        Node("N1", rc.networks.Norm.neutral(2 * width), ("M1",)),
        Node("act", Relu(), ("N1",)),
        Node("M2", Convolution(second, Geometry(2 * width, 1, 1, (1, 1)), None, 2), ("act",)),
        Node("N2", rc.networks.Norm.neutral(4), ("M2",)),
    )
    return Network(6, nodes, "N2")


# --- what it would take ---------------------------------------------------------------------------


def test_a_long_run_is_told_what_grouped_layers_take() -> None:
    """Over two minutes, and only for the other constructions."""
    large, small = mlp(784, 256, 256, 10), mlp(6, 9, 4)
    told = advice(large, rc.Wide(), None)
    assert told is not None and "wide takes about" in told and "--construction grouped" in told
    assert advice(large, rc.Grouped(), None) is None
    assert advice(small, rc.Wide(), None) is None


def test_blocks_whose_inputs_are_zero_on_the_data_stay_active():
    """Units behind inputs that never fire need no shift, but rounding errors reach them."""
    rng = np.random.default_rng(4)
    weights = [rng.normal(size=(8, 4)), rng.normal(size=(6, 8)), rng.normal(size=(3, 6))]
    biases = [np.r_[np.full(4, -100.0), rng.normal(size=4)], rng.normal(size=6), np.zeros(3)]
    target = rc.Network.mlp(weights, biases)
    data = rc.Points(rng.uniform(-1, 1, (5, 4)))
    result = rc.reconstruct(target, rc.draw(target, rc.Grouped(block=2)), domain=data)
    certificate = rc.certify(target, result.network, domain=result.domain)
    margins = [segment.margin for segment in certificate.segments if segment.margin is not None]
    assert certificate.bound < 1e-11 and len(margins) == 3 and min(margins) > 0


@pytest.mark.parametrize("target", [mlp(7, 13, 5), image_network(2)])
@pytest.mark.parametrize("block", [3, 8])
def test_a_run_in_float32_has_raised_shifts_and_is_accepted(tmp_path, target, block) -> None:
    """Shifts grow by what rounding before them may do, and the maps behind take it away again."""
    done = rc.run(
        target,
        tmp_path / "out",
        domain=(-0.5, 0.5),
        construction=rc.Grouped(block=block),
        dtype=np.float32,
        bounds=rc.Crown(),
        samples=20,
        tolerance=10.0,
        page=False,
    )
    assert done.certificate.bound < 1e-2  # betas are rounded
    assert done.certificate.float32_bound < 10
    assert check(tmp_path / "out" / "certificate.json").status is CheckStatus.ACCEPTED


def test_raised_shifts_of_blocks_leave_the_map_as_it_is() -> None:
    target = mlp(6, 12)
    result = rebuilt(target, rc.Grouped(block=3))
    (site,) = result.sites
    name = site.layers[0].activation or ""
    lack = np.random.default_rng(0).uniform(0.1, 1.0, result.network.sizes[name])
    norms = raised_norms(result.network, result.sites, {name: lack}, np.float64)
    before = result.network.node(site.layers[0].norm).op.effective()[1]
    after = norms[site.layers[0].norm].effective()[1]
    assert np.all(after >= before + lack)
    assert gap(target, result.network.with_ops(norms)) < 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_norms_and_the_seed_give_the_files_again_and_torch_computes_them(tmp_path, dtype) -> None:
    """Sizes that the block does not divide; frozen weights are drawn anew, norms are read."""
    torch = pytest.importorskip("torch")
    target, out = mlp(7, 10, 3), tmp_path / "out"
    how = {"construction": rc.Grouped(block=4), "dtype": dtype, "bounds": rc.Crown()}
    rc.run(target, out, domain=(-0.5, 0.5), samples=20, tolerance=10.0, page=False, **how)
    names = ("network.onnx", "network_folded.onnx")
    kept = {name: (out / name).read_bytes() for name in names}
    for name in names:
        (out / name).unlink()
    rc.rebuild(out)
    assert {name: (out / name).read_bytes() for name in names} == kept
    network = rc.load(out / "network.onnx")
    with np.load(out / "norms.npz") as norms:
        first = network.norm_nodes()[0]
        np.testing.assert_array_equal(norms[f"{first.name}.weight"], first.op.gamma)
    x = np.random.default_rng(0).uniform(-0.5, 0.5, (5, 7))
    found = rc.to_torch(network)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, network(x), atol=1e-9)
