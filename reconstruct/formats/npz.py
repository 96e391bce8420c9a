"""Networks in NumPy's .npz archives: a simple form for layers in a row, and one for any graph.

Simple form: `W1, b1, W2, b2, …` with `W_i` of shape (outputs, inputs), ReLU between the maps;
the biases are optional, and `final_relu` (true or false) puts a ReLU after the last map.
Graph form: see `npz_graph`. Archives are read with `allow_pickle=False`, always.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import plain
from reconstruct.formats.limits import Budget
from reconstruct.formats.npy import read_arrays
from reconstruct.formats.npz_graph import network_from_graph, parsed
from reconstruct.formats.resnet import looks_like, read_resnet
from reconstruct.networks import Network
from reconstruct.numbers.given import held

KEYS = (
    "W1, b1, W2, b2, … (weights of shape outputs × inputs, biases optional, final_relu optional) "
    "or the graph form that reconstruct.save writes"
)


def real_array(key: str, value: NDArray[Any]) -> NDArray[Any]:
    """The array if it holds real numbers (float32 and float64 as they are), else a refusal."""
    if value.dtype.kind not in "fiub":
        raise InputError(f"array {key!r} must hold real numbers, but has dtype {value.dtype}")
    held(value, f"array {key!r}")
    return value if value.dtype in (np.float32, np.float64) else value.astype(np.float64)


def read_npz(content: bytes, budget: Budget) -> Network:
    """The network that an .npz archive holds, in either form."""
    arrays = read_arrays(content, budget)
    if "graph" in arrays:
        network = network_from_graph(arrays, budget)
        plain.check_plain(network, plain.graph(parsed(arrays), arrays))
        return network
    if looks_like(arrays):
        return read_resnet({key: real_array(key, value) for key, value in arrays.items()})
    network = _layers(arrays)
    plain.check_plain(network, plain.layers(arrays))
    return network


def _layers(arrays: Mapping[str, NDArray[Any]]) -> Network:
    _check_keys(arrays)
    count = sum(1 for key in arrays if key.startswith("W"))
    weights = [_weight(arrays, i) for i in range(1, count + 1)]
    biases = [_bias(arrays, i, len(weights[i - 1])) for i in range(1, count + 1)]
    return Network.mlp(weights, biases, final_activation=_final_relu(arrays))


def _check_keys(arrays: Mapping[str, NDArray[Any]]) -> None:
    for key, value in arrays.items():
        if value.ndim == 4:
            raise UnsupportedError(
                f"array {key!r} of shape {value.shape} is the kernel of a convolution, but the "
                f"archive is not the state dict of a ResNet (conv1, bn1, layer1.0.conv1, …, "
                f"linear); an .npz network has the keys {KEYS}"
            )
    unknown = [k for k in arrays if not re.fullmatch(r"[Wb][1-9]\d*|final_relu", k)]
    if unknown or "W1" not in arrays:
        shown = ", ".join(sorted(arrays)[:6]) + (", …" if len(arrays) > 6 else "")
        raise InputError(
            f"an .npz network needs the keys {KEYS}, but this one has {shown or 'no arrays'}"
        )
    indices = sorted(int(k[1:]) for k in arrays if k[0] == "W")
    missing = set(range(1, indices[-1] + 1)) - set(indices)
    lonely = {int(k[1:]) for k in arrays if k[0] == "b"} - set(indices)
    if missing or lonely:
        index = min(missing | lonely)
        raise InputError(f"the .npz network lacks the weight matrix W{index}; add it")


def _weight(arrays: Mapping[str, NDArray[Any]], i: int) -> NDArray[Any]:
    weight = real_array(f"W{i}", arrays[f"W{i}"])
    if weight.ndim != 2 or not weight.size:
        raise InputError(
            f"array 'W{i}' must be a matrix of shape outputs × inputs, but has shape {weight.shape}"
        )
    if i > 1 and weight.shape[1] != (before := arrays[f"W{i - 1}"].shape[0]):
        raise InputError(
            f"array 'W{i}' must have {before} columns, as many as 'W{i - 1}' has rows, but has "
            f"shape {weight.shape}; weights are stored as outputs × inputs"
        )
    return weight


def _bias(arrays: Mapping[str, NDArray[Any]], i: int, rows: int) -> NDArray[Any] | None:
    if f"b{i}" not in arrays:
        return None
    bias = real_array(f"b{i}", arrays[f"b{i}"])
    if bias.shape != (rows,):
        raise InputError(f"array 'b{i}' must have shape ({rows},), but has shape {bias.shape}")
    return bias


def _final_relu(arrays: Mapping[str, NDArray[Any]]) -> bool:
    flag = arrays.get("final_relu", np.array(False))
    if flag.size != 1 or flag.dtype.kind not in "biu" or int(flag.reshape(())) not in (0, 1):
        raise InputError("array 'final_relu' must be a single true or false")
    return bool(flag.reshape(()))
