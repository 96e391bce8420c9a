"""What is tuned, counted by hand; everything else stays, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from reconstruct.errors import InputError
from reconstruct.training import Schedule, Tuning, mlp, resnet, train, tunable
from reconstruct.training.freezing import settle


def small():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 5),
        nn.BatchNorm1d(5),
        nn.ReLU(),
        nn.Linear(5, 3),
    )


COUNTS = {"norms": 2 * (4 + 5), "output": 5 * 3 + 3, "norms+output": 36, "random": 18}


@pytest.mark.parametrize("what", COUNTS)
def test_as_many_parameters_as_counted_by_hand(what):
    module = small()
    parameters = tunable(module, what)
    assert sum(p.numel() for p in parameters) == COUNTS[what]
    tuned = [p for p in module.parameters() if p.requires_grad]
    assert {id(p) for p in tuned} == {id(p) for p in parameters}


def test_all_means_all():
    module = small()
    assert sum(p.numel() for p in tunable(module, Tuning.ALL)) == 36 + 64 * 5 + 5 + 18 + 18


def values(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


MOVED = {
    "norms": {"1.weight", "1.bias", "5.weight", "5.bias"},
    "output": {"7.weight", "7.bias"},
    "norms+output": {"1.weight", "1.bias", "5.weight", "5.bias", "7.weight", "7.bias"},
    "random": {"0.weight", "4.weight"},
}


@pytest.mark.parametrize("what", MOVED)
def test_training_moves_what_is_tuned_and_nothing_else(images, what):
    torch.manual_seed(0)
    module = small()
    before = values(module)
    train(module, images, what, Schedule(epochs=2, batch=12))
    after = module.state_dict()
    assert after.keys() == before.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name for name in moved if "running" not in name and "num" not in name} == MOVED[what]
    assert not any(p.requires_grad for p in module.parameters())
    assert not module.training


def test_random_subset_leaves_the_other_weights_in_place_and_depends_on_the_seed_alone(images):
    before = small()[0].weight.detach()
    chosen = {}
    for seed in (0, 0, 1):
        module = small()
        with torch.no_grad():
            module[0].weight.copy_(before)
        train(module, images, "random", Schedule(epochs=1, batch=12, decay=0.1), seed=seed)
        moved = (module[0].weight != before).flatten().nonzero().flatten().tolist()
        assert len(moved) == 8
        assert chosen.setdefault(seed, moved) == moved
    assert chosen[0] != chosen[1]


def test_a_layer_with_fewer_weights_than_asked_for_gives_all_of_them():
    module = nn.Sequential(nn.Linear(1, 6, bias=False), nn.BatchNorm1d(6))
    (parameter,) = tunable(module, "random")
    assert parameter.numel() == 6
    settle(module)
    assert module[0].weight.shape == (6, 1)


@pytest.mark.parametrize("what", ["norms", "norms+output", "random"])
def test_modules_without_such_norms_are_refused_with_what_they_have(what):
    module = nn.Sequential(nn.Linear(3, 4), nn.GroupNorm(2, 4))
    match = rf"tuning {what.replace('+', '.')} needs BatchNorm1d.*Sequential has only GroupNorm"
    with pytest.raises(InputError, match=match):
        tunable(module, what)


def test_layer_norms_are_tuned_as_others_are():
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    assert [p.numel() for p in tunable(module, "norms")] == [4, 4]
    (parameter,) = tunable(module, "random")
    assert parameter.numel() == 8


def test_other_refusals():
    with pytest.raises(InputError, match=r"one of norms, output, .* but is 'gamma'"):
        tunable(small(), "gamma")
    with pytest.raises(InputError, match="Linear or Conv2d layer, but BatchNorm1d has none"):
        tunable(nn.BatchNorm1d(3), "output")
    with pytest.raises(InputError, match=r"no Linear or Conv2d is defined ahead of '0'"):
        tunable(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3)), "random")


def test_models_have_the_sizes_that_their_names_say(images):
    def norm_parameters(module):
        return sum(p.numel() for p in tunable(module, "norms"))

    blocks = 2  # depth 14 = 6 · 2 + 2; two projections, each with a norm
    stages = sum(2 * blocks * 4 * 2**s for s in range(3))
    assert norm_parameters(resnet(14, 4, images)) == 2 * (4 + stages + 8 + 16)
    assert norm_parameters(mlp(3, 7, images)) == 2 * 21
    convolutions = [m for m in resnet(26, 4, images).modules() if isinstance(m, nn.Conv2d)]
    assert len([m for m in convolutions if m.kernel_size == (3, 3)]) + 1 == 26


def test_gammas_are_drawn_as_asked_and_by_the_seed(images):
    first, again, other = (resnet(8, 4, images, seed=s) for s in (3, 3, 4))
    assert torch.equal(first.norm.weight, again.norm.weight)
    assert not torch.equal(first.conv.weight, other.conv.weight)
    gamma = torch.cat([m.weight for m in first.modules() if isinstance(m, nn.BatchNorm2d)])
    assert 0 < gamma.min() < 0.2 and 0.8 < gamma.max() < 1 and abs(gamma.mean() - 0.5) < 0.15
    ones = resnet(8, 4, images, gamma="ones")
    assert torch.equal(ones.norm.weight, torch.ones(4))
    fan_in = 9 * 8
    weight = resnet(8, 8, images).stages[0][0].conv1.weight.detach().numpy()
    assert np.isclose(weight.std(), np.sqrt(2 / fan_in), rtol=0.15)


@pytest.mark.parametrize("depth", [2, 9, 15])
def test_a_resnet_of_another_depth_is_refused(images, depth):
    with pytest.raises(InputError, match=rf"6n \+ 2.*but depth is {depth}"):
        resnet(depth, 4, images)
