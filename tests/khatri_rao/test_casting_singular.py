"""Columns that do not tell: rounding with feedback leaves the error where it is."""

from __future__ import annotations

import numpy as np

from reconstruct.khatri_rao.corrections import cast_with_feedback


def test_equal_and_empty_columns_are_no_error() -> None:
    rng = np.random.default_rng(0)
    M1, M2 = rng.standard_normal((8, 2)), rng.standard_normal((3, 8))
    M1[5:], M2[:, 5:] = 0.0, 0.0
    s = rng.standard_normal(8)
    W = (M2 * s) @ M1 + 1e-3
    found = cast_with_feedback(M1, M2, W, s, lambda values, _: np.float32(values).astype(float))
    assert np.array_equal(found, found.astype(np.float32)) and np.isfinite(found).all()
