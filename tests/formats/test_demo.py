"""The shipped digits network is what the training script makes, and recognises digits."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.demo import digits
from reconstruct.formats import sha256_file
from reconstruct.networks import Relu

pytest.importorskip("onnx")


def test_the_shipped_network():
    demo = digits()
    assert demo.target.maps == ((32, 64), (16, 32), (10, 16))
    assert [type(n.op) for n in demo.target.activation_nodes()] == [Relu, Relu]
    assert demo.target.size_out == 10 and demo.target.output == "layer3"
    assert all(n.op.weight.dtype == np.float32 for n in demo.target.mixing_nodes())
    assert demo.target.metadata["sha256"] == sha256_file(demo.path)
    assert demo.path.stat().st_size < 12_000


def test_it_recognises_97_percent_of_images_it_has_not_seen():
    demo = digits()
    assert demo.images.shape == (449, 64) and demo.labels.shape == (449,)
    assert demo.domain.contains(demo.images.min(axis=0))
    assert demo.domain.contains(demo.images.max(axis=0))
    assert demo.images.max() == 1.0 and set(demo.labels) == set(range(10))
    assert demo.accuracy(demo.target) >= 0.97


def test_the_script_makes_the_shipped_files(tmp_path, capsys):
    """Trained anew (2 s): same images; weights equal up to the rounding of another BLAS."""
    pytest.importorskip("sklearn")
    from reconstruct.demo import train_digits
    from reconstruct.formats import load

    train_digits.main([str(tmp_path)])
    assert "test: 97." in capsys.readouterr().out
    demo = digits()
    again = load(tmp_path / "digits.onnx")
    assert again.maps == demo.target.maps
    assert abs(demo.accuracy(again) - demo.accuracy(demo.target)) <= 0.02
    with np.load(tmp_path / "digits_test.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["images"] / 16, demo.images)
        np.testing.assert_array_equal(archive["labels"], demo.labels)
