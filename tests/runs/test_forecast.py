"""Forecasts of whole runs: fitted to measured ones, and never below what they contain."""

from __future__ import annotations

import json

import pytest

from reconstruct.constructions import Deep, Wide
from reconstruct.constructions.costs import cost
from reconstruct.demo import digits
from reconstruct.networks.normal_form import normal_form
from reconstruct.runs.defaults import forecast
from tests.constructions.targets import mlp

MEASURED = [  # processor seconds and bytes of `reconstruct demo`, startup and page included
    (False, 3.7, 170e6),
    (True, 7.3, 247e6),
]


@pytest.mark.parametrize(("cnn", "seconds", "memory"), MEASURED, ids=["digits", "digits_cnn"])
def test_forecasts_are_of_the_size_that_was_measured(cnn, seconds, memory):
    target = normal_form(digits(cnn=cnn).target).network
    found = forecast(cost(target, Wide(1.5)), target)
    assert found.seconds == pytest.approx(seconds, rel=0.4)
    assert found.memory_bytes == pytest.approx(memory, rel=0.4)


@pytest.mark.parametrize("construction", [Wide(1.5), Wide(3.0), Deep(4)], ids=repr)
def test_a_run_takes_more_than_its_solves(construction):
    for sizes in ([3, 5, 2], [40, 60, 30]):
        target = mlp(sizes, 0)
        parts = cost(target, construction)
        whole = forecast(parts, target)
        assert whole.seconds > parts.seconds + 1
        assert whole.memory_bytes > parts.memory_bytes


def test_few_inputs_take_time_to_bound():
    few, many = mlp([8, 20, 9], 0), mlp([9, 20, 8], 0)
    seconds = [forecast(cost(t, Wide(1.5)), t).seconds for t in (few, many)]
    assert seconds[0] > seconds[1] + 0.3


def test_inspect_tells_the_whole_run(cli, target):
    plain = json.loads(cli("inspect", target, "--json")[1])["constructions"][0]
    assert plain["run"]["seconds"] > plain["seconds"]
    assert "estimates of a whole run on an idle machine" in cli("inspect", target)[1]
