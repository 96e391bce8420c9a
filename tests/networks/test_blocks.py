"""Long sums as trees of short ones: the same function, and fewer roundings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.certificates import certify
from reconstruct.equivalence.witness import evaluate_exact
from reconstruct.formats import load, save
from reconstruct.networks import (
    Add,
    Affine,
    Box,
    Convolution,
    Dense,
    Geometry,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
    Select,
    in_blocks,
)
from reconstruct.networks.blocks import TREE, joined
from reconstruct.numbers.exact_dot import exact_pieces

BLOCK, TOGETHER, MOST_BLOCKS = TREE.block, TREE.together, TREE.most


def wide(columns: int, rows: int = 3, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    first = Affine(rng.standard_normal((columns, 2)), rng.standard_normal(columns))
    second = Affine(rng.standard_normal((rows, columns)), rng.standard_normal(rows))
    nodes = (
        Node("in", first, ("input",)),
        Node("act", Relu(), ("in",)),
        Node("out", second, ("act",)),
    )
    return Network(2, nodes, "out")


@pytest.mark.parametrize("columns", [2 * BLOCK, 2 * BLOCK + 1, 9 * BLOCK, 700])
def test_it_is_the_same_function_of_real_numbers(columns) -> None:
    network = wide(columns)
    spelled = in_blocks(network)
    assert len(spelled.nodes) > len(network.nodes)
    for x in np.random.default_rng(1).uniform(-1, 1, (3, 2)):
        assert evaluate_exact(spelled, x) == evaluate_exact(network, x)
    assert isinstance(evaluate_exact(spelled, x)[0], Fraction)


def test_no_sum_is_longer_than_a_block() -> None:
    network = in_blocks(wide(3750))
    blocks = [n for n in network.nodes if isinstance(n.op, Dense) and n.name != "in"]
    assert all(n.op.shape[1] <= BLOCK for n in blocks)
    assert all(len(n.inputs) <= TOGETHER for n in network.nodes if isinstance(n.op, Add))
    assert isinstance(network.node("out").op, Add)


def test_a_very_long_sum_has_larger_blocks_instead_of_more_nodes() -> None:
    network = in_blocks(wide(BLOCK * MOST_BLOCKS * 3, rows=1))
    assert sum(isinstance(n.op, Select) for n in network.nodes) == MOST_BLOCKS


@pytest.mark.parametrize(("rows", "columns"), [(3, 2 * BLOCK - 1), (100, 100), (200, 100)])
def test_short_sums_and_maps_that_give_more_than_they_take_stay(rows, columns) -> None:
    op = Affine(np.ones((rows, columns)))
    network = Network(columns, (Node("out", op, ("input",)),), "out")
    assert in_blocks(network).same(network)


def test_joined_it_is_the_network_again(tmp_path) -> None:
    network = wide(700)
    assert joined(in_blocks(network)).same(network)
    save(in_blocks(network), tmp_path / "tree.onnx", dtype=np.float64)
    assert joined(load(tmp_path / "tree.onnx")).same(network)
    assert joined(network) is network


def test_what_only_looks_like_a_tree_stays_as_it_is() -> None:
    spelled = in_blocks(wide(100), centres={})
    other = {"out.part1": Affine(np.ones((3, 32)), np.ones(3))}  # a second bias
    changed = spelled.with_ops(other)
    assert joined(changed) is changed
    swapped = spelled.with_ops({"out.taken0": Select(32, 64), "out.taken1": Select(0, 32)})
    assert joined(swapped) is swapped


def test_names_that_a_network_has_already_are_left_to_it() -> None:
    network = wide(100)
    taken = Node("out.part0", Affine(np.ones((3, 3))), ("out",))
    spelled = in_blocks(Network(2, (*network.nodes, taken), "out.part0"), centres={})
    assert spelled.node("out.part0").op is taken.op
    x = np.array([[0.25, -0.5]])
    np.testing.assert_allclose(spelled(x), network(x).sum() * np.ones((1, 3)), rtol=1e-12)


def test_a_file_keeps_the_tree_and_onnxruntime_adds_along_it(tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    network = in_blocks(wide(700))
    save(network, tmp_path / "tree.onnx", dtype=np.float32)
    back = load(tmp_path / "tree.onnx")
    assert sum(isinstance(n.op, Select) for n in back.nodes) == -(-700 // BLOCK)
    session = runtime.InferenceSession(tmp_path / "tree.onnx")
    x = np.random.default_rng(2).uniform(-1, 1, (50, 2)).astype(np.float32)
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found, back(x.astype(np.float64)), atol=1e-3)


def test_less_is_lost_to_rounding_and_it_is_proved() -> None:
    network, box = wide(1000), Box(-1.0, 1.0)
    plain = certify(network, network, domain=box, tolerance=1.0)
    tree = certify(network, in_blocks(network), domain=box, tolerance=1.0)
    assert tree.float64_bound is not None and plain.float64_bound is not None
    assert tree.float64_bound < plain.float64_bound / 5


def shifted(columns: int = 300, seed: int = 0, bias: bool = False) -> Network:
    """Hidden units as a construction has them: far from 0, varying little."""
    rng = np.random.default_rng(seed)
    first = Affine(rng.standard_normal((columns, 2)).astype(np.float32))
    beta = rng.uniform(50, 100, columns).astype(np.float32)
    norm = Norm(np.ones(columns), beta, np.zeros(columns), np.full(columns, 1 - 2.0**-17), 2.0**-17)
    weight = rng.standard_normal((3, columns)).astype(np.float32)
    second = Affine(weight, rng.standard_normal(3).astype(np.float32) if bias else None)
    nodes = (
        Node("in", first, ("input",)),
        Node("norm", norm, ("in",)),
        Node("act", Relu(), ("norm",)),
        Node("out", second, ("act",)),
    )
    return Network(2, nodes, "out")


def centred(network: Network) -> list[Node]:
    return [node for node in network.nodes if node.name.endswith(".centred")]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [96, 300, 3750])
def test_shifts_are_taken_out_and_it_is_the_same_function(columns, bias) -> None:
    network = shifted(columns, bias=bias)
    spelled = in_blocks(network)
    assert len(centred(spelled)) == 1
    for x in np.random.default_rng(1).uniform(-1, 1, (2, 2)):
        assert evaluate_exact(spelled, x) == evaluate_exact(network, x)


def test_shifts_that_were_taken_out_come_back_when_it_is_joined(tmp_path) -> None:
    for network in (shifted(), shifted(bias=True)):
        assert joined(in_blocks(network)).same(network)
        save(in_blocks(network), tmp_path / "tree.onnx", dtype=np.float32)
        assert joined(load(tmp_path / "tree.onnx")).same(network)
    spelled = in_blocks(network)
    (node,) = centred(spelled)
    moved = spelled.with_ops({node.name: Scaling(np.ones(300), offset=node.op.offset + 1)})
    assert joined(moved) is moved  # another function
    tuned = network.with_ops({"norm": network.node("norm").op.tuned(np.ones(300), np.ones(300))})
    other = spelled.with_ops({"norm": tuned.node("norm").op})
    assert joined(other).same(tuned)  # the same numbers are taken out, whatever the norm says


def test_where_few_floats_do_not_say_the_sum_nothing_is_taken_out() -> None:
    network = shifted()
    weight = np.array(network.node("out").op.matrix, dtype=np.float64)
    weight[0, 0], weight[0, 1] = 2.0**-140, 1e30
    spelled = in_blocks(network.with_ops({"out": Affine(weight)}))
    assert not centred(spelled) and len(spelled.nodes) > len(network.nodes)
    two = in_blocks(shifted(2 * BLOCK))
    assert not centred(two) and len(two.nodes) > len(network.nodes)


def test_what_is_added_up_is_no_larger_than_what_varies() -> None:
    network, box = shifted(3000), Box(-1.0, 1.0)
    x = box.of_size(2).sample(500, np.random.default_rng(0)).astype(np.float32)
    exact = network(x.astype(np.float64))
    trees = in_blocks(network, centres={}), in_blocks(network)
    plain, taken = (np.abs(t(x, dtype=np.float32) - exact).max() for t in trees)
    assert taken < plain / 3
    first, norm, second = (network.node(name).op for name in ("in", "norm", "out"))
    W, b = second.matrix.astype(float) @ first.matrix, second.matrix.astype(float) @ norm.beta
    target = Network(2, (Node("map", Affine(W, b), ("input",)),), "map")
    proofs = [certify(target, tree, domain=box, tolerance=1e9) for tree in trees]
    assert proofs[1].float32_bound < proofs[0].float32_bound / 3
    assert taken <= proofs[1].float32_bound


def test_a_norm_is_not_folded_into_a_sum_of_halves(tmp_path) -> None:
    """Its shift is rounded once, and not once for every term of the sum before it."""
    rng, columns = np.random.default_rng(0), 60
    first = Affine(rng.standard_normal((80, columns)).astype(np.float32))
    ones = np.ones(80)
    norm = Norm(ones, 1e4 * ones, 0 * ones, ones * (1 - 2.0**-17), 2.0**-17)
    nodes = (Node("in", first, ("input",)), Node("out", norm, ("in",)))
    network = Network(columns, nodes, "out")
    halved = in_blocks(network)
    assert [n.name for n in halved.nodes if isinstance(n.op, Add)] == ["in"]
    assert joined(halved).same(network)
    box = Box(-1.0, 1.0)
    proofs = [certify(network, f, domain=box, tolerance=1e9) for f in (network, halved)]
    assert proofs[1].float32_bound < proofs[0].float32_bound / 10
    save(halved, tmp_path / "halved.onnx", dtype=np.float32)
    assert load(tmp_path / "halved.onnx").same(halved)


def test_sums_beyond_the_floats_are_not_taken_apart() -> None:
    ones = np.ones(200)
    for weight, shift in ((1e30, 1e30), (1e301, 1.0), (1e200, 1e120)):
        assert exact_pieces(np.full((2, 200), weight), shift * ones) is None
    pieces = exact_pieces(np.full((2, 200), 0.1), ones)
    assert pieces is not None
    assert sum(map(Fraction, (float(p[0]) for p in pieces))) == 200 * Fraction(0.1)


def test_names_of_blocks_that_do_not_fit_together_are_left_alone() -> None:
    nodes = (
        Node("a.taken0", Select(0, 2), ("input",)),
        Node("a.part0", Affine(np.ones((3, 2))), ("a.taken0",)),
        Node("a.part1", Affine(np.ones((2, 3))), ("a.part0",)),
        Node("a", Relu(), ("a.part1",)),
    )
    network = Network(4, nodes, "a")
    assert joined(network) is network


def grouped(groups: int, each: int = 80, rows: int = 2) -> Network:
    """Units that see one of the inputs and feed one block of outputs, shifted."""
    rng = np.random.default_rng(groups)
    n = groups * each
    first = Convolution(
        rng.standard_normal((n, 1, 1, 1)), Geometry(groups, 1, 1, (1, 1)), None, groups
    )
    kernel = rng.standard_normal((groups * rows, each, 1, 1)).astype(np.float32)
    second = Convolution(kernel, Geometry(n, 1, 1, (1, 1)), None, groups)
    norm = Norm(np.ones(n), 1000 * rng.random(n), np.zeros(n), np.ones(n), 0.0)
    ops = ("in", first), ("norm", norm), ("act", Relu()), ("out", second)
    names = ("input", "in", "norm", "act")
    nodes = tuple(Node(name, op, (before,)) for (name, op), before in zip(ops, names, strict=True))
    return Network(groups, nodes, "out")


@pytest.mark.parametrize("groups", [1, 3])
def test_maps_of_blocks_lose_their_shifts_and_are_found_again(groups) -> None:
    network = grouped(groups)
    spelled = in_blocks(network)
    assert [n.name for n in spelled.nodes[3:]] == ["out.centred", "out.sums", "out.sum0", "out"]
    x = np.random.default_rng(2).uniform(-1, 1, (4, groups))
    assert all(evaluate_exact(spelled, row) == evaluate_exact(network, row) for row in x)
    errors = [np.abs(f(x, np.float32) - network(x)).max() for f in (network, spelled)]
    assert errors[1] < errors[0]
    assert joined(spelled).same(network)
