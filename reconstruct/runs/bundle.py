"""Networks taken along: a directory that is checked elsewhere holds the files that it speaks of.

The target lies in OUT/target under its own name, with the files that hold its weights if it has
any; byte for byte, for the bytes are what a certificate names.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import IO, Any

from reconstruct.certificates.document import Source
from reconstruct.errors import InputError
from reconstruct.formats import Origin, load, save
from reconstruct.formats.files import CHUNK, naming, written_whole
from reconstruct.networks import Network
from reconstruct.reports.folder import OutputFolder

TARGET = "target"
CANDIDATE = "candidate"
ROLES = (TARGET, CANDIDATE)


def take_along(network: Network, path: Path | None, folder: OutputFolder, role: str) -> Source:
    """The network's files copied into staging, and the network as certificates name it.

    One that came from no file is written to one. A pipe cannot be read twice: it is named only.
    """
    place = folder.path / role
    if place.exists() and not place.is_dir():
        raise InputError(f"{place}: a directory for the {role} is needed, but this is a file")
    if path is None or Origin.of(network) is None:
        return _written(network, folder, role)
    if not path.is_file():
        return Source(network, path)
    origin = Origin.of(network)
    assert origin is not None
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
    with naming(source), written_whole(goal) as file:
        try:
            found = _stream(source, file)
        except OSError as error:
            raise InputError(f"the file cannot be read again ({error.strerror})") from None
        if found != digest:
            raise InputError("the file was changed since it was read; run it again")


def _stream(source: Path, goal: IO[bytes]) -> str:
    digest = hashlib.sha256()
    with open(source, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            goal.write(chunk)
    return digest.hexdigest()


def copies(staging: Path) -> tuple[str, ...]:
    """What was taken along, as paths from the directory."""
    found = [p for role in ROLES for p in (staging / role).rglob("*") if p.is_file()]
    return tuple(sorted(p.relative_to(staging).as_posix() for p in found))


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
