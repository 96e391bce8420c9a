"""Trains the convolutional digits classifier of `demo --cnn`: norms, a residual block, pooling.

Run as `python -m benchmarks.train_digits_cnn [FOLDER]`. It needs torch and scikit-learn,
whose bundled digits it uses with the split of the fully connected network; nothing is downloaded.

    conv 3×3 (6) – norm – ReLU – [conv 3×3 – norm – ReLU – conv 3×3 – norm] + skip – ReLU
    – max pooling 2×2 – linear
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_digits import SEED, SHIPPED, split_digits
from reconstruct.demo import PIXEL_MAX, share_recognised
from reconstruct.errors import MissingDependencyError
from reconstruct.formats import save
from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Geometry,
    MaxPool,
    Network,
    Node,
    Norm,
    Relu,
)

CHANNELS, SIDE = 6, 8
EPOCHS, BATCH, RATE, DECAY = 60, 50, 0.01, 1e-3
EPS = float(np.float32(1e-5))  # ONNX keeps a float32


def train(images: Any, labels: Any) -> dict[str, Any]:
    """The trained arrays by name: AdamW with a falling step, random shifts by one pixel."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("torch", "torch", "training the digits CNN") from None
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    model = _model(torch.nn)
    x = torch.tensor(np.asarray(images, np.float32).reshape(-1, 1, SIDE, SIDE))
    y = torch.tensor(np.asarray(labels, np.int64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * (len(y) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(y))
        for start in range(0, len(y) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            shift = [int(n) for n in torch.randint(-1, 2, (2,))]
            moved = torch.roll(x[rows], shift, (2, 3)) if start % 2 else x[rows]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(_logits(torch, model, moved), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return {name: value.detach().numpy() for name, value in model.state_dict().items()}


def _model(nn: Any) -> Any:
    def conv(into: int) -> Any:
        return nn.Conv2d(into, CHANNELS, 3, padding=1, bias=False)

    layers = {"conv1": conv(1), "conv2": conv(CHANNELS), "conv3": conv(CHANNELS)}
    norms = {f"norm{i}": nn.BatchNorm2d(CHANNELS, eps=EPS) for i in (1, 2, 3)}
    linear = {"linear": nn.Linear(CHANNELS * (SIDE // 2) ** 2, 10)}
    return nn.ModuleDict(layers | norms | linear)


def _logits(torch: Any, model: Any, x: Any) -> Any:
    relu = torch.relu
    h = relu(model["norm1"](model["conv1"](x)))
    inner = model["norm3"](model["conv3"](relu(model["norm2"](model["conv2"](h)))))
    pooled = torch.nn.functional.max_pool2d(relu(inner + h), 2)
    return model["linear"](pooled.flatten(1))


def as_network(arrays: dict[str, Any]) -> Network:
    """The trained arrays as a network, norms in evaluation mode."""

    def conv(i: int) -> Convolution:
        kernel = arrays[f"conv{i}.weight"]
        image = (int(kernel.shape[1]), SIDE, SIDE)
        return Convolution(kernel, Geometry(*image, (3, 3), (1, 1), (1, 1, 1, 1)))

    def norm(i: int) -> Norm:
        keys = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, var = (arrays[f"norm{i}.{key}"] for key in keys)
        return Norm(gamma, beta, mean, var, EPS, SIDE * SIDE)

    pool = MaxPool(Geometry(CHANNELS, SIDE, SIDE, (2, 2), (2, 2)))
    linear = Affine(arrays["linear.weight"], arrays["linear.bias"])
    nodes = (
        Node("conv1", conv(1), ("input",)),
        Node("norm1", norm(1), ("conv1",)),
        Node("relu1", Relu(), ("norm1",)),
        Node("conv2", conv(2), ("relu1",)),
        Node("norm2", norm(2), ("conv2",)),
        Node("relu2", Relu(), ("norm2",)),
        Node("conv3", conv(3), ("relu2",)),
        Node("norm3", norm(3), ("conv3",)),
        Node("sum", Add(), ("norm3", "relu1")),
        Node("relu3", Relu(), ("sum",)),
        Node("pool", pool, ("relu3",)),
        Node("linear", linear, ("pool",)),
    )
    return Network(SIDE * SIDE, nodes, "linear")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="benchmarks.train_digits_cnn")
    parser.add_argument("folder", nargs="?", type=Path, default=SHIPPED)
    folder = parser.parse_args(arguments).folder
    split = split_digits()
    network = as_network(train(split.train_images / PIXEL_MAX, split.train_labels))
    save(network, folder / "digits_cnn.onnx", dtype=np.float32)
    share = share_recognised(network, split.test_images / PIXEL_MAX, split.test_labels)
    print(f"test: {share:.2%} of {len(split.test_labels)} images recognised")


if __name__ == "__main__":
    main()
