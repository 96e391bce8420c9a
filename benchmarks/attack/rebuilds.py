"""Random reconstructions with their certificates: every construction, domain and way to bound.

`draw_case` draws a small target, rebuilds it, writes both networks, certifies what is read back and
writes the certificate, as a run does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.attack.pair_networks import ACTIVATIONS, draw_box
from reconstruct.bounds import Adaptive, Crown, Interval, Method
from reconstruct.certificates import Certificate, certify, write_certificate
from reconstruct.constructions import Construction, Deep, Factored, Stacked, Wide, draw
from reconstruct.formats import load, save
from reconstruct.khatri_rao import Exact
from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Domain,
    Geometry,
    MaxPool,
    Network,
    Node,
    Points,
    Relu,
    SumPool,
)
from reconstruct.pipeline import Result, reconstruct

Generator = np.random.Generator
SECONDS = 3.0  # of a case's proofs
FILES = ("target.npz", "network.npz", "certificate.json")


@dataclass(frozen=True, eq=False)
class Case:
    """A rebuilt network, its target, the certificate, and words that say what was drawn."""

    target: Network
    network: Network
    certificate: Certificate
    words: str


def draw_case(rng: Generator, folder: Path) -> Case:
    """One reconstruction, written to `folder` with its certificate."""
    target, kind = draw_target(rng)
    domain = _domain(rng, target.size_in)
    construction = _construction(rng, kind)
    method = _method(rng, domain)
    result = _rebuilt(rng, target, construction, domain, method)
    save(target, folder / "target.npz", dtype=None)
    save(result.network, folder / "network.npz", dtype=None)
    pair = load(folder / "target.npz"), load(folder / "network.npz")
    certificate = certify(
        *pair,
        domain=result.domain,
        bounds=method,
        known=result.known,
        tolerance=float(rng.choice([1e-12, 1e-6, 1e-2])),
        exact_norms=result.exact,
        time_limit=SECONDS,
    )
    write_certificate(
        folder / "certificate.json",
        certificate,
        target=folder / "target.npz",
        candidate=folder / "network.npz",
        exact_norms=result.exact,
    )
    words = f"{kind}, {construction.name}, {result.domain.kind}: {certificate.verdict}"
    return Case(*pair, certificate, words)


def _rebuilt(
    rng: Generator, target: Network, construction: Construction, domain: Domain, method: Method
) -> Result:
    """Drawn and solved; small ones sometimes over the rationals."""
    frozen = draw(
        target,
        construction,
        seed=int(rng.integers(2**31)),
        statistics=bool(rng.random() < 0.3),
    )
    small = frozen.network.tunable <= 40
    exact = small and isinstance(construction, Wide) and rng.random() < 0.5
    return reconstruct(
        target, frozen, domain=domain, bounds=method, solver=Exact() if exact else None
    )


# --- what is drawn --------------------------------------------------------------------------------


def draw_target(rng: Generator) -> tuple[Network, str]:
    """A plain network, one with a sum, or one on images."""
    kind = str(rng.choice(["plain", "residual", "images"], p=[0.6, 0.2, 0.2]))
    return {"plain": _plain, "residual": _residual, "images": _images}[kind](rng), kind


def _plain(rng: Generator) -> Network:
    sizes = rng.integers(1, 5, size=int(rng.integers(2, 5)))
    scale = float(rng.choice([1.0, 1.0, 1e-3, 30.0]))
    weights = [scale * rng.standard_normal((m, k)) for k, m in pairwise(sizes)]
    biases = [scale * rng.standard_normal(m) for m in sizes[1:]]
    activation = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
    return Network.mlp(weights, biases, activation=activation)


def _residual(rng: Generator) -> Network:
    d, m = (int(n) for n in rng.integers(1, 5, size=2))
    inside = Affine(rng.standard_normal((m, d)), rng.standard_normal(m))
    nodes = (
        Node("a", inside, ("input",)),
        Node("bend", Relu(), ("a",)),
        Node("b", Affine(rng.standard_normal((d, m))), ("bend",)),
        Node("sum", Add(), ("b", "input")),
        Node("bend2", Relu(), ("sum",)),
        Node("output", Affine(rng.standard_normal((2, d)), rng.standard_normal(2)), ("bend2",)),
    )
    return Network(d, nodes, "output")


def _images(rng: Generator) -> Network:
    """A convolution of any geometry, a pool of either kind, a dense head."""
    channels, groups = int(rng.choice([1, 2])), 1
    if channels == 2 and rng.random() < 0.4:
        groups = 2
    strides, dilations = (tuple(int(n) for n in rng.integers(1, 3, 2)) for _ in range(2))
    pads = tuple(int(n) for n in rng.integers(0, 2, 4))
    kernel = tuple(int(n) for n in rng.integers(1, 3, 2))
    place = Geometry(channels, 4, 4, kernel, strides, pads, dilations)  # type: ignore[arg-type]
    weight = rng.standard_normal((2, channels // groups, *kernel))
    first = Convolution(weight, place, rng.standard_normal(2), groups)
    height, width = place.output
    window = Geometry(2, height, width, (min(2, height), min(2, width)))
    pool = MaxPool(window) if rng.random() < 0.5 else SumPool(window)
    size = 2 * int(np.prod(window.output))
    nodes = (
        Node("conv", first, ("input",)),
        Node("bend", Relu(), ("conv",)),
        Node("pool", pool, ("bend",)),
        Node("output", Affine(rng.standard_normal((2, size)), rng.standard_normal(2)), ("pool",)),
    )
    return Network(place.size, nodes, "output")


def _domain(rng: Generator, size: int) -> Domain:
    box = draw_box(rng, size)
    word = rng.choice(["box", "points", "boxes"], p=[0.6, 0.2, 0.2])
    if word == "box":
        return box
    points = box.sample(int(rng.integers(1, 4)), rng)
    return Points(points, 0.0 if word == "points" else float(rng.choice([1e-6, 0.1])))


def _construction(rng: Generator, kind: str) -> Construction:
    ratio = float(rng.choice([1.2, 1.5, 3.0]))
    if kind == "images":
        return Wide(ratio)
    others: list[Construction] = [Factored(ratio=ratio), Deep(block=2, ratio=1.5), Stacked()]
    return others[int(rng.integers(3))] if rng.random() < 0.3 else Wide(ratio)


def _method(rng: Generator, domain: Domain) -> Method:
    methods: list[Method] = [Crown(), Crown(), Interval()]
    if domain.kind == "box":
        methods.append(Adaptive(boxes=1))
        methods += [Adaptive(boxes=40)] if domain.size <= 3 else []
    return methods[int(rng.integers(len(methods)))]
