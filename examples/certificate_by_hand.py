"""A certificate checked by hand, in exact arithmetic, with nothing of the solver.

The claim for one layer is |f(h) − g(h)| ≤ bound for all h in the box. Floats are rational numbers,
so every step below is an equality or an inequality between fractions: no rounding anywhere.
"""

from fractions import Fraction

import numpy as np

import reconstruct as rc

rng = np.random.default_rng(7)
m, k, n = 2, 3, 9
M1 = rng.integers(-8, 9, size=(n, k)) / 8
M2 = rng.integers(-8, 9, size=(m, n)) / 8
target = rc.Network.mlp([rng.integers(-8, 9, size=(m, k)) / 4], [[0.5, -0.25]])
W, b = target.nodes[0].op.weight, target.nodes[0].op.bias
layer = rc.one_layer(M1, M2, W, b, domain=rc.Box(-1, 1), final_activation=False)


def exact(array):
    """The same numbers as fractions."""
    return np.vectorize(Fraction)(np.asarray(array, dtype=float))


def scale_and_shift(norm):
    """s and t of N(z) = s∘z + t; drawn statistics have var + eps = 1 exactly."""
    root = exact(norm.var) + Fraction(norm.eps)
    assert (root == 1).all()
    s = exact(norm.gamma)
    return s, exact(norm.beta) - s * exact(norm.mean)


A, B = exact(M1), exact(M2)
s1, t1 = scale_and_shift(layer.norms["norm1"])
s2, t2 = scale_and_shift(layer.norms["norm2"])

# (a) activity: the least hidden value over the box is still ≥ 0, so each ReLU is the identity.
least = t1 - np.abs(s1[:, None] * A).sum(axis=1)
assert (least >= 0).all()
print(f"least hidden value: {float(least.min()):.3g}")

# (b) residual: how far the composed matrix is from W, entry by entry.
residual = s2[:, None] * (B @ (s1[:, None] * A)) - exact(W)
# (c) constant: how far the composed bias is from b.
constant = s2 * (B @ t1) + t2 - exact(b)

# On the box |h_j| ≤ 1, so the difference is at most this, and that is a theorem.
bound = (np.abs(residual).sum(axis=1) + np.abs(constant)).max()
print(f"proved by hand:  |f − g| ≤ {float(bound):.3g}")

certificate = rc.certify(target, layer.network, domain=rc.Box(-1, 1))
print(f"the tool's own:  |f − g| ≤ {certificate.bound:.3g}")
assert bound <= Fraction(certificate.bound) <= max(100 * bound, Fraction(1, 10**12))

# And no point of the box may show more than the bound.
for h in rng.integers(-16, 17, size=(200, k)) / 16:
    point = exact(h)
    hidden = np.maximum(s1 * (A @ point) + t1, 0)
    f, g = s2 * (B @ hidden) + t2, exact(W) @ point + exact(b)
    assert np.abs(f - g).max() <= bound
print("200 points replayed in exact arithmetic: none exceeds it")
