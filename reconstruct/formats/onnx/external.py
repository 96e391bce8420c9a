"""The weights of large ONNX models, in a file beside the model.

A protobuf message ends at 2 GiB. Beyond it ONNX keeps tensors in a second file and says in the
model where each one lies. The models written here also state the SHA-256 of that file, so that a
model is never read with the weights of another.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.files import CHUNK, sha256_file
from reconstruct.formats.limits import Budget
from reconstruct.formats.mapped import FileBlocks, MappedFile
from reconstruct.formats.precision import rounded
from reconstruct.networks import Tiled

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
        self._running = True

    def tensor(self, name: str, array: Array) -> Any:
        """The array appended to the file, as a TensorProto that points there."""
        self._write(b"\0" * (-self._end % ALIGNMENT))
        offset = self._end
        little: Any = array.astype(array.dtype.newbyteorder("<"), copy=False)
        self._write(little.reshape(-1).view(np.uint8))
        return self._told(name, array.dtype, array.shape, offset)

    def _told(self, name: str, dtype: Any, shape: tuple[int, ...], offset: int) -> Any:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(dtype)
        tensor = self._onnx.TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = self._onnx.TensorProto.EXTERNAL
        length = math.prod(shape) * dtype.itemsize
        place = {"location": self._name, "offset": offset, "length": length}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def blocks(self, name: str, op: Tiled, dtype: Any) -> Any:
        """The same for a weight that is never held, each block put where it belongs."""
        self._write(b"\0" * (-self._end % ALIGNMENT))
        kind, offset = np.dtype(dtype).newbyteorder("<"), self._end
        row = op.shape[1] * kind.itemsize
        for part, block in op.parts():
            found = rounded(name, "weight", block, kind)
            first = offset + part.start * (row if op.tall else kind.itemsize)
            lines = [found] if op.tall else found
            for number, line in enumerate(lines):
                self._put(first + number * row, np.ascontiguousarray(line))
        self._end, self._running = offset + op.shape[0] * row, False
        self._file.seek(self._end)
        return self._told(name, np.dtype(dtype), op.shape, offset)

    def _put(self, place: int, data: Array) -> None:
        self._file.seek(place)
        self._file.write(data.tobytes())

    def _write(self, data: Any) -> None:
        self._file.write(data)
        if self._running:
            self._digest.update(data)
        self._end += len(data)

    def sign(self, model: Any) -> None:
        """Notes in the model the digest of the file, which is still open."""
        if not self._running:
            self._digest = self._again()
        model.metadata_props.add(key=DIGEST, value=self._digest.hexdigest())

    def _again(self) -> Any:
        """The digest of what lies in the file, for what was not written in order."""
        self._file.flush()
        digest, place = hashlib.sha256(), 0
        while chunk := os.pread(self._file.fileno(), CHUNK, place):
            digest.update(chunk)
            place += len(chunk)
        return digest


class WrittenBefore(DataFile):
    """A file that another model of the same weights has written: they lie at the same places."""

    def __init__(self, onnx: Any, path: Path) -> None:
        super().__init__(onnx, io.BytesIO(), path.name)
        self._path = path

    def blocks(self, name: str, op: Tiled, dtype: Any) -> Any:
        self._write(b"\0" * (-self._end % ALIGNMENT))
        offset = self._end
        self._end += math.prod(op.shape) * np.dtype(dtype).itemsize
        return self._told(name, np.dtype(dtype), op.shape, offset)

    def _write(self, data: Any) -> None:
        self._end += len(data)

    def sign(self, model: Any) -> None:
        model.metadata_props.add(key=DIGEST, value=sha256_file(self._path))


def holds(array: Array) -> bool:
    """Whether a tensor of this size goes to the data file."""
    return array.nbytes >= SMALLEST and array.dtype.kind == "f"


@dataclass(eq=False)
class _Place:
    """Where a tensor lies in a file beside the model, and the memory that it goes to."""

    tensor: Any
    offset: int
    content: bytearray

    def receive(self, start: int, chunk: bytes) -> None:
        """Takes what of the tensor lies in `chunk`, which begins at `start` of the file."""
        first = max(self.offset, start)
        last = min(self.offset + len(self.content), start + len(chunk))
        if first < last:
            part = memoryview(chunk)[first - start : last - start]
            self.content[first - self.offset : last - self.offset] = part


def read_external(
    model: Any, folder: Path, budget: Budget
) -> tuple[dict[str, str], dict[str, Any]]:
    """The SHA-256 of every file that holds tensors, and the initializers that lie there.

    Each file is read once, from beginning to end; tensors and hash are of the same bytes. Tensors
    in attributes of nodes are put into the model itself. Matrices that the budget leaves in their
    file are given as blocks.
    """
    files: dict[str, MappedFile] = {}
    apart: dict[str, Any] = {}
    stored = [(t, True) for t in model.graph.initializer]
    stored += [(a.t, False) for n in model.graph.node for a in n.attribute if a.HasField("t")]
    places: dict[str, list[_Place]] = {}
    named: list[tuple[_Place, bool]] = []
    for tensor, initializer in stored:
        if tensor.data_location == tensor.EXTERNAL:
            location, offset, size = _place(tensor, folder, budget)
            found = places.setdefault(location, [])
            if initializer and len(tensor.dims) == 2 and budget.leaves(size):
                if location not in files:
                    files[location] = MappedFile(folder / location)
                lies = files[location].tensor(offset, tuple(tensor.dims), _dtype(tensor))
                apart[tensor.name] = FileBlocks(files[location], lies)
                continue
            found.append(_Place(tensor, offset, bytearray(size)))
            named.append((found[-1], initializer))
    digests = {name: _read(folder / name, found) for name, found in places.items()}
    _check_stated(model, digests)
    arrays: dict[str, Any] = apart
    for place, initializer in named:
        if initializer:
            arrays[place.tensor.name] = _array(place)
        else:
            _inline(place)
    return digests, arrays


def _place(tensor: Any, folder: Path, budget: Budget) -> tuple[str, int, int]:
    """The file, the offset in it and the bytes of a tensor."""
    entries = {e.key: e.value for e in tensor.external_data}
    what = f"the tensor {tensor.name!r}"
    location = entries.get("location", "")
    if not location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise InputError(
            f"{what} lies in the file {location!r}, but only files beside the model are read"
        )
    numbers = [entries.get("offset", "0"), entries.get("length", "0")]
    if not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers):
        raise InputError(f"{what} has the offset and length {numbers}, which are no numbers")
    size = math.prod(tensor.dims) * _dtype(tensor).itemsize
    if any(n < 0 for n in tensor.dims) or ("length" in entries and int(numbers[1]) != size):
        raise InputError(f"{what} of {size} bytes is said to have {numbers[1]} bytes in its file")
    path = folder / location
    if not path.is_file():
        raise InputError(f"the weights are kept in {location}, which is not beside the model")
    if int(numbers[0]) + size > path.stat().st_size:
        raise InputError(f"{what} goes beyond the end of {location}; was that file cut short?")
    budget.take(max(size - path.stat().st_size, 0), what)
    return location, int(numbers[0]), size


def _dtype(tensor: Any) -> Any:
    import onnx.helper

    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except (KeyError, ValueError, TypeError):
        raise InputError(f"the tensor {tensor.name!r} has an unknown type") from None


def _read(path: Path, places: list[_Place]) -> str:
    """Fills the places from the file and gives its SHA-256."""
    digest, start = hashlib.sha256(), 0
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                for place in places:
                    place.receive(start, chunk)
                start += len(chunk)
    except OSError as error:
        raise InputError(f"the weights in {path.name} cannot be read ({error.strerror})") from None
    return digest.hexdigest()


def _check_stated(model: Any, digests: dict[str, str]) -> None:
    stated = {p.key: p.value for p in model.metadata_props}.get(DIGEST)
    if stated is None or len(digests) != 1:
        return
    ((name, found),) = digests.items()
    if found != stated:
        raise InputError(
            f"the weights in {name} are not those that the model was written with; keep the "
            "two files together"
        )


def _array(place: _Place) -> Array:
    little = np.frombuffer(place.content, _dtype(place.tensor).newbyteorder("<"))
    little.setflags(write=False)  # a network may hold it without a copy
    return little.astype(_dtype(place.tensor), copy=False).reshape(tuple(place.tensor.dims))


def _inline(place: _Place) -> None:
    place.tensor.raw_data = bytes(place.content)
    place.tensor.data_location = place.tensor.DEFAULT
    del place.tensor.external_data[:]
