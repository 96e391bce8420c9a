"""examples/tiny_check.py: another checker, written from docs/certificate-format.md alone.

It confirms honest results, refuses forged ones, and each of its steps is needed: weakened, it
confirms a forgery that it refuses as it is.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import reconstruct as rc
from reconstruct.cli import main
from tests.proofs_check.certificates.making import document_of, write

SCRIPT = Path(__file__).parents[3] / "examples" / "tiny_check.py"
TARGETS = Path(__file__).resolve().parents[4] / "shared" / "targets"
SOURCE = SCRIPT.read_text("utf-8")


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::RuntimeWarning", str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "out"
    assert main(["demo", "-o", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A run with a partition, scales and a unit that is near to its kink, file by file."""
    folder, rng = tmp_path_factory.mktemp("small"), np.random.default_rng(3)
    sizes = (2, 4, 5, 2)
    weights = [rng.normal(size=(m, k)) for k, m in pairwise(sizes)]
    weights[1][0] *= 64  # a row so large that its unit is scaled
    target = rc.Network.mlp(weights, [rng.normal(size=len(w)) for w in weights])
    rc.save(target, folder / "target.onnx")
    out = str(folder / "out")
    assert main(["run", str(folder / "target.onnx"), "-o", out, "--domain=-1,1", "--quiet"]) == 0
    files = [path for path in Path(out).rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def placed(files: dict[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_the_digits_are_confirmed(digits: Path) -> None:
    done = checked(digits)
    assert done.returncode == 0 and done.stdout.startswith("CONFIRMED"), done


@pytest.mark.skipif(not TARGETS.is_dir(), reason="../shared/targets is not there")
@pytest.mark.parametrize(
    "name",
    ["acasxu/ACASXU_run2a_1_1_batch_2000.onnx", "hcas/HCAS_rect_v6_pra0_tau00_25HU_3000.nnet"],
)
def test_networks_of_others_are_confirmed(tmp_path: Path, name: str) -> None:
    out = str(tmp_path / "out")
    assert main(["run", str(TARGETS / name), "-o", out, "--domain=-0.5,0.5", "--quiet"]) == 0
    done = checked(tmp_path / "out")
    assert done.returncode == 0, done


def test_a_partition_and_scales_are_followed(small: dict[str, bytes], tmp_path: Path) -> None:
    folder = placed(small, tmp_path)
    document = document_of(folder)
    assert document["tree"] not in (None, "00") and any(map(any, document["scales"].values()))
    assert checked(folder).returncode == 0


def test_it_is_independent_and_short() -> None:
    tree = ast.parse(SOURCE)
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {a.name for n in imports if isinstance(n, ast.Import) for a in n.names}
    names |= {str(n.module) for n in imports if isinstance(n, ast.ImportFrom)}
    others = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert others == {"numpy", "onnx"}
    docs = [
        n.body[0]
        for n in ast.walk(tree)
        if isinstance(n, ast.Module | ast.FunctionDef | ast.ClassDef)
    ]
    docs = [d for d in docs if isinstance(d, ast.Expr) and isinstance(d.value, ast.Constant)]
    inside = {line for d in docs for line in range(d.lineno, (d.end_lineno or 0) + 1)}
    lines = [
        text.strip() for number, text in enumerate(SOURCE.splitlines(), 1) if number not in inside
    ]
    assert sum(bool(text) and not text.startswith("#") for text in lines) <= 250


# --- forgeries ------------------------------------------------------------------------------------


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = document_of(folder)
    change(document)
    write(folder, document)


def tuned(folder: Path, change: Callable[[dict[str, np.ndarray]], None], which: str) -> None:
    """The network with other numbers, and the certificate with its hash."""
    path = folder / document_of(folder)[which].get("path", document_of(folder)[which]["file"])
    model = onnx.load(path)
    arrays = {t.name: onnx.numpy_helper.to_array(t).copy() for t in model.graph.initializer}
    change(arrays)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(arrays[tensor.name], tensor.name))
    path.write_bytes(model.SerializeToString())
    changed(
        folder,
        lambda d: d[which].update(sha256=hashlib.sha256(path.read_bytes()).hexdigest()),
    )


def as_source(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "tiny"}
    exec(compile(text, "tiny", "exec"), names)
    return names


def generous(document: dict[str, Any], factor: float = 2.0**8) -> None:
    """A bound that leaves room for the rounding of what a forger has to compute."""
    document["bound"] = (float.fromhex(document["bound"]) * factor).hex()


def lower_bound(folder: Path) -> None:
    """A bound that is just below what follows."""
    found = as_source(SOURCE)["check"](folder)[1]
    changed(folder, lambda d: d.update(bound=(0.99 * found).hex()))


def other_gamma(folder: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["layer2.norm2.weight"] *= 1 + 2.0**-30

    tuned(folder, change, "candidate")


def other_constant(folder: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["layer3.norm2.bias"][0] += 2.0**-30

    tuned(folder, change, "candidate")


def dead_unit(folder: Path) -> None:
    """A hidden unit that is never active, with the shift behind it that its line would need: the
    composed maps are what they were."""

    def change(arrays: dict[str, np.ndarray]) -> None:
        scale = arrays["layer2.norm2.weight"] * arrays["layer2.M2.weight"][:, 0].astype(float)
        arrays["layer2.norm1.bias"][0] -= 2.0**10
        arrays["layer2.norm2.bias"] += scale * 2.0**10

    tuned(folder, change, "candidate")
    changed(folder, lambda d: generous(d, 2.0**16))


def wider_domain(folder: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["domain"]["hi"][0] = (64.0).hex()

    changed(folder, change)


def half_a_partition(folder: Path) -> None:
    """A tree that ends before all boxes were named."""
    changed(folder, lambda d: d.update(tree=d["tree"][:-2]))


def rounded_scale(folder: Path) -> None:
    """Near to a whole number: what it multiplies by is no power of two, and has no inverse."""

    def change(document: dict[str, Any]) -> None:
        generous(document)
        powers = next(row for row in document["scales"].values() if any(row))
        unit = next(unit for unit, power in enumerate(powers) if power)
        powers[unit] *= 1 + 2.0**-50

    changed(folder, change)


def above_tolerance(folder: Path) -> None:
    changed(folder, lambda d: d.update(tolerance=(float.fromhex(d["bound"]) / 2).hex()))


def other_bytes(folder: Path) -> None:
    with (folder / "network.onnx").open("ab") as file:
        file.write(b"\x7a\x00")  # a field that no reader knows: the same network


def unsigned(folder: Path) -> None:
    write(folder, document_of(folder) | {"seconds": None}, sign=False)


def other_epsilon(folder: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["layer1.norm1.running_var"][0] *= 1 + 2.0**-40

    tuned(folder, change, "candidate")


FORGERIES = [
    lower_bound,
    other_gamma,
    other_constant,
    dead_unit,
    wider_domain,
    half_a_partition,
    rounded_scale,
    above_tolerance,
    other_bytes,
    unsigned,
    other_epsilon,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda f: f.__name__)
def test_a_forgery_is_refused(
    small: dict[str, bytes], tmp_path: Path, forge: Callable[[Path], None]
) -> None:
    folder = placed(small, tmp_path)
    forge(folder)
    done = checked(folder)
    assert done.returncode in (1, 2, 3) and "NOT CONFIRMED" in done.stdout, done
    assert not done.stderr


MUTANTS = [  # a step, weaker; and what it then confirms
    ("require(bool((self.lower(rows, need) >= need).all())", "require(True", dead_unit),
    ("far = np.maximum(-self.lower(gap), -self.lower(-gap))", "far = 0 * lo", other_constant),
    ("np.minimum(arriving, most @ self.error) + fresh", "fresh", lower_bound),
    ("noise = up(chord * fresh + beyond)", "noise = 0 * beyond", lower_bound),
    (", up(chord * before + beyond)", ", 0 * beyond", lower_bound),
    ('boxes(lo, hi, document["tree"])', 'boxes(lo, lo, document["tree"])', wider_domain),
    ('    require(not stack, "tree: no partition")', "", half_a_partition),
    ("type(e) is int for", "True for", rounded_scale),
    ("require(0 <= bound <= tolerance", "require(0 <= bound", above_tolerance),
    ('hashlib.sha256(content).hexdigest() == entry["sha256"]', "True", other_bytes),
    ('hashlib.sha256(text.encode()).hexdigest() == document["digest"]', "True", unsigned),
    ("Fraction(v) + Fraction(epsilon) == 1 for", "True for", other_epsilon),
    ("require(worst <= bound", "require(True", lower_bound),
]


@pytest.mark.parametrize(("step", "weaker", "forge"), MUTANTS)
def test_every_step_is_needed(
    small: dict[str, bytes],
    tmp_path: Path,
    step: str,
    weaker: str,
    forge: Callable[[Path], None],
) -> None:
    folder = placed(small, tmp_path)
    forge(folder)
    assert SOURCE.count(step) == 1
    as_source(SOURCE.replace(step, weaker))["check"](folder)  # it does not refuse
