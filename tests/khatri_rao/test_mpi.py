"""Two ranks under mpiexec: the same answers as threads, and one message when a rank dies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proofs_check.certificates import check
from reconstruct.cli import main
from reconstruct.cli.process import launched
from reconstruct.errors import InputError
from reconstruct.formats import save
from reconstruct.khatri_rao import operator, solve
from reconstruct.khatri_rao.ranks import world
from reconstruct.networks import Network
from reconstruct.numbers.parallel import at_most_threads
from tests.constructions.targets import mlp

from .planted import relative
from .ranks import CASES, system

RANKS = Path(__file__).with_name("ranks.py")
ROOT = Path(__file__).resolve().parents[2]
Ended = subprocess.CompletedProcess[str]


def mpiexec() -> str:
    """The launcher beside this Python, or the one on the path."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed (extra `mpi`)")
    found = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    found = found or shutil.which("mpiexec")
    if found is None:
        pytest.skip("there is no mpiexec")
    return found


def run(what: str, folder: Path, *words: str, ranks: int = 2) -> Ended:
    """`ranks.py` on some ranks; a job that hangs fails the test by its time."""
    launcher = mpiexec()
    command = [launcher, "-n", str(ranks), sys.executable, str(RANKS), what, str(folder), *words]
    around = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=around, check=False
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two ranks left what they found."""
    folder = tmp_path_factory.mktemp("ranks")
    done = run("solve_all", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", list(CASES))
def test_two_ranks_find_what_one_finds(name: str, answers: Path) -> None:
    found = np.load(answers / "found.npz")
    given, solver = CASES[name]
    alone = solve(*system(*given), solver)
    assert str(found[f"{name}.status"]) == alone.status.value
    if alone.solved:
        assert relative(found[name] - alone.s, alone.s) <= 1e-10
    if name == "cg":
        assert not np.array_equal(found[name], alone.s)  # the sums were added up by ranks


@pytest.mark.parametrize("how", ["failed", "killed"])
def test_a_rank_that_dies_ends_the_job(how: str, tmp_path: Path) -> None:
    folder = tmp_path / how
    folder.mkdir()
    done = run("die", folder)
    assert done.returncode != 0
    assert "nobody died" not in done.stderr and "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if "the job ends" in line]
    fell = ["rank 1 of 2 failed, so the job ends: ArithmeticError: a rank fell over"]
    assert said == (fell if how == "failed" else [])  # of a killed one mpiexec says so


def test_refused_input_ends_the_job(tmp_path: Path) -> None:
    done = run("refuse", tmp_path)
    assert done.returncode != 0
    assert "W of shape (4, 4) must be finite, but 1 of its entries" in done.stderr


def test_without_mpi4py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(InputError, match=r"needs mpi4py.*pip install 'reconstruct\[mpi\]'"):
        world()


def test_a_process_knows_whether_mpiexec_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not launched()
    monkeypatch.setenv("PMI_SIZE", "1")
    assert not launched()
    monkeypatch.setenv("PMI_SIZE", "2")
    assert launched()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    save(mlp([5, 12, 10, 3], 0), tmp_path / "target.onnx", dtype=np.float64)
    return tmp_path


def words(out: str, *more: str) -> list[str]:
    return [
        "run",
        "target.onnx",
        "-o",
        out,
        "--domain",
        "-1,1",
        "--solver",
        "cg",
        "--samples",
        "100",
        *more,
    ]


def test_norms_do_not_depend_on_threads_or_ranks(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """γ is the least-norm solution and β follows from it: what shares out the sums moves neither
    by more than rounding."""
    done = run("command", target, *words("ranks"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CERTIFIED")
    assert done.stdout.count("CERTIFIED") == 1
    monkeypatch.chdir(target)
    monkeypatch.setattr(operator, "TILES", operator.Tiles(parallel=0))
    for threads in (1, 2):
        with at_most_threads(threads):
            assert main(words(f"threads-{threads}")) == 0
    one, two, ranks = (
        np.load(target / name / "norms.npz") for name in ("threads-1", "threads-2", "ranks")
    )
    assert any(not np.array_equal(one[name], ranks[name]) for name in one.files)
    for name in one.files:
        assert relative(two[name] - one[name], one[name]) <= 1e-10, name
        assert relative(ranks[name] - one[name], one[name]) <= 1e-10, name


def test_ranks_help_to_verify(tmp_path: Path) -> None:
    """One verdict, and no fewer boxes than one rank needs; the other rank's are among them."""
    for name, noise in (("one", 0.0), ("other", 1e-3)):
        rng = np.random.default_rng(4)
        weights = [rng.normal(size=shape) for shape in ((12, 4), (12, 12), (12, 12), (2, 12))]
        weights = [w + noise * rng.normal(size=w.shape) for w in weights]
        save(Network.mlp(weights), tmp_path / f"{name}.onnx")
    given = ["verify", "one.onnx", "other.onnx", "--domain", "-1,1", "--tolerance", "0.5"]
    done = run("command", tmp_path, *given, "-o", "out", "count-boxes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("CERTIFIED") == 1
    assert check(tmp_path / "out").accepted
    boxes = [int(line.split()[-1]) for line in done.stderr.splitlines() if "boxes" in line]
    assert len(boxes) == 2 and min(boxes) > 20, done.stderr


def test_a_run_whose_rank_was_killed_is_resumed(target: Path) -> None:
    given = words("out", "--bounds", "crown")
    died = run("command", target, *given, "die-at-map-2")
    assert died.returncode != 0
    assert not (target / "out" / "report.json").exists()
    assert len(list((target / "out" / ".partial").glob("site-*.npz"))) == 1
    resumed = run("command", target, *given, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith("CERTIFIED")


def test_bad_usage_ends_every_rank(target: Path) -> None:
    done = run("command", target, "run", "missing.onnx", "-o", "out", "--domain", "-1,1")
    assert done.returncode == 2
    assert done.stderr.count("reconstruct:") == 1
    usage = run("command", target, "run")
    assert usage.returncode == 2
    assert usage.stderr.count("reconstruct run --help") == 1


def test_a_job_without_mpi4py_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    assert main(["inspect", "missing.onnx"]) == 2
    assert "a job of several ranks needs mpi4py" in capsys.readouterr().err
