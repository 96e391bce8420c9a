"""The files that a certificate speaks of: found, hashed as they were read, and told apart.

A file that is not there is *missing*; one that is there with other bytes, or whose weights lie in
data files with other bytes, is not the one that was certified.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proofs_check.certificates.reading import FilePart
from proofs_check.certificates.report import CheckFailed, Missing, Unreadable
from proofs_check.reader import NotPlain, read_plain
from reconstruct.errors import InputError
from reconstruct.networks import Cast, Network

SHARED = "read by the shared reader"  # in the metadata of a network


def read_certificate(path: Path) -> tuple[bytes, Path]:
    """The bytes of a certificate, given as a file or as the folder that holds it."""
    try:
        place = path / "certificate.json" if path.is_dir() else path
        if place.exists() and not place.is_file():
            raise Unreadable("certificate", f"{place} is no file")
        return place.read_bytes(), place.parent
    except FileNotFoundError:
        below = sorted(place.parent.glob("*/*/certificate.json")) if path.is_dir() else []
        each = (
            f", but {len(below)} folders below do: check {below[0].parent} and so on"
            if below
            else ""
        )
        raise Missing("certificate", f"{path} holds no certificate.json{each}") from None
    except (OSError, ValueError) as error:
        raise Unreadable("certificate", f"{path} cannot be read ({error})") from None


def read_network(part: FilePart, field: str, given: Path | None, folder: Path) -> Network:
    """The network that the document names, its bytes being those that were certified."""
    places = [given] if given is not None else _places(part, folder)
    found = [place for place in places if _is_file(place)]
    if not found:
        raise Missing(f"{field}.file", f"{part.file} was not found; say where it is (--{field})")
    failure = CheckFailed(f"{field}.file", "")
    for place in found:
        try:
            _require_data(place.parent, part, field)
            network = _read(place, part)
        except Missing as missing:
            failure = missing
            continue
        except InputError as error:
            failure = CheckFailed(f"{field}.file", f"{place.name} cannot be read ({error})")
            continue
        differs = _differs(network, part)
        if differs is None:
            return network
        failure = CheckFailed(f"{field}.{differs[0]}", f"{place.name}: {differs[1]}")
    raise failure


def _read(place: Path, part: FilePart) -> Network:
    """By the checker's own reader; by the one that the certifier has where that one does not do."""
    try:
        return read_plain(place)
    except (NotPlain, OSError):
        from reconstruct.formats import load

    network = load(place, nnet_header=part.nnet_header)
    told = {**network.metadata, SHARED: True}
    return Network(network.size_in, network.nodes, network.output, network.source, told)


def _require_data(folder: Path, part: FilePart, field: str) -> None:
    """The data files that the document names lie beside the network."""
    for name in part.data_sha256:
        if not _is_file(folder / name):
            raise Missing(f"{field}.data_sha256", f"{name}, which holds weights, was not found")


def _places(part: FilePart, folder: Path) -> list[Path]:
    """Beside the certificate first, then where the document says."""
    names = [folder / Path(part.file).name]
    return names if part.path is None else [*names, folder / part.path]


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _differs(network: Network, part: FilePart) -> tuple[str, str] | None:
    """The hash that is not the certified one, if any: of the file, or of its data; or casts that
    are not named, which are the identity in real arithmetic alone."""
    told = network.metadata
    if told.get("sha256") != part.sha256:
        return "sha256", "this is not the file that was certified"
    data = told.get("data_sha256") or {}
    if not isinstance(data, Mapping) or dict(data) != dict(part.data_sha256):
        return "data_sha256", "its weights lie in data files that are not those certified"
    casts = {node.name: node.op.to for node in network.nodes if isinstance(node.op, Cast)}
    if casts != dict(part.casts):
        return "casts", "the casts of the network are not those that the certificate names"
    return None
