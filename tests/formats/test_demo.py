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
    from benchmarks import train_digits
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


def test_the_shipped_cnn_has_norms_a_skip_and_pooling_and_recognises_97_percent():
    demo = digits(cnn=True)
    kinds = [n.op.kind for n in demo.target.nodes]
    assert kinds.count("Convolution") == kinds.count("Norm") == 3
    assert kinds.count("Add") == kinds.count("MaxPool") == 1
    assert demo.target.metadata["input_shape"] == [1, 1, 8, 8]
    assert demo.accuracy(demo.target) >= 0.97


def test_a_random_frozen_cnn_becomes_the_shipped_one_on_all_images():
    import reconstruct as rc

    demo = digits(cnn=True)
    frozen = rc.draw(demo.target, seed=0)
    result = rc.reconstruct(demo.target, frozen, domain=demo.domain, bounds=rc.Interval())
    certificate = rc.certify(
        demo.target, result.network, domain=demo.domain, bounds=rc.Interval(), time_limit=120
    )
    assert certificate.verdict == "certified" and certificate.bound < 1e-8
    few = demo.images[:40]
    assert np.abs(result.network(few) - demo.target(few)).max() <= certificate.float64_bound
    assert np.array_equal(result.network(few).argmax(axis=1), demo.target(few).argmax(axis=1))
