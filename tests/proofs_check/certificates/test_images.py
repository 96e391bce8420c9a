"""Networks on images: what the checker knows it proves, what it does not know it names."""

from __future__ import annotations

from pathlib import Path

import reconstruct as rc
from proofs_check.certificates import CheckStatus, check
from reconstruct.certificates.document import write_certificate
from reconstruct.networks import Network
from tests.constructions.test_images import one_convolution
from tests.networks.test_images import small_network


def certified(target: Network, folder: Path) -> Path:
    """The target rebuilt, with its certificate, in files."""
    result = rc.reconstruct(target, rc.draw(target, seed=0), domain=rc.Box(-0.3, 0.4))
    rc.save(target, folder / "target.npz")
    rc.save(result.network, folder / "network.npz")
    files = {"target": folder / "target.npz", "candidate": folder / "network.npz"}
    networks = [rc.load(path) for path in files.values()]
    certificate = rc.certify(*networks, domain=result.domain)
    assert certificate.verdict.value == "certified"
    write_certificate(folder / "certificate.json", certificate, **files)
    return folder / "certificate.json"


def test_a_convolution_is_proved_again(tmp_path: Path) -> None:
    report = check(certified(one_convolution("padded"), tmp_path))
    assert report.status is CheckStatus.ACCEPTED, report


def test_a_maximum_over_windows_is_not_checkable_and_not_rejected(tmp_path: Path) -> None:
    report = check(certified(small_network(), tmp_path))
    assert report.status is CheckStatus.NOT_CHECKABLE, report
    assert "MaxPool" in str(report)
