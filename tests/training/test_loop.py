"""The loop: repeatable, resumable to the bit, schedule as stated, divergence said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from reconstruct.errors import InputError
from reconstruct.training import Schedule, accuracy, mlp, resnet, train, vgg
from reconstruct.training.loop import _batches, outputs

SHORT = Schedule(epochs=4, batch=12, rate=0.05)


def same(a, b):
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(images):
    runs = []
    for seed in (0, 0, 1):
        module = resnet(8, 4, images, seed=5)
        runs.append((module, train(module, images, "norms", SHORT, seed=seed)))
    assert same(runs[0][0], runs[1][0])
    assert runs[0][1].loss == runs[1][1].loss
    assert runs[0][1].loss != runs[2][1].loss


class Stop(Exception):
    pass


@pytest.mark.parametrize("what", ["norms", "random", "all"])
def test_a_resumed_training_ends_with_the_bits_of_one_never_interrupted(images, what, tmp_path):
    whole = resnet(8, 4, images)
    expected = train(whole, images, what, SHORT)

    def interrupt(step):
        if step.done > 2 * len(images.train_y):  # within the third epoch
            raise Stop

    path = tmp_path / "seed-0.npz"
    with pytest.raises(Stop):
        train(resnet(8, 4, images), images, what, SHORT, checkpoint=path, progress=interrupt)
    resumed = resnet(8, 4, images)
    steps = []
    history = train(resumed, images, what, SHORT, checkpoint=path, progress=steps.append)
    size = len(images.train_y)
    assert 2 * size < steps[0].done <= 3 * size and steps[-1].done == steps[-1].total == 4 * size
    assert same(whole, resumed)
    assert (history.loss, history.test_accuracy) == (expected.loss, expected.test_accuracy)


def test_a_checkpoint_of_another_training_is_refused(images, tmp_path):
    path = tmp_path / "seed-0.npz"
    train(mlp(1, 8, images), images, "norms", SHORT, checkpoint=path)
    with pytest.raises(InputError, match="another model, data, schedule or seed"):
        train(mlp(1, 8, images), images, "norms", SHORT, seed=1, checkpoint=path)
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="the checkpoint cannot be read"):
        train(mlp(1, 8, images), images, "norms", SHORT, checkpoint=path)


@pytest.mark.parametrize("build", [lambda d: mlp(2, 32, d), lambda d: vgg(11, 4, d)])
def test_norms_alone_learn_to_tell_the_rows_apart(images, build):
    module = build(images)
    before = accuracy(module, images.train_x, images.train_y)
    history = train(module, images, "norms", Schedule(epochs=40, batch=12))
    assert history.loss[-1] < history.loss[0] / 2
    assert history.train_accuracy[-1] >= max(0.9, before)


def test_statistics_are_live_while_training_and_frozen_after(images):
    module = mlp(1, 8, images)
    train(module, images, "norms", SHORT)
    norm = module[2]
    assert int(norm.num_batches_tracked) == 4 * 3
    before = norm.running_mean.clone()
    outputs(module, images.train_x)
    assert torch.equal(before, norm.running_mean)
    kept = mlp(1, 8, images)
    train(kept, images, "norms", SHORT, live=False)
    assert int(kept[2].num_batches_tracked) == 0


def test_the_step_falls_tenfold_at_its_shares_of_the_epochs():
    plan = Schedule(epochs=8, rate=0.4)
    assert np.allclose([plan.rate_in(e) for e in range(8)], [0.4] * 4 + [0.04] * 2 + [0.004] * 2)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"epochs": 0}, "0 epochs of batches of 128"),
        ({"batch": 1}, "batches of 1"),
        ({"rate": 0.0}, "must be a number > 0, but is 0"),
        ({"momentum": 1.0}, "they are 1.0 and 0.0001"),
        ({"drops": (1.5,)}, "drops are 1.5"),
    ],
)
def test_schedules_that_cannot_be_are_refused(wrong, match):
    with pytest.raises(InputError, match=match):
        Schedule(**wrong)


def test_every_example_is_in_one_batch_and_no_batch_is_tiny():
    for count in (5, 12, 13, 17, 18, 24):
        parts = _batches(np.arange(count), 12)
        assert np.array_equal(np.concatenate(parts), np.arange(count))
        assert min(map(len, parts)) >= min(count, 6)


def test_a_training_that_diverges_says_so(images):
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    with pytest.raises(InputError, match=r"diverged: the loss is .* lower the step"):
        train(module, images, "all", Schedule(epochs=3, batch=12, rate=1e38))


def test_outputs_and_accuracy_of_a_planted_classifier(images):
    """Weights that read off the bright row recognise everything; the outputs by NumPy."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(36, 3, bias=False))
    weight = np.zeros((3, 6, 6), np.float32)
    for label in range(3):
        weight[label, 2 * label] = 1.0
    with torch.no_grad():
        module[1].weight.copy_(torch.from_numpy(weight.reshape(3, 36)))
    assert accuracy(module, images.test_x, images.test_y) == 1.0
    expected = images.test_x.reshape(-1, 36) @ weight.reshape(3, 36).T
    assert np.allclose(outputs(module, images.test_x), expected, rtol=1e-5)
