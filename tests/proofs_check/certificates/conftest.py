"""Steps of the checker are tested as it runs them: infinities and NaN are values there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def as_the_checker_runs() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
