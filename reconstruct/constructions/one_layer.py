"""The paper's one-layer statements as library calls, for people who have only matrices.

`one_layer`: one ReLU layer `σ(W h + b)` from two frozen layers. `linear_as_relu`: a linear network
with norms, `N_L(M_L … N_1(M_1 x))`, as the ReLU network with the same weights and other betas.

Rests on proofs_check: active-relu-is-identity, two-frozen-layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.constructions.construction import LayerSolution, Task
from reconstruct.constructions.shifts import find_shift
from reconstruct.constructions.two_layers import TwoLayers, solve_two_layers
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Auto, Solver
from reconstruct.networks import (
    Activation,
    Affine,
    Box,
    Matrix,
    Network,
    Node,
    Norm,
    Relu,
    dense,
)
from reconstruct.progress import silent


@dataclass(frozen=True, eq=False)
class OneLayer:
    """The two norms, the network `h ↦ σ(N2(M2 σ(N1(M1 h))))`, and how the solve went."""

    norm1: Norm
    norm2: Norm
    network: Network
    system: LayerSolution


def one_layer(
    M1: Matrix,
    M2: Matrix,
    W: ArrayLike,
    b: ArrayLike | None = None,
    *,
    domain: Box,
    activation: Activation | None = None,
    solver: Solver | None = None,
    final_activation: bool = True,
) -> OneLayer:
    """Norms that turn frozen `M1` (n × k) and `M2` (m × n) into `σ(W h + b)` on the domain."""
    first, second = Affine(M1), Affine(M2)
    target = Affine(np.asarray(W, dtype=np.float64), b)
    m, k = target.shape
    box = domain.of_size(k)
    between = activation or Relu()
    norm1, norm2 = Norm.neutral(first.shape[0]), Norm.neutral(m)
    ends = (second.matrix, second.bias, norm2)
    layers = TwoLayers(first.matrix, first.bias, norm1, between, *ends)
    magnitude = np.maximum(np.abs(box.lo), np.abs(box.hi))
    task = Task(1, "layer", dense(target.matrix), target.bias, _over(box), magnitude)
    solved = solve_two_layers(layers, task, solver or Auto(), silent)
    nodes = [
        Node("M1", first, ("input",)),
        Node("norm1", solved.norm1, ("M1",)),
        Node("act1", between, ("norm1",)),
        Node("M2", second, ("act1",)),
        Node("norm2", solved.norm2, ("M2",)),
    ]
    if final_activation:
        nodes.append(Node("act2", Relu(), ("norm2",)))
    network = Network(k, tuple(nodes), nodes[-1].name)
    return OneLayer(solved.norm1, solved.norm2, network, solved.system)


def linear_as_relu(
    weights: Sequence[Matrix],
    norms: Sequence[Norm],
    *,
    domain: Box,
    activation: Activation | None = None,
) -> Network:
    """The ReLU network with the given weights and gammas that equals the linear network on a box.

    Given `x ↦ N_L(M_L … N_1(M_1 x))`, each beta but the last is raised until its activation works
    in its linear piece, and the next norm takes the raise back.
    """
    if len(weights) != len(norms) or not weights:
        raise InputError(
            f"a linear network with norms needs one norm for each weight matrix, but got "
            f"{len(weights)} matrices and {len(norms)} norms"
        )
    between = activation or Relu()
    if not np.isinf(between.piece.hi):
        raise InputError(
            f"{type(between).__name__} is linear on an interval only and would need other gammas "
            f"too; use an activation that is linear on a half-line"
        )
    box = domain.of_size(dense(weights[0]).shape[1])
    total, constant = np.eye(box.size), np.zeros(box.size)
    carried = np.zeros(box.size)  # what the value before this layer is too large by
    nodes: list[Node] = []
    last, slope = "input", 1.0
    for i, (weight, norm) in enumerate(zip(weights, norms, strict=True), start=1):
        matrix = dense(weight)
        s, t = norm.effective()
        total, constant = s[:, None] * (matrix @ total), s * (matrix @ constant) + t
        raised = np.zeros(len(s))
        if i < len(weights):
            lo, hi = _over(box)(total)
            size = np.abs(total) @ np.maximum(np.abs(box.lo), np.abs(box.hi)) + np.abs(constant)
            raised = find_shift(between.piece, lo + constant, hi + constant, size).shift
        moved = norm.with_effective(s / slope, t - s / slope * (matrix @ carried) + raised)
        nodes += [Node(f"M{i}", Affine(weight), (last,)), Node(f"norm{i}", moved, (f"M{i}",))]
        last = f"norm{i}"
        if i < len(weights):
            nodes.append(Node(f"act{i}", between, (last,)))
            last, slope = f"act{i}", between.piece.slope
            carried = slope * raised
    return Network(box.size, tuple(nodes), last)


def _over(box: Box):  # type: ignore[no-untyped-def]
    from reconstruct.bounds import Interval, reach

    identity = Network(box.size, (Node("same", Affine(np.eye(box.size)), ("input",)),), "same")
    known = reach(identity, box, Interval())
    return lambda A: known.functionals("input", A)
