"""Files of other programs, named as what they are, with the way from there to here."""

from __future__ import annotations

from pathlib import Path

from reconstruct.errors import InputError
from reconstruct.formats.files import format_suffix
from reconstruct.formats.npy import ZIP_MAGIC

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


def refuse_foreign(path: Path, content: bytes) -> None:
    """Raise for files that hold networks of other programs; say nothing of all others."""
    suffix = format_suffix(path)
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
