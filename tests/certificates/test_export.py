"""Export for other verifiers: files that parse, mean what they say, and can fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from reconstruct.equivalence.export import (
    decimal,
    difference_property,
    export,
    not_vacuous,
)
from reconstruct.errors import InputError
from reconstruct.formats import load
from reconstruct.networks import Affine, Box, Network, Node
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


# --- an evaluator of properties: what was written is read again and decided -----------------------


def perturbed(candidate: Network, by: float) -> Network:
    """The candidate with `by` added to its first output."""
    size = candidate.size_out
    bias = np.zeros(size)
    bias[0] = by
    shift = Node("perturbed", Affine(np.eye(size), bias), (candidate.output,))
    nodes = (*candidate.nodes, shift)
    return Network(candidate.size_in, nodes, shift.name, candidate.source, candidate.metadata)


def satisfied(text: str, inputs: Sequence[float] | Any, outputs: Sequence[float] | Any) -> bool:
    """Evaluates a VNN-LIB 1.0 property, as `difference_property` writes it, at given values."""
    values = {f"X_{i}": float(x) for i, x in enumerate(inputs)}
    values |= {f"Y_{j}": float(y) for j, y in enumerate(outputs)}
    clean = "\n".join(line.split(";")[0] for line in text.splitlines())
    tokens = clean.replace("(", " ( ").replace(")", " ) ").split()
    return all(
        _truth(statement[1], values)
        for statement in _parse(["(", *tokens, ")"])
        if statement[0] == "assert"
    )


def _parse(tokens: list[str]) -> Any:
    """Nested lists from parentheses."""
    stack: list[list[Any]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0][0]


def _truth(expression: Any, values: dict[str, float]) -> bool:
    match expression:
        case ["and", *parts]:
            return all(_truth(part, values) for part in parts)
        case ["or", *parts]:
            return any(_truth(part, values) for part in parts)
        case [">=", left, right]:
            return _number(left, values) >= _number(right, values)
        case ["<=", left, right]:
            return _number(left, values) <= _number(right, values)
    raise AssertionError(f"the property has {expression!r}, which is not one of and, or, >=, <=")


def _number(token: str, values: dict[str, float]) -> float:
    return values[token] if token in values else float(token)
