"""Files made to be misread: data files of every type, constants, old operator sets, odd texts.

What is read must be what onnxruntime, or for texts C's `atof`, makes of the same bytes; all else
must be refused in a sentence, within 20 seconds.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.attack.registry import Outcome, attack
from proofs_check.certificates import check
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain
from reconstruct.networks import Network

Array = NDArray[Any]
SECONDS = 20  # of the processor, for one reading
WALL = 180  # of the clock, on a machine that does much else
ON_CONSTANTS = {  # operators that a file may apply to a matrix, and attributes of some
    "Softmax": {"axis": 0},
    "LogSoftmax": {},
    "Hardmax": {"axis": 0},
    "LRN": {"size": 2},
    "Relu": {},
    "Selu": {},
    "Clip": {},
    "Sqrt": {},
    "Neg": {},
    "Exp": {},
    "Transpose": {},
    "Identity": {},
    "ReduceSum": {"keepdims": 1},
    "LpNormalization": {},
    "Flatten": {},
}
ODD = ("_", "\u0661", "\uff11", "\x0c", "\x0b", "\x85", "\u2028", "\r", "//", ",,", "e", "+", "0x1")
HEADER = "//c\n1,2,1,2,\n2,1,\n0,\n-1,-1,\n1,1,\n0,0,0,\n1,1,1,\n"


class TooLong(Exception):
    """A reading that does not end."""


@contextmanager
def limited(wall: float = WALL) -> Iterator[None]:
    """Ends what takes longer than that, by the processor's clock or by the one on the wall."""

    def ring(number: int, frame: Any) -> None:
        raise TooLong

    clocks = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, ring) for number in clocks}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, wall)
    try:
        yield
    finally:
        for number, clock in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, before[number])


def _read(path: Path, files: dict[str, bytes]) -> Network | Outcome:
    try:
        with limited():
            return load(path)
    except TooLong:
        return Outcome("too long", f"no end after {SECONDS} s", files)
    except InputError as error:
        if "taken for another function" in str(error):
            return Outcome("misread", str(error), files)
        return Outcome("refused")


@attack("border")
def border(rng: np.random.Generator) -> Outcome:
    """One file of a kind drawn at random."""
    kinds = (_external, _constants, _text, _property, _keys, _cast, _link, _folder_link, _no_file)
    kind = kinds[int(rng.integers(len(kinds)))]
    with tempfile.TemporaryDirectory() as folder:
        return kind(rng, Path(folder))


def _external(rng: np.random.Generator, folder: Path) -> Outcome:
    """x times a tensor of any type in a data file, with or without its length."""
    from onnx import TensorProto, helper

    kinds = sorted(set(TensorProto.DataType.values()) - {0})
    tensor = TensorProto(name="q", data_type=int(rng.choice(kinds)), dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    content = rng.integers(0, 60, int(rng.integers(1, 120))).astype(np.uint8).tobytes()
    entries = {"location": "w.bin", "offset": str(rng.integers(0, 9) * int(rng.integers(0, 2)))}
    if rng.random() < 0.3:
        entries["length"] = str(rng.integers(0, 60))
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "w.bin").write_bytes(content)
    nodes = [helper.make_node("Cast", ["q"], ["W"], to=1)]
    return _compared(nodes, [tensor], 21, folder, {"w.bin": content})


def _cast(rng: np.random.Generator, folder: Path) -> Outcome:
    """A conversion to any type inside of the network: rounded as stated, or refused."""
    from onnx import TensorProto, helper, numpy_helper

    goal = int(rng.choice(sorted(set(TensorProto.DataType.values()) - {0, 8})))
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=goal),
        helper.make_node("Cast", ["q"], ["z"], to=1),
    ]
    tensor = numpy_helper.from_array(rng.normal(size=(2, 3)).astype(np.float32), "W")
    found = _compared(nodes, [tensor], 21, folder, source="z")
    if found.word == "agrees" and goal not in (1, 10, 11, 16):
        return Outcome("a conversion was read", f"to type {goal}", found.files)
    return found


def _link(rng: np.random.Generator, folder: Path) -> Outcome:
    """Weights behind a link, of the file or of a folder on the way: refused."""
    from onnx import TensorProto, helper

    (folder / "secret").mkdir()
    (folder / "secret" / "w.bin").write_bytes(bytes(24))
    way = str(rng.choice(["w.bin", "here/w.bin", "../w.bin", "secret/../w.bin"]))
    (folder / "w.bin").symlink_to(folder / "secret" / "w.bin")
    (folder / "here").symlink_to(folder / "secret")
    tensor = TensorProto(name="W", data_type=1, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=way)
    found = _compared([helper.make_node("Identity", ["x"], ["z"])], [tensor], 21, folder)
    return Outcome("a link was followed", way, found.files) if found.word == "agrees" else found


def _constants(rng: np.random.Generator, folder: Path) -> Outcome:
    """A weight that some operator makes, in any operator set."""
    from onnx import helper, numpy_helper

    name = str(rng.choice(list(ON_CONSTANTS)))
    weight = rng.normal(size=(2, 3)).astype(np.float32) * 10.0 ** rng.integers(-3, 4)
    more = ON_CONSTANTS[name] if rng.random() < 0.7 else {}
    nodes = [helper.make_node(name, ["c"], ["W"], **more)]
    tensor = numpy_helper.from_array(weight, "c")
    return _compared(nodes, [tensor], int(rng.integers(1, 22)), folder)


def _compared(
    nodes: list[Any],
    tensors: list[Any],
    opset: int,
    folder: Path,
    files: Any = None,
    source: str = "x",
) -> Outcome:
    import onnxruntime as ort
    from onnx import helper

    ends = [helper.make_tensor_value_info(n, 1, [1, k]) for n, k in (("x", 2), ("y", 3))]
    product = helper.make_node("MatMul", [source, "W"], ["y"])
    graph = helper.make_graph([*nodes, product], "g", ends[:1], ends[1:], tensors)
    opsets = [helper.make_opsetid("", opset)]
    content = helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString()
    path = folder / "model.onnx"
    path.write_bytes(content)
    files = {"model.onnx": content, **(files or {})}
    network = _read(path, files)
    if isinstance(network, Outcome):
        return network
    options = ort.SessionOptions()
    options.log_severity_level = 4
    theirs = ort.InferenceSession(str(path), options)
    for x in ([[1.0, 0.0]], [[0.0, 1.0]], [[0.5, -2.0]]):
        there = theirs.run(None, {"x": np.array(x, np.float32)})[0].ravel()
        here = network(np.array(x).ravel())
        if not np.allclose(here, there, rtol=1e-5, atol=1e-6 * np.abs(there).max()):
            return Outcome("another function", f"{here} against {there} at {x}", files)
    return Outcome("agrees")


def _folder_link(rng: np.random.Generator, folder: Path) -> Outcome:
    """Files of others behind links where a run or a comparison writes: they stay as they are."""
    import reconstruct as rc

    (folder / "others").mkdir()
    (folder / "others" / "kept.txt").write_text("kept")
    (folder / "others" / "a.npz").write_bytes(b"kept")
    np.savez(folder / "a.npz", W1=rng.normal(size=(2, 2)))
    out = folder / "out"
    names = ["target", "candidate", "target/a.npz", "report.json", "network.onnx", "norms.npz"]
    name = str(rng.choice(names))
    place = out / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(folder / "others" / ("kept.txt" if "." in name else ""))
    try:
        with limited():
            if rng.random() < 0.5:
                rc.run(folder / "a.npz", domain=(-1.0, 1.0), output=out, force=True, samples=20)
            else:
                pair = folder / "a.npz", folder / "a.npz"
                rc.verify(*pair, domain=(-1.0, 1.0), output=out, force=True, samples=20)
        word = "written"
    except InputError:
        word = "refused"
    except TooLong:
        return Outcome("too long", f"no end after {SECONDS} s")
    kept = {p.name: p.read_bytes() for p in (folder / "others").rglob("*") if p.is_file()}
    if kept != {"kept.txt": b"kept", "a.npz": b"kept"}:
        return Outcome("a link was written through", f"{name}: {sorted(kept)}")
    return Outcome(word)


def _no_file(rng: np.random.Generator, folder: Path) -> Outcome:
    """Names of things that are no files: folders, devices, links to themselves; and a pipe in the
    place of a certificate."""
    name = str(rng.choice(["a.onnx", "a.npz", "a.nnet", "a.vnnlib", "certificate.json"]))
    word = str(rng.choice(["folder", "/dev/zero", "/dev/tty", "itself"]))
    place = folder / name
    if name == "certificate.json" and rng.random() < 0.5:
        word = "pipe"
        os.mkfifo(place)
    elif word == "folder":
        place.mkdir()
    else:
        place.symlink_to(name if word == "itself" else word)
    try:
        with limited(SECONDS):
            if name == "certificate.json":
                return Outcome(f"checked: {check(folder).status.value}")
            load_domain(place) if name.endswith("lib") else load(place)
    except InputError:
        return Outcome("refused")
    except TooLong:
        return Outcome("too long", f"{word} as {name}: no end after {SECONDS} s")
    return Outcome("read", f"{word} as {name} was read")


def _property(rng: np.random.Generator, folder: Path) -> Outcome:
    """A VNN-LIB text with something odd in it: the box that was meant, or refused."""
    text = "(declare-const X_0 Real)\n(assert (<= X_0 1.5))\n(assert (>= X_0 -1.5))\n"
    place = int(rng.integers(len(text) + 1))
    odd = str(rng.choice([*ODD, "X_00", "(", ")", "; 9\n", "1_0", "|", '"']))
    text = text[:place] + odd + text[place:]
    content = text.encode()
    (folder / "a.vnnlib").write_bytes(content)
    try:
        with limited():
            box = load_domain(folder / "a.vnnlib")
    except InputError:
        return Outcome("refused")
    except TooLong:
        return Outcome("too long", f"no end after {SECONDS} s", {"a.vnnlib": content})
    plain = text.translate({ord(c): " " for c in "\x0b\x0c\r"})
    numbers = [float(n) for n in re.findall(r"X_0+ +([-+.0-9e]+)\)", plain, re.ASCII)]
    if "//" not in odd and ";" not in odd and sorted([box.lo[0], box.hi[0]]) != sorted(numbers):
        told = f"{text!r}: {box.lo} to {box.hi}"
        return Outcome("another text", told, {"a.vnnlib": content})
    return Outcome("agrees")


def _keys(rng: np.random.Generator, folder: Path) -> Outcome:
    """An .npz whose keys, shapes or types are odd: every array counts, or the file is refused."""
    arrays = {"W1": np.ones((2, 2)), "b1": np.ones(2), "W2": np.ones((1, 2)), "b2": np.ones(1)}
    key = str(rng.choice(list(arrays)))
    value = arrays.pop(key)
    name = key.translate({ord("1"): str(rng.choice(["1", "\uff11", "01", "\u0661", "1_"]))})
    name = str(rng.choice(["", " ", "./"])) + name if rng.random() < 0.3 else name
    word = str(rng.choice(["plain", "int", "complex", "text", "huge", "void"]))
    made: Any = {
        "plain": value,
        "int": value.astype(np.int32),
        "complex": value.astype(complex),
        "text": value.astype("U3"),
        "huge": np.lib.stride_tricks.as_strided(np.ones(1), (2**12, 2**12), (0, 0)),
        "void": value.astype([("a", "f8")]),
    }[word]
    arrays[name] = made
    np.savez_compressed(folder / "a.npz", **arrays)  # type: ignore[arg-type]
    content = (folder / "a.npz").read_bytes()
    network = _read(folder / "a.npz", {"a.npz": content})
    if isinstance(network, Outcome):
        return network
    same = abs(float(network([1.0, 2.0])[0]) - 9.0) < 1e-9
    if not same:
        return Outcome("another network", f"{name!r}, {word}", {"a.npz": content})
    return Outcome("agrees")


def _text(rng: np.random.Generator, folder: Path) -> Outcome:
    """A .nnet file with something odd in a row of weights: as C reads it, or refused."""
    row, odd = "1.5,2.5,", str(rng.choice(ODD))
    place = int(rng.integers(len(row) + 1))
    row = row[:place] + odd + row[place:]
    content = (HEADER + row + "\n3,\n").encode()
    (folder / "a.nnet").write_bytes(content)
    network = _read(folder / "a.nnet", {"a.nnet": content})
    if isinstance(network, Outcome):
        return network
    atof = ctypes.CDLL(None).atof
    atof.restype = ctypes.c_double
    there = [atof(field.encode()) for field in row.removesuffix("\r").removesuffix(",").split(",")]
    here = [float(network([1.0, 0.0])[0]) - 3, float(network([0.0, 1.0])[0]) - 3]
    if len(there) != 2 or not np.allclose(here, there):
        return Outcome("another text", f"{row!r}: {here} against {there}", {"a.nnet": content})
    return Outcome("agrees")
