"""What the page shows besides proofs: errors by layer, maps, pictures, answers and the guard."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.reports.measurements import (
    ShownInputs,
    affordable,
    data_url,
    image_shape,
    inputs_part,
    layer_errors,
    multiplications,
    png,
)
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.sections import inputs_section, layer_figure
from tests.constructions.targets import mlp
from tests.networks.test_images import small_network


def decoded(content: bytes) -> Any:
    """The picture as another program reads it, height × width × channels."""
    from matplotlib.image import imread

    return np.atleast_3d(np.round(255 * imread(io.BytesIO(content))).astype(np.uint8))


@pytest.fixture(scope="module")
def result() -> Any:
    target = mlp([3, 6, 5, 2], 0)
    return rc.reconstruct(target, rc.draw(target), domain=(-1, 1))


@pytest.fixture(scope="module")
def images() -> Any:
    target = small_network()
    x = np.random.default_rng(0).uniform(0, 0.5, (6, 72))
    return rc.reconstruct(target, rc.draw(target), domain=rc.Points(x)), x


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_read_back_as_it_was(channels: int) -> None:
    levels = np.random.default_rng(0).integers(0, 256, (channels, 5, 7)).astype(np.uint8)
    np.testing.assert_array_equal(decoded(png(levels)), np.moveaxis(levels, 0, -1))


def test_black_is_the_least_and_white_the_largest() -> None:
    content = data_url(np.array([-1.0, 0.0, 1.0, 3.0]), (1, 2, 2), -1.0, 1.0)
    read = decoded(base64.b64decode(content.partition(",")[2]))
    assert read.ravel().tolist() == [0, 128, 255, 255]


@pytest.mark.parametrize(
    ("shape", "size", "wanted"),
    [
        ((1, 64), 64, None),  # a line is no picture
        ([1, 3, 4, 4], 48, (3, 4, 4)),
        ([1, 8, 8], 64, (1, 8, 8)),
        ([8, 8], 64, (1, 8, 8)),
        ([2, 4, 4], 32, None),
        ([64], 64, None),
        ([1, 8, 8], 65, None),
        ([1, 512, 512], 2**18, None),
        (None, 4, None),
    ],
    ids=str,
)
def test_which_inputs_are_pictures(shape: Any, size: int, wanted: Any) -> None:
    assert image_shape(shape, size) == wanted


def test_values_of_some_nodes_are_those_of_all(result: Any) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    network, names = result.network, ["layer2.norm2", "act2", "layer3.norm2"]
    everything = network.values(x)
    for name, values in network.at(x, names).items():
        np.testing.assert_allclose(values, everything[name], rtol=0, atol=1e-12)


def test_errors_behind_each_layer_are_those_of_both_networks(result: Any) -> None:
    certificate = rc.certify(result.target, result.network, domain=result.domain)
    rows = layer_errors(result, certificate)
    assert len(rows) == len(certificate.segments)
    before = [s.error_out for s in certificate.segments[:-1]]
    assert [row["certified"] for row in rows] == [*before, certificate.bound]
    assert certificate.bound <= certificate.segments[-1].error_out
    shifts = [max(r.shift_max for r in result.layers if r.index == i) for i in (1, 2, 3)]
    assert [row["shift"] for row in rows] == shifts
    x = result.domain.sample(32, np.random.default_rng(0))[:32]
    gap = np.abs(result.network(x) - result.target(x)).max()
    assert rows[-1]["float64"] == pytest.approx(gap, rel=0.5)
    assert all(r["float64"] < r["target_float32"] < r["float32"] < 1e-3 for r in rows)
    assert layer_figure(rows) is not None and layer_figure(rows[:1]) is None


def test_a_large_network_gets_fewer_inputs(result: Any) -> None:
    work = multiplications(result.target) + multiplications(result.network)
    assert affordable(result.target, result.network, 100, 7.5 * work) == 7
    assert affordable(result.target, result.network, 100, 0.5 * work) == 0


def test_answers_and_accuracies_are_those_of_the_networks(images: Any) -> None:
    result, x = images
    right = result.target(x).argmax(axis=1)
    wrong = (right + 1) % result.target.size_out
    told = inputs_part(result, ShownInputs(x, np.where(np.arange(6) < 4, right, wrong)))
    assert told is not None
    assert told["accuracy"]["target"] == told["accuracy"]["network"] == pytest.approx(4 / 6)
    assert told["accuracy"]["same"] == 1.0
    assert [row["target"] for row in told["shown"]] == right.tolist()
    assert all(row["margin"] >= 0 and row["difference"] < 1e-9 for row in told["shown"])
    assert told["shown"][0]["image"] is None  # two channels are no picture
    pictured = inputs_part(result, ShownInputs(x, None, (1, 8, 9)))
    assert pictured is not None and pictured["accuracy"] is None
    assert pictured["shown"][0]["image"].startswith("data:image/png;base64,")
    assert inputs_part(result, None) is None


def test_the_page_shows_pictures_and_the_guard_and_nothing_else(report: dict[str, Any]) -> None:
    row = {"label": 3, "target": 3, "network": 5, "difference": 1e-3, "margin": 0.5}
    shown = [{**row, "image": "data:image/png;base64,AAAA"}, {**row, "image": "javascript:x"}]
    guard = {"file": "g.onnx", "slack": 1.0, "inputs": 32, "share": 0.5, "least_margin": -1.0}
    known = {"count": 2, "of": 2, "accuracy": None, "shown": shown}
    page = inputs_section(RunFiles({**report, "inputs": known, "guard": guard}))
    assert page is not None
    assert page.text.count("<img") == 1 and "javascript" not in page.text
    assert "g: 3, f: 5" in page.text and "standing refuted" in page.text
    assert "g.onnx" in page.text and "widened by 2" in page.text
    assert inputs_section(RunFiles({**report, "inputs": None, "guard": None})) is None
