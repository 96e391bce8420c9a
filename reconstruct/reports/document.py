"""report.json: what was asked, what was found, how it is known.

The fields of the contract come first; `status`, `merged`, `options`, `certificate`, `difference`
and `measurements` follow for the page that is made from it. A figure that is not known is null.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from reconstruct.version import __version__

if TYPE_CHECKING:
    from reconstruct.certificates.verdicts import Certificate
    from reconstruct.constructions.construction import LayerSolution
    from reconstruct.equivalence.search import Search
    from reconstruct.networks import Domain, Network
    from reconstruct.pipeline import Result
    from reconstruct.reports.measurements import ShownInputs

SCHEMA = "reconstruct.report/1"
SCHEMAS = ("report", "certificate")
COUNTED = ("index", "name", "rows", "cols", "width", "solver", "message", "iterations", "rank")
MEASURED = ("seconds", "residual", "condition", "gamma_max", "shift_max")  # of each system


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of report.json or certificate.json, for other programs."""
    path = files(__package__).joinpath("schemas", f"{name}.schema.json")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def build_report(
    result: Result,
    certificate: Certificate,
    search: Search,
    *,
    options: Mapping[str, Any],
    seconds: float,
    guard: Mapping[str, Any] | None = None,
    target_path: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    examples: ShownInputs | None = None,
    blocks: bool = False,
) -> dict[str, Any]:
    """The report of a finished run as plain JSON values; `target_path` leads to the target's file,
    `recipe` is for `rebuild`, `examples` are known inputs, `blocks`: sums are written as trees."""
    from reconstruct.reports.measurements import inputs_part, measurements

    return _frame(result.target, target_path, certificate, search, options) | {
        "frozen": _frozen_part(result),
        "domain": domain_part(result.domain),
        "layers": [_layer(row, result, certificate) for row in result.layers],
        "cost": {"seconds": seconds, "peak_bytes": peak_bytes()},
        "status": result.status.value,
        "merged": {name: list(chain) for name, chain in result.form.merged.items()},
        "measurements": measurements(result, search.samples, certificate, blocks=blocks),
        "guard": None if guard is None else dict(guard),
        "recipe": None if recipe is None else dict(recipe),
        "inputs": inputs_part(result, examples),
    }


def build_comparison(
    target: Network,
    candidate: Network,
    certificate: Certificate,
    search: Search,
    *,
    options: Mapping[str, Any],
    paths: Sequence[str | None] = (None, None),
) -> dict[str, Any]:
    """The report of a comparison of two networks that came from elsewhere: nothing was solved.

    `paths` lead from the report to their files.
    """
    from reconstruct.reports.measurements import graphs

    return _frame(target, paths[0], certificate, search, options) | {
        "measurements": graphs(target, candidate),
        "candidate": target_part(candidate, paths[1]),
    }


def _frame(
    target: Network,
    path: str | None,
    certificate: Certificate,
    search: Search,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """What every report has, in the order of the contract; nothing was solved."""
    return {
        "schema": SCHEMA,
        "verdict": certificate.verdict.value,
        "rigor": certificate.rigor.value,
        "target": target_part(target, path),
        "frozen": None,
        "domain": domain_part(certificate.domain),
        "layers": [],
        "error": error_part(certificate, search),
        "cost": {"seconds": certificate.seconds + search.seconds, "peak_bytes": peak_bytes()},
        "environment": environment(),
        "status": None,
        "merged": {},
        "options": dict(options),
        "certificate": certificate_part(certificate),
        "difference": search.as_json(),
    }


def domain_part(domain: Domain) -> dict[str, Any]:
    """The ends of the box; of a domain made of data those of its hull, and what it is made of."""
    ends = {"lo": domain.lo.tolist(), "hi": domain.hi.tolist()}
    if domain.kind == "box":
        return {**ends, "kind": "box"}
    inputs, radius = len(domain.boxes[0]), getattr(domain, "radius", 0.0)
    return {**ends, "kind": domain.kind, "inputs": inputs, "radius": radius}


def target_part(target: Network, path: str | None = None) -> dict[str, Any]:
    placed: dict[str, Any] = {} if path is None else {"path": path}
    if target.metadata.get("compared", {}) is None:
        placed["unchecked_reading"] = True
    if target.casts:
        placed["casts"] = target.casts
    return {
        "file": target.metadata.get("file"),
        **placed,
        "sha256": target.metadata.get("sha256"),
        "maps": [list(shape) for shape in target.maps],
        "weight_count": target.weights,
        "parameters": target.parameters,
    }


def _frozen_part(result: Result) -> dict[str, Any]:
    from reconstruct.constructions.frozen import weights_hash

    network, known = result.network, result.frozen.describe()
    told = ("weights", "seed", "ratio", "sparsity", "file", "rank", "block")
    return {
        "construction": known["construction"],
        **{key: known.get(key) for key in told},
        "sha256": weights_hash(network),
        "maps": [list(shape) for shape in network.maps],
        "weight_count": network.weights,
        "parameters": network.parameters,
        "nonzeros": network.nonzeros,
        "tunable": network.tunable,
        "factors": result.describe(),
        "summary": known["summary"],
    }


def _layer(row: LayerSolution, result: Result, certificate: Certificate) -> dict[str, Any]:
    """One system; `residual_bound` is the certificate's for the segment that holds its map, and
    `positions` says at how many places of an image the map's kernel is used."""
    from reconstruct.khatri_rao import expected_iterations

    parts = set(result.form.chains.get(row.name, ())) | {row.name}
    bounds = [s.residual_bound for s in certificate.segments if parts & set(s.maps)]
    op = result.form.network.node(row.name).op
    geometry = getattr(op, "geometry", None)
    equations = row.rows * row.cols
    counted = row.solver.endswith("cg") and row.width > equations  # Marchenko and Pastur's law
    return {
        **{key: getattr(row, key) for key in COUNTED},
        "status": row.status.value,
        "expected_iterations": expected_iterations(equations, row.width) if counted else None,
        "residual_bound": finite(max(bounds, default=None)),
        **{key: finite(getattr(row, key)) for key in MEASURED},
        "history": [finite(value) for value in row.history],
        "positions": int(getattr(op, "positions", 1)),
        "geometry": None if geometry is None else geometry.settings(),
    }


def error_part(certificate: Certificate, search: Search) -> dict[str, Any]:
    """What was found, by whatever looked, and what is proved; a witness counts as found."""
    witness = certificate.witness
    gap = None if witness is None else _as_float(witness.difference)
    found = (search.float64_max, certificate.found, gap or 0.0)
    bounds = ("float64", "float32", "target_float64", "target_float32")
    return {
        "samples": search.samples,
        "seed": search.seed,
        "float64_max": finite(max(found)),
        "float32_max": finite(search.float32_max),
        "target_float32_max": finite(search.target_float32_max),
        "certified_bound": finite(certificate.bound),
        **{f"{kind}_bound": finite(getattr(certificate, f"{kind}_bound")) for kind in bounds},
    }


def certificate_part(certificate: Certificate) -> dict[str, Any]:
    witness = certificate.witness
    return {
        "method": certificate.method,
        "tolerance": finite(certificate.tolerance),
        "output_scale": finite(certificate.output_scale),
        "exact_identity": certificate.exact_identity,
        "tried": list(certificate.tried),
        "seconds": certificate.seconds,
        "witness": None
        if witness is None
        else {
            "point": list(witness.point),
            "target": [_as_float((lo + hi) / 2) for lo, hi in witness.target],
            "candidate": [_as_float((lo + hi) / 2) for lo, hi in witness.candidate],
            "difference": float(min(witness.difference, Fraction(sys.float_info.max))),
            "exact": witness.exact,
            "strictly_inside": witness.strictly_inside,
        },
    }


def _as_float(value: Fraction) -> float | None:
    """The number as a float; None where it lies beyond them (certificate.json has it whole)."""
    try:
        return float(value)
    except OverflowError:
        return None


def to_bytes(report: Mapping[str, Any]) -> bytes:
    """The report as UTF-8 JSON; a number that is not finite is a bug and raises."""
    return (json.dumps(report, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def finite(value: float | None) -> float | None:
    """The number; None where it is not known or not finite, which JSON has no word for."""
    return float(value) if value is not None and isfinite(value) else None


def environment() -> dict[str, Any]:
    """The `environment` part of report.json."""
    return {
        "reconstruct": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": blas(),
        "threads": os.cpu_count(),
        "cpu": cpu(),
    }


def peak_bytes() -> int | None:
    """The largest resident memory of this process so far; None where it cannot be known.

    Linux is asked for the program's own high-water mark: `ru_maxrss` starts from that of the
    process that started this one.
    """
    with suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text()
        return next(int(row.split()[1]) * 1024 for row in status.splitlines() if "VmHWM" in row)
    if find_spec("resource") is None:  # Windows
        return None
    resource: Any = import_module("resource")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


@cache
def blas() -> str | None:
    """The BLAS library that numpy or scipy loaded first, with its version."""
    from threadpoolctl import threadpool_info

    for library in threadpool_info():
        if library.get("user_api") == "blas":
            return f"{library.get('internal_api')} {library.get('version')}"
    return None


@cache
def cpu() -> str | None:
    """The processor's name, None where the system does not say."""
    with suppress(OSError, StopIteration):
        rows = Path("/proc/cpuinfo").read_text().splitlines()
        return next(row.split(":", 1)[1].strip() for row in rows if row.startswith("model name"))
    return platform.processor() or None
