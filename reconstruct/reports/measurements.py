"""Numbers that the page's figures need and that only a run can measure.

They are kept in report.json under `measurements`, so that the page can be made again from the
run's files alone. All of them are numerical: they illustrate and prove nothing.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.certificates.verdicts import Certificate
from reconstruct.constructions.scaling import LIMITS, deviation, variances_at_outputs
from reconstruct.constructions.sites import Site, mixing_at
from reconstruct.networks import LiveNorm, Network, Norm, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.pipeline import Result
from reconstruct.reports.document import finite


def affordable(target: Network, network: Network, most: int, work: float = 2e10) -> int:
    """At most `most` inputs, fewer for large networks: a figure must not take longer than what it
    shows, so it may cost `work` multiplications. 0 where not even one is cheap."""
    return int(min(most, work // max(1, multiplications(target) + multiplications(network))))


def multiplications(network: Network) -> int:
    """Of one evaluation: a kernel counts at each of its positions."""
    return sum(n.op.weights * int(getattr(n.op, "positions", 1)) for n in network.nodes)


def measurements(
    result: Result,
    samples: int,
    certificate: Certificate | None = None,
    *,
    blocks: bool = False,
) -> dict[str, Any]:
    """The graphs, the predicted rounding errors and the errors layer by layer; `blocks` if long
    sums are written as trees."""
    with np.errstate(all="ignore"):
        predicted = predicted_rounding(result, samples, blocks=blocks)
    return graphs(result.form.network, result.network) | {
        "sites": {site.target: [layer.norm for layer in site.layers] for site in result.sites},
        "predicted": {k: finite(value) for k, value in predicted.items()},
        "layers": [] if certificate is None else layer_errors(result, certificate),
    }


def graphs(target: Network, network: Network) -> dict[str, Any]:
    """All that is drawn of two networks that came from elsewhere: no sites, nothing solved."""
    return {"graphs": {"target": graph(target), "frozen": graph(network)}}


def graph(network: Network, most: int = 200) -> list[dict[str, Any]] | None:
    """The nodes by name, kind, size and inputs, of convolutions and pools with shape and kernel;
    None when there are too many to draw."""
    if len(network.nodes) > most:
        return None
    nodes: list[dict[str, Any]] = []
    for node in network.nodes:
        told = {"name": node.name, "kind": node.op.kind, "size": network.sizes[node.name]}
        shape, geometry = (getattr(node.op, name, None) for name in ("out_shape", "geometry"))
        if shape is not None and geometry is not None:
            told |= {"shape": list(shape), "kernel": list(geometry.kernel)}
        nodes.append({**told, "inputs": list(node.inputs)})
    return nodes


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
    single = x.astype(np.float32).astype(np.float64)
    ours, theirs = [a for _, a, _ in rows], [b for _, _, b in rows]
    with np.errstate(all="ignore"):
        g, f = target.at(x, ours), network.at(x, theirs)
        g32, f32 = target.at(single, ours), network.at(single, theirs, np.float32)
        own = target.at(single, ours, np.float32)
    chains = {name: set(chain) | {name} for name, chain in result.form.chains.items()}
    found = []
    for segment, a, b in rows:
        error, maps = segment.error_out, set(segment.maps)
        if segment is rows[-1][0] and certificate.bound is not None:
            error = min(error, certificate.bound)  # signs may have helped there
        solved = (row for row in result.layers if chains.get(row.name, {row.name}) & maps)
        found.append(
            {
                "name": a,
                "maps": list(segment.maps),
                "certified": finite(error),
                "shift": finite(max((row.shift_max for row in solved), default=0.0)),
                "scale": _largest(g[a]),
                "float64": _largest(f[b] - g[a]),
                "float32": _largest(f32[b].astype(np.float64) - g32[a]),
                "target_float32": _largest(own[a].astype(np.float64) - g32[a]),
            }
        )
    return found


def _inside(network: Network, name: str) -> bool:
    return name != network.source and name in network.sizes


def _largest(values: Array) -> float | None:
    """None where there is no value, or one that is no number."""
    return finite(float(np.max(np.abs(values)))) if values.size else None


# --- inputs that a reader knows -----------------------------------------------------------------
#
# What both networks answer, how often they are right, and the guard. Shifts are made for the
# domain, so a margin there is 0 or more whatever the slack: how much of the inputs to come is
# covered only other inputs can tell.


def _worth(result: Result, most: int) -> int:
    """How many inputs are evaluated for accuracies and the guard: more than for a figure, because
    they are asked for."""
    return affordable(result.target, result.network, most, work=2e11)


@dataclass(frozen=True, eq=False)
class ShownInputs:
    """Inputs as rows; their labels where they are known; their shape where they are pictures."""

    x: Array
    y: Array | None = None
    shape: Sequence[int] | None = None


def inputs_part(result: Result, examples: ShownInputs | None) -> dict[str, Any] | None:
    """Answers on the examples, accuracies where labels are known; None without examples."""
    count = 0 if examples is None else _worth(result, min(1000, len(examples.x)))
    if examples is None or not count:
        return None
    x = examples.x[:count].reshape(count, -1)
    answers = {"target": result.target(x), "network": result.network(x)}
    g, f = answers.values()
    classes = {name: values.argmax(axis=1) for name, values in answers.items()}
    several, accuracy = g.shape[1] > 1, None
    if examples.y is not None and several:
        classes["frozen"] = result.frozen.network(x).argmax(axis=1)
        labels = np.asarray(examples.y)[:count]
        accuracy = {name: float(np.mean(found == labels)) for name, found in classes.items()}
        accuracy["same"] = float(np.mean(classes["target"] == classes["network"]))
    own = result.target.metadata.get("input_shape")
    shape = image_shape(examples.shape or own, x.shape[1])
    lo, hi = float(x.min()), float(x.max())
    shown = [
        {
            "image": None if shape is None else data_url(x[i], shape, lo, hi),
            "label": None if examples.y is None else int(examples.y[i]),
            "target": int(classes["target"][i]) if several else None,
            "network": int(classes["network"][i]) if several else None,
            "difference": float(np.max(np.abs(f[i] - g[i]))),
            "margin": float(margin),
        }
        for i, margin in enumerate(result.margin(x[:8]))
    ]
    return {"count": count, "of": len(examples.x), "accuracy": accuracy, "shown": shown}


def guard_part(
    result: Result, file: str, slack: float | None, unseen: Array | None
) -> dict[str, Any]:
    """The share with margin ≥ 0 on the domain's own inputs; how many `unseen` ones (rows) are
    covered, and the largest |f − g| on these and on the others."""
    tried = result.domain.sample(32, np.random.default_rng(0))[:32]
    margins = result.margin(tried)
    told = None
    count = 0 if unseen is None else _worth(result, min(10_000, len(unseen)))
    if unseen is not None and count:
        with np.errstate(all="ignore"):
            outputs, found = result.guarded(unseen[:count])
            gaps = np.max(np.abs(outputs - result.target(unseen[:count])), axis=1)
        told = {
            "inputs": count,
            "of": len(unseen),
            "covered": int(np.count_nonzero(found >= 0)),
            "covered_error": _largest(gaps[found >= 0]),
            "others_error": _largest(gaps[~(found >= 0)]),
        }
    return {
        "file": file,
        "slack": slack,
        "inputs": len(margins),
        "share": float(np.mean(margins >= 0)),
        "least_margin": float(margins.min()),
        "unseen": told,
    }


def image_shape(shape: Sequence[int] | None, size: int) -> tuple[int, int, int] | None:
    """Channels, height and width of inputs that are pictures, grey or in colour; else None."""
    kept = [int(n) for n in shape or ()]
    while len(kept) > 3 and kept[0] == 1:  # a batch of one
        kept = kept[1:]
    if len(kept) == 2:
        kept = [1, *kept]
    if len(kept) != 3 or math.prod(kept) != size or kept[0] not in (1, 3):
        return None
    channels, height, width = kept
    sides = min(height, width) > 1 and height * width <= 2**16  # a line is no picture
    return (channels, height, width) if sides else None


def data_url(x: Array, shape: tuple[int, int, int], lo: float, hi: float) -> str:
    """The input as a PNG in a URL, `lo` black and `hi` white."""
    share = (np.asarray(x, dtype=np.float64).reshape(shape) - lo) / (hi - lo if hi > lo else 1.0)
    levels = np.clip(np.round(255 * share), 0, 255).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(levels)).decode()


def png(levels: Array) -> bytes:
    """Channels × height × width of grey levels 0 … 255 as a PNG file."""
    channels, height, width = levels.shape
    rows = np.moveaxis(levels, 0, -1).reshape(height, -1)
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(rows))
    kind = 0 if channels == 1 else 2  # grey or colour, by the PNG specification
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(name + body))
        content += struct.pack(">I", len(body)) + name + body + check
    return content
