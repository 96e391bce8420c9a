"""Networks in files: which format it is, what the file says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats import files
from reconstruct.formats.files import Around
from reconstruct.formats.nnet import read_nnet
from reconstruct.formats.npz import ZIP_MAGIC, graph_arrays, read_npz
from reconstruct.networks import Box, Network, Points
from reconstruct.networks.graph import as_network
from reconstruct.numbers.given import precision

UNCHECKED = "RECONSTRUCT_UNCHECKED_READING"
TORCH = (".pt", ".pth", ".ckpt", ".pkl", ".bin", ".tar")
PICKLE = b"\x80"  # the first byte of every pickle since protocol 2
FROM_TORCH = (
    "build the model in Python, load the weights into it, and give it to rc.from_torch(model, "
    "example), or export it with torch.onnx.export(model, example, 'model.onnx')"
)
OTHERS = {
    ".h5": ("a Keras (HDF5) file", "export the model to ONNX with tf2onnx"),
    ".keras": ("a Keras file", "export the model to ONNX with tf2onnx"),
    ".pb": ("a TensorFlow graph", "export the model to ONNX with tf2onnx"),
    ".tflite": ("a TensorFlow Lite file", "export the model to ONNX with tf2onnx"),
    ".mat": ("a MATLAB file", "export the network with exportONNXNetwork"),
}


@dataclass(frozen=True)
class FileFormat:
    """How a kind of file is read, and known by its content where the name says nothing."""

    read: Callable[[bytes, Around], Network]
    known: Callable[[bytes], bool]


def _onnx(content: bytes, around: Around) -> Network:
    from reconstruct.formats.onnx.read import read_onnx

    return read_onnx(content, around)


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
    near: Box | Points | None = None,
    unchecked: bool | None = None,
    held: Network | None = None,
) -> Network:
    """The network in an ONNX, .npz or .nnet file, gzip'd or not.

    `metadata` says where it came from: `file`, `format`, `sha256` of the bytes as stored, and
    what the format adds. `nnet_header` puts the normalisation of a .nnet file around its network.
    `limit` is the memory in bytes that the file may unpack to (RECONSTRUCT_READ_LIMIT, or 4 GiB).
    What is read of an ONNX file is compared with another program at many points, with `near` in
    that domain and beside it; where no program can evaluate the file it is refused, unless
    `unchecked` (RECONSTRUCT_UNCHECKED_READING): then `metadata["compared"]` is None. Large weights
    of an ONNX file that are those of the network `held`, bit by bit, are not held twice.
    """
    place, most = files.as_path(path, "a network's file"), files.read_limit(limit)
    with files.naming(place):
        stored = files.read_bytes(place, most)
        content = files.unpacked(stored, most)
        kind = _format(place, content)
        if nnet_header and kind != ".nnet":
            raise InputError(f"only .nnet files have a header to fold in, but this is {kind}")
        allowed = bool(os.environ.get(UNCHECKED)) if unchecked is None else unchecked
        budget = files.Budget(max(most, len(stored)))
        around = Around(place.parent, budget, nnet_header, near, allowed, held)
        network = FORMATS[kind].read(content, around)
        origin = {"file": place.name, "format": kind[1:], "sha256": files.sha256_bytes(stored)}
    return replace(network, metadata={**origin, **network.metadata})


def _format(path: Path, content: bytes) -> str:
    suffix = files.format_suffix(path)
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


def refuse_foreign(path: Path, content: bytes) -> None:
    """Raise for files that hold networks of other programs; say nothing of all others."""
    suffix = files.format_suffix(path)
    zipped = content.startswith(ZIP_MAGIC) and b"data.pkl" in content
    if zipped or (suffix in TORCH and content.startswith((PICKLE, *ZIP_MAGIC))):
        raise InputError(
            f"this is a PyTorch file, a pickle, which could run any code and is never opened "
            f"here, and which holds no graph as a rule; {FROM_TORCH}"
        )
    if suffix == ".safetensors" or content[8:10] == b'{"':
        raise InputError(
            f"this is a safetensors file: weights without the network that uses them; {FROM_TORCH}"
        )
    if suffix in OTHERS:
        kind, remedy = OTHERS[suffix]
        raise InputError(f"this is {kind}, but .onnx, .npz or .nnet is needed; {remedy}")


def save(network: Network, path: str | os.PathLike[str], *, dtype: Any = np.float64) -> None:
    """Writes the network as .onnx or .npz, its numbers in `dtype`, whole or not at all.

    For .npz the `dtype` None keeps every weight in the precision in which it is stored.
    """
    place = files.as_path(path, "the file to write")
    as_network(network, "what is saved")
    if dtype is not None:
        precision(dtype, "networks are written")
    suffix = place.suffix.lower()
    if suffix == ".npz":
        arrays: dict[str, Any] = graph_arrays(network, dtype)
        with files.written_whole(place) as file:
            np.savez(file, **arrays)
    elif suffix == ".onnx":
        from reconstruct.formats.onnx.write import write_onnx

        write_onnx(network, place, dtype)
    else:
        raise InputError(
            f"{place}: networks are written as .onnx or .npz, but the name ends in "
            f"{suffix or 'no suffix'!r}"
        )


@dataclass(frozen=True)
class Origin:
    """Which bytes a network was read from, hashed while they were read: what a certificate pins.

    The file's name and SHA-256 as stored; `data` gives those of files beside it.

    `nnet_header` says that the header of a .nnet file is a part of the function; `compared` that
    no value was found to differ from another program's, which a user may waive (ONNX files);
    `casts` the nodes that round to a narrower type, which are the identity in real arithmetic.
    """

    file: str
    sha256: str
    data: Mapping[str, str] = field(default_factory=dict)
    nnet_header: bool = False
    compared: bool = True
    casts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network) -> Origin | None:
        """The origin of a loaded network, None for one that came from no file."""
        told = network.metadata
        if "sha256" not in told:
            return None
        return cls(
            told["file"],
            told["sha256"],
            dict(told.get("data_sha256", {})),
            bool(told.get("nnet_header_folded", False)),
            told.get("compared", {}) is not None,
            network.casts,
        )

    def document(self) -> dict[str, Any]:
        """The fields by which a document names the network; absent parts are left out."""
        parts: dict[str, Any] = {
            "file": self.file,
            "sha256": self.sha256,
            "data_sha256": dict(sorted(self.data.items())),
            "nnet_header": self.nnet_header,
            "unchecked_reading": not self.compared,
            "casts": dict(self.casts),
        }
        return {key: value for key, value in parts.items() if value}

    def differs(self, stated: Mapping[str, Any]) -> str | None:
        """The first field in which a document's statement is not of these bytes, if any is."""
        ours = self.document()
        keys = ("sha256", "data_sha256", "nnet_header", "unchecked_reading")
        return next((k for k in keys if (stated.get(k) or None) != ours.get(k)), None)
