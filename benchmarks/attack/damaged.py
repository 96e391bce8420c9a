"""Files of every kind, damaged in their own structure: read, or refused in one sentence.

Bytes that change at random seldom come far in a reader. So a field of a protobuf message, a header
or an entry of an archive, a word of a text or a file of a folder is changed, dropped, doubled or
exchanged. Nothing may crash, take more than 20 seconds of the processor, or more memory than files
may.
"""

from __future__ import annotations

import gzip
import io
import pickle
import resource
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.border import HEADER, SECONDS, TooLong, limited
from benchmarks.attack.graphs import draw_graph
from benchmarks.attack.registry import Outcome, attack
from reconstruct.errors import InputError
from reconstruct.formats import load, load_domain, save
from reconstruct.formats.domain import load_labels, load_unseen
from reconstruct.formats.files import LIMITS
from reconstruct.formats.labelled import Images, read_labelled
from reconstruct.formats.vnnlib import read_pair
from reconstruct.networks import Network
from reconstruct.runs.verify import verify_instances

Rng = np.random.Generator
Files = dict[str, bytes]
SPARE = 2**30  # bytes beyond a file's limit: the packages, and what is copied on the way
PIECES = ("\0", "\xff", "-1", "1e999", "nan", "1_0", "\u0663", "\r", '"', "(", ")", ",", "9" * 30)
NUMBERS = (0, 1, -1, 2, 7, 16, 10**6, 2**31 - 1, -(2**31), 2**62, -(2**63))
FLOATS = (0.0, -1.0, 1e38, 1e-45, float("inf"), float("nan"))
WORDS = ("", "x", "y", "\0", "\xe9", "Relu", "Loop", "Softmax", "../../w.bin", "a" * 300)
ODD_ARRAYS = (
    np.zeros(()),
    np.zeros((0, 3)),
    np.ones((2, 2, 2)),
    np.array([np.nan]),
    np.array([1 + 2j]),
    np.array(["a"]),
    np.full((3, 2), 1e308),
    np.ones((3, 2), ">f8", order="F"),
    np.array(2**63, np.uint64),
    np.zeros(3, [("a", "f4")]),
)
PROPERTY = (
    "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real) (assert (>= X_0 -1)) "
    "(assert (<= X_0 1e-1)) (assert (and (>= X_1 0) (<= X_1 (/ 1 3)))) (assert (>= Y_0 1))"
)
PAIR = (
    "(vnnlib-version <2.0>) (declare-network f (declare-input X real [1]) (declare-output Y real "
    "[1])) (declare-network g (isomorphic-to f) (declare-input U real [1]) (declare-output V real "
    "[1])) (assert (and (<= X[0] 0.1) (>= X[0] (- 1)))) (assert (== X[0] U[0])) (assert (or (> "
    "V[0] (+ Y[0] 0.05)) (< V[0] (- Y[0] 0.05))))"
)
INSTANCES = 'a.npz,b.npz,p.vnnlib,1\n\'[("f", "a.npz"), ("g", "b.npz")]\',p.vnnlib,10\n'

NNET = (HEADER + "1,2,\n3,\n1,1,\n2,\n").encode()
SPEC, CSV = PROPERTY.encode(), INSTANCES.encode()


def bytes_changed(content: bytes, rng: Rng) -> bytes:
    """A few bytes changed, dropped, doubled or put in."""
    found = bytearray(content or b"x")
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        i, j = (int(n) for n in rng.integers(len(found), size=2))
        piece = str(rng.choice(PIECES)).encode()
        other = found[j : j + int(rng.choice([1, 8, 100]))]
        put: Any = ([int(rng.integers(256))], [], piece, piece, other)[int(rng.integers(5))]
        found[i : i + int(rng.integers(3))] = put
        found = found or bytearray(b"x")
    return bytes(found)


def words_changed(content: bytes, rng: Rng) -> bytes:
    """Words between blanks exchanged, dropped or doubled, or bytes changed."""
    words = content.split(b" ")
    if len(words) < 3 or rng.random() < 0.5:
        return bytes_changed(content, rng)
    i, j = (int(n) for n in rng.integers(len(words), size=2))
    words[i : i + int(rng.integers(3))] = [words[j]] * int(rng.integers(3))
    return b" ".join(words)


def message_changed(content: bytes, rng: Rng) -> bytes:
    """A field somewhere in an ONNX model changed, dropped or doubled."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        places = list(_fields(model))
        message, field = places[int(rng.integers(len(places)))]
        value = getattr(message, field.name)
        try:
            if not hasattr(value, "extend"):
                setattr(message, field.name, _another(value, rng))
            elif len(value):
                i, j = (int(n) for n in rng.integers(len(value), size=2))
                kept = [*value[:i], *value[i + int(rng.integers(2)) :]]
                new = value[j] if field.message_type else _another(value[j], rng)
                kept.insert(i, new)
                del value[:]
                value.extend(kept[int(rng.integers(2)) :])
        except (TypeError, ValueError, AttributeError):  # no value of that field: another case
            continue
    return bytes(model.SerializeToString())


def _fields(message: Any) -> Any:
    for field, value in message.ListFields():
        yield message, field
        if field.message_type:
            for part in value if hasattr(value, "extend") else [value]:
                yield from _fields(part)


def _another(value: Any, rng: Rng) -> Any:
    if isinstance(value, bytes):
        return bytes_changed(value, rng)
    choices: tuple[Any, ...] = WORDS
    if isinstance(value, int):
        choices = (*NUMBERS, value + 1, value - 1, 2 * value)
    elif isinstance(value, float):
        choices = FLOATS
    return choices[int(rng.integers(len(choices)))]


def archive_changed(content: bytes, rng: Rng) -> bytes:
    """An array of an .npz exchanged, dropped, renamed, or its header or its text changed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(list(arrays)))
    odd = io.BytesIO()
    np.save(odd, ODD_ARRAYS[int(rng.integers(len(ODD_ARRAYS)))])
    stored = arrays.pop(name)
    head, body = stored[: stored.index(b"\n") + 1], stored[stored.index(b"\n") + 1 :]
    changed = (stored, odd.getvalue(), bytes_changed(head, rng) + body, head + body[:-3])
    if name == "graph.npy":
        text = io.BytesIO()
        np.save(text, np.frombuffer(words_changed(body, rng), np.uint8))
        changed = (text.getvalue(),) * 4
    names = [name, name, name, str(rng.choice(["W9.npy", "b2", "x", "W01.npy", "W\u0661.npy"]))]
    if rng.random() < 0.9:
        arrays[str(rng.choice(names))] = changed[int(rng.integers(4))]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for entry, data in arrays.items():
            archive.writestr(entry, data)
    return made.getvalue() if rng.random() < 0.9 else bytes_changed(made.getvalue(), rng)


def _npz(**arrays: Any) -> bytes:
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


def _network(rng: Rng) -> bytes:
    """By layers, or as a graph."""
    if rng.random() < 0.5:
        return _npz(W1=np.ones((3, 2)), b1=np.ones(3), W2=np.ones((1, 3)), final_relu=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.npz")
        save(Network.mlp([np.ones((3, 2)), np.ones((1, 3))], [None, None]), path)
        return path.read_bytes()


def _domain(rng: Rng) -> bytes:
    if rng.random() < 0.3:
        return _npz(lo=-np.ones(3), hi=np.ones(3))
    return _npz(x=np.ones((4, 3)), y=np.arange(4), x_unseen=np.ones((2, 3)))


def _mnist(rng: Rng) -> Files:
    pixels = struct.pack(">4B3I", 0, 0, 8, 3, 4, 5, 5) + bytes(100)
    labels = struct.pack(">4BI", 0, 0, 8, 1, 4) + bytes(range(4))
    parts = {"t10k-images-idx3-ubyte": pixels, "t10k-labels-idx1-ubyte": labels}
    name = str(rng.choice(list(parts)))
    parts[name] = bytes_changed(parts[name], rng)
    if rng.random() < 0.5:
        return parts
    packed = {f"{n}.gz": gzip.compress(part) for n, part in parts.items()}
    if rng.random() < 0.5:
        packed[f"{name}.gz"] = bytes_changed(packed[f"{name}.gz"], rng)
    return packed


def _cifar(rng: Rng) -> Files:
    if rng.random() < 0.5:
        return {"test_batch.bin": bytes_changed(bytes(3073 * 2), rng)}
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]}
    return {"test_batch": bytes_changed(pickle.dumps(batch, int(rng.integers(5))), rng)}


def _pair(path: Path) -> None:
    read_pair(path.read_bytes())


def _points(path: Path) -> None:
    domain = load_domain(path)
    load_labels(path, 4)
    load_unseen(path, domain.size)


def _folder(path: Path) -> None:
    read_labelled(Images(path, split="test"))


def _instances(path: Path) -> None:
    list(verify_instances(path, path.with_name("results"), time_limit=1))


Drawn = tuple[str, Files, Callable[[Path], object]]
KINDS: dict[str, Callable[[Rng], Drawn]] = {
    "onnx": lambda rng: ("a.onnx", {"a.onnx": message_changed(draw_graph(rng), rng)}, load),
    "npz": lambda rng: ("a.npz", {"a.npz": archive_changed(_network(rng), rng)}, load),
    "nnet": lambda rng: ("a.nnet", {"a.nnet": words_changed(NNET, rng)}, load),
    "vnnlib": lambda rng: ("a.vnnlib", {"a.vnnlib": words_changed(SPEC, rng)}, load_domain),
    "pair": lambda rng: ("a.vnnlib", {"a.vnnlib": words_changed(PAIR.encode(), rng)}, _pair),
    "domain": lambda rng: ("a.npz", {"a.npz": archive_changed(_domain(rng), rng)}, _points),
    "idx": lambda rng: (".", _mnist(rng), _folder),
    "cifar": lambda rng: (".", _cifar(rng), _folder),
    "instances": lambda rng: ("i.csv", {"i.csv": words_changed(CSV, rng)}, _instances),
}


@attack("damaged")
def damaged(rng: Rng) -> Outcome:
    """One file, or folder of them, whose structure is damaged."""
    kind = str(rng.choice(list(KINDS)))
    name, files, read = KINDS[kind](rng)
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            Path(folder, file).write_bytes(content)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            with limited(), np.errstate(all="ignore"):
                read(Path(folder, name))
        except TooLong:
            return Outcome("too long", f"{kind}: no end after {SECONDS} s", files)
        except InputError as error:
            told = str(error)
            if "\n" in told or " object at 0x" in told or len(told) > 2000:
                return Outcome("no sentence", f"{kind}: {told}", files)
            return Outcome(f"{kind}: refused")
        finally:
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > LIMITS.memory + SPARE:
        return Outcome("too large", f"{kind}: took {grown:,} bytes", files)
    return Outcome(f"{kind}: read")
