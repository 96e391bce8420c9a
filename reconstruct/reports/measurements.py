"""Numbers that the page's figures need and that only a run can measure.

They are kept in report.json under `measurements`, so that the page can be made again from the
run's files alone. All of them are numerical: they illustrate and prove nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reconstruct.certificates.verdicts import Certificate
from reconstruct.constructions.sites import Site, mixing_at
from reconstruct.khatri_rao import KhatriRao
from reconstruct.networks import Box, Domain, Network, Operation
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import Result
from reconstruct.reports.effort import affordable
from reconstruct.reports.layer_errors import layer_errors
from reconstruct.reports.rounding import predicted_rounding

Vector = NDArray[np.float64]

MOST_EQUATIONS = 600  # singular values of larger systems would take longer than the page is worth
MOST_SPECTRA = 4
KEPT_VALUES = 200
SLICE_POINTS = 201
MOST_SAMPLES, LEAST_SAMPLES = 1000, 20
SIDE, LEAST_SIDE = 48, 8  # points along each side of the picture of a network of two inputs
DIGITS = 3  # of each value in it: enough for a picture
MOST_NODES = 200  # a graph with more nodes is not drawn


def measurements(
    result: Result,
    worst: ArrayLike | None,
    samples: int,
    certificate: Certificate | None = None,
    *,
    blocks: bool = False,
) -> dict[str, Any]:
    """The graphs, the spectra, the predicted rounding errors and a slice through `worst`; `blocks`
    if long sums are written as trees."""
    target = result.form.network
    sites = result.sites
    with np.errstate(all="ignore"):
        predicted = predicted_rounding(
            target, result.network, sites, result.domain, samples, blocks=blocks
        )
    return {
        "graphs": {"target": graph(target), "frozen": graph(result.network)},
        "sites": {site.target: _members(site) for site in sites},
        "predicted": {k: _finite(value) for k, value in predicted.items()},
        "spectra": spectra(result.network, sites),
        "slice": slice_through(result.target, result.network, result.domain, worst),
        "layers": [] if certificate is None else layer_errors(result, certificate),
        "plane": plane(result.target, result.network, result.domain),
        "histogram": float32_histogram(result.target, result.network, result.domain),
    }


def comparison(
    target: Network, candidate: Network, box: Domain, worst: ArrayLike | None
) -> dict[str, Any]:
    """The same for two networks that came from elsewhere: no sites, nothing solved."""
    return {
        "graphs": {"target": graph(target), "frozen": graph(candidate)},
        "sites": {},
        "predicted": {"float64": None, "float32": None},
        "spectra": [],
        "slice": slice_through(target, candidate, box, worst),
        "layers": [],
        "plane": plane(target, candidate, box),
        "histogram": float32_histogram(target, candidate, box),
    }


def graph(network: Network) -> list[dict[str, Any]] | None:
    """The nodes by name, kind, size and inputs; None when there are too many to draw."""
    if len(network.nodes) > MOST_NODES:
        return None
    return [
        {
            "name": node.name,
            "kind": node.op.kind,
            "size": network.sizes[node.name],
            **_image(node.op),
            "inputs": list(node.inputs),
        }
        for node in network.nodes
    ]


def _image(op: Operation) -> dict[str, Any]:
    """Channels, height and width behind a convolution or a pool; of what follows, the same."""
    shape, geometry = getattr(op, "out_shape", None), getattr(op, "geometry", None)
    if shape is None or geometry is None:
        return {}
    image = [geometry.channels, geometry.height, geometry.width]
    return {"shape": list(shape), "image": image, "kernel": list(geometry.kernel)}


def float32_histogram(target: Network, network: Network, domain: Domain) -> dict[str, Any] | None:
    """How often |f − g| has which size with f in float32, and g by itself; bins in powers of 10."""
    count = affordable(target, network, MOST_SAMPLES)
    if count < LEAST_SAMPLES and isinstance(domain, Box):
        return None
    x = domain.sample(count, np.random.default_rng(1))[:count]
    x = x.astype(np.float32).astype(np.float64)
    if not len(x):
        return None
    with np.errstate(all="ignore"):
        g = target(x)
        found = {
            "network": np.max(np.abs(network(x, np.float32).astype(np.float64) - g), axis=1),
            "target": np.max(np.abs(target(x, np.float32).astype(np.float64) - g), axis=1),
        }
    kept = {name: v[np.isfinite(v) & (v > 0)] for name, v in found.items()}
    known = np.concatenate(list(kept.values()))
    if not len(known):
        return None
    lo, hi = np.floor(2 * np.log10(known.min())) / 2, np.ceil(2 * np.log10(known.max())) / 2
    edges = 10.0 ** np.linspace(lo, max(hi, lo + 0.5), int(8 * max(hi - lo, 0.5)) + 1)
    edges[0], edges[-1] = min(edges[0], known.min()), max(edges[-1], known.max())
    counts = {name: np.histogram(v, edges)[0].tolist() for name, v in kept.items()}
    return {"samples": len(x), "edges": edges.tolist(), **counts}


def spectra(frozen: Network, sites: tuple[Site, ...]) -> list[dict[str, Any]]:
    """Singular values of the small Khatri-Rao matrices `M2 ⊙ M1ᵀ`, over √n times their rms entry.

    So scaled, the Marchenko-Pastur law puts them between 1 − √(mk/n) and 1 + √(mk/n).
    """
    found: list[dict[str, Any]] = []
    for site in sites:
        for before, after in zip(site.layers[::2], site.layers[1::2], strict=False):
            first, second = before.entry or before.carry, after.carry
            if first is None or second is None or after.entry is not None:
                continue
            M1, M2 = (mixing_at(frozen, name).kernels[0] for name in (first, second))
            m, k, n = int(M2.shape[0]), int(M1.shape[1]), int(M1.shape[0])
            if m * k > MOST_EQUATIONS or len(found) == MOST_SPECTRA:
                continue
            M2 = M2[:, :n]  # of grouped layers, the units that the first block of M1 leads to
            values = scaled_singular_values(KhatriRao(M1, M2))
            if values is not None:
                row = {"name": site.target, "rows": m, "cols": k, "width": n}
                found.append({**row, "values": _thinned(values)})
    return found


def scaled_singular_values(operator: KhatriRao) -> Vector | None:
    """Singular values of K, smallest first; None where they are not numbers."""
    K = operator.dense()
    scale = np.linalg.norm(K) / np.sqrt(operator.rows)
    if not (np.isfinite(scale) and scale > 0):
        return None
    values = np.linalg.svd(K / scale, compute_uv=False)
    return np.asarray(np.sort(values))


def slice_through(
    target: Network, network: Network, box: Domain, worst: ArrayLike | None
) -> dict[str, Any] | None:
    """f − g along the line through the middle of the domain and its worst point, edge to edge.

    `position` runs from −1 to 1 (the middle is 0); the output shown is the one that differs most.
    """
    if not isinstance(box, Box):
        return None  # data have no middle and no edge
    count = affordable(target, network, SLICE_POINTS)
    middle = box.lo / 2 + box.hi / 2
    direction = _to_the_edge(box, middle, worst)
    if count < 11 or direction is None:
        return None
    position = np.linspace(-1.0, 1.0, count)
    points = np.clip(middle + position[:, None] * direction, box.lo, box.hi)
    single = points.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        reference, candidate = target(points), network(points)
        rounded = network(single, np.float32).astype(np.float64) - target(single)
    gap = candidate - reference
    if not (np.isfinite(gap).all() and np.isfinite(rounded).all()):
        return None
    output = int(np.argmax(np.max(np.abs(gap), axis=0)))
    return {
        "output": output,
        "position": position.tolist(),
        "target": reference[:, output].tolist(),
        "float64": gap[:, output].tolist(),
        "float32": rounded[:, output].tolist(),
    }


def plane(target: Network, network: Network, domain: Domain) -> dict[str, Any] | None:
    """g and |f − g| in both precisions on a grid over the box; None for other networks."""
    if target.size_in != 2 or not isinstance(domain, Box):
        return None
    side = int(affordable(target, network, SIDE**2) ** 0.5)
    if side < LEAST_SIDE:
        return None
    axes = [np.linspace(a, b, side) for a, b in zip(domain.lo, domain.hi, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = np.clip(points.astype(np.float32).astype(np.float64), domain.lo, domain.hi)
    with np.errstate(all="ignore"):
        g = target(points)
        double = np.abs(network(points) - g)
        single = np.abs(network(points, np.float32).astype(np.float64) - g)
    if not all(np.isfinite(part).all() for part in (g, double, single)):
        return None
    output = int(np.argmax(np.max(double, axis=0)))
    pictures = {"target": g, "float64": double, "float32": single}
    return {
        "output": output,
        "side": side,
        "lo": domain.lo.tolist(),
        "hi": domain.hi.tolist(),
        **{name: _short(values[:, output]) for name, values in pictures.items()},
    }


def _short(values: Array) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _to_the_edge(box: Box, middle: Vector, worst: ArrayLike | None) -> Vector | None:
    """The direction from the middle to the worst point, as long as the box allows."""
    half = box.hi / 2 - box.lo / 2
    step = half if worst is None else np.asarray(worst, dtype=np.float64) - middle
    if step.shape != half.shape or not np.any(np.abs(step) > 0):
        step = half
    moving = half > 0
    if not moving.any():
        return None
    reach = np.max(np.abs(step[moving]) / half[moving])
    return np.asarray(np.where(moving, step / reach, 0.0)) if reach > 0 else np.asarray(half)


def _members(site: Site) -> list[str]:
    """The norms of a site, first to last: enough to find its layers in the graph."""
    return [layer.norm for layer in site.layers]


def _thinned(values: Vector) -> list[float]:
    """At most `KEPT_VALUES` of the values, the least and the largest among them."""
    if len(values) > KEPT_VALUES:
        values = values[np.linspace(0, len(values) - 1, KEPT_VALUES).round().astype(int)]
    return [float(value) for value in values]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
