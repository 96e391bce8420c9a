"""Damaged files before both readers: what the checker's own one reads, the other reads alike.

Bytes of a file that `save` wrote are changed at random. Either reader may refuse; what both accept
must be the same network, and nothing may crash or take more than 20 seconds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.attack.border import SECONDS, TooLong, limited
from benchmarks.attack.pair_networks import draw_image_network, draw_network
from benchmarks.attack.registry import Outcome, attack
from proofs_check.reader import NotPlain, read_plain
from reconstruct.errors import InputError
from reconstruct.formats import load, save


@attack("two-readers")
def two_readers(rng: np.random.Generator) -> Outcome:
    """One network, written, perhaps damaged, and read twice."""
    network = draw_image_network(rng) if rng.random() < 0.4 else draw_network(rng)
    kind = np.float32 if rng.random() < 0.5 else np.float64
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / str(rng.choice(["a.onnx", "a.onnx", "a.npz"]))
        try:
            save(network, path, dtype=kind)
        except InputError:
            return Outcome("not written")
        content = bytearray(path.read_bytes())
        for _ in range(int(rng.choice([0, 1, 1, 2, 5]))):
            content[int(rng.integers(len(content)))] = int(rng.integers(256))
        path.write_bytes(content)
        files = {path.name: bytes(content)}
        try:
            with limited(), np.errstate(all="ignore"):
                ours = read_plain(path)
        except NotPlain:
            return Outcome("left to the shared reader")
        except TooLong:
            return Outcome("too long", f"no end after {SECONDS} s", files)
        try:
            with limited(), np.errstate(all="ignore"):
                theirs = load(path, unchecked=True)
        except InputError as error:
            return Outcome(f"refused by the shared reader: {str(error)[-60:]}")
        except TooLong:
            return Outcome("too long", f"no end after {SECONDS} s", files)
    if not ours.same(theirs):
        return Outcome("read differently", f"{ours!r} against {theirs!r}", files)
    return Outcome("the same")
