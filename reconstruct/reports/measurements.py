"""Numbers that the page's figures need and that only a run can measure.

They are kept in report.json under `measurements`, so that the page can be made again from the
run's files alone. All of them are numerical: they illustrate and prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.certificates.verdicts import Certificate, Segment
from reconstruct.constructions.scaling import LIMITS, deviation, variances_at_outputs
from reconstruct.constructions.sites import Site, mixing_at
from reconstruct.khatri_rao import KhatriRao
from reconstruct.networks import Box, Domain, LiveNorm, Network, Norm, Operation, dense
from reconstruct.networks.normal_form import without_casts
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.pipeline import Result


def affordable(target: Network, network: Network, most: int, work: float = 2e10) -> int:
    """At most `most` inputs, fewer for large networks: a figure must not take longer than what it
    shows, so it may cost `work` multiplications. 0 where not even one is cheap."""
    return int(min(most, work // max(1, multiplications(target) + multiplications(network))))


def multiplications(network: Network) -> int:
    """Of one evaluation: a kernel counts at each of its positions."""
    return sum(n.op.weights * int(getattr(n.op, "positions", 1)) for n in network.nodes)


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
    form, sites = result.form.network, result.sites
    with np.errstate(all="ignore"):
        predicted = predicted_rounding(result, samples, blocks=blocks)
    return comparison(result.target, result.network, result.domain, worst) | {
        "graphs": {"target": graph(form), "frozen": graph(result.network)},
        "sites": {site.target: [layer.norm for layer in site.layers] for site in sites},
        "predicted": {k: finite(value) for k, value in predicted.items()},
        "spectra": spectra(result.network, sites),
        "layers": [] if certificate is None else layer_errors(result, certificate),
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
        "histogram": float32_histogram(target, candidate, box),
    }


def graph(network: Network, most: int = 200) -> list[dict[str, Any]] | None:
    """The nodes by name, kind, size and inputs; None when there are too many to draw."""
    if len(network.nodes) > most:
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
    count = affordable(target, network, 1000)
    if count < 20 and isinstance(domain, Box):  # too few for a histogram
        return None
    x = _in_float32(domain.sample(count, np.random.default_rng(1))[:count])
    if not len(x):
        return None
    with np.errstate(all="ignore"):
        g = without_casts(target)(x)
        found = {
            name: np.max(np.abs(one(x, np.float32).astype(np.float64) - g), axis=1)
            for name, one in (("network", network), ("target", target))
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
            # Singular values of larger systems would take longer than the page is worth.
            if m * k > 600 or len(found) == 4:
                continue
            M2 = M2[:, :n]  # of grouped layers, the units that the first block of M1 leads to
            values = scaled_singular_values(KhatriRao(M1, M2))
            if values is not None:
                row = {"name": site.target, "rows": m, "cols": k, "width": n}
                found.append({**row, "values": _thinned(values, 200)})
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
    count = affordable(target, network, 201)
    middle = box.lo / 2 + box.hi / 2
    direction = _to_the_edge(box, middle, worst)
    if count < 11 or direction is None:
        return None
    position = np.linspace(-1.0, 1.0, count)
    points = np.clip(middle + position[:, None] * direction, box.lo, box.hi)
    single = _in_float32(points)
    with np.errstate(all="ignore"):
        exact = without_casts(target)
        reference, candidate = exact(points), network(points)
        rounded = network(single, np.float32).astype(np.float64) - exact(single)
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


def _thinned(values: Vector, most: int) -> list[float]:
    """At most so many of the values, the least and the largest among them."""
    if len(values) > most:
        values = values[np.linspace(0, len(values) - 1, most).round().astype(int)]
    return [float(value) for value in values]


def _in_float32(x: Array) -> Array:
    """The inputs as float32 has them."""
    return x.astype(np.float32).astype(np.float64)


def finite(value: float | None) -> float | None:
    """The number; None where it is not known or not finite, which JSON has no word for."""
    return float(value) if value is not None and math.isfinite(value) else None


def predicted_rounding(result: Result, samples: int, *, blocks: bool) -> dict[str, float]:
    """What rounding should cost among `samples` inputs, for each precision: no bound.

    A hidden value `h_j = s_j (M1 x)_j + t_j` is kept with a relative error of about one unit of
    rounding `u`, and so is each partial sum behind it. With errors of random sign, output `i` of a
    site gets a variance of about

        u² Σ_j M2_ij² t_j² (1 + v L/2),      L = log2(n) + 1 levels of a pairwise sum,

    v = 1, or, where the shifts are taken out before values are added up (`blocks`), what these vary
    by. The target carries it on by the squares of its derivatives, at sampled inputs; those at
    which it is largest count for more. The largest of N Gaussian numbers is about √(2 ln N)
    standard deviations.
    """
    target = result.form.network
    own = {s.target: site_variance(result.network, s, blocks=blocks) for s in result.sites}
    variances = variances_at_outputs(target, result.domain, own)
    most = deviation(variances) * math.sqrt(2 * math.log(max(2, samples * target.size_out)))
    return {"float64": 2.0**-53 * most, "float32": 2.0**-24 * most}


def site_variance(frozen: Network, site: Site, *, blocks: bool = False) -> Vector:
    """The variance of a site's outputs in units of `u²`, carried through its own layers."""
    variance = squares = np.zeros(0)  # of the layer before: its errors, and its values, by channel
    for layer in site.layers:
        norm = frozen.node(layer.norm).op
        if isinstance(norm, Norm):
            s, t = (values[:: norm.positions] for values in norm.effective())
        elif isinstance(norm, LiveNorm):
            s, t = norm.gamma, norm.beta
        else:  # a map without a norm behind it
            s, t = np.ones(frozen.sizes[layer.norm]), np.zeros(frozen.sizes[layer.norm])
        arriving = np.zeros(len(s))
        if layer.carry is not None:
            kernels = mixing_at(frozen, layer.carry).kernels
            share = LIMITS.varying if blocks else 1.0
            summing = share * squares * (math.log2(kernels[0].shape[1]) + 1) / 2
            groups = np.split(variance + summing, len(kernels))
            squared = (
                (k.astype(np.float64).power(2) if sparse.issparse(k) else dense(k) ** 2) @ v
                for k, v in zip(kernels, groups, strict=True)
            )
            arriving = np.concatenate([np.asarray(part) for part in squared])
        squares = t**2  # a hidden value is about as large as its shift
        variance = s**2 * arriving + (squares if layer.activation is not None else 0.0)
    return norm.spread(variance) if isinstance(norm, Norm) else variance


def layer_errors(result: Result, certificate: Certificate) -> list[dict[str, Any]]:
    """The error layer by layer: what is certified at each cut, and what is met there.

    A certificate carries a bound from cut to cut. At the same cuts the two networks are evaluated
    on a few inputs, in float64 and in float32: a layer where the two part is where digits go.
    """
    target, network = result.form.network, result.network
    segments = [(s, s.target_node, s.candidate_node) for s in certificate.segments]
    if segments:  # the last one ends at the outputs, which files may have under other names
        segments[-1] = (segments[-1][0], target.output, network.output)
    rows = [(s, a, b) for s, a, b in segments if _inside(target, a) and _inside(network, b)]
    count = affordable(target, network, 32)
    if not rows or not count:
        return []
    x = result.domain.sample(count, np.random.default_rng(0))[:count]
    with np.errstate(all="ignore"):
        measured = _differences(target, network, rows, x)
    chains = {name: set(chain) | {name} for name, chain in result.form.chains.items()}
    found = []
    for i, ((segment, name, _), seen) in enumerate(zip(rows, measured, strict=True)):
        last = i == len(rows) - 1 and certificate.bound is not None  # signs may have helped there
        shifts = [
            row.shift_max
            for row in result.layers
            if chains.get(row.name, {row.name}) & set(segment.maps)
        ]
        error = min(segment.error_out, certificate.bound or 0.0) if last else segment.error_out
        found.append(
            {
                "name": name,
                "maps": list(segment.maps),
                "certified": finite(error),
                "shift": finite(max(shifts, default=0.0)),
                **seen,
            }
        )
    return found


def _differences(
    target: Network, network: Network, rows: Sequence[tuple[Segment, str, str]], x: Array
) -> list[dict[str, float | None]]:
    """The largest difference at each cut among these inputs; and the largest value of g there."""
    single = _in_float32(x)
    ours, theirs = [a for _, a, _ in rows], [b for _, _, b in rows]
    g, f = target.at(x, ours), network.at(x, theirs)
    g32, f32 = target.at(single, ours), network.at(single, theirs, np.float32)
    own = target.at(single, ours, np.float32)
    return [
        {
            "scale": _largest(g[a]),
            "float64": _largest(f[b] - g[a]),
            "float32": _largest(f32[b].astype(np.float64) - g32[a]),
            "target_float32": _largest(own[a].astype(np.float64) - g32[a]),
        }
        for a, b in zip(ours, theirs, strict=True)
    ]


def _inside(network: Network, name: str) -> bool:
    return name != network.source and name in network.sizes


def _largest(values: Array) -> float | None:
    return finite(float(np.max(np.abs(values), initial=0.0)))
