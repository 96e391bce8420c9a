"""The weights of large ONNX models, in a file beside the model.

A protobuf message ends at 2 GiB. Beyond it ONNX keeps tensors in a second file and says in the
model where each one lies. The models written here also state the SHA-256 of that file, so that a
model is never read with the weights of another.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import IO, Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import LIMITS, Budget
from reconstruct.numbers.arrays import Array

DIGEST = "reconstruct.data_sha256"


class DataFile:
    """Tensors written one after the other, with what the model has to say of them."""

    def __init__(self, onnx: Any, file: IO[bytes], name: str) -> None:
        self._onnx = onnx
        self._file = file
        self._name = name
        self._end = 0
        self._digest = hashlib.sha256()

    def tensor(self, name: str, array: Array) -> Any:
        """The array appended to the file, as a TensorProto that points there."""
        self._write(b"\0" * (-self._end % 4096))  # so that a tensor can be mapped into memory
        offset = self._end
        little: Any = array.astype(array.dtype.newbyteorder("<"), copy=False)
        self._write(little.reshape(-1).view(np.uint8))
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = self._onnx.TensorProto(name=name, data_type=kind, dims=array.shape)
        tensor.data_location = self._onnx.TensorProto.EXTERNAL
        place = {"location": self._name, "offset": offset, "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def _write(self, data: Any) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._end += len(data)

    def sign(self, model: Any) -> None:
        """Notes in the model the digest of the file, which is still open."""
        model.metadata_props.add(key=DIGEST, value=self._digest.hexdigest())


def holds(array: Array) -> bool:
    """Whether a tensor of this size goes to the data file."""
    return array.nbytes >= LIMITS.beside and array.dtype.kind == "f"


# Types whose numbers take whole bytes. ONNX packs INT4 and the like two or four to a byte, and a
# STRING has no size at all: such tensors are read inside of a model only.
WHOLE_BYTES = (
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL",
    "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
)  # fmt: skip


def read_external(
    model: Any, folder: Path, budget: Budget
) -> tuple[dict[str, str], dict[str, Any]]:
    """The SHA-256 of every file that holds tensors, and the initializers that lie there.

    Each file is read once; tensors and hash are of the same bytes. Tensors in attributes of nodes
    are refused: nobody writes them.
    """
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.t.data_location == attribute.t.EXTERNAL:
                raise InputError(
                    f"node {node.name!r} keeps its attribute {attribute.name!r} in another file, "
                    "but only initializers are read from there; export the model anew"
                )
    files: dict[str, bytes] = {}
    arrays: dict[str, Any] = {}
    for tensor in model.graph.initializer:
        if tensor.data_location != tensor.EXTERNAL:
            continue
        location, offset, size, dtype = _place(tensor)
        if location not in files:
            files[location] = _content(folder, location, budget)
        if offset + size > len(files[location]):
            raise InputError(f"tensors go beyond the end of {location}; was that file cut short?")
        count = size // dtype.itemsize
        little = np.frombuffer(files[location], dtype.newbyteorder("<"), count, offset)
        if dtype == np.bool_ and np.any(little.view(np.uint8) > 1):
            raise InputError(f"the tensor {tensor.name!r} holds neither true nor false")
        arrays[tensor.name] = little.astype(dtype, copy=False).reshape(tuple(tensor.dims))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    stated = {p.key: p.value for p in model.metadata_props}.get(DIGEST)
    if stated is not None and len(digests) == 1 and stated not in digests.values():
        raise InputError(
            f"the weights in {next(iter(digests))} are not those that the model was written with; "
            "keep the two files together"
        )
    return digests, arrays


def _place(tensor: Any) -> tuple[str, int, int, Any]:
    """In which file a tensor lies, where, in how many bytes, and its type."""
    import onnx

    what = f"the tensor {tensor.name!r}"
    kind = {v: k for k, v in onnx.TensorProto.DataType.items()}.get(tensor.data_type, "unknown")
    if kind not in WHOLE_BYTES:
        raise InputError(
            f"{what} has the type {kind} and lies in another file, but of the types there only "
            f"{', '.join(WHOLE_BYTES)} are read; store it in the model itself"
        )
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    entries = {e.key: e.value for e in tensor.external_data}
    if len(entries) != len(tensor.external_data):
        raise InputError(f"{what} says twice where it lies")
    numbers = [entries.get("offset", "0"), entries.get("length", "0")]
    if not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers):
        raise InputError(f"{what} has the offset and length {numbers}, which are no numbers")
    size = math.prod(tensor.dims) * dtype.itemsize
    if any(n < 0 for n in tensor.dims) or ("length" in entries and int(numbers[1]) != size):
        raise InputError(f"{what} of {size} bytes is said to have {numbers[1]} bytes in its file")
    return entries.get("location", ""), int(numbers[0]), size, dtype


def _content(folder: Path, location: str, budget: Budget) -> bytes:
    """The bytes of a file beside the model, which must be there itself, not through a link."""
    parts = Path(location).parts
    if not location or Path(location).is_absolute() or ".." in parts:
        raise InputError(
            f"weights lie in the file {location!r}, but only files beside the model are read"
        )
    if any((folder / Path(*parts[: i + 1])).is_symlink() for i in range(len(parts))):
        raise InputError(
            f"the weights are kept in {location}, which is a link, but links are not followed; "
            "put the file itself beside the model"
        )
    path = folder / location
    if not path.is_file():
        raise InputError(f"the weights are kept in {location}, which is not beside the model")
    found = path.stat()
    # What is stored may be as large as it is; holes of a sparse file cost their maker nothing.
    budget.take(max(found.st_size - 512 * found.st_blocks, 0), f"the file {location}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"the weights in {path.name} cannot be read ({error.strerror})") from None
