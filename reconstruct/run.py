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
from reconstruct.errors import ReconstructError
from reconstruct.formats import load, save
from reconstruct.formats.files import write_atomically
from reconstruct.formats.onnx.guard import write_guarded
from reconstruct.khatri_rao import Auto, FolderCheckpoint, Solver, using
from reconstruct.networks import Box, Network, Points
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
GUARD_FILE = "network_guarded.onnx"  # where it was asked for, or the domain is made of data
GUARDED = 32  # inputs of the domain at which the guard is tried for the report


@dataclass(frozen=True, eq=False)
class Job:
    """What to reconstruct, in what, on which domain, and how."""

    target: Network
    target_path: Path
    frozen: Frozen
    domain: Box | Points
    output: Path
    slack: float = 1.0
    guard: bool = False
    folded: bool = True
    solver: Solver = field(default_factory=Auto)
    bounds: Method = field(default_factory=Crown)
    dtype: str = "float64"
    samples: int = 10_000
    tolerance: float | None = None
    prove_rank: bool = False
    force: bool = False
    resume: bool | None = False  # None: what calls this cannot go on with an interrupted run
    options: Mapping[str, Any] = field(default_factory=dict)

    def key(self) -> str:
        """Names the numbers of this run: a checkpoint with another key is not reused."""
        return run_key(
            {
                "target": self.target.metadata.get("sha256"),
                "frozen": weights_hash(self.frozen.network),
                "construction": repr(self.frozen.construction),
                "merge": self.frozen.merge,
                "domain": [part.tolist() for part in self.domain.boxes],
                "slack": self.slack,
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
    with OutputFolder(job.output, force=job.force, resume=job.resume) as folder:
        store = SiteStore(folder.staging, job.key(), resume=bool(job.resume))
        with using(checkpoint=FolderCheckpoint(folder.staging)):
            result = reconstruct(
                job.target,
                job.frozen,
                domain=job.domain,
                slack=job.slack,
                solver=job.solver,
                bounds=job.bounds,
                dtype=np.dtype(job.dtype),
                progress=progress,
                checkpoint=store,
            )
        outcome = _finish(job, folder, result, start, progress)
        names = published(folder.staging)
        folder.publish(names, lambda: _read_back(job, outcome), _left_behind(job.output, names))
    return outcome


def published(staging: Path) -> tuple[str, ...]:
    """The finished files: those of the list that were made, data files of networks first."""
    data = sorted(path.name for path in staging.glob("*.onnx.data"))
    return (*data, *(name for name in (GUARD_FILE, *FILES) if (staging / name).exists()))


def _left_behind(output: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Networks that an earlier run left there and this one does not write: of another network."""
    data = {path.name for path in output.glob("*.onnx.data")}
    return tuple(sorted((data | {GUARD_FILE, *FILES}) - set(names)))


def _read_back(job: Job, outcome: RunOutcome) -> None:
    """The published network is the one that was certified, its data files included."""
    if not any(job.output.glob("*.onnx.data")):
        return
    again = load(job.output / "network.onnx")
    for key in ("sha256", "data_sha256"):
        if again.metadata.get(key) != outcome.network.metadata.get(key):
            raise ReconstructError(
                f"{job.output}: the published network is not the one that was certified ({key} "
                f"differs); run it again"
            )


def _finish(
    job: Job, folder: OutputFolder, result: Result, start: float, progress: Progress
) -> RunOutcome:
    network = _write_networks(folder.staging, result, job)
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
        guard=_guard(job, result),
    )
    write_atomically(folder.staging / "report.json", to_bytes(report))
    write_page(folder.staging)
    return RunOutcome(result, network, certificate, report, job.output)


def _guard(job: Job, result: Result) -> dict[str, Any] | None:
    """What the guard says of the domain's own inputs; None where none was written."""
    if not (job.guard or isinstance(job.domain, Points)):
        return None
    x = result.domain.sample(GUARDED, np.random.default_rng(0))[:GUARDED]
    margins = result.margin(x)
    return {
        "file": GUARD_FILE,
        "slack": job.slack if isinstance(job.domain, Points) else None,
        "inputs": len(x),
        "share": float(np.mean(margins >= 0)),
        "least_margin": float(margins.min()),
    }


def _same_leaves(method: Method, result: Result) -> Method:
    """The same method; a branch and bound goes on with the tree that it found."""
    if isinstance(method, Adaptive) and result.cuts is not None:
        return replace(method, cuts=result.cuts)
    return method


def _write_networks(folder: Path, result: Result, job: Job) -> Network:
    """Write f in its forms; return it as it is read back, for that is what is certified."""
    dtype = np.dtype(job.dtype)
    save(result.network, folder / "network.onnx", dtype=dtype)
    if job.folded:
        save(fold_norms(result.network), folder / "network_folded.onnx", dtype=dtype)
    if job.guard or isinstance(job.domain, Points):
        write_guarded(result.network, result.watched, folder / GUARD_FILE, dtype)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **_norm_arrays(result, dtype))
    write_atomically(folder / "norms.npz", buffer.getvalue())
    return load(folder / "network.onnx")


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
