"""Labelled images as they are kept: folders of classes, idx files, CIFAR-10's batches; refusals."""

from __future__ import annotations

import gzip
import json
import pickle
import struct

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.errors import InputError
from reconstruct.formats import load_domain
from reconstruct.formats.domain import load_labels
from reconstruct.formats.labelled import Images, read_labelled
from reconstruct.reports.page import command

RNG = np.random.default_rng(3)
PIXELS = 3072


def image_folder(folder, counts=(3, 2), mode="RGB", size=(5, 4)):
    """FOLDER/{train,test}/{cat,dog}/i.png with known pixels; returns those of each part."""
    Image = pytest.importorskip("PIL.Image", reason="pictures are read by Pillow")
    shape = (*size, 3) if mode == "RGB" else size
    parts = {}
    for part in ("train", "test"):
        known = []
        for label, (name, count) in enumerate(zip(("cat", "dog"), counts, strict=True)):
            (folder / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = RNG.integers(0, 256, shape).astype(np.uint8)
                Image.fromarray(pixels, mode).save(folder / part / name / f"{i}.png")
                known.append((pixels, label))
        parts[part] = known
    return parts


def idx_folder(folder, count=7, packed=False):
    folder.mkdir()
    known = {}
    for start in ("train", "t10k"):
        x = RNG.integers(0, 256, (count, 4, 3)).astype(np.uint8)
        y = (np.arange(count) % 4).astype(np.uint8)
        for what, values in (("images", x), ("labels", y)):
            head = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
            content = head + values.tobytes()
            name = f"{start}-{what}-idx{values.ndim}-ubyte" + (".gz" if packed else "")
            (folder / name).write_bytes(gzip.compress(content) if packed else content)
        known[start] = (x, y)
    return known


def batch_folder(folder, counts=(4, 3, 5)):
    folder.mkdir()
    rows = []
    for name, n in zip(("data_batch_1", "data_batch_2", "test_batch"), counts, strict=True):
        images = RNG.integers(0, 256, (n, PIXELS)).astype(np.uint8)
        labels = RNG.integers(0, 10, n)
        content = np.column_stack([labels.astype(np.uint8), images]).tobytes()
        (folder / f"{name}.bin").write_bytes(content)
        rows.append((images.reshape(-1, 3, 32, 32), labels))
    return rows


def test_a_folder_of_classes(tmp_path):
    known = image_folder(tmp_path)
    for part in ("train", "test"):
        found = read_labelled(Images(tmp_path, part))
        expected = np.stack([pixels.transpose(2, 0, 1) for pixels, _ in known[part]])
        assert np.array_equal(found.x, (expected / np.float32(255)).astype(np.float32))
        assert found.y.tolist() == [label for _, label in known[part]] and found.classes == 2


def test_grey_pictures_have_one_channel(tmp_path):
    known = image_folder(tmp_path, mode="L")
    found = read_labelled(Images(tmp_path))
    assert found.x.shape == (5, 1, 5, 4)
    assert np.array_equal(found.x[0, 0], (known["test"][0][0] / np.float32(255)).astype(np.float32))


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(tmp_path, packed):
    known = idx_folder(tmp_path / "mnist", packed=packed)
    for part, start in (("train", "train"), ("test", "t10k")):
        found = read_labelled(Images(tmp_path / "mnist", part))
        x, y = known[start]
        assert np.array_equal(np.rint(found.x[:, 0] * 255), x) and np.array_equal(found.y, y)
        assert found.classes == 4


def test_binary_batches(tmp_path):
    rows = batch_folder(tmp_path / "cifar")
    train = read_labelled(Images(tmp_path / "cifar", "train"))
    expected = np.concatenate([rows[0][0], rows[1][0]])
    assert np.array_equal(np.rint(train.x * 255), expected) and train.classes == 10
    assert np.array_equal(read_labelled(Images(tmp_path / "cifar")).y, rows[2][1])


def test_a_count_is_a_fixed_part_of_what_is_there(tmp_path):
    batch_folder(tmp_path / "cifar", (4, 3, 40))
    all_of_them = read_labelled(Images(tmp_path / "cifar"))
    some = read_labelled(Images(tmp_path / "cifar", count=6))
    again = read_labelled(Images(tmp_path / "cifar", count=6))
    assert len(some.y) == 6 and np.array_equal(some.x, again.x)
    rows = {
        image.tobytes(): label for image, label in zip(all_of_them.x, all_of_them.y, strict=True)
    }
    assert [rows[image.tobytes()] for image in some.x] == some.y.tolist()


def test_a_domain_is_made_of_normalised_images_and_has_labels(tmp_path):
    known = image_folder(tmp_path)["test"]
    images = Images(tmp_path, mean=(0.5, 0.25, 0.0), std=(2.0, 1.0, 0.5))
    domain = load_domain(images, 60, shape=(3, 5, 4))
    pixel = known[1][0][2, 3, 1] / 255  # height, width, channel
    assert np.isclose(domain.x.reshape(5, 3, 5, 4)[1, 1, 2, 3], pixel - 0.25, atol=1e-7)
    assert load_labels(images, 2).tolist() == [0, 0, 0, 1, 1]


def test_refusals(tmp_path):
    refused = lambda match: pytest.raises(InputError, match=match)  # noqa: E731
    (tmp_path / "empty").mkdir()
    with refused("holds nothing"):
        read_labelled(Images(tmp_path / "empty"))
    (tmp_path / "pickles").mkdir()
    (tmp_path / "pickles" / "test_batch").write_bytes(pickle.dumps({}))
    with refused("never opened; fetch the binary version"):
        read_labelled(Images(tmp_path / "pickles"))
    batch_folder(tmp_path / "cifar")
    with refused("3 channels, so that one mean"):
        read_labelled(Images(tmp_path / "cifar", mean=(0.1, 0.2)))
    path = tmp_path / "cifar" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with refused(f"3073 bytes are needed, but {5 * 3073 - 1} bytes"):
        read_labelled(Images(tmp_path / "cifar"))
    path.write_bytes(bytes([10]) + bytes(PIXELS))
    with refused("labels 0 … 9"):
        read_labelled(Images(tmp_path / "cifar"))
    idx_folder(tmp_path / "mnist")
    path = tmp_path / "mnist" / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with refused("header says 7 × 4 × 3 values, but 83 are there"):
        read_labelled(Images(tmp_path / "mnist"))
    path.write_bytes(bytes([0, 0, 8, 3]) + bytes([255]) * 12)  # 2^96 values
    with refused("but 0 are there"):
        read_labelled(Images(tmp_path / "mnist"))
    for bad in ({"split": "validation"}, {"count": 0}, {"std": (0.0,)}, {"mean": (np.nan,)}):
        with pytest.raises(InputError):
            Images("folder", **bad)
    with refused("there is no such folder"):
        load_domain(Images(tmp_path / "none"), 4)


def test_pictures_that_cannot_be_used(tmp_path):
    image_folder(tmp_path)
    broken = tmp_path / "test" / "cat" / "1.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"1\.png: this image cannot be read"):
        read_labelled(Images(tmp_path))
    image_folder(tmp_path / "b", size=(6, 6))
    broken.write_bytes((tmp_path / "b" / "test" / "cat" / "0.png").read_bytes())
    with pytest.raises(InputError, match="all images must have one shape"):
        read_labelled(Images(tmp_path))


IMAGES = ["--count", "5", "--normalise", "0.5:0.25"]


def test_a_run_on_a_folder_of_images(tmp_path, capsys):
    image_folder(tmp_path / "data", counts=(4, 4), mode="L", size=(2, 2))
    rng = np.random.default_rng(0)
    target = rc.Network.mlp([rng.normal(size=(3, 4)), rng.normal(size=(2, 3))])
    rc.save(target, tmp_path / "g.npz")
    words = ["run", str(tmp_path / "g.npz"), "-o", str(tmp_path / "out"), "--quiet"]
    chosen = ["--domain", str(tmp_path / "data"), *IMAGES]
    assert main([*words, *chosen]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["domain"]["kind"] == "points"
    assert report["options"]["normalise"] == "0.5:0.25"
    x = load_domain(Images(tmp_path / "data", count=5, mean=(0.5,), std=(0.25,)), 4).x
    assert np.array_equal(report["domain"]["lo"], x.min(axis=0))
    assert "--count 5 --normalise 0.5:0.25" in command(report)
    assert main([*words, "--force", "--domain", "0,1", *IMAGES]) == 2
    assert "--count belongs to a folder of labelled images" in capsys.readouterr().err
    for wrong in ("0.5", "a:b", "1:2:3"):
        asked = ["--domain", str(tmp_path / "data"), "--normalise", wrong]
        assert main([*words, "--force", *asked]) == 2
        assert "a normalisation is MEAN:STD" in capsys.readouterr().err
