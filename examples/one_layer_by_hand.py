"""One layer by hand: two frozen random layers become σ(W h + b), one step at a time."""

import numpy as np

import reconstruct as rc

rng = np.random.default_rng(0)
m, k = 4, 3
n = 18  # at least m·k = 12 hidden neurons
M1, M2 = rng.normal(size=(n, k)), rng.normal(size=(m, n))  # frozen: never touched
W, b = rng.normal(size=(m, k)), rng.normal(size=m)  # the layer that we want

# 1. The scales: M2 diag(s) M1 = W is a linear system in s, m·k equations in n unknowns.
solution = rc.khatri_rao.solve(M1, M2, W)
print(solution)
s1 = solution.s
assert np.allclose(M2 @ np.diag(s1) @ M1, W, atol=1e-12)

# 2. The shifts: on the box [-1, 1]^3 no hidden value falls below −|s1|·|M1|·1, so this keeps
#    every ReLU active, and an active ReLU is the identity.
t1 = np.abs(s1) * np.abs(M1).sum(axis=1)

# 3. The second norm takes the shift back and adds the bias.
t2 = b - M2 @ t1


def relu(z):
    return np.maximum(z, 0)


def frozen(h):
    return relu(M2 @ relu(s1 * (M1 @ h) + t1) + t2)


points = rng.uniform(-1, 1, size=(1000, k))
worst = max(np.abs(frozen(h) - relu(W @ h + b)).max() for h in points)
print(f"largest difference by hand: {worst:.1e}")
assert worst < 1e-12

# The same as one call, with shifts that are no larger than they need to be.
layer = rc.one_layer(M1, M2, W, b, domain=rc.Box(-1, 1))
worst = np.abs(layer.network(points) - relu(points @ W.T + b)).max()
print(f"largest difference by rc.one_layer: {worst:.1e}")
assert worst < 1e-12
