"""Forecasts of whole runs: fitted to measured ones."""

from __future__ import annotations

import json

import pytest

from reconstruct.constructions import Wide
from reconstruct.constructions.costs import cost
from reconstruct.demo import digits
from reconstruct.networks.normal_form import normal_form
from tests.constructions.targets import mlp

MEASURED = [  # processor seconds and bytes of `reconstruct demo`, startup and page included
    (False, 3.7, 170e6),
    (True, 7.3, 247e6),
]


@pytest.mark.parametrize(("cnn", "seconds", "memory"), MEASURED, ids=["digits", "digits_cnn"])
def test_forecasts_are_of_the_size_that_was_measured(cnn, seconds, memory):
    target = normal_form(digits(cnn=cnn).target).network
    found = cost(target, Wide(1.5))
    assert found.seconds == pytest.approx(seconds, rel=0.4)
    assert found.memory_bytes == pytest.approx(memory, rel=0.4)


def test_few_inputs_take_time_to_bound():
    few, many = mlp([8, 20, 9], 0), mlp([9, 20, 8], 0)
    seconds = [cost(t, Wide(1.5)).seconds for t in (few, many)]
    assert seconds[0] > seconds[1] + 0.3


def test_inspect_tells_the_whole_run(cli, target):
    plain = json.loads(cli("inspect", target, "--json")[1])["constructions"][0]
    assert plain["seconds"] > 3 and plain["memory_bytes"] > 100e6
    assert "estimates of a whole run on an idle machine" in cli("inspect", target)[1]
