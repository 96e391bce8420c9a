"""What a figure was measured with: versions, BLAS, threads, processor, memory."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from reconstruct.version import __version__


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
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(row.split()[1]) * 1024 for row in status.splitlines() if "VmHWM" in row)
    except (OSError, StopIteration):
        return _peak_of_resources()


def _peak_of_resources() -> int | None:
    try:
        import resource
    except ImportError:
        return None
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
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or None
