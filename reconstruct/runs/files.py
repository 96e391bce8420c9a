"""What a run leaves in its directory: the networks that it speaks of, f in its forms, the norms.

The target lies in OUT/target under its own name, with the files that hold its weights if it has
any; byte for byte, for the bytes are what a certificate names. So a directory can be checked
elsewhere.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.certificates.document import Source, write_certificate
from reconstruct.certificates.propagate import lacking_headroom
from reconstruct.certificates.verdicts import Certificate
from reconstruct.constructions import ExactNorm
from reconstruct.constructions.sites import norm_at
from reconstruct.constructions.wide import raised_norms
from reconstruct.errors import InputError
from reconstruct.formats import Origin, load, save
from reconstruct.formats.files import naming, sha256_file, write_atomically, written_whole
from reconstruct.formats.onnx.write import write_guarded
from reconstruct.networks import LiveNorm, Network, Norm, in_blocks
from reconstruct.networks.blocks import COARSE, TREE
from reconstruct.networks.normal_form import fold_norms
from reconstruct.pipeline import Result
from reconstruct.progress import Progress, Step, silent
from reconstruct.reports.document import to_bytes
from reconstruct.reports.folder import ROLES, OutputFolder
from reconstruct.reports.page import write_page

NETWORK = "network.onnx"
FOLDED = "network_folded.onnx"
GUARDED = "network_guarded.onnx"  # where it was asked for, or the domain is made of data
NORMS = "norms.npz"
FILES = (NETWORK, FOLDED, NORMS, "certificate.json", "report.json", "report.html")
TARGET = ROLES[0]
MOST_FOLDED = 2**27  # weights; folded they are float64 numbers, 1 GiB and more


def left_behind(output: Path) -> set[str]:
    """Files that an earlier run may have left there."""
    data = {path.name for path in output.glob("*.onnx.data")}
    return data | {GUARDED, *FILES, *copies_before(output)}


@dataclass(frozen=True)
class Forms:
    """How f is written: in which precision, with its guard besides, long sums in blocks or not."""

    dtype: np.dtype[Any]
    guarded: bool
    blocks: bool

    def spelled(self, network: Network) -> Network:
        """The network with its sums as they are written."""
        tree = TREE if self.dtype == np.float32 else COARSE
        return in_blocks(network, tree) if self.blocks else network


def write_networks(folder: Path, result: Result, forms: Forms) -> Network:
    """Write f in its forms; return it as it is read back, for that is what is certified.

    The folded form of a large network is left out: frozen weights are float32 numbers, folded
    ones are not.
    """
    network, dtype = forms.spelled(result.network), forms.dtype
    save(network, folder / NETWORK, dtype=dtype)
    if result.network.weights <= MOST_FOLDED:
        save(forms.spelled(fold_norms(result.network)), folder / FOLDED, dtype=dtype)
    if forms.guarded:
        write_guarded(network, result.watched, folder / GUARDED, dtype)
    with written_whole(folder / NORMS) as file:
        np.savez(file, allow_pickle=False, **_norm_arrays(result, dtype))
    return load(folder / NETWORK, held=network)


def _norm_arrays(result: Result, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The norms under the names that a state dict would use, and the eps of each."""
    arrays: dict[str, Any] = {}
    for name, norm in result.norms.items():
        arrays[f"{name}.weight"] = norm.gamma.astype(dtype)
        arrays[f"{name}.bias"] = norm.beta.astype(dtype)
        if isinstance(norm, Norm):
            arrays[f"{name}.running_mean"] = norm.mean.astype(dtype)
            arrays[f"{name}.running_var"] = norm.var.astype(dtype)
        arrays[f"{name}.eps"] = np.float64(norm.eps)
    return arrays


def write_documents(
    folder: OutputFolder,
    certificate: Certificate,
    pair: tuple[Source, Source],
    report: Mapping[str, Any],
    exact_norms: Mapping[str, ExactNorm] | None = None,
    page: bool = True,
) -> None:
    """The certificate, the report and its page, in staging."""
    write_certificate(
        folder.staging / "certificate.json",
        certificate,
        target=pair[0],
        candidate=pair[1],
        exact_norms=exact_norms,
        home=folder.path,
    )
    write_atomically(folder.staging / "report.json", to_bytes(report))
    if page:
        write_page(folder.staging)


def with_headroom(
    result: Result, forms: Forms, most: float = 2.0, progress: Progress = silent
) -> Result:
    """The result as it is written in float32: with larger shifts where an evaluation needs them.

    With them every hidden unit provably stays on its piece, and `float32_bound` says something. But
    larger shifts are rounded by more: what is met grows with them. So they grow where that is by at
    most `most` times the median shift of a site, and else stay as they are.
    """
    if forms.dtype != np.float32 or not forms.blocks or result.exact or result.known is None:
        return result
    if any(isinstance(norm, LiveNorm) for norm in result.norms.values()):
        return result  # its shifts have to cancel by themselves: no norm behind takes them away
    progress(Step("headroom for float32", 0))
    lacking = lacking_headroom(result.known, forms.spelled(result.network), forms.dtype)
    norms = raised_norms(result.network, result.sites, lacking, forms.dtype, most)
    if not norms:
        return result
    network = result.network.with_ops(norms)
    first = {site.target: site.layers[0].norm for site in result.sites}
    shifts = {
        name: np.abs(norm_at(network, norm).effective()[1]).max() for name, norm in first.items()
    }
    layers = (
        replace(row, shift_max=max(row.shift_max, float(shifts[row.name]))) for row in result.layers
    )
    return replace(result, network=network, layers=tuple(layers))


def take_along(network: Network, path: Path | None, folder: OutputFolder, role: str) -> Source:
    """The network's files copied into staging, and the network as certificates name it.

    One that came from no file is written to one. A pipe cannot be read twice: it is named only.
    """
    place = folder.path / role
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: a directory for the {role} is needed, but this is a file")
    origin = Origin.of(network)
    if path is None or origin is None:
        return _written(network, folder, role)
    if not path.is_file():
        return Source(network, path)
    _copy(path, folder.staging / role / origin.file, origin.sha256)
    for name, digest in origin.data.items():
        _copy(path.parent / name, folder.staging / role / name, digest)
    return Source(network, place / origin.file)


def _written(network: Network, folder: OutputFolder, role: str) -> Source:
    """A network of no file, saved as .npz, which keeps every number, and read back."""
    staged = folder.staging / role / f"{role}.npz"
    staged.parent.mkdir(exist_ok=True)
    save(network, staged, dtype=None)
    return Source(load(staged), folder.path / role / staged.name)


def _copy(source: Path, goal: Path, digest: str) -> None:
    """The file's bytes, which must still be those that were read before."""
    goal.parent.mkdir(parents=True, exist_ok=True)
    with naming(source):
        try:
            shutil.copyfile(source, goal)
        except OSError as error:
            raise InputError(f"the file cannot be read again ({error.strerror})") from None
        if sha256_file(goal) != digest:
            raise InputError("the file was changed since it was read; run it again")


def copies_before(output: Path) -> tuple[str, ...]:
    """What an earlier run took along, by its own certificate; nothing else of that folder."""
    try:
        document: Any = json.loads((output / "certificate.json").read_bytes())
        parts = {role: document[role] for role in ROLES}
        named = [
            f"{role}/{name}"
            for role, part in parts.items()
            if part.get("path") == f"{role}/{part['file']}"
            for name in (part["file"], *part.get("data_sha256", {}))
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ()
    return tuple(name for name in named if ".." not in Path(name).parts)
