"""The sizes on the page add up, and memory is that of the process itself."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from reconstruct.reports.document import peak_bytes
from reconstruct.reports.page import sizes
from reconstruct.reports.words import weight_count
from tests.constructions.test_images import one_convolution
from tests.reports.conftest import run_in_memory

BALLAST = 1 << 29


def test_weights_biases_and_norm_parameters_are_all_parameters(report: dict[str, Any]) -> None:
    adds_up(report)


def test_kernels_of_images_count_once() -> None:
    target = one_convolution("padded")
    report, _ = run_in_memory(target)
    adds_up(report)
    assert report["target"]["weight_count"] == target.node("c").op.kernel.size
    del report["target"]["weight_count"]
    assert weight_count(report["target"]) == sum(m * k for m, k in report["target"]["maps"])


def adds_up(report: dict[str, Any]) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", str(sizes(report)), flags=re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
    f = {c[0].partition(" ")[0]: c[2].replace(",", "") for c in cells if c[0]}
    g = {c[0].partition(" ")[0]: c[1].replace(",", "") for c in cells if c[0]}
    assert int(f["weights"]) + int(f["biases"]) + int(f["norm"]) == int(f["parameters"])
    assert int(g["weights"]) + int(g["biases"]) == int(g["parameters"])
    assert int(f["biases"]) > 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux keeps the mark by program")
def test_peak_memory_is_not_that_of_the_parent() -> None:
    ballast = b"x" * BALLAST
    asked = "from reconstruct.reports.document import peak_bytes; print(peak_bytes())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    own = peak_bytes()
    assert own is not None and own > len(ballast)
    assert 1 << 20 < int(done.stdout) < BALLAST
