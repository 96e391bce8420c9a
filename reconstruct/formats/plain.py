"""What the numbers of an .npz or .nnet file mean, evaluated straight from them.

The readers' independent counterpart: it knows no network, only the documented meaning of the
arrays and of the text, in plain NumPy. Inputs are single points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import UnsupportedError
from reconstruct.formats.agreement import FLOAT64, TILE, disagreement, follow, points, telling
from reconstruct.networks import Network

Array = NDArray[Any]
Evaluate: TypeAlias = Callable[[Array], Array]


def check_plain(network: Network, evaluate: Evaluate | None) -> None:
    """Refuses a network that differs from the plain evaluation of its file, if there is one."""
    if evaluate is None:
        return
    x = points(network)
    followed = follow(network, x, FLOAT64)
    for row, point in enumerate(x):
        if not telling(followed, row, FLOAT64):
            continue
        with np.errstate(all="ignore"):
            theirs = np.asarray(evaluate(point), dtype=np.float64)
        mine = followed.values[network.output][row]
        error = followed.errors[network.output][row]
        place = -1 if theirs.shape == mine.shape else 0
        if place < 0:
            place = disagreement(theirs, mine, error)
        if place >= 0:
            raise UnsupportedError(
                f"output {place + 1} is read as {mine[place]:.17g}, but the file's numbers "
                f"evaluate to {theirs.ravel()[place]:.17g}; the file cannot be used"
            )


def layers(arrays: Mapping[str, Array]) -> Evaluate:
    """The simple form of an .npz network."""
    count = sum(1 for key in arrays if re.fullmatch(r"W\d+", key))
    final = bool(np.any(arrays.get("final_relu", False)))

    def evaluate(h: Array) -> Array:
        for i in range(1, count + 1):
            h = _times(arrays[f"W{i}"], h)
            h = h + arrays[f"b{i}"].astype(np.float64) if f"b{i}" in arrays else h
            h = np.where(h > 0, h, 0) if i < count or final else h
        return h

    return evaluate


def _times(weight: Array, h: Array) -> Array:
    """W h in float64, some rows at a time, so that no second copy of a large W is made."""
    step = max(TILE // max(weight.shape[1], 1), 1)
    parts = [weight[i : i + step].astype(np.float64) @ h for i in range(0, len(weight), step)]
    return np.concatenate(parts) if parts else np.empty(0)


def graph(fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> Evaluate | None:
    """The graph form of an .npz network; None where it holds an operation with no plain meaning."""
    if any(node["op"] not in _MEANINGS for node in fields["nodes"]):
        return None

    def evaluate(x: Array) -> Array:
        values = {fields["source"]: x}
        for node in fields["nodes"]:
            inputs = [values[i] for i in node["inputs"]]
            own = _Own(arrays, node["name"])
            values[node["name"]] = _MEANINGS[node["op"]](inputs, node, own)
        return values[fields["output"]]

    return evaluate


class _Own:
    """The arrays of one node, by their key, in float64."""

    def __init__(self, arrays: Mapping[str, Array], name: str) -> None:
        self._arrays, self._name = arrays, name

    def stored(self, key: str) -> Array:
        return self._arrays[f"{self._name}.{key}"]

    def __getitem__(self, key: str) -> Array:
        value = self.stored(key)
        return value.astype(np.int64 if value.dtype.kind in "iu" else np.float64)


def _affine(inputs: list[Array], node: Any, own: _Own) -> Array:
    (h,) = inputs
    if "shape" not in node:
        return _times(own.stored("weight"), h) + own["bias"]
    starts, columns = own["weight.indptr"], own["weight.indices"]
    rows = np.repeat(np.arange(node["shape"][0]), np.diff(starts))
    products = own["weight.data"] * h[columns]
    return np.bincount(rows, products, minlength=node["shape"][0]) + own["bias"]


def _norm(inputs: list[Array], node: Any, own: _Own) -> Array:
    z = inputs[0].reshape(-1, node.get("positions", 1))
    parts = ("weight", "bias", "running_mean", "running_var")
    gamma, beta, mean, var = (own[key][:, None] for key in parts)
    return np.asarray(gamma * ((z - mean) / np.sqrt(var + node["eps"])) + beta).ravel()


def _scaling(inputs: list[Array], node: Any, own: _Own) -> Array:
    return np.asarray(inputs[0] * own["factor"] / own["divisor"] + own["offset"])


def _bent(inputs: list[Array], alpha: float, gain: float) -> Array:
    (z,) = inputs
    return np.asarray(gain * np.where(z < 0, alpha * np.expm1(np.minimum(z, 0)), z))


def _selu(node: Any) -> tuple[float, float]:
    """alpha and gamma; left out, they are the float32 constants of ONNX."""
    usual = np.float32(1.67326319217681884765625), np.float32(1.05070102214813232421875)
    return float(node.get("alpha", usual[0])), float(node.get("gamma", usual[1]))


def _windows(x: Array, node: Any, fill: float) -> Array:
    """(channels, kh, kw, down, across): the pixels that each place of the kernel meets."""
    channels, height, width = node["image"]
    top, left, bottom, right = node["pads"]
    image = x.reshape(channels, height, width)
    wide = np.pad(image, ((0, 0), (top, bottom), (left, right)), constant_values=fill)
    (kh, kw), (sy, sx), (dy, dx) = node["kernel"], node["strides"], node["dilations"]
    down = (wide.shape[1] - dy * (kh - 1) - 1) // sy + 1
    across = (wide.shape[2] - dx * (kw - 1) - 1) // sx + 1
    rows = [
        [
            wide[:, i * dy : i * dy + sy * down : sy, j * dx : j * dx + sx * across : sx]
            for j in range(kw)
        ]
        for i in range(kh)
    ]
    return np.moveaxis(np.array(rows)[..., :down, :across], 2, 0)


def _convolution(inputs: list[Array], node: Any, own: _Own) -> Array:
    seen, kernel, groups = _windows(inputs[0], node, 0.0), own["weight"], node["groups"]
    parts = zip(np.split(kernel, groups), np.split(seen, groups), strict=True)
    made = [np.einsum("ocij,cijyx->oyx", k, w) for k, w in parts]
    return np.asarray((np.concatenate(made) + own["bias"][:, None, None]).ravel())


_MEANINGS: dict[str, Callable[[list[Array], Any, _Own], Array]] = {
    "Affine": _affine,
    "Norm": _norm,
    "Scaling": _scaling,
    "Add": lambda inputs, node, own: np.sum(inputs, axis=0),
    "Select": lambda inputs, node, own: inputs[0][node["start"] : node["stop"]],
    "Relu": lambda inputs, node, own: np.where(inputs[0] > 0, inputs[0], 0),
    "LeakyRelu": lambda inputs, node, own: np.where(
        inputs[0] < 0, node.get("slope", 0.01) * inputs[0], inputs[0]
    ),
    "Elu": lambda inputs, node, own: _bent(inputs, node.get("alpha", 1.0), 1.0),
    "Selu": lambda inputs, node, own: _bent(inputs, *_selu(node)),
    "Clip": lambda inputs, node, own: np.minimum(
        np.maximum(inputs[0], node.get("lo", -1.0)), node.get("hi", 1.0)
    ),
    "Convolution": _convolution,
    "SumPool": lambda inputs, node, own: _windows(inputs[0], node, 0.0).sum(axis=(1, 2)).ravel(),
    "MaxPool": lambda inputs, node, own: (
        _windows(inputs[0], node, -np.inf).max(axis=(1, 2)).ravel()
    ),
    "Placement": lambda inputs, node, own: np.append(inputs[0], 0.0)[own["index"]],
}


def nnet(text: str, *, header: bool) -> Evaluate:
    """A .nnet file as one stream of numbers."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
    stream = [float(field) for line in lines for field in line.split(",") if field.strip()]
    count, inputs = int(stream[0]), int(stream[1])
    sizes = [int(n) for n in stream[4 : 5 + count]]
    at = 5 + count + 1 + 2 * inputs  # behind the flag, the minimums and the maximums
    means, ranges = (np.array(stream[at + i : at + i + inputs + 1]) for i in (0, inputs + 1))
    weights = np.array(stream[at + 2 * (inputs + 1) :])

    def evaluate(h: Array) -> Array:
        h = (h - means[:-1]) / ranges[:-1] if header else h
        start = 0
        for i, (k, m) in enumerate(pairwise(sizes), start=1):
            weight = weights[start : start + m * k].reshape(m, k)
            h = weight @ h + weights[start + m * k : start + m * k + m]
            h = np.where(h > 0, h, 0) if i < count else h
            start += m * k + m
        return np.asarray(h * ranges[-1] + means[-1] if header else h)

    return evaluate
