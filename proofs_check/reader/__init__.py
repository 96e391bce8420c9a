"""The checker's own reader: plain networks in .onnx and .npz, by no code of `reconstruct.formats`.

Whoever misreads a file misreads it for certifier and checker alike, as long as both read with one
program. So what `run` writes, and plain Gemm, MatMul, Conv, Add, Relu, BatchNormalization and pool
targets, are read here a second time, from the bytes on: protobuf's wire format, ONNX's operators,
zip members. Names and merging (a constant that is added to a product is its bias) are as in the
other reader, because a certificate speaks of nodes by name; where the two differ in meaning, the
certificate's claims do not follow. Everything else raises `NotPlain`: the shared reader reads it,
and the acceptance says so.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from pathlib import Path

from proofs_check.reader.npz import read_npz
from proofs_check.reader.onnx import read_onnx
from proofs_check.reader.plain import NotPlain
from reconstruct.errors import InputError
from reconstruct.networks import Network

__all__ = ["NotPlain", "read_plain"]

BROKEN = (  # what reading meets in bytes that are no plain network
    *(InputError, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError),
    *(struct.error, zipfile.BadZipFile, zlib.error, RuntimeError, OSError),
)


def read_plain(path: Path) -> Network:
    """The network in a plain .onnx or .npz file, with the hashes of its bytes in `metadata`."""
    kind = path.suffix.lower()
    if kind not in (".onnx", ".npz"):
        raise NotPlain(f"{kind} files are read by the shared reader")
    content = path.read_bytes()
    told: dict[str, object] = {"sha256": hashlib.sha256(content).hexdigest()}
    try:
        network = read_npz(content) if kind == ".npz" else read_onnx(content, path.parent, told)
    except BROKEN as error:
        raise NotPlain(str(error)) from None
    return Network(network.size_in, network.nodes, network.output, network.source, told)
