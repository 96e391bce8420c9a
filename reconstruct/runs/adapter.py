"""The norms of a run as an adapter of PEFT (LN_TUNING), which loads them onto the frozen module.

An adapter is two files: adapter_config.json says which modules it tunes, adapter_model.safetensors
has their γ and β under `base_model.model.<norm>.ln_tuning_layers.weight` and `.bias`. PEFT puts a
copy of each norm in its place, so that statistics are taken along, too. norms.safetensors has the
same numbers under the names of the state dict, as norms.npz has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import as_path, write_atomically
from reconstruct.numbers.arrays import Array
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.reading import read_norms

CONFIG, ADAPTER, NORMS = "adapter_config.json", "adapter_model.safetensors", "norms.safetensors"


def write_adapter(run: str | Path, output: str | Path, *, force: bool = False) -> list[Path]:
    """Write what `run` left in norms.npz as an adapter into `output`; the files, as PEFT needs
    them."""
    source = as_path(run, "the directory of a run") / "norms.npz"
    if not source.exists():
        raise InputError(f"{source}: there is no such file; name the directory that `run` wrote")
    arrays = read_norms(source)
    norms = [name.removesuffix(".weight") for name in arrays if name.endswith(".weight")]
    state = {name: values for name, values in arrays.items() if not name.endswith(".eps")}
    tuned = {_adapted(name): values for name, values in state.items()}
    config = {"peft_type": "LN_TUNING", "target_modules": norms, "inference_mode": True}
    files = {
        ADAPTER: safetensors(tuned),
        NORMS: safetensors(state),
        CONFIG: json.dumps(config, indent=2).encode(),
    }
    with OutputFolder(output, force=force) as folder:
        for name, content in files.items():
            write_atomically(folder.staging / name, content)
        folder.publish(tuple(files))
    return [folder.path / name for name in files]


def _adapted(name: str) -> str:
    """`layer1.norm1.weight` as PEFT calls it."""
    norm, _, key = name.rpartition(".")
    return f"base_model.model.{norm}.ln_tuning_layers.{key}"


def safetensors(arrays: Mapping[str, Array]) -> bytes:
    """The arrays as a file of safetensors: the length of a JSON header, the header, the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, values in arrays.items():
        parts.append(np.ascontiguousarray(values, "<f8").tobytes())
        start, end = end, end + len(parts[-1])
        header[name] = {"dtype": "F64", "shape": list(values.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers start at a multiple of 8
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
