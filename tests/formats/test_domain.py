"""Domains as users write them, in text, VNN-LIB and .npz."""

from __future__ import annotations

import gzip
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load_domain

HEAD = "".join(f"(declare-const X_{i} Real)\n" for i in range(3)) + "(declare-const Y_0 Real)\n"
BOX = """
; a comment (with a parenthesis
(assert (>= X_0 -0.5)) (assert (<= X_0 0.5))
(assert (and (>= X_1 0) (and (<= X_1 1.5e0))))
(assert (<= -2 X_2))
(assert (>= 3.0 X_2))
"""


def test_a_box_that_is_spelled_out_may_be_longer_than_a_name():
    lo, hi = [-i / 7 for i in range(90)], [1 + i / 7 for i in range(90)]
    box = load_domain(":".join(",".join(map(repr, side)) for side in (lo, hi)), 90)
    assert box.lo.tolist() == lo and box.hi.tolist() == hi
    with pytest.raises(InputError, match="both end at 255; use a shorter one"):
        load_domain("a" * 300)


def test_numbers_for_all_inputs():
    box = load_domain("-0.5,0.5", 4)
    assert box.lo.tolist() == [-0.5] * 4 and box.hi.tolist() == [0.5] * 4
    assert load_domain("0,1").lo.ndim == 0


def test_lists():
    box = load_domain("-1,0,2.5:1,0,3", 3)
    assert box.lo.tolist() == [-1, 0, 2.5] and box.hi.tolist() == [1, 0, 3]
    assert load_domain("0:1,2,3").lo.tolist() == [0, 0, 0]
    assert load_domain("0:1", 2).hi.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b", "'a,b' is not made of numbers; write LO,HI"),
        ("", "not made of numbers"),
        ("0.5", "not two numbers; write LO,HI"),
        ("0,1,2", "lo1,lo2,…:hi1,hi2"),
        ("0:1:2", "not two numbers"),
        ("nan,1", "NaN"),
        ("0,inf", "must be bounded"),
        ("1,0", r"lo = 1 and hi = 0; swap them"),
        ("0,0:1,-1", "coordinate 1 has lo = 0 and hi = -1"),
        ("0,0:1,1,1", "one length, but got 2 and 3"),
        ("0,0:1,1", "3 inputs, but the domain has 2"),
        ("nothing.vnnlib", r"nothing\.vnnlib: there is no such file"),
        ("x.npy", r"x\.npy: a domain .* np\.savez\('x\.npz', x=np\.load\('x\.npy'\)\) makes data"),
        ("nothing.npz", r"nothing\.npz: there is no such file"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(InputError, match=message):
        load_domain(text, 3)


ONE = "(declare-network f (declare-input X real [2]) (declare-output Y real [1]))"
TWO = ONE + "(declare-network g (equal-to f))"


def vnnlib(tmp_path, text, packed=False):
    path = tmp_path / ("p.vnnlib.gz" if packed else "p.vnnlib")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        "",
        "(assert (>= Y_0 1.0))",
        "(assert (or (and (<= Y_0 0)) (and (>= Y_0 1))))",
        "(assert (<= Y_0 X_0))",
        "(assert (or (and (>= X_0 -7) (<= X_0 7) (>= Y_0 1))))",
    ],
)
def test_vnnlib_box(more, packed, tmp_path):
    box = load_domain(str(vnnlib(tmp_path, HEAD + BOX + more, packed)), 3)
    assert box.lo.tolist() == [-0.5, 0, -2] and box.hi.tolist() == [0.5, 1.5, 3]


def test_vnnlib_takes_the_tightest_bounds(tmp_path):
    more = "(assert (<= X_0 (- 0.25))) (assert (= X_1 1))"
    box = load_domain(str(vnnlib(tmp_path, HEAD + BOX + more)))
    assert box.hi.tolist() == [-0.25, 1, 3] and box.lo.tolist() == [-0.5, 1, -2]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (HEAD + BOX.replace("(assert (>= 3.0 X_2))", ""), InputError, "no upper bound for input 2"),
        (HEAD + BOX.replace("(assert (<= -2 X_2))", ""), InputError, "no lower bound for input 2"),
        (HEAD.replace("X_1", "Y_1") + BOX, InputError, "speaks of X_1, but declares no such"),
        (HEAD + BOX + "(assert (<= X_0 -1))", InputError, "lo = -0.5 and hi = -1"),
        (
            HEAD + BOX + "(assert (or (<= X_0 0) (>= X_0 0.1)))",
            UnsupportedError,
            "disjunction over the inputs.*single box; split",
        ),
        (HEAD + BOX + "(assert (<= X_0 X_1))", UnsupportedError, "X_1.*, but a box needs an input"),
        (
            HEAD + BOX + "(assert (<= (+ X_0 X_1) 1))",
            UnsupportedError,
            r"\(<= \(\+ X_0 X_1\) 1\), but a box",
        ),
        (HEAD + BOX + "(assert (not (<= X_0 0)))", InputError, "but one box is needed"),
        (HEAD + BOX + "(check-sat-now)", InputError, r"statement \(check-sat-now\)"),
        (HEAD + BOX + "(assert (<= X_0 1e999))", UnsupportedError, "finite number"),
        (HEAD + BOX + "(assert (<= X_00 1))", InputError, "has the term X_00"),
        (HEAD + BOX + "(assert (<= X_0 0)", InputError, "ends inside of a parenthesis"),
        (HEAD + BOX + ")", InputError, "never opened"),
        ("(" * 500 + ")" * 500, InputError, "nests deeper"),
        ("; nothing here", InputError, "declares no inputs"),
        (TWO, UnsupportedError, "speaks of two networks"),
        (ONE + HEAD + BOX, UnsupportedError, "declares networks and also inputs X_i or outputs"),
        (ONE.replace("real [2]", "real 2"), UnsupportedError, "real numbers are what"),
        ("hello world", InputError, "statement hello"),
    ],
)
def test_vnnlib_refusals(text, kind, message, tmp_path):
    path = vnnlib(tmp_path, text)
    with pytest.raises(kind, match=message) as caught:
        load_domain(str(path))
    assert str(path) in str(caught.value)


def test_a_network_of_version_2_has_a_box_too(tmp_path):
    facts = "(assert (and (<= X[0] 1) (>= X[0] -1) (= X[1] 0.1))) (assert (> Y[0] 0))"
    box = load_domain(str(vnnlib(tmp_path, "(vnnlib-version <2.0>)" + ONE + facts)), 2)
    assert box.lo.tolist() == [-1, 0.1] and box.hi.tolist() == [1, 0.1]


def test_entries_of_a_matrix_are_counted_row_by_row(tmp_path):
    text = ONE.replace("real [2]", "real [2, 3]")
    for i, entry in enumerate(["0,0", "0,1", "0, 2", "1,0", "1,1", "1,2"]):
        text += f"(assert (= X[{entry}] {i}))"
    assert load_domain(str(vnnlib(tmp_path, text)), 6).lo.tolist() == [0, 1, 2, 3, 4, 5]


def test_vnnlib_of_the_wrong_length(tmp_path):
    path = vnnlib(tmp_path, HEAD + BOX)
    with pytest.raises(InputError, match=r"p\.vnnlib: the network has 5 inputs, .* has 3"):
        load_domain(str(path), 5)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), size=st.integers(1, 12))
def test_vnnlib_gives_back_a_planted_box(data, size, tmp_path):
    number = st.floats(-1e6, 1e6)
    pairs = [sorted((data.draw(number), data.draw(number))) for _ in range(size)]
    facts = [
        fact
        for i, (lo, hi) in enumerate(pairs)
        for fact in (f"(>= X_{i} {lo!r})", f"(<= X_{i} {hi!r})", f"(<= {lo - 1!r} X_{i})")
    ]
    lines = [f"(declare-const {name} Real)" for name in ("Y_0", *(f"X_{i}" for i in range(size)))]
    for fact in data.draw(st.permutations(facts)):
        nested = data.draw(st.booleans())
        lines.append(f"(assert (and (<= Y_0 0.0)\n {fact}))" if nested else f"(assert {fact})")
    box = load_domain(str(vnnlib(tmp_path, "\n".join(lines))), size)
    assert np.column_stack([box.lo, box.hi]).tolist() == [list(pair) for pair in pairs]


def test_npz_box(tmp_path):
    np.savez(tmp_path / "box.npz", lo=[0, 1], hi=np.float32([2, 3]))
    assert load_domain(tmp_path / "box.npz", 2).hi.tolist() == [2, 3]
    image = np.arange(24.0).reshape(2, 3, 4)
    np.savez(tmp_path / "box.npz", lo=image, hi=image + 0.5)
    assert load_domain(tmp_path / "box.npz", 24).hi.tolist() == (image + 0.5).ravel().tolist()
    np.savez(tmp_path / "box.npz", lo=0, hi=1)
    assert load_domain(tmp_path / "box.npz", 3).hi.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"lo": [0.0]}, "arrays lo and hi .*, but this .npz has lo; add hi"),
        ({"a": [0.0]}, "add hi and lo"),
        ({"lo": ["a"], "hi": [1]}, "'lo' must hold real numbers"),
        ({"lo": [np.nan], "hi": [1]}, "finite"),
        ({"lo": [2], "hi": [1]}, "lo = 2 and hi = 1"),
        ({"lo": [[2, 2]], "hi": [[1], [1]]}, "shapes"),
        ({"lo": np.array([{}]), "hi": [1]}, "pickled"),
        ({"x": [[1.0], [2.0]], "y": 1}, "each of the 2 inputs in x, but y has 1"),
        ({"x": [[1.0]], "hi": 1.0}, "this .npz has x and hi; leave one of them out"),
        ({"x": [[2**60 + 1]]}, "array 'x' needs .* 2\\^53, .*, but has 1152921504606846977"),
        ({"x": 1.0, "y": [1]}, r"the array has shape \(\)"),
    ],
)
def test_npz_box_refusals(arrays, message, tmp_path):
    np.savez(tmp_path / "box.npz", **arrays)
    with pytest.raises(InputError, match=message) as caught:
        load_domain(tmp_path / "box.npz")
    assert "box.npz" in str(caught.value)


def test_a_file_of_another_kind_is_named(tmp_path):
    path = tmp_path / "box.csv"
    path.write_text("0,1")
    with pytest.raises(InputError, match=r"box\.csv: a domain is read from \.vnnlib or \.npz"):
        load_domain(path)


TOKENS = ["(", ")", "assert", "and", "or", "<=", ">=", "X_0", "X_1", "Y_0", "1", "-2.5", ";", " "]


@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=st.lists(st.sampled_from(TOKENS), max_size=30))
def test_anything_else_is_an_input_error(words, tmp_path):
    path = vnnlib(tmp_path, HEAD + BOX + " ".join(words))
    try:
        load_domain(str(path), 3)
    except InputError as error:
        assert str(path) in str(error)


@settings(deadline=None, max_examples=80)
@given(text=st.text(max_size=20))
def test_any_text_is_a_box_or_an_input_error(text):
    with suppress(InputError):
        load_domain(text, 3)


def test_an_input_of_absurd_index_is_refused(tmp_path):
    path = tmp_path / "a.vnnlib"
    path.write_text("(declare-const X_" + "9" * 5000 + " Real)")
    with pytest.raises(InputError, match=r"declares X_999.*, with indices of at most 9 digits"):
        load_domain(path)
