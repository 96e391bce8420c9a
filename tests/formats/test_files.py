"""Bad files: one clear sentence that names the file, whatever is wrong with it."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconstruct.errors import InputError
from reconstruct.formats import load, save, sha256_file, write_atomically
from reconstruct.formats.files import written_whole
from reconstruct.networks import Network

pytest.importorskip("onnx")
RELAXED = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SUFFIXES = [".onnx", ".npz", ".nnet", ".onnx.gz", ".weights"]
NETWORK = Network.mlp([np.arange(6.0).reshape(3, 2), np.ones((2, 3))])


def refused(path, message="."):
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_cannot_be_read(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    refused(path, "there is no such file")
    path.mkdir()
    refused(path, "this is a directory")
    path.rmdir()
    path.write_bytes(b"")
    refused(path, "the file is empty")
    path.write_bytes(np.random.default_rng(0).bytes(1000))
    refused(path)
    path.write_text("The quick brown fox jumps over the lazy dog.\n" * 20)
    refused(path)
    path.write_bytes(gzip.compress(b""))
    refused(path, "holds nothing")
    path.write_bytes(gzip.compress(b"hello" * 100)[:-9])
    refused(path, "damaged")


def test_a_file_without_permission(tmp_path, monkeypatch):
    def forbid(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbid)
    refused(tmp_path / "a.onnx", "cannot be read .Permission denied")


def test_a_path_that_cannot_exist():
    refused("a\0b.onnx", "cannot be read")
    with pytest.raises(InputError, match="use a shorter one"):
        load("a" * 5000 + ".onnx")


def test_an_unknown_format_is_told_what_is_known(tmp_path):
    (tmp_path / "a.weights").write_text("some text")
    refused(tmp_path / "a.weights", r"ends in \.onnx, \.npz or \.nnet")


@pytest.mark.parametrize("suffix", [".onnx", ".npz"])
@pytest.mark.parametrize("packed", [False, True])
def test_content_counts_when_the_suffix_says_nothing(suffix, packed, tmp_path):
    save(NETWORK, tmp_path / f"a{suffix}")
    stored = (tmp_path / f"a{suffix}").read_bytes()
    path = tmp_path / "unknown"
    path.write_bytes(gzip.compress(stored) if packed else stored)
    network = load(path)
    assert network.maps == NETWORK.maps
    assert network.metadata["sha256"] == sha256_file(path)


@pytest.mark.parametrize("suffix", [".onnx", ".npz"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_truncation_is_an_input_error(suffix, packed, tmp_path):
    save(NETWORK, tmp_path / f"a{suffix}")
    stored = (tmp_path / f"a{suffix}").read_bytes()
    stored = gzip.compress(stored) if packed else stored
    path = tmp_path / f"cut{suffix}"
    for length in {*range(0, len(stored), 13), *range(len(stored) - 30, len(stored))}:
        path.write_bytes(stored[:length])
        refused(path)


def test_archives_whose_directory_is_damaged(tmp_path):
    save(NETWORK, tmp_path / "a.npz")
    stored = (tmp_path / "a.npz").read_bytes()
    path = tmp_path / "b.npz"
    path.write_bytes(b"PK\x03\x05" + stored[4:])
    refused(path, "not an .npz archive")
    path.write_bytes(stored.replace(b"layer1.weight.npy", b"layer1\n\x99\x1b[31m.npy"))
    refused(path)


@RELAXED
@given(content=st.binary(max_size=300), suffix=st.sampled_from(SUFFIXES))
def test_random_bytes(content, suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    refused(path)


@RELAXED
@given(
    suffix=st.sampled_from([".onnx", ".npz"]),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_bytes(suffix, changes, tmp_path):
    save(NETWORK, tmp_path / f"a{suffix}")
    stored = bytearray((tmp_path / f"a{suffix}").read_bytes())
    for place, byte in changes:
        stored[int(place * len(stored))] = byte
    path = tmp_path / f"b{suffix}"
    path.write_bytes(stored)
    try:
        load(path)
    except InputError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("suffix", [".onnx", ".npz"])
def test_saving_where_one_cannot(suffix, tmp_path):
    with pytest.raises(InputError, match="cannot write into"):
        save(NETWORK, tmp_path / "missing" / f"a{suffix}")
    (tmp_path / f"d{suffix}").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        save(NETWORK, tmp_path / f"d{suffix}")
    assert [p.name for p in tmp_path.iterdir()] == [f"d{suffix}"]


def test_saving_in_a_format_that_is_not_written(tmp_path):
    with pytest.raises(InputError, match=r"written as \.onnx or \.npz.*'\.nnet'"):
        save(NETWORK, tmp_path / "a.nnet")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    write_atomically(path, b"old")
    with pytest.raises(RuntimeError), written_whole(path) as file:
        file.write(b"half of the n")
        raise RuntimeError("the power went out")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_new_files_have_ordinary_permissions(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
