"""Data as it is read: digits, .npz, a CIFAR-10 folder made here; refusals."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.demo import digits as shipped
from reconstruct.errors import InputError
from reconstruct.training import digits, load_data, resnet
from reconstruct.training.data import Augmentation

PIXELS = 3072


def test_the_test_digits_are_those_that_the_shipped_network_never_saw():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    data = digits()
    assert data.shape == (1, 8, 8) and (len(data.train_y), len(data.test_y)) == (1348, 449)
    assert np.array_equal(data.test_x.reshape(-1, 64), shipped().images.astype(np.float32))
    assert np.array_equal(data.test_y, shipped().labels)


def batches(folder, counts=(4, 3, 5)):
    """data_batch_1, data_batch_2 and test_batch with known images; returns them joined."""
    rng = np.random.default_rng(0)
    rows = [
        (rng.integers(0, 256, (n, PIXELS)).astype(np.uint8), rng.integers(0, 10, n)) for n in counts
    ]
    folder.mkdir()
    names = ["data_batch_1", "data_batch_2", "test_batch"]
    for name, (images, labels) in zip(names, rows, strict=True):
        content = np.column_stack([labels.astype(np.uint8), images]).tobytes()
        (folder / f"{name}.bin").write_bytes(content)
    return rows


def test_cifar_folders(tmp_path):
    rows = batches(tmp_path / "cifar")
    data = load_data(tmp_path / "cifar")
    assert data.shape == (3, 32, 32) and data.classes == 10
    assert np.array_equal(data.train_y, np.concatenate([rows[0][1], rows[1][1]]))
    assert np.array_equal(data.test_y, rows[2][1])
    assert np.allclose(data.train_x.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(data.train_x.std(axis=(0, 2, 3)), 1, atol=1e-5)
    train = np.concatenate([rows[0][0], rows[1][0]]).reshape(-1, 3, 32, 32) / 255
    mean, deviation = train.mean(axis=(0, 2, 3)), train.std(axis=(0, 2, 3))
    pixel = rows[2][0].reshape(-1, 3, 32, 32)[1, 2, 7, 9] / 255
    assert np.isclose(data.test_x[1, 2, 7, 9], (pixel - mean[2]) / deviation[2], atol=1e-5)
    resnet(8, 2, data)


def test_npz_with_and_without_a_test_part(tmp_path):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((40, 5, 5)), np.arange(40) % 4
    np.savez(tmp_path / "a.npz", x=x, y=y)
    data = load_data(tmp_path / "a.npz")
    assert data.shape == (1, 5, 5) and (len(data.train_y), len(data.test_y)) == (30, 10)
    joined = np.concatenate([data.train_x, data.test_x])[:, 0]
    order = [int(np.argmin(np.abs(x - image).sum(axis=(1, 2)))) for image in joined]
    assert sorted(order) == list(range(40))
    assert np.array_equal(np.concatenate([data.train_y, data.test_y]), y[order])
    np.savez(tmp_path / "b.npz", x=x, y=y, x_test=x[:9], y_test=y[:9])
    assert len(load_data(tmp_path / "b.npz").train_y) == 40


X, Y = np.zeros((10, 3)), np.arange(10) % 2


@pytest.mark.parametrize(
    ("found", "match"),
    [
        ({"x": X}, r"'y' is needed, but there are \['x'\]"),
        ({"x": X, "y": Y[:9]}, r"each of the 10 examples .* shape \(9,\)"),
        ({"x": X, "y": Y - 1}, "one whole label ≥ 0"),
        ({"x": X, "y": Y / 2}, "is float64 of shape"),
        ({"x": X * np.nan, "y": Y}, "perhaps with NaN"),
        ({"x": X, "y": Y * 0}, "every label is 0"),
        ({"x": X[:4], "y": Y[:4]}, r"4 examples \(at least 8\)"),
        ({"x": X, "y": Y, "x_test": X}, "only one of them"),
        ({"x": X, "y": Y, "x_test": X[:, :2], "y_test": Y}, r"shapes \(3,\) and \(2,\)"),
    ],
)
def test_npz_that_cannot_be_used(tmp_path, found, match):
    np.savez(tmp_path / "a.npz", **found)
    with pytest.raises(InputError, match=match):
        load_data(tmp_path / "a.npz")


def test_what_is_no_data_at_all(tmp_path):
    with pytest.raises(InputError, match="'mnist' is none of them"):
        load_data("mnist")
    with pytest.raises(InputError, match="no such file"):
        load_data(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("x")
    with pytest.raises(InputError, match=r"not an \.npz archive"):
        load_data(tmp_path / "text.npz")


def test_a_resnet_on_vectors_is_refused_with_their_shape(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((10, 7)), y=np.arange(10) % 2)
    with pytest.raises(InputError, match=r"a ResNet needs images .* shape \(7,\)"):
        resnet(8, 4, load_data(tmp_path / "a.npz"))


def test_moved_images_are_windows_of_the_padded_ones_and_mirrored_ones_are_mirrored():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((20, 2, 4, 5))
    moved = Augmentation(shift=1)(images, np.random.default_rng(1))
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = set()
    for i in range(20):
        windows = {
            (a, b)
            for a in range(3)
            for b in range(3)
            if np.array_equal(moved[i], padded[i, :, a : a + 4, b : b + 5])
        }
        assert len(windows) == 1
        seen |= windows
    assert len(seen) > 4
    mirrored = Augmentation(flip=True)(images, np.random.default_rng(1))
    same = [np.array_equal(mirrored[i], images[i]) for i in range(20)]
    assert 0 < sum(same) < 20
    assert all(s or np.array_equal(mirrored[i], images[i, ..., ::-1]) for i, s in enumerate(same))
