"""What a notebook shows of an object, and of long work."""

from __future__ import annotations

import numpy as np

import reconstruct as rc
from reconstruct.notebook import table
from reconstruct.progress import Step


def test_every_object_of_a_reconstruction_has_a_table():
    rng = np.random.default_rng(0)
    target = rc.Network.mlp([rng.normal(size=(3, 2)), rng.normal(size=(2, 3))])
    frozen = rc.draw(target, construction=rc.Wide(ratio=1.5), seed=0)
    result = rc.reconstruct(target, frozen, domain=rc.Box(-1, 1))
    certificate = rc.certify(target, result.network, domain=result.domain)
    for shown, words in (
        (target, ("layer1", "Relu", "17 parameters")),
        (frozen, ("wide", "seed", "layer1.norm1")),
        (result, ("3×2", "2×3", "direct")),
        (certificate, ("certified (rigorous)", "float32", f"{certificate.bound:.3g}")),
    ):
        text = shown._repr_html_()
        assert all(word in text for word in words) and text.count("<table>") >= 1


def test_names_are_escaped_and_long_tables_are_cut():
    text = table("<b>", ("x",), [("<script>",)] * 50)
    assert "<script>" not in text and text.count("&lt;script&gt;") == 40 and "10 more" in text


def test_progress_keeps_one_line(capsys):
    hear = rc.ProgressLine(seconds=0.0)
    hear(Step("solving", 1, 4, 1e-3))
    hear(Step("solving", 4, 4))
    lines = capsys.readouterr().out.split("\r")
    assert [line.strip() for line in lines] == [
        "",
        "solving: 25 %, step 1, residual 1.0e-03",
        "solving: 100 %, 0.0 s left",
    ]
