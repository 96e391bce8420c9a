"""The deep construction over the rationals: composed exactly."""

from __future__ import annotations

from fractions import Fraction
from math import hypot

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.certificates.verdicts import Rigor
from reconstruct.constructions.deep import height
from reconstruct.khatri_rao import Exact
from reconstruct.networks import Add, Mixing, Norm, Select, dense
from tests.constructions.test_deep import chain_of, gaussian, rebuilt


def composed_exactly(network: rc.Network, gammas: dict[str, list[Fraction]]) -> np.ndarray:
    """The linear part of a drawn chain as rationals: an oracle that shares no code with it."""

    def rational(matrix):
        flat = [Fraction(float(v)) for v in dense(matrix).ravel()]
        return np.array(flat, dtype=object).reshape(matrix.shape)

    values = {"input": rational(np.eye(network.size_in))}
    for node in network.nodes:
        inputs = [values[i] for i in node.inputs]
        if isinstance(node.op, Mixing):
            values[node.name] = rational(node.op.weight).dot(inputs[0])
        elif isinstance(node.op, Norm):
            assert np.all(node.op.var + node.op.eps == 1)
            values[node.name] = np.array(gammas[node.name], dtype=object)[:, None] * inputs[0]
        elif isinstance(node.op, Add):
            values[node.name] = inputs[0] + inputs[1]
        elif isinstance(node.op, Select):
            values[node.name] = inputs[0][node.op.start : node.op.stop]
        else:
            values[node.name] = inputs[0]
    return values[network.output]


@pytest.mark.parametrize(("d", "block", "ratio"), [(4, 1, 1.0), (4, 2, 1.5), (5, 3, 1.0)])
def test_exact_solution_composes_to_the_map(d, block, ratio):
    target = gaussian(d)
    result = rebuilt(target, block, ratio, solver=Exact())
    assert result.exact is not None
    gammas = {name: list(norm.gamma) for name, norm in result.exact.items()}
    W = dense(target.nodes[0].op.weight)
    exact = np.array([[Fraction(float(v)) for v in row] for row in W], dtype=object)
    assert (composed_exactly(result.network, gammas) == exact).all()
    certificate = rc.certify(target, result.network, domain=result.domain, exact_norms=result.exact)
    assert certificate.rigor is Rigor.EXACT
    assert "B_i diag(s_i) A_i == W^(i)" in result.layers[0].message


def test_numbers_too_long_to_write_down_are_said_to_be():
    target = gaussian(8)
    frozen = rc.draw(target, rc.Deep(block=1, ratio=1.0), seed=0)
    assert height(chain_of(target, frozen), 8) > 1e8
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1), solver=Exact())
    assert result.exact is None
    assert "e+09 bits: use larger blocks" in result.layers[0].message


def test_reported_residuals_are_the_composite_error():
    target = gaussian(6)
    result = rebuilt(target, 2, 1.0)
    norms = {name: [Fraction(float(g)) for g in n.gamma] for name, n in result.norms.items()}
    W = dense(target.nodes[0].op.weight)
    error = (composed_exactly(result.network, norms) - W).astype(np.float64)
    true = float(np.linalg.norm(error) / np.linalg.norm(W))
    reported = hypot(*(row.residual for row in result.layers))
    assert reported == pytest.approx(true, rel=1e-2)
    assert 0 < true < 1e-12
