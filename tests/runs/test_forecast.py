"""Forecasts of whole runs: fitted to measured ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reconstruct.constructions import Grouped, Wide
from reconstruct.constructions.costs import cost
from reconstruct.demo import digits
from reconstruct.networks import Convolution, Geometry, Network, Node, Relu
from reconstruct.networks.normal_form import normal_form
from tests.constructions.targets import mlp

MEASURED = [  # processor seconds and bytes of `reconstruct demo`, startup and page included
    (False, 2.7, 250e6),
    (True, 4.6, 290e6),
]


@pytest.mark.parametrize(("cnn", "seconds", "memory"), MEASURED, ids=["digits", "digits_cnn"])
def test_forecasts_are_of_the_size_that_was_measured(cnn, seconds, memory):
    target = normal_form(digits(cnn=cnn).target).network
    found = cost(target, Wide(1.5))
    assert found.seconds == pytest.approx(seconds, rel=0.4)
    assert found.memory_bytes == pytest.approx(memory, rel=0.4)


def test_a_forecast_of_grouped_convolutions_is_of_the_size_that_was_measured():
    """The maps of ResNet-20: 43 processor seconds and 1.4 GB at 16 inputs, in float64."""
    blocks = [(3, 16, 32), *[(16, 16, 32)] * 6, (16, 32, 16), *[(32, 32, 16)] * 5, (32, 64, 8)]
    nodes, last = [], "input"
    for number, (inputs, outputs, size) in enumerate([*blocks, *[(64, 64, 8)] * 5]):
        step = 2 if outputs == 2 * inputs else 1
        geometry = Geometry(inputs, step * size, step * size, (3, 3), (step, step), (1, 1, 1, 1))
        op = Convolution(np.ones((outputs, inputs, 3, 3)), geometry)
        nodes += [Node(f"c{number}", op, (last,)), Node(f"r{number}", Relu(), (f"c{number}",))]
        last = f"r{number}"
    found = cost(Network(3 * 32 * 32, tuple(nodes), last), Grouped())
    assert 22 < found.seconds < 90 and 0.7e9 < found.memory_bytes < 2.8e9


def test_few_inputs_take_time_to_bound():
    few, many = mlp([8, 20, 9], 0), mlp([9, 20, 8], 0)
    seconds = [cost(t, Wide(1.5)).seconds for t in (few, many)]
    assert seconds[0] > seconds[1] + 0.3


def test_inspect_tells_the_whole_run(cli, target):
    plain = json.loads(cli("inspect", target, "--json")[1])["constructions"][0]
    assert plain["seconds"] > 3 and plain["memory_bytes"] > 100e6
    assert "estimates of a whole run on an idle machine" in cli("inspect", target)[1]
