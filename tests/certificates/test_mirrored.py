"""Units that repeat or mirror one another: taken out exactly, or not at all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from reconstruct.certificates import Verdict, certify, evaluate_exact
from reconstruct.equivalence.mirrored import fold_mirrored
from reconstruct.networks import Add, Affine, Box, Network, Node, Relu


def split(network: Network, rng: np.random.Generator) -> Network:
    """The first map as p = relu(p) − relu(−p), moved by a constant that is taken back later."""
    first = network.mixing_nodes()[0].op
    m = len(first.bias)
    move = rng.integers(-4, 5, m).astype(float)
    order = rng.permutation(2 * m)
    rows = np.concatenate([first.matrix, -first.matrix])[order]
    offsets = np.concatenate([first.bias + move, -first.bias - move])[order]
    join = np.concatenate([np.eye(m), -np.eye(m)], axis=1)[:, order]
    nodes = [
        Node("p", Affine(rows, offsets), (network.source,)),
        Node("bent", Relu(), ("p",)),
        Node(network.nodes[0].name, Affine(join, -move), ("bent",)),
        *network.nodes[1:],
    ]
    return Network(network.size_in, tuple(nodes), network.output, network.source)


def small(seed: int) -> Network:
    """Weights of few bits, so that moving a bias rounds nothing."""
    rng = np.random.default_rng(seed)
    shapes = ((6, 3), (5, 6), (2, 5))
    weights = [rng.integers(-64, 65, shape) / 64.0 for shape in shapes]
    return Network.mlp(weights, [rng.integers(-64, 65, shape[0]) / 64.0 for shape in shapes])


@pytest.mark.parametrize("seed", range(6))
def test_split_units_are_folded_to_the_same_function(seed) -> None:
    rng = np.random.default_rng(seed)
    network = small(seed)
    other = split(network, rng)
    folded = fold_mirrored(other)
    assert folded.units == 6 and len(folded.network.activation_nodes()) == 2
    for x in rng.normal(size=(4, 3)):
        assert evaluate_exact(folded.network, x) == evaluate_exact(other, x)
        assert evaluate_exact(folded.network, x) == evaluate_exact(network, x)


@pytest.mark.parametrize("seed", range(6))
def test_split_networks_are_certified_either_way_round(seed) -> None:
    network = small(seed)
    other = split(network, np.random.default_rng(seed))
    for pair in ((network, other), (other, network)):
        certificate = certify(*pair, domain=Box(-1.0, 1.0), tolerance=1e-12, time_limit=60)
        assert certificate.verdict is Verdict.CERTIFIED and certificate.method == "general"
        assert any("6 units that repeat or mirror others" in text for text in certificate.tried)


def sandwich(first: list, behind: list, *names: str) -> Network:
    a, r, o = names or ("a", "r", "o")
    nodes = (
        Node(a, Affine(first, np.zeros(len(first))), ("input",)),
        Node(r, Relu(), (a,)),
        Node(o, Affine(behind, [0.5]), (r,)),
    )
    return Network(1, nodes, o)


def test_a_mirror_that_leaves_a_bend_goes_two_ways() -> None:
    """2 relu(3x) + 5 relu(−3x) = 7 relu(3x) − 15 x."""
    network = sandwich([[3.0], [-3.0]], [[2.0, 5.0]])
    folded = fold_mirrored(network).network
    assert [type(n.op).__name__ for n in folded.nodes] == ["Dense", "Relu", "Dense", "Dense", "Add"]
    for x in (-1.5, -0.0, 0.25, 7.0):
        expected = Fraction(2) * max(3 * Fraction(x), 0) + 5 * max(-3 * Fraction(x), 0)
        assert evaluate_exact(folded, [x]) == (expected + Fraction(1, 2),)


def test_repeated_units_are_one() -> None:
    folded = fold_mirrored(sandwich([[3.0], [3.0], [1.0]], [[2.0, 5.0, 1.0]]))
    assert folded.units == 1 and folded.network.sizes["r"] == 2
    assert evaluate_exact(folded.network, [2.0]) == (Fraction(89, 2),)


@pytest.mark.parametrize("behind", [[[1.0, 2.0**-60]], [[1e308, 1.7e308]]])
def test_sums_that_would_be_rounded_are_left_alone(behind) -> None:
    network = sandwich([[3.0], [3.0]], behind)
    assert fold_mirrored(network).network is network


def test_rows_that_nearly_mirror_are_left_alone() -> None:
    network = sandwich([[3.0], [-np.nextafter(3.0, 4.0)]], [[1.0, -1.0]])
    assert fold_mirrored(network).units == 0


def test_values_that_others_use_are_left_alone() -> None:
    nodes = (
        Node("a", Affine([[3.0], [-3.0]]), ("input",)),
        Node("r", Relu(), ("a",)),
        Node("o", Affine([[1.0, -1.0]]), ("r",)),
        Node("s", Affine([[1.0, 1.0]]), ("a",)),
        Node("t", Add(), ("o", "s")),
    )
    assert fold_mirrored(Network(1, nodes, "t")).units == 0


def test_names_that_are_taken_are_not_taken_again() -> None:
    inner = sandwich([[3.0], [-3.0]], [[2.0, 5.0]], "a", "r", "o")
    more = (Node("o.bent", Relu(), ("o",)), Node("o.straight", Affine([[1.0]]), ("o.bent",)))
    network = Network(1, (*inner.nodes, *more), "o.straight")
    folded = fold_mirrored(network).network
    assert evaluate_exact(folded, [-1.0]) == evaluate_exact(network, [-1.0])


def test_beside_a_witness_stand_only_bounds_that_can_be_checked() -> None:
    """The folded networks have a smaller bound, but its proof is not in the certificate."""
    network = small(0)
    other = split(network, np.random.default_rng(0))
    last = other.nodes[-1]
    off = other.with_ops({last.name: Affine(last.op.matrix, last.op.bias + 0.25)})
    found = certify(network, off, domain=Box(-1.0, 1.0), tolerance=0.1, bound_anyway=True)
    assert found.verdict is Verdict.REFUTED
    assert found.bound is None or found.segments
