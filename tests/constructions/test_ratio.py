"""The width for a wanted float32 error: monotone, near what is measured, refused beyond reach."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.bounds import Adaptive, Crown, reach
from reconstruct.constructions import Wide, draw
from reconstruct.constructions.frozen import lay_out
from reconstruct.constructions.scaling import LIMITS, float32_error, ratio_for
from reconstruct.errors import InputError
from reconstruct.networks import Box
from reconstruct.pipeline import reconstruct, width_for
from tests.certificates.building import random_target

RATIOS = LIMITS.ratios
BOX = Box(-1.0, 1.0).of_size(4)


def laid_out():
    return lay_out(target(), Wide())


def target():
    return random_target(np.random.default_rng(2), (4, 8, 8, 3))


def test_more_width_is_less_error() -> None:
    expected = float32_error(laid_out(), reach(target(), BOX, Crown()))
    errors = [expected(ratio) for ratio in RATIOS]
    assert errors == sorted(errors, reverse=True) and errors[-1] > 0


def test_the_prediction_is_near_what_is_measured() -> None:
    network, method = target(), Adaptive(boxes=200)
    assert width_for(network, BOX, method, 1e-3) == RATIOS[0]
    known = reach(network, BOX, method)
    frozen = draw(network, Wide(1.5), seed=0)
    found = reconstruct(network, frozen, domain=BOX, bounds=method).network
    x = BOX.sample(10_000, np.random.default_rng(0)).astype(np.float32)
    error = float(np.max(np.abs(found(x, np.float32).astype(float) - network(x.astype(float)))))
    assert error / 10 < float32_error(lay_out(network, Wide()), known)(1.5) < 10 * error


def test_what_no_width_reaches_is_refused_with_what_is() -> None:
    known = reach(target(), BOX, Crown())
    least = float32_error(laid_out(), known)(RATIOS[-1])
    assert ratio_for(laid_out(), known, least) == RATIOS[-1]
    with pytest.raises(InputError, match=rf"{least:.2g} is predicted"):
        ratio_for(laid_out(), known, least / 2)


def test_the_command_picks_the_ratio(tmp_path, capsys) -> None:
    from reconstruct.cli import main

    rc.save(target(), tmp_path / "t.npz")
    words = ["run", str(tmp_path / "t.npz"), "-o", str(tmp_path / "out"), "--domain", "-1,1"]
    assert main([*words, "--ratio", "auto"]) == 2
    assert "--ratio auto and --float32-error E go together" in capsys.readouterr().err
    assert main([*words, "--float32-error", "1e-3"]) == 2
    assert "give both or neither" in capsys.readouterr().err
    assert main([*words, "--ratio", "auto", "--float32-error", "1e-4", "--bounds", "crown"]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["frozen"]["ratio"] in RATIOS
    assert report["measurements"]["predicted"]["float32"] < 1e-3
