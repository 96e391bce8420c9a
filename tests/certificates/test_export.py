"""Export for other verifiers: files that parse, mean what they say, and can fail."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.equivalence.export import (
    decimal,
    difference_property,
    export,
    not_vacuous,
    perturbed,
    satisfied,
)
from reconstruct.errors import InputError
from reconstruct.formats import load
from reconstruct.networks import Box
from tests.certificates.building import random_target, wide


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    target, box = random_target(rng, (3, 5, 2)), Box([-0.5, 0.0, 1e-7], [0.5, 0.25, 3.0])
    candidate = wide(target, box, rng)
    folder = tmp_path_factory.mktemp("export")
    exported = export(target, candidate, domain=box, tolerance=1e-6, folder=folder)
    return target, candidate, box, exported


def test_the_difference_network_is_the_difference(files) -> None:
    target, candidate, box, exported = files
    difference = load(exported.difference)
    points = box.sample(20, np.random.default_rng(1))
    np.testing.assert_allclose(difference(points), candidate(points) - target(points), atol=1e-13)


def test_the_property_separates_right_from_wrong(files) -> None:
    target, candidate, box, exported = files
    text = exported.property_1.read_text()
    points = box.sample(50, np.random.default_rng(2))
    right = candidate(points) - target(points)
    assert not any(satisfied(text, x, d) for x, d in zip(points, right, strict=True))
    for by in (2e-6, -2e-6):
        wrong = perturbed(candidate, by)(points) - target(points)
        assert all(satisfied(text, x, d) for x, d in zip(points, wrong, strict=True))
    assert not satisfied(text, box.hi + 1.0, np.full(2, 1.0))


def test_the_self_test_and_its_failure(files) -> None:
    target, candidate, box, _ = files
    assert not_vacuous(target, candidate, box, 1e-6)
    assert not not_vacuous(target, target, box, 1e-300)  # 3·tolerance is lost in rounding


def test_the_box_of_version_1_is_read_back_exactly(files) -> None:
    from reconstruct.formats import load_domain

    _, _, box, exported = files
    read = load_domain(str(exported.property_1), 3)
    assert read.lo.tolist() == box.lo.tolist() and read.hi.tolist() == box.hi.tolist()


def test_version_2_is_parsed_by_the_reference_parser(files) -> None:
    vnnlib = pytest.importorskip("vnnlib")
    _, _, box, exported = files
    query = vnnlib.parse_query_file(str(exported.property_2))
    assert [network.name for network in query.networks] == ["target", "candidate"]
    assert len(query.assertions) == 2 * box.size + 1
    assert str(query.assertions[-1]).count(">=") == 2


def test_a_tolerance_of_zero_is_refused(files, tmp_path) -> None:
    target, candidate, box, _ = files
    with pytest.raises(InputError, match="tolerance above 0"):
        export(target, candidate, domain=box, tolerance=0.0, folder=tmp_path)


@pytest.mark.parametrize("value", [0.1, -1e-20, 1e300, 5e-324, 3.0, 0.0])
def test_decimals_are_exact(value: float) -> None:
    text = decimal(value)
    assert float(text) == value and "e" not in text and "." in text


def test_every_output_has_both_sides() -> None:
    text = difference_property(Box(0.0, 1.0).of_size(1), 3, 0.5)
    for j in range(3):
        for sign in (1, -1):
            values = np.zeros(3)
            values[j] = 0.5 * sign
            assert satisfied(text, [0.5], values)
    assert not satisfied(text, [0.5], np.full(3, 0.49))
