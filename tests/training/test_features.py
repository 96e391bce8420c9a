"""γ near zero: counted, switched off, compared with chance, on a module with planted γ."""

from __future__ import annotations

import numpy as np
import torch

from reconstruct.training import gammas, mlp, small_share, switched_off
from reconstruct.training.experiment import random_off


def planted(images):
    module = mlp(2, 10, images)
    with torch.no_grad():
        module[2].weight.copy_(torch.linspace(0.001, 1.0, 10))
        module[2].weight[:3] = torch.tensor([0.0099, -0.0099, 0.0])
        module[5].weight.fill_(0.5)
    return module


def test_the_share_of_small_gammas_is_counted_over_all_layers(images):
    module = planted(images)
    assert list(gammas(module)) == ["2", "5"]
    assert small_share(gammas(module)) == 3 / 20
    assert small_share(gammas(module), below=0.6) == (10 + 6) / 20
    assert small_share({}) == 0


def test_switching_off_makes_constants_of_exactly_the_small_ones(images):
    module = planted(images)
    changed = switched_off(module)
    assert torch.equal(changed[2].weight[:3], torch.zeros(3))
    assert torch.equal(changed[2].weight[3:], module[2].weight[3:])
    assert float(module[2].weight[0].detach()) != 0
    with torch.no_grad():
        hidden = changed.eval()[:3](torch.from_numpy(images.train_x)).numpy()
    assert np.all(np.ptp(hidden[:, :3], axis=0) == 0) and np.all(np.ptp(hidden[:, 3:], axis=0) > 0)


def test_as_many_at_random_are_as_many_and_fixed_by_the_seed(images):
    module = planted(images)
    with torch.no_grad():
        module[2].weight.fill_(1.0)
    for share, count in ((0.0, 0), (0.15, 3), (1.0, 20)):
        off = random_off(module, share, seed=1)
        again = random_off(module, share, seed=1)
        zeros = [np.flatnonzero(g == 0).tolist() for g in gammas(off).values()]
        assert sum(map(len, zeros)) == count
        assert zeros == [np.flatnonzero(g == 0).tolist() for g in gammas(again).values()]
