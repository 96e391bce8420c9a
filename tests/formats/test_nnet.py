"""The .nnet format: as its weights stand, with its header folded in, and broken."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.errors import InputError
from reconstruct.formats import load

TEXT = """// a comment
// another
2,2,1,3,
2,3,1,
0,
-10.0,-20.0,
10.0,20.0
1.0,2.0,5.0,
20.0,40.0,4.0,
1.0,2.0,
0.5,-1.0,
-3.0,1e-1,
0.25,
0.5,
-0.125,
1.0,-2.0,3.0,
0.75,
"""
WEIGHT, BIAS = np.array([[1, 2], [0.5, -1], [-3, 0.1]]), np.array([0.25, 0.5, -0.125])


def expected(x):
    return np.array([1.0, -2.0, 3.0]) @ np.maximum(WEIGHT @ x + BIAS, 0) + 0.75


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.nnet").write_text(TEXT)
    return tmp_path / "a.nnet"


def test_as_the_weights_stand(path):
    network = load(path)
    x = np.array([0.3, -0.2])
    np.testing.assert_allclose(network(x), [expected(x)], rtol=1e-15)
    header = network.metadata["nnet_header"]
    assert header["minimums"] == [-10, -20] and header["maximums"] == [10, 20]
    assert header["means"] == [1, 2, 5] and header["ranges"] == [20, 40, 4]
    assert network.metadata["nnet_header_folded"] is False


def test_header_folded_in(path):
    network = load(path, nnet_header=True)
    raw = np.array([7.0, -6.0])
    normal = (raw - [1, 2]) / [20, 40]
    np.testing.assert_allclose(network(raw), [4 * expected(normal) + 5], rtol=1e-14)
    assert network.metadata["nnet_header_folded"] is True


def test_only_nnet_files_have_a_header(tmp_path):
    np.savez(tmp_path / "a.npz", W1=np.eye(2))
    with pytest.raises(InputError, match=r"only \.nnet files have a header"):
        load(tmp_path / "a.npz", nnet_header=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "0.5,-1.0,\n",
            "0.5,\n",
            "line 11 .*row 2 of 3 of layer 1's weights, 2 numbers, but has 1",
        ),
        ("0.5,-1.0,\n", "0.5,minus,\n", "line 11 .*but is '0.5,minus,'"),
        ("0.75,\n", "", "ends where bias 1 of 1 of layer 2 should be; was it cut short"),
        ("0.75,\n", "0.75,\n9,\n", "line 18 .*after the last bias"),
        ("2,2,1,3,", "2,2,1,", "line 3 .*4 numbers, but has 3"),
        ("2,3,1,", "2,3,1,1,", "line 4 .*layer sizes, 3 numbers, but has 4"),
        ("2,2,1,3,", "2,5,1,3,", "announces 5 inputs and 1 outputs.*2, 3, 1"),
        ("2,2,1,3,", "2.5,2,1,3,", "positive whole numbers"),
        ("1.0,2.0,5.0,", "1.0,2.0,", "line 8 .*means.*3 numbers, but has 2"),
        ("0.25,\n", "nan,\n", "line 13 .*NaN or infinite"),
    ],
)
def test_broken_files(old, new, message, path):
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_range_of_zero_cannot_be_folded(path):
    path.write_text(TEXT.replace("20.0,40.0,4.0", "20.0,0.0,4.0"))
    load(path)
    with pytest.raises(InputError, match="range of 0"):
        load(path, nnet_header=True)


def test_binary_data(path):
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="binary data"):
        load(path)
