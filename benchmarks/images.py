"""Structured synthetic images: what a network trained on photographs can be tried on.

Each image is a smooth background (a few low frequencies with a 1/f spectrum), some shapes with
sharp edges (discs, rectangles, half planes) in colours of their own, a stripe texture inside one of
them, and a little noise; pixels in [0, 1] are then normalised as for CIFAR-10. The labels are the
classes that the network itself gives, so that a network that is the same has all of them right.

    python -m benchmarks.images resnet20.npz -o images.npz --count 24 --seed 0
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats import load

MEAN = (0.4914, 0.4822, 0.4465)  # of CIFAR-10, as most trainings normalise it
DEVIATION = (0.2470, 0.2435, 0.2616)
SHAPES = 4  # at most, in one image
FREQUENCIES = 4  # of the background, in each direction
NOISE = 0.02

Images = NDArray[np.float64]


def images(count: int, shape: tuple[int, int, int], seed: int) -> Images:
    """`count` images of (channels, height, width), pixels in [0, 1]; the first ones stay the same
    when more are asked for."""
    return np.stack([_image(shape, np.random.default_rng([seed, i])) for i in range(count)])


def normalised(pixels: Images) -> Images:
    """The images as a network trained on CIFAR-10 takes them, as float32 numbers."""
    mean, deviation = (
        np.resize(part, pixels.shape[1])[:, None, None] for part in (MEAN, DEVIATION)
    )
    return np.asarray((pixels - mean) / deviation, dtype=np.float32).astype(np.float64)


def _image(shape: tuple[int, int, int], rng: np.random.Generator) -> Images:
    channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width] / np.array([height, width]).reshape(2, 1, 1)
    image = _background(channels, x, y, rng)
    for _ in range(rng.integers(1, SHAPES + 1)):
        mask = _mask(x, y, rng)
        colour = rng.uniform(0, 1, (channels, 1, 1)) + _stripes(x, y, rng)
        image = np.where(mask, colour, image)
    return np.clip(image + rng.normal(0, NOISE, image.shape), 0, 1)


def _background(channels: int, x: Images, y: Images, rng: np.random.Generator) -> Images:
    """A colour of its own and waves that fall off as 1/f, shared in part by the channels."""
    image = np.repeat(rng.uniform(0.2, 0.8, (channels, 1, 1)), x.shape[0], axis=1)
    image = np.repeat(image, x.shape[1], axis=2)
    for a, b in np.ndindex(FREQUENCIES, FREQUENCIES):
        wave = np.cos(2 * np.pi * (a * x + b * y) + rng.uniform(0, 2 * np.pi))
        strength = rng.normal(0, 1) + 0.4 * rng.normal(0, 1, (channels, 1, 1))
        image = image + 0.12 * strength * wave / (1 + np.hypot(a, b))
    return image


def _mask(x: Images, y: Images, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A disc, a turned rectangle or a half plane."""
    centre, size = rng.uniform(0.1, 0.9, 2), rng.uniform(0.08, 0.35, 2)
    angle = rng.uniform(0, np.pi)
    along = (x - centre[0]) * np.cos(angle) + (y - centre[1]) * np.sin(angle)
    across = (y - centre[1]) * np.cos(angle) - (x - centre[0]) * np.sin(angle)
    masks = (
        np.hypot(along, across) < size[0],
        (np.abs(along) < size[0]) & (np.abs(across) < size[1]),
        along > size[0],
    )
    return np.asarray(masks[int(rng.integers(len(masks)))])


def _stripes(x: Images, y: Images, rng: np.random.Generator) -> Images:
    """A texture, for about half of the shapes."""
    direction, phase = rng.uniform(4, 14, 2), rng.uniform(0, 2 * np.pi)
    depth = rng.uniform(0, 0.2) * float(rng.random() < 0.5)
    return np.asarray(depth * np.sin(2 * np.pi * (direction[0] * x + direction[1] * y) + phase))


def write(path: Path, network: Any, count: int, seed: int) -> Path:
    """An .npz of inputs x (N × the network's input shape) and labels y, the network's classes."""
    shape = tuple(int(n) for n in network.metadata["input_shape"][1:])
    x = normalised(images(count, shape, seed))  # type: ignore[arg-type]
    y = network(x.reshape(count, -1)).argmax(axis=1)
    np.savez(path, x=x.astype(np.float32), y=y)
    return path


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.add_argument("network", type=Path, help="the network that the images are for")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .npz to write")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    write(options.output, load(options.network), options.count, options.seed)


if __name__ == "__main__":
    main()
