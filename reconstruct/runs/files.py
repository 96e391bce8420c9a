"""What a run leaves in its directory: the network in its forms, its norms, what is published."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.formats import load, save
from reconstruct.formats.files import write_atomically
from reconstruct.formats.onnx.guard import write_guarded
from reconstruct.networks import Network, in_blocks
from reconstruct.networks.blocks import TREES
from reconstruct.networks.normal_form import fold_norms
from reconstruct.pipeline import Result
from reconstruct.runs.bundle import copies, copies_before

NETWORK = "network.onnx"
FOLDED = "network_folded.onnx"
GUARDED = "network_guarded.onnx"  # where it was asked for, or the domain is made of data
FILES = (NETWORK, FOLDED, "norms.npz", "certificate.json", "report.json", "report.html")
NETWORKS = (NETWORK, FOLDED, GUARDED)
MOST_FOLDED = 2**27  # weights; folded they are float64 numbers, 1 GiB and more


def published(staging: Path, compact: bool = False) -> tuple[str, ...]:
    """The finished files: those of the list that were made, data files of networks first.

    A compact directory has no networks but the target: they are made again from seed and norms.
    """
    data = [] if compact else sorted(path.name for path in staging.glob("*.onnx.data"))
    listed = [name for name in (GUARDED, *FILES) if not (compact and name in NETWORKS)]
    return (*data, *copies(staging), *(name for name in listed if (staging / name).exists()))


def left_behind(output: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Files that an earlier run left there and this one does not write: of another network."""
    data = {path.name for path in output.glob("*.onnx.data")}
    return tuple(sorted((data | {GUARDED, *FILES, *copies_before(output)}) - set(names)))


@dataclass(frozen=True)
class Forms:
    """How f is written: precision, with its norms folded and with its guard besides, long sums as
    they are or in blocks of a `tree`, and read back within how many bytes."""

    dtype: np.dtype[Any]
    folded: bool
    guarded: bool
    tree: str | None
    memory: int | None = None

    @property
    def blocks(self) -> bool:
        return self.tree is not None

    def spelled(self, network: Network) -> Network:
        """The network with its sums as they are written."""
        return network if self.tree is None else in_blocks(network, TREES[self.tree])


def write_networks(folder: Path, result: Result, forms: Forms) -> Network:
    """Write f in its forms; return it as it is read back, for that is what is certified.

    The folded form of a large network is left out: frozen weights are float32 numbers, folded
    ones are not.
    """
    network, dtype = forms.spelled(result.network), forms.dtype
    save(network, folder / NETWORK, dtype=dtype)
    if forms.folded and result.network.weights <= MOST_FOLDED:
        save(forms.spelled(fold_norms(result.network)), folder / FOLDED, dtype=dtype)
    if forms.guarded:
        write_guarded(network, result.watched, folder / GUARDED, dtype, NETWORK)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **_norm_arrays(result, dtype))
    write_atomically(folder / "norms.npz", buffer.getvalue())
    return load(folder / NETWORK, memory=forms.memory)


def _norm_arrays(result: Result, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The norms under the names that a state dict would use, and the eps of each."""
    arrays: dict[str, Any] = {}
    for name, norm in result.norms.items():
        arrays[f"{name}.weight"] = norm.gamma.astype(dtype)
        arrays[f"{name}.bias"] = norm.beta.astype(dtype)
        arrays[f"{name}.running_mean"] = norm.mean.astype(dtype)
        arrays[f"{name}.running_var"] = norm.var.astype(dtype)
        arrays[f"{name}.eps"] = np.float64(norm.eps)
    return arrays
