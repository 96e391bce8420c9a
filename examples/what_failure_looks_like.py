"""What failure looks like: every refusal says what was wrong, needed, found, and what to do."""

import numpy as np

import reconstruct as rc

rng = np.random.default_rng(2)
W = rng.normal(size=(4, 4))

# One neuron too few: 15 unknowns cannot meet 16 equations. The solve says so, and does not raise.
M1, M2 = rng.normal(size=(15, 4)), rng.normal(size=(4, 15))
narrow = rc.khatri_rao.solve(M1, M2, W)
print(narrow.message, "\n")
assert narrow.status.name == "TOO_NARROW" and not narrow.solved

# Repeated rows: there are enough neurons, but they are copies of each other.
M1, M2 = np.repeat(rng.normal(size=(8, 4)), 2, axis=0), rng.normal(size=(4, 16))
M2[:, 1::2] = M2[:, ::2]
copies = rc.khatri_rao.solve(M1, M2, W)
print(copies.message, "\n")
assert copies.status.name == "RANK_DEFICIENT" and copies.rank == 8

# An unbounded domain: no shift keeps a ReLU active everywhere.
try:
    rc.Box(-np.inf, 1.0)
except rc.InputError as error:
    print(error, "\n")

# Bad input is refused before any work.
target = rc.Network.mlp([W, rng.normal(size=(2, 4))])
try:
    rc.draw(target, rc.Wide(ratio=0.5))
except rc.InputError as error:
    print(error, "\n")

# Two networks that differ: refuted, with a witness that anyone can replay.
changed = rc.Network.mlp([W, target.mixing_nodes()[1].op.matrix], [None, [0.0, 1e-3]])
certificate = rc.certify(target, changed, domain=rc.Box(-1, 1))
print(certificate)
assert certificate.verdict.value == "refuted"
x = np.array(certificate.witness.point)
print(f"at {x} they differ by {np.abs(changed(x) - target(x)).max():.3g}")
