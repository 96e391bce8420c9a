"""certificate.json, version 2: what it carries, what is refused, and what the command says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proofs_check.certificates import CheckStatus, arithmetic, check, checker
from proofs_check.certificates.command import main
from reconstruct.certificates import certify
from reconstruct.errors import InputError
from reconstruct.networks import Box, Convolution, Dense, Geometry, MaxPool, Network, Node, Relu
from reconstruct.numbers import rounding
from tests.certificates.building import random_target, wide

from .making import certified, edit

BOX = Box(0.0, 0.1).of_size(36)


def pooled() -> Network:
    """Convolution, ReLU, maximum over windows, two dense maps: many units are exactly 0."""
    rng = np.random.default_rng(4)
    image, pool = Geometry(1, 6, 6, (3, 3), pads=(1, 1, 1, 1)), Geometry(2, 6, 6, (2, 2), (2, 2))
    kernel = rng.standard_normal((2, 1, 3, 3))
    maps = [rng.standard_normal((5, 18)), rng.standard_normal((2, 5))]
    nodes = (
        Node("c", Convolution(kernel, image, np.array([-0.05, 0.02])), ("x",)),
        Node("r", Relu(), ("c",)),
        Node("p", MaxPool(pool), ("r",)),
        Node("d", Dense(maps[0], 0.1 * rng.standard_normal(5)), ("p",)),
        Node("s", Relu(), ("d",)),
        Node("e", Dense(maps[1], np.zeros(2)), ("s",)),
    )
    return Network(36, nodes, "e", source="x")


def pooled_pair(folder: Path) -> None:
    target = pooled()
    certified(folder, target, target.with_ops({}), BOX, tolerance=1e-6)


def test_a_pooled_network_is_accepted(tmp_path) -> None:
    pooled_pair(tmp_path)
    assert check(tmp_path).accepted


@pytest.mark.parametrize(
    "path", [("note",), ("target", "note"), ("domain", "note"), ("segments", 0, "note")]
)
def test_fields_that_nobody_knows_are_rejected(tmp_path, path) -> None:
    """Signed and harmless, perhaps: but no claim may stand in a certificate unread."""
    pooled_pair(tmp_path)
    edit(tmp_path, *path, value="float16_bound")
    report = check(tmp_path)
    assert report.status is CheckStatus.REJECTED
    assert report.field is not None and report.field.endswith("note")


@pytest.mark.parametrize("field", ["scales"])
def test_no_step_of_the_proof_may_be_left_out(tmp_path, field) -> None:
    pooled_pair(tmp_path)
    edit(tmp_path, field, value=None)
    assert check(tmp_path).field == field


def test_exact_sums_of_digits_are_known_exactly() -> None:
    values = np.array([[1.0, 0.75, 2.0**-40 + 2.0**-80, -3.0]])
    middle, error = arithmetic.nearest(*arithmetic.exact(values))
    assert np.array_equal(middle, values) and not error.any()
    third = arithmetic.nearest(arithmetic.Whole.of_integers([1], (1, 1)), 3)
    assert third[1][0, 0] > 0
    long = (1 << 200) + 1  # more digits than a float has
    assert arithmetic.nearest(arithmetic.Whole.of_integers([long], (1, 1)), 1)[1][0, 0] >= 1
    deep = arithmetic.nearest(arithmetic.Whole.of_integers([3], (1, 1)), 1 << 1075)
    assert abs(deep[0][0, 0]) + deep[1][0, 0] >= 2.0**-1074  # 1.5 η is no float


def small(folder: Path) -> None:
    rng = np.random.default_rng(2)
    target, box = random_target(rng, (2, 4, 2)), Box(-1.0, 1.0).of_size(2)
    certified(folder, target, wide(target, box, rng), box)


def test_exit_codes(tmp_path, capsys) -> None:
    small(tmp_path)
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--trusted"]) == 0
    said = capsys.readouterr().out
    assert "proofs_check/certificates/checker" in said and "numpy" in said
    edit(tmp_path, "bound", value=(1e-300).hex())
    assert main([str(tmp_path)]) == 1
    assert main([str(tmp_path / "nowhere")]) == 2
    (tmp_path / "certificate.json").write_text("{")
    assert main([str(tmp_path)]) == 2


def test_version_1_is_refused_and_says_what_to_do(tmp_path) -> None:
    small(tmp_path)
    edit(tmp_path, "schema", value="reconstruct.certificate/1")
    report = check(tmp_path)
    assert report.status is CheckStatus.UNREADABLE and "run` again" in report.reason


def test_nothing_is_proved_where_small_numbers_are_flushed(tmp_path, monkeypatch) -> None:
    assert arithmetic.gradual_underflow() and rounding.gradual_underflow()
    small(tmp_path)
    monkeypatch.setattr(checker, "gradual_underflow", lambda: False)
    monkeypatch.setattr(rounding, "gradual_underflow", lambda: False)
    report = check(tmp_path)
    assert report.status is CheckStatus.NOT_CHECKABLE and "flushes" in report.reason
    target = Network.mlp([np.ones((1, 1))], [np.zeros(1)])
    with pytest.raises(InputError, match="gradual underflow"):
        certify(target, target, domain=Box(0.0, 1.0))


FLUSH = """#include <xmmintrin.h>
#include <pmmintrin.h>
__attribute__((constructor)) static void on(void) {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON); _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
}"""
TRIED = """from proofs_check.certificates.arithmetic import gradual_underflow as checker
from reconstruct.numbers.rounding import gradual_underflow as certifier
print(checker(), certifier())"""


def test_flushing_is_noticed(tmp_path) -> None:
    """With the bits really set, as libraries compiled with -ffast-math do when they are loaded."""
    (tmp_path / "flush.c").write_text(FLUSH)
    library = tmp_path / "flush.so"
    words = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "flush.c")]
    try:
        made = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        made = False
    if not made:
        pytest.skip("no C compiler for this processor's flags")
    env = {**os.environ, "LD_PRELOAD": str(library)}
    found = subprocess.run([sys.executable, "-c", TRIED], capture_output=True, text=True, env=env)
    assert found.stdout.split() == ["False", "False"]


LOADED = """import sys
from reconstruct.cli import main
code = main(["check", sys.argv[1], "--quiet"])
parts = ("constructions", "khatri_rao", "bounds", "certificates", "equivalence")
print(code, [m for m in sys.modules if m.startswith(tuple(f"reconstruct.{p}" for p in parts))])"""


def test_checking_loads_nothing_of_the_solver(tmp_path) -> None:
    small(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "0 []"
