"""Which bytes a network was read from: hashed once, while they are read.

A certificate speaks of files. What pins them is the hash of the bytes that were read, external
data included, never of whatever lies under that name when the certificate is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reconstruct.networks import Network


@dataclass(frozen=True)
class Origin:
    """The file's name, format and SHA-256 as stored; `data` gives those of files beside it.

    `nnet_header` says that the header of a .nnet file is a part of the function.
    """

    file: str
    format: str
    sha256: str
    data: Mapping[str, str] = field(default_factory=dict)
    nnet_header: bool = False

    @classmethod
    def of(cls, network: Network) -> Origin | None:
        """The origin of a loaded network, None for one that came from no file."""
        told = network.metadata
        if "sha256" not in told:
            return None
        return cls(
            told["file"],
            told["format"],
            told["sha256"],
            dict(told.get("data_sha256", {})),
            bool(told.get("nnet_header_folded", False)),
        )

    def document(self) -> dict[str, Any]:
        """The fields by which a document names the network; absent parts are left out."""
        part: dict[str, Any] = {"file": self.file, "sha256": self.sha256}
        if self.data:
            part["data_sha256"] = dict(sorted(self.data.items()))
        if self.nnet_header:
            part["nnet_header"] = True
        return part

    def differs(self, stated: Mapping[str, Any]) -> str | None:
        """The first field in which a document's statement is not of these bytes, if any is."""
        ours = self.document()
        keys = ("sha256", "data_sha256", "nnet_header")
        return next((k for k in keys if (stated.get(k) or None) != ours.get(k)), None)
