"""Domains made of data on the command line: what is claimed, the guard, and refusals."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import numpy as np
import pytest

from reconstruct.cli import main
from reconstruct.formats import load, save
from tests.networks.test_images import small_network

ort = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("error")  # none reaches the person who called


class Done(NamedTuple):
    """What a command leaves in the terminal."""

    returncode: int
    stdout: str
    stderr: str


def command(*words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    save(small_network(), folder / "cnn.onnx")
    images = np.random.default_rng(0).uniform(0, 0.5, (6, 2, 6, 6))
    np.savez(folder / "images.npz", x=images, y=np.arange(6) % 2)
    done = command(
        "run", folder / "cnn.onnx", "-o", folder / "out", "--domain", folder / "images.npz",
        "--quiet", "--samples", 50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_claim_speaks_of_the_inputs_that_were_given(finished):
    folder, done = finished
    assert "these 6 inputs" in done.stdout.splitlines()[0]
    report = json.loads((folder / "out" / "report.json").read_text())
    assert report["domain"]["kind"] == "points" and report["domain"]["inputs"] == 6
    assert report["guard"]["share"] == 1.0
    certificate = json.loads((folder / "out" / "certificate.json").read_text())
    assert certificate["domain"]["kind"] == "points"
    assert len(certificate["domain"]["lo"]) == 6
    page = (folder / "out" / "report.html").read_text()
    assert "these 6 inputs" in page


def test_the_guard_tells_where_the_answer_is_the_targets(finished):
    folder, _ = finished
    path = folder / "out" / "network_guarded.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [o.name for o in session.get_outputs()][1] == "margin"
    target = load(folder / "cnn.onnx")
    rng = np.random.default_rng(1)
    trusted = others = 0
    for scale in (0.5, 0.6, 1.0, 3.0, 20.0):
        x = rng.uniform(0, scale, (20, 2, 6, 6))
        answer, margin = session.run(None, {session.get_inputs()[0].name: x})
        gap = np.abs(answer - target(x.reshape(20, -1))).max(axis=1)
        sure = margin[:, 0] >= 0
        assert np.all(gap[sure] <= 1e-9)
        trusted, others = trusted + sure.sum(), others + (~sure).sum()
    assert trusted >= 20 and others > 10


def test_boxes_around_the_data_are_claimed_with_a_radius(finished):
    folder, _ = finished
    done = command(
        "run", folder / "cnn.onnx", "-o", folder / "boxes", "--domain", folder / "images.npz",
        "--radius", 0.01, "--slack", 0.5, "--quiet", "--samples", 50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the boxes of radius 0.01 around these 6 inputs" in " ".join(done.stdout.split())
    again = command(
        "verify", folder / "cnn.onnx", folder / "boxes" / "network.onnx",
        "--domain", folder / "images.npz", "--radius", 0.01, "--quiet", "--samples", 50,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("arrays", "words", "message"),
    [
        (
            {"x": np.zeros((2, 3, 6, 6))},
            (),
            "but x holds images of 3×6×6, 108 numbers each",
        ),
        (
            {"x": np.zeros((2, 6, 6, 2))},
            (),
            "takes images of 2×6×6 (channels first), but x holds images of 6×6×2",
        ),
        ({"x": np.zeros((2, 2, 8, 8))}, (), "but x holds images of 2×8×8, 128 numbers each"),
        ({"x": np.zeros((2, 71))}, (), "images of 2×6×6 (channels first), but the points have 71"),
        ({"x": np.zeros((0, 72))}, (), "x holds no inputs: it has shape (0, 72)"),
        (
            {"x": np.zeros((1, 72)), "lo": 0, "hi": 1},
            (),
            "has x and hi and lo; leave one",
        ),
        (
            {"x": np.random.default_rng(0).random((3, 72))},
            ("--slack", 1e300),
            "when they are widened by a slack of 1e+300; use a smaller slack",
        ),
        (
            {"x": np.full((1, 72), 1e308)},
            (),
            "reach inf; use a smaller domain",
        ),
        ({"x": np.full((1, 72), np.nan)}, (), "72 of 72 entries are NaN"),
        ({"x": np.zeros((2, 72)), "y": np.zeros(3)}, (), "each of the 2 inputs in x, but y has 3"),
        ({"lo": np.zeros(72), "hi": np.ones(72)}, ("--radius", 1), "this one is a box"),
        ({"lo": np.zeros(72), "hi": np.ones(72)}, ("--slack", 1), "but the domain is a box"),
        (
            {"x": np.zeros((1, 72))},
            ("--slack", -1),
            "the slack must be a finite number",
        ),
    ],
    ids=[
        "channels",
        "axes",
        "image size",
        "rows",
        "empty",
        "box and data",
        "large slack",
        "huge",
        "nan",
        "labels",
        "radius of a box",
        "slack of a box",
        "slack",
    ],
)
def test_bad_data_is_refused_in_one_sentence(arrays, words, message, finished, tmp_path):
    folder, _ = finished
    np.savez(tmp_path / "bad.npz", **arrays)
    done = command(
        "run", folder / "cnn.onnx", "-o", tmp_path / "out", "--domain", tmp_path / "bad.npz", *words
    )
    assert done.returncode == 2 and message in done.stderr
    assert (
        "Traceback" not in done.stderr
        and "Warning" not in done.stderr
        and not (tmp_path / "out").exists()
    )


def test_accuracies_stand_where_labels_are_given(finished):
    folder, _ = finished
    report = json.loads((folder / "out" / "report.json").read_text())
    known = report["inputs"]
    target, network = load(folder / "cnn.onnx"), load(folder / "out" / "network.onnx")
    with np.load(folder / "images.npz") as data:
        x, y = data["x"].reshape(6, -1), data["y"]
    assert known["accuracy"]["target"] == np.mean(target(x).argmax(axis=1) == y)
    assert known["accuracy"]["network"] == np.mean(network(x).argmax(axis=1) == y)
    assert len(known["shown"]) == 6 and all(row["margin"] >= 0 for row in known["shown"])


def test_values_that_are_no_labels_leave_accuracies_out(finished):
    folder, _ = finished
    with np.load(folder / "images.npz") as data:
        np.savez(folder / "values.npz", x=data["x"], y=np.full(6, 0.5))
    done = command(
        "run", folder / "cnn.onnx", "-o", folder / "values", "--domain", folder / "values.npz",
        "--samples", 20,
    )  # fmt: skip
    assert done.returncode == 0 and "accuracy" not in done.stdout
    assert "accuracies are left out: " in done.stderr and "type float64" in done.stderr


def test_labels_of_classes_that_the_network_lacks_are_named(finished):
    folder, _ = finished
    with np.load(folder / "images.npz") as data:
        np.savez(folder / "classes.npz", x=data["x"], y=np.array([0, 1, 0, 1, 99, 1]))
    done = command(
        "run", folder / "cnn.onnx", "-o", folder / "classes", "--domain", folder / "classes.npz",
        "--samples", 20,
    )  # fmt: skip
    assert done.returncode == 0 and "accuracy" not in done.stdout
    assert "from 0 to 1, because the network has 2 outputs, but y has 99" in done.stderr
