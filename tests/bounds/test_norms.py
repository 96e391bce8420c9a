"""Spectral norms from above: never below LAPACK's, a little above it, whatever the scale."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.numbers.norms import spectral_norm


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (40, 7), (60, 60), (1, 90)])
@pytest.mark.parametrize("scale", [1e-280, 1e-3, 1.0, 1e250])
def test_a_spectral_norm_is_bounded_closely_from_above(shape, scale) -> None:
    matrix = np.random.default_rng(len(shape) + shape[0]).standard_normal(shape)
    true = np.linalg.norm(matrix, 2)
    assert true * (1 - 1e-13) <= spectral_norm(matrix * scale) / scale <= 1.02 * true


def test_equal_singular_values_are_the_worst_case() -> None:
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((128, 128)))
    assert 1 - 1e-13 <= spectral_norm(q) <= 1.04  # the 128th root of 128 is 1.0386


def test_nothing_and_what_is_no_number() -> None:
    assert spectral_norm(np.zeros((3, 2))) == 0
    assert spectral_norm(np.array([[1.0, np.nan]])) == np.inf
    assert spectral_norm(np.array([[np.inf, 1.0]])) == np.inf
