"""Wrong calls of the library: each is refused before any work, in one sentence that names what was
wrong, what was needed and what came; never by an error of Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import reconstruct as rc

BOX = rc.Box(-1, 1)


@pytest.fixture(scope="module")
def net() -> rc.Network:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((4, 2)), rng.standard_normal((2, 4))]
    return rc.Network.mlp(weights, [np.zeros(4), np.zeros(2)])


CALLS: dict[str, tuple[Callable[[rc.Network], Any], str]] = {
    "load(None)": (lambda net: rc.load(None), "file must be a path, .* NoneType"),
    "load(3.5)": (lambda net: rc.load(3.5), "file must be a path, .* float"),
    "load(b'x')": (lambda net: rc.load(b"x"), "file must be a path, .* bytes"),
    "save to a list": (lambda net: rc.save(net, []), "file to write must be a path, .* list"),
    "domain None": (lambda net: rc.load_domain(None), "domain must be a path"),
    "domain of −1 inputs": (
        lambda net: rc.load_domain("0,1", -1),
        "inputs must be .* 1, but is -1",
    ),
    "Box of words": (lambda net: rc.Box("a", "b"), "ends of a domain must be numbers, .* 'a'"),
    "radius": (lambda net: rc.Points([[0.0]], "0.1"), "radius .* write 0.1 without quotes"),
    "ratio": (lambda net: rc.Wide(ratio="1.5"), "ratio .* '1.5' .* write 1.5 without quotes"),
    "ratio None": (lambda net: rc.Fitted(ratio=None), "ratio must be a number, but is None"),
    "block": (lambda net: rc.Deep(block=2.5), "the block must be a whole number, but is 2.5"),
    "layers": (lambda net: rc.Stacked(layers=[2]), "layers must be a number, but is .2. .* list"),
    "rank": (lambda net: rc.Factored(rank=float("nan")), "rank must be a whole number, but is nan"),
    "boxes": (lambda net: rc.Adaptive(boxes="9"), "write 9 without quotes"),
    "density": (lambda net: rc.draw(net, density="0.5"), "density .* write 0.5 without quotes"),
    "seed": (lambda net: rc.draw(net, seed=np.zeros(2)), "seed must be a number, .* ndarray"),
    "construction": (lambda net: rc.draw(net, 7), r"such as rc.Wide\(ratio=1.5\), .* int"),
    "slope": (lambda net: rc.LeakyRelu("0.1"), "slope .* write 0.1 without quotes"),
    "Clip": (lambda net: rc.Clip(None, 1), "end of Clip must be a number, but is None"),
    "Elu": (lambda net: rc.Elu([1]), "numbers of Elu must be a number, but is .1. .* list"),
    "mlp": (lambda net: rc.Network.mlp(3), "at least one weight matrix, in a list, but got 3"),
    "inputs": (lambda net: net("x"), "inputs must be numbers, but are 'x' of the type str"),
    "solve": (lambda net: rc.ConjugateGradient(tolerance="1"), "tolerance of a solve must be"),
    "inner": (lambda net: rc.ConjugateGradient(inner_dtype=3), "float32 or float64, .* is 3"),
    "direct": (lambda net: rc.Direct(refinements=1.5), "refinements must be a whole number"),
    "auto": (lambda net: rc.Auto(dense_bytes=None), "dense_bytes must be a number"),
    "tolerance": (
        lambda net: rc.certify(net, net, domain=BOX, tolerance="1e-3"),
        "tolerance must be a number, but is '1e-3' .* write 1e-3 without quotes",
    ),
    "time limit": (
        lambda net: rc.certify(net, net, domain=BOX, time_limit=-1),
        "time limit must be a finite number of at least 0, but is -1",
    ),
    "samples": (
        lambda net: rc.verify(net, net, domain=BOX, samples="9"),
        "samples .* write 9 without quotes",
    ),
    "progress": (
        lambda net: rc.verify(net, net, domain=BOX, progress="loud"),
        "progress must be a function that takes a step, .* str",
    ),
    "output": (lambda net: rc.run(net, 5, domain=BOX), "output must be a path, .* int"),
    "check": (lambda net: rc.check(None), "certificate must be a path"),
    "report": (lambda net: rc.report(1), "directory of a run must be a path, .* int"),
    "rebuild": (lambda net: rc.rebuild([]), "directory of a run must be a path, .* list"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_refused_in_a_sentence(name, net) -> None:
    call, message = CALLS[name]
    with pytest.raises(rc.InputError, match=message):
        call(net)


def test_a_misspelt_option_is_named_beside_those_that_exist(net) -> None:
    with pytest.raises(TypeError, match="tolerence"):
        rc.run(net, "out", domain=BOX, tolerence=1)


def test_what_is_meant_is_taken(net, tmp_path) -> None:
    frozen = rc.draw(net, rc.Wide(ratio=np.float32(2)), seed=np.int64(1))
    assert rc.reconstruct(net, frozen, domain=(-1, 1), progress=None).network.size_in == 2
    assert rc.verify(net, net, domain=(-1, 1), samples=10, progress=None).certificate
    rc.save(net, tmp_path / "net.npz")
    assert rc.load(str(tmp_path / "net.npz")).same(net)
