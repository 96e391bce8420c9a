"""Two ranks under mpiexec: the same answers as threads, and one message when a rank dies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reconstruct.cli import main
from reconstruct.cli.job import launched
from reconstruct.errors import InputError
from reconstruct.formats import save
from reconstruct.khatri_rao import ConjugateGradient, Direct, Exact, Mpi, solve
from tests.constructions.targets import mlp

from .planted import relative, tolerance
from .ranks import system

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
    done = run("solve_all+conduct", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_ranks_find_what_one_finds(answers: Path) -> None:
    found = np.load(answers / "found-2.npz")
    for name, given in (("cg", (20, 20, 1.5)), ("whitened", (9, 7, 1.6)), ("auto", (6, 5, 1.5))):
        M1, M2, W = system(*given, "positive" if name == "whitened" else "gaussian")
        alone = solve(M1, M2, W, ConjugateGradient())
        assert alone.solved
        assert str(found[f"{name}.status"]) == "solved"
        left = M2.astype(float) @ (found[name][:, None] * M1) - W
        assert np.linalg.norm(left) <= 1e-13 * np.linalg.norm(W)
        # null-space parts of float32 iterations differ by their rounding
        allowed = tolerance(alone.condition or np.inf, len(alone.s), np.float32)
        assert relative(found[name] - alone.s, alone.s) <= allowed
    for name, given in (("uneven", (9, 7, 1.6)), ("uneven direct", (5, 4, 1.5))):
        M1, M2, W = system(*given, "uneven")
        assert str(found[f"{name}.status"]) == "solved"
        left = M2.astype(float) @ (found[name][:, None] * M1) - W
        assert np.linalg.norm(left) <= 1e-13 * np.linalg.norm(W)
        alone, sizes = solve(M1, M2, W, ConjugateGradient()), np.linalg.norm(M1, axis=1)
        allowed = tolerance(alone.condition or np.inf, len(sizes), np.float32)
        assert relative(sizes * (found[name] - alone.s), sizes * alone.s) <= allowed
    assert str(found["narrow.status"]) == "too_narrow"
    for name, given in (("direct", (5, 4, 1.0)), ("exact", (3, 2, 1.0))):
        alone = solve(*system(*given), Exact())
        assert relative(found[name] - alone.s, alone.s) <= tolerance(alone.condition or 1.0, 20)


def test_a_rank_draws_its_own_tiles_only(answers: Path) -> None:
    found = np.load(answers / "found-2.npz")
    assert np.array_equal(found["drawn"], found["cg"])
    tiles = [set((answers / f"tiles-{rank}").read_text().split()) for rank in (0, 1)]
    count = -(-600 // 64)
    assert {int(tile) for tile in tiles[0]} == set(range(5))  # units 0 … 299
    assert {int(tile) for tile in tiles[1]} == set(range(4, count))  # units 300 … 599


DEATHS = ("failed", "interrupted", "killed")


@pytest.fixture(scope="module")
def died(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Ended]]:
    """How a job ended whose last rank died, for each way to die; and in which folder."""
    folder = tmp_path_factory.mktemp("died")
    found = {}
    for how in DEATHS:
        (folder / how).mkdir()
        found[how] = run("die", folder / how)
    return folder, found


@pytest.fixture(scope="module")
def resumed(died: tuple[Path, dict[str, Ended]]) -> Path:
    """The folders of all of them, resumed by one job."""
    folder, _ = died
    done = run("resume", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("how", DEATHS)
def test_a_rank_that_dies_ends_the_job(how: str, died: tuple[Path, dict[str, Ended]]) -> None:
    done = died[1][how]
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if "the job ends" in line]
    assert "nobody died" not in done.stderr
    assert "Traceback" not in done.stderr
    expected = {
        "failed": ["rank 1 of 2 failed, so the job ends: ArithmeticError: a rank fell over"],
        "interrupted": ["interrupted: the job ends; it goes on from the state that was kept last"],
        "killed": [],  # mpiexec itself says so
    }
    assert said == expected[how]


@pytest.mark.parametrize("how", DEATHS)
def test_what_a_job_left_that_died_is_resumed(how: str, resumed: Path) -> None:
    after = np.load(resumed / how / "resumed.npz")
    assert after["steps"] < after["total"]
    whole = solve(*system(20, 20, 1.5), ConjugateGradient())
    allowed = tolerance(whole.condition or np.inf, len(whole.s), np.float32)
    assert relative(after["s"] - whole.s, whole.s) <= allowed


def test_refused_input_ends_the_job(tmp_path: Path) -> None:
    done = run("hang", tmp_path)
    assert done.returncode != 0
    assert "W of shape (4, 4) must be finite, but 1 of its entries" in done.stderr


def test_one_rank_has_the_bits_of_threads() -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed (extra `mpi`)")
    given = system(9, 7, 1.5)
    alone = solve(*given, ConjugateGradient())
    engine = Mpi(threads=2)
    assert (engine.holders, engine.first, engine.count) == (1, True, 2)
    assert np.array_equal(solve(*given, ConjugateGradient(), engine=engine).s, alone.s)
    assert repr(engine) == "Mpi(rank 0 of 1, 2 threads)"


def test_without_mpi4py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(InputError, match=r"needs mpi4py.*pip install 'reconstruct\[mpi\]'"):
        Mpi()


def test_a_process_knows_whether_mpiexec_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not launched()
    monkeypatch.setenv("PMI_SIZE", "1")
    assert not launched()
    monkeypatch.setenv("PMI_SIZE", "2")
    assert launched()


def test_rank_0_conducts_and_the_others_join(answers: Path) -> None:
    found = np.load(answers / "conducted.npz")
    whole = solve(*system(20, 20, 1.5), ConjugateGradient())
    allowed = tolerance(whole.condition or np.inf, len(whole.s), np.float32)
    assert relative(found["cg"] - whole.s, whole.s) <= allowed
    assert not np.array_equal(found["cg"], whole.s)  # the sums were added up by ranks
    assert np.array_equal(found["drawn"], found["cg"])
    M1, M2, W = system(20, 20, 1.5, "uneven")
    left = M2.astype(float) @ (found["uneven"][:, None] * M1) - W
    assert np.linalg.norm(left) <= 1e-13 * np.linalg.norm(W)
    direct = solve(*system(5, 4, 1.0), Direct())
    assert np.array_equal(found["direct"], direct.s)
    small = solve(*system(9, 7, 1.5), ConjugateGradient())
    back = np.ldexp(found["scaled"], 60)
    assert relative(back - small.s, small.s) <= tolerance(small.condition or 1.0, 95, np.float32)


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


def test_a_run_on_two_ranks(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("command", target, *words("two"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("CERTIFIED")
    assert done.stdout.count("CERTIFIED") == 1
    monkeypatch.chdir(target)
    assert main(words("one")) == 0
    one, two = (np.load(target / name / "norms.npz") for name in ("one", "two"))
    for name in one.files:
        assert relative(two[name] - one[name], one[name]) <= 1e-4, name


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
    assert usage.stderr.count("usage:") == 1


def test_a_job_without_mpi4py_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    assert main(["inspect", "missing.onnx"]) == 2
    assert "the MPI engine needs mpi4py" in capsys.readouterr().err
