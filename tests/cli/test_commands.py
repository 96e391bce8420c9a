"""verify, inspect, demo, prove, and how the program introduces itself."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from reconstruct.cli.inspecting import dimensions
from reconstruct.cli.parser import build_parser
from reconstruct.formats import save
from reconstruct.networks import Affine, Network, Node
from reconstruct.networks.normal_form import rebuilt_nodes
from tests.constructions.targets import mlp
from tests.networks.test_images import small_network


def test_a_network_equals_itself(cli, target):
    code, stdout, _ = cli("verify", target, target, "--domain", "-1,1")
    assert code == 0 and stdout.startswith("CERTIFIED")


def test_two_networks_that_differ_are_refuted_with_a_witness(cli, target, tmp_path):
    save(mlp([3, 4, 2], 1), tmp_path / "other.onnx")
    out = tmp_path / "out"
    code, stdout, _ = cli(
        "verify", target, tmp_path / "other.onnx", "--domain", "-1,1", "-o", out, "--json"
    )
    report = json.loads(stdout)
    assert code == 1 and report["verdict"] == "refuted"
    witness = report["certificate"]["witness"]
    x = np.array(witness["point"])
    assert np.all(np.abs(x) <= 1)
    gap = np.abs(mlp([3, 4, 2], 0)(x) - mlp([3, 4, 2], 1)(x)).max()
    assert gap == pytest.approx(witness["difference"], rel=1e-9)
    assert (out / "report.html").is_file()
    assert cli("check", out)[0] == 0


def test_networks_of_different_sizes_are_refused(cli, target, tmp_path):
    save(mlp([2, 4, 2], 1), tmp_path / "other.onnx")
    code, _, stderr = cli("verify", target, tmp_path / "other.onnx", "--domain", "-1,1")
    assert code == 2 and "inputs" in stderr and stderr.count("\n") == 1


def test_inspect_shows_each_construction(cli, target):
    code, stdout, _ = cli("inspect", target)
    assert code == 0
    for word in ("wide", "factored", "deep", "tunable parameters needed"):
        assert word in stdout
    assert all(len(line) <= 80 for line in stdout.splitlines())
    code, stdout, _ = cli("inspect", target, "--json")
    document = json.loads(stdout)
    assert document["minimum"] == mlp([3, 4, 2], 0).parameters - 4
    wide = document["constructions"][0]
    assert wide["maps"][0]["widths"] == [18, 4] and wide["weights"] == 18 * 7 + 12 * 6


def test_the_least_number_of_parameters_is_the_rank_of_the_jacobian():
    network = mlp([4, 8, 2], 3)
    weights = [(node.op.kernels[0], node.op.bias) for node in rebuilt_nodes(network)]
    flat = np.concatenate([part.ravel() for pair in weights for part in pair])

    def values(parameters):
        parts = np.split(parameters, np.cumsum([32, 8, 16]))
        (W1, b1, W2, b2) = parts[0].reshape(8, 4), parts[1], parts[2].reshape(2, 8), parts[3]
        return (np.maximum(x @ W1.T + b1, 0) @ W2.T + b2).ravel()

    x = np.random.default_rng(0).uniform(-2, 2, (400, 4))
    assert np.allclose(values(flat), network(x).ravel())
    columns = [(values(flat + h) - values(flat - h)) / 2e-6 for h in 1e-6 * np.eye(58)]
    singular = np.linalg.svd(np.column_stack(columns), compute_uv=False)
    assert network.parameters == 58 and dimensions(network) == 50
    assert singular[49] > 1e-3 * singular[0] and singular[50] < 1e-6 * singular[0]


def test_quiet_is_a_line(cli, target, tmp_path):
    """What was found, and no more: with --quiet each command prints one line."""
    for number, words in enumerate(
        (
            ("run", target, "-o", tmp_path / "run", "--domain", "-1,1", "--samples", "50"),
            ("verify", target, target, "--domain", "-1,1"),
            ("check", tmp_path / "run"),
            ("rebuild", tmp_path / "run"),
            ("pairs", "-o", tmp_path / "pairs", "--sizes", "2-2-1", "--count", "1"),
        )
    ):
        code, stdout, stderr = cli(*words, "--quiet")
        assert (code, stdout.count("\n"), stderr) == (0, 1, ""), number


def test_inspect_says_what_is_merged(cli, tmp_path):
    maps = (np.ones((2, 3)), np.eye(2))
    nodes = (Node("a", Affine(maps[0]), ("input",)), Node("b", Affine(maps[1]), ("a",)))
    save(Network(3, nodes, "b"), tmp_path / "t.npz")
    assert "2 nodes merged" in cli("inspect", tmp_path / "t.npz")[1]
    document = json.loads(cli("inspect", tmp_path / "t.npz", "--json")[1])
    assert document["merged"] == {"b": ["a", "b"]} and document["maps"] == [[2, 3]]


def test_inspect_shows_convolutions_as_they_are_rebuilt_and_passes_over_pools(cli, tmp_path):
    save(small_network(), tmp_path / "cnn.npz")
    code, stdout, _ = cli("inspect", tmp_path / "cnn.npz")
    lines = [line.split() for line in stdout.splitlines()]
    assert code == 0 and "2×6×6 inputs, 2 outputs" in stdout
    assert "3 affine maps, 2 activations, 2 pools, 1 norm" in stdout
    assert [line[2:6] for line in lines[4:7]] == [
        ["3×2×3×3", "36", "54", "3"],
        ["2×3×2×2", "4", "24", "2"],
        ["2×3", "1", "6", "2"],
    ]
    assert "tunable parameters needed" not in stdout  # pools: not counted
    document = json.loads(cli("inspect", tmp_path / "cnn.npz", "--json")[1])
    assert (
        document["minimum"] is None
        and document["maps"] == [[3, 18], [2, 12], [2, 3]]
        and document["positions"] == [36, 4, 1]
    )
    assert [m["widths"] for m in document["constructions"][0]["maps"]] == [[81, 3], [36, 2], [9, 2]]


def test_check_of_something_else(cli, tmp_path):
    code, stdout, stderr = cli("check", tmp_path / "nothing")
    assert code == 2 and "Traceback" not in stderr + stdout


def test_prove_passes_the_options_on(cli):
    code, stdout, _ = cli("prove", "--only", "vec-identity")
    assert code == 0 and "vec-identity" in stdout
    assert cli("prove", "--only", "no-such-statement")[0] == 2


def test_help_is_instant_because_nothing_heavy_is_imported():
    program = (
        "import sys; from reconstruct.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'scipy', 'onnx', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_check_loads_nothing_of_the_solver(tmp_path):
    program = (
        "import sys; from reconstruct.cli import main\n"
        f"main(['check', {str(tmp_path)!r}])\n"
        "solver = ('khatri_rao', 'constructions', 'bounds', 'certificates', 'pipeline', 'runs')\n"
        "print([name for name in solver if f'reconstruct.{name}' in sys.modules])\n"
        "assert 'proofs_check.certificates' in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_public_names_are_all_there():
    import reconstruct

    for name in reconstruct.__all__:
        assert getattr(reconstruct, name) is not None
    with pytest.raises(AttributeError):
        _ = reconstruct.no_such_name


def test_export_writes_the_question_in_both_versions(cli, target, tmp_path):
    words = ("export", target, target, "--domain", "-1,1", "--tolerance", "1e-6")
    code, stdout, _ = cli(*words, "-o", tmp_path / "out")
    assert code == 0 and len(stdout.splitlines()) == 5
    assert "declare-const X_0" in (tmp_path / "out" / "difference.vnnlib").read_text()
    assert cli(*words, "-o", tmp_path / "out")[0] == 2
    code, _, stderr = cli(*words[:-1], "0", "-o", tmp_path / "other")
    assert code == 2 and "tolerance above 0" in stderr
    assert not (tmp_path / "other").exists()


def test_export_writes_the_norms_of_a_run_for_peft(cli, target, tmp_path):
    assert cli("run", target, "-o", tmp_path / "out", "--quiet")[0] == 0
    code, stdout, _ = cli("export", "--peft", tmp_path / "out", "-o", tmp_path / "adapter")
    assert code == 0 and all((tmp_path / "adapter" / p).exists() for p in stdout.splitlines())
    code, _, stderr = cli("export", target, "-o", tmp_path / "other")
    assert code == 2 and "but CANDIDATE and --domain and --tolerance did not come" in stderr
    code, _, stderr = cli("export", target, "--peft", tmp_path / "out", "-o", tmp_path / "other")
    assert code == 2 and "--peft names a run and needs nothing else; leave" in stderr


def test_verbose_says_each_step_with_its_time(cli, target, tmp_path):
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", "-v", "--domain", "-1,1")
    lines = stderr.splitlines()
    assert code == 0 and any(line.startswith("certificate: ") for line in lines)
    assert all(line.endswith(" s") for line in lines)


def test_a_shell_gets_what_completes_commands(capsys):
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["--print-completion", "bash"])
    assert ended.value.code == 0 and "--domain" in capsys.readouterr().out
