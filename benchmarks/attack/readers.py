"""Random ONNX graphs: what is read must be what onnxruntime computes, or be refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.attack.border import SECONDS, TooLong, limited
from benchmarks.attack.graphs import draw_graph
from benchmarks.attack.registry import Outcome, attack
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load
from reconstruct.formats.onnx.agreement import follow
from reconstruct.networks import Network
from reconstruct.numbers.precision import Precision

Array = NDArray[Any]
SCALES = (0.0, 1e-3, 1.0, 30.0)
MISREAD = ("taken for another function", "is read in shape")


@attack("onnx-reader")
def onnx_reader(rng: np.random.Generator) -> Outcome:
    """One random model through the reader and through onnxruntime."""
    content = draw_graph(rng)
    session = _session(content)
    if session is None:
        return Outcome("not legal")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(content)
        try:
            with limited():
                network = load(path)
        except TooLong:
            return Outcome("too long", f"no end after {SECONDS} s", {"model.onnx": content})
        except UnsupportedError as error:
            return _refused(str(error), content, "refused as unsupported")
        except InputError as error:
            return _refused(str(error), content, "refused as malformed")
    return _compared(network, session, content, rng)


def _refused(message: str, content: bytes, word: str) -> Outcome:
    if any(sign in message for sign in MISREAD):
        return Outcome("misread", message, {"model.onnx": content})
    if any(word in message for word in ("finite", "divide by zero", "Clip")):
        return Outcome("refused: no finite number")
    if "does not fit into an image" in message or "lies on pads alone" in message:
        return Outcome("refused: window beyond the image")
    if word == "refused as malformed":
        return Outcome(word, message, {"model.onnx": content})
    return Outcome(word)


def _session(content: bytes) -> Any:
    import onnx
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = onnx.ModelProto.FromString(content)
    for node in model.graph.node:
        node.name = ""  # onnxruntime wants names that differ; they mean nothing
    content = model.SerializeToString()
    try:
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        _run(session, 0.0, np.random.default_rng(0))
    except Exception:  # onnxruntime's exceptions have no common type
        return None
    return session


def _run(session: Any, scale: float, rng: np.random.Generator) -> tuple[Array, Array]:
    source = session.get_inputs()[0]
    kind = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2"}[source.type]
    shape = [n if isinstance(n, int) else 1 for n in source.shape]
    x = np.asarray(rng.normal(size=shape) * scale).astype(kind)
    return x, np.asarray(session.run(None, {source.name: x})[0])


def _compared(network: Network, session: Any, content: bytes, rng: np.random.Generator) -> Outcome:
    for scale in SCALES:
        x, theirs = _run(session, scale, rng)
        if list(theirs.shape) != list(network.metadata["output_shape"]):
            return Outcome("another shape", f"shape {theirs.shape}", {"model.onnx": content})
        point = x.astype(np.float64).reshape(1, -1)
        *_, last = follow(network, point, Precision(x.dtype))
        if last.disagreement([theirs]) is not None:
            ours = last.values[0].tolist()
            told = f"at {x.ravel().tolist()}: {theirs.ravel().tolist()} against {ours}"
            return Outcome("another function", told, {"model.onnx": content})
    return Outcome("agrees")
