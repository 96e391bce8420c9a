"""Networks in files: which format it is, what the file says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import (
    format_suffix,
    naming,
    read_bytes,
    sha256_bytes,
    unpacked,
    written_whole,
)
from reconstruct.formats.foreign import refuse_foreign
from reconstruct.formats.limits import Budget, read_limit
from reconstruct.formats.nnet import read_nnet
from reconstruct.formats.npy import ZIP_MAGIC
from reconstruct.formats.npz import read_npz
from reconstruct.formats.npz_graph import graph_arrays
from reconstruct.formats.paths import as_path
from reconstruct.networks import Network
from reconstruct.networks.given import as_network, as_precision


@dataclass(frozen=True)
class Around:
    """What reading a file may need besides its content."""

    folder: Path
    nnet_header: bool
    budget: Budget


@dataclass(frozen=True)
class FileFormat:
    """How a kind of file is read, and known by its content where the name says nothing."""

    read: Callable[[bytes, Around], Network]
    known: Callable[[bytes], bool]


def _onnx(content: bytes, around: Around) -> Network:
    from reconstruct.formats.onnx.read import read_onnx

    return read_onnx(content, around.folder, around.budget)


FORMATS = {
    ".npz": FileFormat(
        lambda content, around: read_npz(content, around.budget),
        lambda content: content.startswith(ZIP_MAGIC),
    ),
    ".nnet": FileFormat(
        lambda content, around: read_nnet(content, fold_header=around.nnet_header),
        lambda content: content.lstrip().startswith(b"//"),
    ),
    ".onnx": FileFormat(
        _onnx,
        lambda content: b"\0" in content[:4096] or content[:1] == b"\x08",  # field 1 of a model
    ),
}  # by suffix, in the order in which content is looked at


def load(
    path: str | os.PathLike[str],
    *,
    nnet_header: bool = False,
    limit: int | None = None,
    memory: int | None = None,
) -> Network:
    """The network in an ONNX, .npz or .nnet file, gzip'd or not.

    `metadata` says where it came from: `file`, `format`, `sha256` of the bytes as stored, and
    what the format adds. `nnet_header` puts the normalisation of a .nnet file around its network.
    `limit` is the memory in bytes that the file may unpack to (RECONSTRUCT_READ_LIMIT, or 4 GiB).
    With `memory`, the bytes that the whole work may take, large weights that lie in a file beside
    the model stay there and are read in blocks.
    """
    place, most = as_path(path, "a network's file"), read_limit(limit)
    with naming(place):
        stored = read_bytes(place, most)
        content = unpacked(stored, most)
        kind = _format(place, content)
        if nnet_header and kind != ".nnet":
            raise InputError(f"only .nnet files have a header to fold in, but this is {kind}")
        budget = Budget(max(most, len(stored)), memory=memory)
        network = FORMATS[kind].read(content, Around(place.parent, nnet_header, budget))
        _check_sizes(network)
        origin = {"file": place.name, "format": kind[1:], "sha256": sha256_bytes(stored)}
    return Network(
        network.size_in,
        network.nodes,
        network.output,
        network.source,
        {**origin, **network.metadata},
    )


def _format(path: Path, content: bytes) -> str:
    suffix = format_suffix(path)
    if suffix in FORMATS:
        return suffix
    refuse_foreign(path, content)
    for kind, found in FORMATS.items():
        if found.known(content):
            return kind
    raise InputError(
        "the format is not recognised; a network is needed in a file that ends in .onnx, .npz or "
        ".nnet (.gz may follow)"
    )


def _check_sizes(network: Network) -> None:
    for name, size in network.sizes.items():
        if size < 1:
            what = "the output" if name == network.output else f"node {name!r}"
            raise InputError(f"{what} has no values, but every layer needs at least one")


def save(network: Network, path: str | os.PathLike[str], *, dtype: Any = np.float64) -> None:
    """Writes the network as .onnx or .npz, its numbers in `dtype`, whole or not at all.

    For .npz the `dtype` None keeps every weight in the precision in which it is stored.
    """
    place = as_path(path, "the file to write")
    as_network(network, "what is saved")
    if dtype is not None:
        as_precision(dtype, "networks are written")
    suffix = place.suffix.lower()
    if suffix == ".npz":
        arrays: dict[str, Any] = graph_arrays(network, dtype)
        with written_whole(place) as file:
            np.savez(file, **arrays)
    elif suffix == ".onnx":
        from reconstruct.formats.onnx.write import write_onnx

        write_onnx(network, place, dtype)
    else:
        raise InputError(
            f"{place}: networks are written as .onnx or .npz, but the name ends in "
            f"{suffix or 'no suffix'!r}"
        )
