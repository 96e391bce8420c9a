"""Your own frozen network: any weights, any running statistics, only γ and β are computed."""

import numpy as np

import reconstruct as rc
from reconstruct.networks import Affine, Node, Norm, Relu

rng = np.random.default_rng(5)
target = rc.Network.mlp([rng.normal(size=(6, 4)), rng.normal(size=(2, 6))], [np.ones(6), None])

# For each m×k map of the target: a linear layer to n ≥ m·k neurons, a norm, a ReLU, a linear
# layer to m neurons, a norm. Then the target's own ReLU, where it has one.


def norm(size):
    """A norm layer as training left it: γ and β will be replaced, mean and variance stay."""
    mean, variance = rng.normal(size=size), rng.uniform(0.5, 2.0, size=size)
    return Norm(np.ones(size), np.zeros(size), mean, variance, eps=1e-5)


def site(name, source, m, k, n):
    """The frozen layers for one map; uniform weights, and biases of their own."""
    return [
        Node(f"{name}.in", Affine(rng.uniform(-1, 1, (n, k)), rng.normal(size=n)), (source,)),
        Node(f"{name}.bn1", norm(n), (f"{name}.in",)),
        Node(f"{name}.relu", Relu(), (f"{name}.bn1",)),
        Node(f"{name}.out", Affine(rng.uniform(-1, 1, (m, n))), (f"{name}.relu",)),
        Node(f"{name}.bn2", norm(m), (f"{name}.out",)),
    ]


nodes = [
    *site("first", "input", 6, 4, 40),
    Node("relu", Relu(), ("first.bn2",)),
    *site("second", "relu", 2, 6, 20),
]
frozen = rc.Network(4, tuple(nodes), "second.bn2")

result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
print(result)
for name, layer in result.norms.items():
    print(f"  {name}: {layer.gamma.size} γ, largest {np.abs(layer.gamma).max():.2g}")

x = rng.uniform(-1, 1, size=(1000, 4))
print(f"largest difference: {np.abs(result.network(x) - target(x)).max():.1e}")
certificate = rc.certify(target, result.network, domain=result.domain)
print(certificate)
assert certificate.verdict.value == "certified"
