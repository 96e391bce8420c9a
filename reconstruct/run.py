"""One whole run: target in, directory out. The command line and the demo both call it."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.bounds import Adaptive, Crown, Method
from reconstruct.certificates.conclude import conclude
from reconstruct.certificates.document import Source, write_certificate
from reconstruct.certificates.verdicts import Certificate
from reconstruct.checkpoint import SiteStore, run_key
from reconstruct.constructions.frozen import Frozen, weights_hash
from reconstruct.formats import load, save
from reconstruct.formats.files import write_atomically
from reconstruct.khatri_rao import Auto, FolderCheckpoint, Solver, using
from reconstruct.networks import Box, Network
from reconstruct.networks.normal_form import fold_norms
from reconstruct.pipeline import Result, reconstruct
from reconstruct.progress import Progress, Step, silent
from reconstruct.reports.document import build_report, to_bytes
from reconstruct.reports.folder import OutputFolder
from reconstruct.reports.page import write_page

FILES = (
    "network.onnx",
    "network_folded.onnx",
    "norms.npz",
    "certificate.json",
    "report.json",
    "report.html",
)


@dataclass(frozen=True, eq=False)
class Job:
    """What to reconstruct, in what, on which domain, and how."""

    target: Network
    target_path: Path
    frozen: Frozen
    domain: Box
    output: Path
    solver: Solver = field(default_factory=Auto)
    bounds: Method = field(default_factory=Crown)
    dtype: str = "float64"
    samples: int = 10_000
    tolerance: float | None = None
    prove_rank: bool = False
    force: bool = False
    resume: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def key(self) -> str:
        """Names the numbers of this run: a checkpoint with another key is not reused."""
        return run_key(
            {
                "target": self.target.metadata.get("sha256"),
                "frozen": weights_hash(self.frozen.network),
                "construction": repr(self.frozen.construction),
                "merge": self.frozen.merge,
                "domain": [self.domain.lo.tolist(), self.domain.hi.tolist()],
                "solver": repr(self.solver),
                "bounds": repr(self.bounds),
            }
        )


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What a run leaves behind: the result, its certificate, and the report as written."""

    result: Result
    network: Network
    certificate: Certificate
    report: Mapping[str, Any]
    output: Path


def run(job: Job, progress: Progress = silent) -> RunOutcome:
    """Reconstruct, write the network, certify the file as written, report."""
    start = time.perf_counter()
    folder = OutputFolder(job.output, force=job.force, resume=job.resume)
    store = SiteStore(folder.staging, job.key(), resume=job.resume)
    try:
        with using(checkpoint=FolderCheckpoint(folder.staging)):
            result = reconstruct(
                job.target,
                job.frozen,
                domain=job.domain,
                solver=job.solver,
                bounds=job.bounds,
                dtype=np.dtype(job.dtype),
                progress=progress,
                checkpoint=store,
            )
        outcome = _finish(job, folder, result, start, progress)
    except KeyboardInterrupt:
        raise  # .partial stays: that is what --resume goes on with
    except BaseException:
        if not job.resume:
            folder.discard()
        raise
    folder.publish(FILES)
    return outcome


def _finish(
    job: Job, folder: OutputFolder, result: Result, start: float, progress: Progress
) -> RunOutcome:
    network = _write_networks(folder.staging, result, job.dtype)
    conclusion = conclude(
        job.target,
        network,
        domain=result.domain,
        bounds=_same_leaves(job.bounds, result),
        tolerance=job.tolerance,
        samples=job.samples,
        exact_norms=result.exact,
        bound_anyway=True,
        progress=progress,
    )
    certificate = conclusion.certificate
    write_certificate(
        folder.staging / "certificate.json",
        certificate,
        target=Source(job.target, job.target_path),
        candidate=Source(network),
        exact_norms=result.exact,
        home=job.output,
    )
    seconds = time.perf_counter() - start
    proofs = None
    if job.prove_rank:
        progress(Step("proving full rank", 0))
        proofs = result.prove_ranks()
    report = build_report(
        result,
        certificate,
        conclusion.search,
        options=job.options,
        seconds=seconds,
        rank_proofs=proofs,
    )
    write_atomically(folder.staging / "report.json", to_bytes(report))
    write_page(folder.staging)
    return RunOutcome(result, network, certificate, report, job.output)


def _same_leaves(method: Method, result: Result) -> Method:
    """The same method; a branch and bound goes on with the tree that it found."""
    if isinstance(method, Adaptive) and result.cuts is not None:
        return replace(method, cuts=result.cuts)
    return method


def _write_networks(folder: Path, result: Result, dtype: str) -> Network:
    """Write f in its three forms; return it as it is read back, for that is what is certified."""
    save(result.network, folder / "network.onnx", dtype=np.dtype(dtype))
    save(fold_norms(result.network), folder / "network_folded.onnx", dtype=np.dtype(dtype))
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **_norm_arrays(result, np.dtype(dtype)))
    write_atomically(folder / "norms.npz", buffer.getvalue())
    return load(folder / "network.onnx")


def _norm_arrays(result: Result, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The norms under the names that a state dict would use."""
    arrays: dict[str, Any] = {}
    for name, norm in result.norms.items():
        arrays[f"{name}.weight"] = norm.gamma.astype(dtype)
        arrays[f"{name}.bias"] = norm.beta.astype(dtype)
        arrays[f"{name}.running_mean"] = norm.mean.astype(dtype)
        arrays[f"{name}.running_var"] = norm.var.astype(dtype)
    return arrays
