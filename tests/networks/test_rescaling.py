"""Units scaled by powers of two: the same function to the last bit, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks import Add, Affine, Clip, LeakyRelu, Network, Node, Relu
from reconstruct.networks.rescaling import rescaled, scalable
from tests.bounds.rational import rational_values


def deep(seed: int = 0, activation=None, dtype=np.float64) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(m, k)).astype(dtype) for k, m in ((2, 4), (4, 4), (4, 3))]
    biases = [rng.normal(size=len(w)).astype(np.float32) for w in weights]
    return Network.mlp(weights, biases, activation=activation)


@pytest.mark.parametrize("activation", [Relu(), LeakyRelu(0.25)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_function_is_the_same_in_rationals_and_in_floats(activation, dtype):
    network = deep(1, activation, dtype)
    powers = {"act1": np.array([3, -2, 0, 5]), "act2": np.array([-1, 0, 7, -9])}
    other = rescaled(network, powers)
    rng = np.random.default_rng(0)
    for point in rng.normal(size=(5, 2)):
        ours, theirs = rational_values(network, point), rational_values(other, point)
        assert ours["layer3"] == theirs["layer3"]
        for name, row in powers.items():
            scaled = [
                v * 2**e if e >= 0 else v / 2**-e
                for v, e in zip(ours[name], row.tolist(), strict=True)
            ]
            assert theirs[name] == scaled
    assert other.node("layer2").op.weight.dtype == dtype


def test_a_sparse_map_stays_sparse():
    nodes = (
        Node("a", Affine(sparse.csr_array(np.diag([1.0, 2.0]))), ("input",)),
        Node("r", Relu(), ("a",)),
        Node("b", Affine(np.ones((1, 2))), ("r",)),
    )
    other = rescaled(Network(2, nodes, "b"), {"r": np.array([1, -1])})
    assert sparse.issparse(other.node("a").op.weight)
    assert other.node("a").op.weight.toarray().tolist() == [[2, 0], [0, 1]]
    assert other.node("b").op.weight.tolist() == [[0.5, 2.0]]


def test_only_units_between_affine_maps_can_be_scaled():
    eye = np.eye(2)
    nodes = (
        Node("a", Affine(eye), ("input",)),
        Node("p", Relu(), ("a",)),
        Node("b", Affine(eye), ("p",)),
        Node("q", Clip(0.0, 6.0), ("b",)),
        Node("c", Affine(eye), ("q",)),
        Node("r", Relu(), ("c",)),
        Node("s", Add(), ("r", "p")),
        Node("d", Affine(eye), ("s",)),
        Node("t", Relu(), ("d",)),
    )
    network = Network(2, nodes, "t")
    assert [node.name for node in scalable(network)] == []
    assert [node.name for node in scalable(deep())] == ["act1", "act2"]
    with pytest.raises(InputError, match="units of 'q' cannot be scaled"):
        rescaled(network, {"q": np.array([1, 1])})
    with pytest.raises(InputError, match=r"\(3,\) powers of two"):
        rescaled(deep(), {"act1": np.array([1, 1, 1])})


@pytest.mark.parametrize("power", [-140, 140, -1060])
def test_what_leaves_the_floats_is_refused(power):
    dtype = np.float32 if abs(power) == 140 else np.float64
    with pytest.raises(InputError, match="would leave the range of its floats"):
        rescaled(deep(0, None, dtype), {"act1": np.full(4, power)})
