"""`reconstruct train` from the command line: files, resume, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reconstruct.cli import main


@pytest.fixture
def rows(tmp_path, images):
    path = tmp_path / "rows.npz"
    x = np.concatenate([images.train_x, images.test_x])
    np.savez(path, x=x, y=np.concatenate([images.train_y, images.test_y]))
    return path


def train(rows, out, *words):
    model = ("--model", "resnet", "--depth", "8", "--width", "4", "--epochs", "3", "--batch", "12")
    return main(["train", "--data", str(rows), "-o", str(out), "--quiet", *model, *words])


def test_a_training_writes_its_report_page_and_norms(rows, tmp_path, capsys, figures):
    out = tmp_path / "out"
    assert train(rows, out, "--seeds", "0,2") == 0
    text = capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report["schema"] == "reconstruct.training/1"
    written = {"norms-0.npz", "norms-2.npz", "report.html", "report.json"}
    assert written <= {p.name for p in out.iterdir()}
    assert [run["seed"] for run in report["runs"]] == [0, 2]
    accuracies = [run["accuracy"] for run in report["runs"]]
    assert report["summary"]["accuracy"]["mean"] == pytest.approx(np.mean(accuracies))
    assert f"{100 * np.mean(accuracies):.1f} %" in text
    first = report["runs"][0]
    assert len(first["history"]["loss"]) == 3
    with np.load(out / "norms-0.npz") as norms:
        gamma = np.concatenate([norms[n].ravel() for n in norms if n.endswith(".weight")])
        assert report["parameters"]["tuned"] == 2 * gamma.size
        assert "stages.1.0.shortcut.1.running_var" in norms
    assert first["gamma"]["small_share"] == np.mean(np.abs(gamma) < 0.01)
    assert sum(sum(la["histogram"]["counts"]) for la in first["gamma"]["layers"]) == gamma.size
    page = (out / "report.html").read_text()
    assert "stages.1.0.shortcut.1" in page and "--tune norms" in page and "<script" not in page
    assert page.count("<svg") == 2


def test_an_mlp_with_layer_norm_is_trained_and_rebuilt(rows, tmp_path, capsys):
    """What is written is a target for live norms; norms.npz has γ and β and no statistics."""
    import reconstruct as rc

    out = tmp_path / "out"
    assert train(rows, out, "--model", "mlp", "--norm", "layer", "--depth", "2") == 0
    assert json.loads((out / "report.json").read_text())["norm"] == "layer"
    with np.load(out / "norms-0.npz") as norms:
        assert {name.rsplit(".", 1)[1] for name in norms} == {"weight", "bias", "eps"}
    target = rc.load(out / "network-0.onnx")
    domain = rc.Points(np.random.default_rng(0).uniform(size=(5, target.size_in)))
    network = rc.reconstruct(target, rc.draw(target, seed=1), domain=domain).network
    assert np.abs(network(domain.x) - target(domain.x)).max() < 1e-4


def test_an_interrupted_training_resumes_and_a_finished_one_is_not_overwritten(
    rows, tmp_path, monkeypatch, capsys
):
    from reconstruct.training import loop

    whole, out = tmp_path / "whole", tmp_path / "out"
    assert train(rows, whole) == 0
    epochs = []
    real = loop.Schedule.rate_in

    def counted(schedule, epoch):  # as every epoch begins
        epochs.append(epoch)
        if len(epochs) == 3:
            raise KeyboardInterrupt
        return real(schedule, epoch)

    monkeypatch.setattr(loop.Schedule, "rate_in", counted)
    assert train(rows, out) == 130
    assert train(rows, out) == 2
    assert "--resume" in capsys.readouterr().err
    assert train(rows, out, "--resume", "--seeds", "3") == 2
    assert "other data, options or seeds; use the same options" in capsys.readouterr().err
    assert train(rows, out, "--resume") == 0
    assert epochs == [0, 1, 2, 2]
    a, b = (np.load(folder / "norms-0.npz") for folder in (whole, out))
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert train(rows, out) == 2
    assert "--force" in capsys.readouterr().err
    assert not (out / ".partial").exists()


def test_a_training_that_diverges_leaves_nothing_to_go_on_with(rows, tmp_path, capsys):
    """The epochs before would be followed by the same one again."""
    out = tmp_path / "out"
    assert train(rows, out, "--rate", "1e38", "--tune", "all") == 2
    said = capsys.readouterr().err
    assert "the training diverged" in said and "--resume" not in said and not out.exists()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--depth", "9"), "6n + 2"),
        (("--seeds", "a"), "--seeds takes whole numbers"),
        (("--seeds", "1,1"), "seeds must be different"),
        (("--epochs", "0"), "0 epochs"),
        (("--data", "none.npz"), "no such file"),
        (("--norm", "layer"), "the norm of a resnet must be batch, but is 'layer'"),
    ],
)
def test_bad_options_are_one_line_and_leave_nothing_behind(rows, tmp_path, capsys, words, match):
    out = tmp_path / "out"
    assert train(rows, out, *words) == 2
    error = capsys.readouterr().err
    assert match in error and error.count("\n") == 1
    assert not out.exists()
