"""The weights of large ONNX models, in a file beside the model.

A protobuf message ends at 2 GiB. Beyond it ONNX keeps tensors in a second file and says in the
model where each one lies. The model also states the SHA-256 of that file, so that a model is never
read with the weights of another.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.files import sha256_file

SMALLEST = 1024  # bytes; smaller tensors stay in the model
ALIGNMENT = 4096  # so that a tensor can be mapped into memory
DIGEST = "reconstruct.data_sha256"
Array = NDArray[Any]


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
        self._write(b"\0" * (-self._end % ALIGNMENT))
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
        """Notes in the model the digest of the file."""
        model.metadata_props.add(key=DIGEST, value=self._digest.hexdigest())


def holds(array: Array) -> bool:
    """Whether a tensor of this size goes to the data file."""
    return array.nbytes >= SMALLEST and array.dtype.kind == "f"


def check_data(model: Any, folder: Path) -> str | None:
    """The digest of the model's data file, after comparing it with what the model states."""
    stated: str | None = {p.key: p.value for p in model.metadata_props}.get(DIGEST)
    names = {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    if stated is None or len(names) != 1:
        return None
    path = folder / Path(names.pop()).name
    if not path.is_file():
        raise InputError(f"the weights are kept in {path.name}, which is not beside the model")
    if sha256_file(path) != stated:
        raise InputError(
            f"the weights in {path.name} are not those that the model was written with; keep the "
            "two files together"
        )
    return stated
